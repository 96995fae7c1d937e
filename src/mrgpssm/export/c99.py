"""The mean model as one C99 file: tables of numbers and a few short functions."""

import re
from importlib.metadata import version
from importlib.resources import files
from string import Template

import numpy as np

from mrgpssm.arrays.gaps import JITTER
from mrgpssm.errors import ConfigError
from mrgpssm.runtime import RuntimeModel
from mrgpssm.runtime.walk import RunState

_LINE = 6  # numbers
_RING = 4  # inputs a sample that a delay can remember
_AVERAGES = Template("""    double average[$filters][$inputs]; /* of the inputs, exponential */
    double span; /* of the last step, in samples */
""")
_PAST = Template("""    double past[$ring][$inputs]; /* the last inputs, around a ring */
    double age[$ring]; /* how long ago they came, in samples */
    int known, now;
""")
_BEGUN = "    int begun;\n"
_AVERAGE = Template("""    for (k = 0; k < $filters; k++)
        for (i = 0; i < $inputs; i++) {
            double *s = &state->average[k][i];
            *s = state->begun ? *s - expm1(-state->span / tau[k]) * (u[i] - *s) : u[i];
            drive[$inputs * (k + 1) + i] = *s;
        }
""")
_DELAY = Template("""    changed = !state->begun;
    for (i = 0; !changed && i < $inputs; i++)
        changed = u[i] != state->past[state->now][i];
    if (changed) {
        state->now = (state->now + 1) % $ring;
        state->known += state->known < $ring;
        state->age[state->now] = 0.0;
        for (i = 0; i < $inputs; i++)
            state->past[state->now][i] = u[i];
    }
    for (k = 0; k < $delays; k++) {
        int back = 0;
        while (back < state->known - 1 && state->age[(state->now + $ring - back) % $ring] < delay[k] - 1e-6)
            back++;
        for (i = 0; i < $inputs; i++)
            drive[$inputs * ($filters + 1 + k) + i] = state->past[(state->now + $ring - back) % $ring][i];
    }
""")
_DRIVE = Template("""    double drive[$drives];
    int k$changed;

    for (i = 0; i < $inputs; i++)
        drive[i] = u[i];
$sources""")
_AGE = Template("""    for (i = 0; i < $ring; i++)
        state->age[i] += samples;
""")
_EMPTY = Template("""    state->known = state->now = 0;
    for (i = 0; i < $ring; i++)
        state->age[i] = 0.0;
""")
_FASTER = """ Delays are
 * right as long as there are at most 4 calls a sample."""
_GATHER = Template("""        for (i = 0; i < $states; i++)
            scaled[$drives + i] = state->x[driver[c][i / $latent]][i % $latent];
""")
_CASCADE = ",\n * u followed by the states of slower components"


def c_source(model: RuntimeModel, name: str = "mrgpssm") -> str:
    """The text of the file; `name` is the prefix of what it defines."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,40}", name):
        raise ConfigError(f"--name must be letters, digits and _, a letter first, as in a C name; got {name!r}.")
    _check_parts(model)
    mean = _mean_tables(model)
    components, latent, inducing = mean["alpha"].shape
    more, states, drives = bool(model.filters or model.delays), latent * mean["driver"].shape[1], len(model.input_mean)
    return Template(files("mrgpssm.export").joinpath("mean_model.c.in").read_text(encoding="utf-8")).substitute(
        version=version("mrgpssm"),
        name=name,
        inputs=", ".join(map(_comment, model.input_names)),
        outputs=", ".join(map(_comment, model.output_names)),
        dt=f"{model.dt:g}",
        n_inputs=len(model.input_names),
        drives=drives,
        seen=drives + states,
        cascade=_CASCADE if states else "",
        gather=_GATHER.substitute(states=states, drives=drives, latent=latent) if states else "",
        driven="drive" if more else "u",
        n_outputs=len(model.output_names),
        components=components,
        latent=latent,
        inducing=inducing,
        width=mean["column"].shape[1],
        rounds=model.rounds,
        jitter=JITTER,
        tables=_tables(model, mean),
        **_memory(model),
    )


def _check_parts(model: RuntimeModel) -> None:
    """A C file has one kernel and one emission."""
    if model.arrays.kernel != "rbf" or model.arrays.emission:
        raise ConfigError(
            "A C file holds the kernel rbf and the emission identity alone; use --format stablehlo, or fit with these."
        )


def _memory(model: RuntimeModel) -> dict[str, str]:
    """The pieces of the file that remember past inputs and make the drive of them."""
    longest = max(model.delays, default=0)
    counts = {"inputs": model.input_names, "drives": model.input_mean, "filters": model.filters, "delays": model.delays}
    sizes = {name: len(values) for name, values in counts.items()} | {"ring": _RING * longest + 1}
    fields = [(_AVERAGES, model.filters), (_PAST, model.delays)]
    state = "".join(part.substitute(sizes) for part, wanted in fields if wanted)
    sources = [(_AVERAGE, model.filters), (_DELAY, model.delays)]
    drive = "".join(part.substitute(sizes) for part, wanted in sources if wanted)
    changed = ", changed" if model.delays else ""
    end = "    state->span = samples;\n" if model.filters else ""
    end += _AGE.substitute(sizes) if model.delays else ""
    return {
        "state": state + (_BEGUN if state else ""),
        "begin": ("    state->begun = 0;\n" if state else "") + (_EMPTY.substitute(sizes) if model.delays else ""),
        "drive": _DRIVE.substitute(sizes, sources=drive, changed=changed) if drive else "",
        "end": end + ("    state->begun = 1;\n" if state else ""),
        "faster": _FASTER if model.delays else "",
    }


def _mean_tables(model: RuntimeModel) -> dict[str, np.ndarray]:
    """The noiseless run, with one row per component of every model; `column` names the outputs that it adds to.

    In a cascade, `driver` names the rows whose states follow the inputs in B, relevance and Z.
    """
    arrays, particles, (n, parts) = model.arrays, RunState.at_mean(model), model.arrays.mean.shape[:2]
    stacked = {"A": arrays.A, "B": arrays.B, "b": arrays.b, "relevance": arrays.relevance, "Z": arrays.inducing}
    stacked |= {"start": particles.states[..., 0], "alpha": particles.walker.alpha[..., 0, :]}
    return {name: values.reshape(n * parts, *values.shape[2:]) for name, values in stacked.items()} | {
        "h": np.tile(model.step_sizes, n),
        "column": np.repeat(np.tile(np.array(model.groups), (model.rounds, 1)), parts, axis=0),
        "driver": (parts * np.arange(n)[:, None, None] + arrays.drivers).reshape(n * parts, -1),
    }


def _tables(model: RuntimeModel, mean: dict[str, np.ndarray]) -> str:
    scaling = {key: getattr(model, key) for key in ("input_mean", "input_sd", "output_mean", "output_sd")}
    tables = scaling | {name: values for name, values in mean.items() if values.size}
    if model.filters:
        tables |= {"tau": np.array(model.filters, float)}
    if model.delays:
        tables |= {"delay": np.array(model.delays)}
    return "\n".join(_table("double" if v.dtype.kind == "f" else "int", k, v) for k, v in tables.items())


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
