"""The mean model as one C99 file: tables of numbers and two short functions."""

import re
from importlib.metadata import version
from importlib.resources import files
from string import Template

import numpy as np

from mrgpssm.errors import ConfigError
from mrgpssm.runtime import RuntimeModel
from mrgpssm.runtime.mean import MeanModel, mean_model

_LINE = 6  # numbers
_AVERAGES = Template("    double average[$filters][$inputs]; /* of the inputs, exponential */\n    int begun;\n")
_AVERAGE = Template("""    double filtered[$drives];
    int k;

    for (i = 0; i < $inputs; i++) {
        filtered[i] = u[i];
        for (k = 0; k < $filters; k++) {
            double *s = &state->average[k][i];
            *s = state->begun ? *s + gain[k] * (u[i] - *s) : u[i];
            filtered[$inputs * (k + 1) + i] = *s;
        }
    }
    state->begun = 1;
""")


def c_source(model: RuntimeModel, name: str = "mrgpssm") -> str:
    """The text of the file; `name` is the prefix of what it defines."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,40}", name):
        raise ConfigError(f"--name must be letters, digits and _, a letter first, as in a C name; got {name!r}.")
    mean = mean_model(model)
    components, latent, inducing = mean.alpha.shape
    sizes = {"inputs": len(model.input_names), "filters": len(model.filters), "drives": len(model.input_mean)}
    return Template(files("mrgpssm.export").joinpath("mean_model.c.in").read_text(encoding="utf-8")).substitute(
        version=version("mrgpssm"),
        name=name,
        inputs=", ".join(map(_comment, model.input_names)),
        outputs=", ".join(map(_comment, model.output_names)),
        dt=f"{model.dt:g}",
        n_inputs=len(model.input_names),
        drives=len(model.input_mean),
        filtered="filtered" if model.filters else "u",
        averages=_AVERAGES.substitute(sizes) if model.filters else "",
        begin="    state->begun = 0;\n" if model.filters else "",
        average=_AVERAGE.substitute(sizes) if model.filters else "",
        n_outputs=len(model.output_names),
        components=components,
        latent=latent,
        inducing=inducing,
        width=mean.column.shape[1],
        rounds=model.rounds,
        tables=_tables(model, mean),
    )


def _tables(model: RuntimeModel, mean: MeanModel) -> str:
    scaling = {key: getattr(model, key) for key in ("input_mean", "input_sd", "output_mean", "output_sd")}
    tables = scaling | {"start": mean.start, "h": mean.h, "A": mean.A, "B": mean.B, "b": mean.b}
    tables |= {"relevance": mean.relevance, "Z": mean.inducing, "alpha": mean.alpha}
    if model.filters:
        tables |= {"gain": -np.expm1(-1 / np.array(model.filters))}
    return "\n".join([_table("int", "column", mean.column), *(_table("double", k, v) for k, v in tables.items())])


def _table(kind: str, name: str, values: np.ndarray) -> str:
    shape = "".join(f"[{n}]" for n in values.shape)
    return f"static const {kind} {name}{shape} = {_braces(values)};\n"


def _braces(values: np.ndarray) -> str:
    if values.ndim > 1:
        return "{\n" + ",\n".join(_braces(row) for row in values) + "}"
    texts = [repr(value) for value in values.tolist()]  # the shortest digits that give the same double
    lines = [", ".join(texts[i : i + _LINE]) for i in range(0, len(texts), _LINE)]
    return "{" + ",\n ".join(lines) + "}"


def _comment(name: str) -> str:
    """A name that can neither end a comment nor continue a line."""
    return re.sub(r"[^A-Za-z0-9 _.%()\[\]-]", "_", name)
