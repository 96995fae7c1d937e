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
_AVERAGES = Template("""    double average[$averages][$inputs]; /* of the inputs, exponential */
""")
_LAST_SPAN = "    double span; /* of the last step, in samples */\n"
_PAST = Template("""    double past[$ring][$inputs]; /* the last inputs, around a ring */
    double age[$ring]; /* how long ago they came, in samples */
    int known, now;
""")
_NOTHING = Template("")
_SPAN = Template("    state->span = samples;\n")
_AVERAGE = Template("""    for (k = 0; k < $averages; k++)
        for (i = 0; i < $inputs; i++) {
            double *s = &state->average[k][i];
            *s = state->begun ? *s - expm1(-$span / tau[k]) * (u[i] - *s) : u[i];
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
    for (k = 0; k < $copies; k++) {
        int back = 0;
        while (back < state->known - 1 && state->age[(state->now + $ring - back) % $ring] < delay[k] - 1e-6)
            back++;
        for (i = 0; i < $inputs; i++)
            drive[$inputs * ($averages + 1 + k) + i] = state->past[(state->now + $ring - back) % $ring][i];
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
_FASTER = Template(""" Delays are
 * right as long as there are at most 4 calls a sample.""")
_CUT = "double steps = fmax(ceil($elapsed - $jitter), 1.0), samples = fmin($elapsed / steps, 1.0), k;"
_ADVANCE = Template(f"""    {_CUT}
    emit(state, y);
    for (k = 0.0; k < steps; k++)
        move(state, u, samples);
""")
# The step to this call is driven by its input: it waits until that is known.
_CATCH_UP = Template(f"""    {_CUT}
    int i;

    for (k = 1.0; state->begun && k < steps; k++)
        move(state, state->last, samples);
    move(state, u, state->begun ? samples : 0.0);
    emit(state, y);
    for (i = 0; i < $inputs; i++)
        state->last[i] = u[i];
    state->due = elapsed;
""")
_DUE = Template("""    double last[$inputs], due; /* the last input, and the samples that it acts for */
""")
_ORDERS = (
    "writes the outputs at this time into y, then takes the state over one sample under the input u",
    "takes the state to this time, driven by the input u and the one before, then writes the outputs into y",
)
_GATHER = Template("""        for (i = 0; i < $states; i++)
            scaled[$drives + i] = state->x[driver[c][i / $latent]][i % $latent];
""")
_FIRST = {"and_state": "", "every_state": "", "shown": "state->x[c][i]"}
_LINEAR = {"and_state": ", j", "shown": "C[c][i][j] * state->x[c][j]"}
_EVERY = Template("            for (j = 0; j < $latent; j++)\n    ")
_CASCADE = ",\n * u followed by the states of slower components"


def c_source(model: RuntimeModel, name: str = "mrgpssm") -> str:
    """The text of the file; `name` is the prefix of what it defines."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,40}", name):
        raise ConfigError(f"--name must be letters, digits and _, a letter first, as in a C name; got {name!r}.")
    _check_parts(model)
    mean = _mean_tables(model)
    components, latent, inducing = mean["alpha"].shape
    states, drives = latent * mean["driver"].shape[1], len(model.input_mean)
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
        driven="drive" if model.drive else "u",
        n_outputs=len(model.output_names),
        components=components,
        latent=latent,
        inducing=inducing,
        width=mean["column"].shape[1],
        rounds=model.rounds,
        tables=_tables(model, mean),
        **(_LINEAR | {"every_state": _EVERY.substitute(latent=latent)} if "C" in mean else _FIRST),
        **_memory(model),
    )


def _check_parts(model: RuntimeModel) -> None:
    """A C file has one kernel and two emissions."""
    if model.arrays.kernel != "rbf" or model.arrays.emission.keys() - {"C"}:
        raise ConfigError(
            "A C file holds the kernel rbf and the emissions identity and linear alone; use --format stablehlo, or fit "
            'with kernel="rbf" and emission="identity".'
        )


def _memory(model: RuntimeModel) -> dict[str, str]:
    """The pieces of the file that remember past inputs and make the drive of them."""
    jitter, through = JITTER, model.drive.waits
    own = {"order": _ORDERS[through], "advance": _ADVANCE.substitute(elapsed="elapsed", jitter=jitter)}
    if not model.drive:
        return own | dict.fromkeys(("state", "begin", "drive", "end", "faster"), "")
    taus, lags = model.drive.spans
    sizes = {"inputs": len(model.input_names), "drives": len(model.input_mean), "averages": len(taus)}
    sizes |= {"copies": len(lags), "ring": _RING * max(lags, default=0) + 1}
    sizes |= {"span": "samples" if through else "state->span"}  # between the row before and that of the input

    def join(averages: Template, copies: Template) -> str:
        return (averages.substitute(sizes) if taus else "") + (copies.substitute(sizes) if lags else "")

    kept = _DUE.substitute(sizes) if through else _LAST_SPAN if taus else ""
    sources, changed = join(_AVERAGE, _DELAY), ", changed" if lags else ""
    begin, end = "    state->begun = 0;\n" + join(_NOTHING, _EMPTY), join(_SPAN, _AGE)
    if through:
        own["advance"] = _CATCH_UP.substitute(sizes, elapsed="state->due", jitter=jitter)
        sources, begin, end = join(_NOTHING, _AGE) + sources, begin + "    state->due = 1.0;\n", ""
    return own | {
        "state": join(_AVERAGES, _PAST) + kept + "    int begun;\n",
        "begin": begin,
        "drive": _DRIVE.substitute(sizes, sources=sources, changed=changed),
        "end": end + "    state->begun = 1;\n",
        "faster": join(_NOTHING, _FASTER),
    }


def _mean_tables(model: RuntimeModel) -> dict[str, np.ndarray]:
    """The noiseless run, with one row per component of every model; `column` names the outputs that it adds to.

    In a cascade, `driver` names the rows whose states follow the inputs in B, relevance and Z.
    """
    arrays, particles, (n, parts) = model.arrays, RunState.at_mean(model), model.arrays.mean.shape[:2]
    stacked = {"A": arrays.A, "B": arrays.B, "b": arrays.b, "relevance": arrays.relevance, "Z": arrays.inducing}
    stacked |= {"start": particles.states[..., 0], "alpha": particles.walker.alpha[..., 0, :]} | arrays.emission
    return {name: values.reshape(n * parts, *values.shape[2:]) for name, values in stacked.items()} | {
        "h": np.tile(model.step_sizes, n),
        "column": np.repeat(np.tile(np.array(model.groups), (model.rounds, 1)), parts, axis=0),
        "driver": (parts * np.arange(n)[:, None, None] + arrays.drivers).reshape(n * parts, -1),
    }


def _tables(model: RuntimeModel, mean: dict[str, np.ndarray]) -> str:
    scaling = {key: getattr(model, key) for key in ("input_mean", "input_sd", "output_mean", "output_sd")}
    taus, lags = model.drive.spans
    drive = {"tau": np.array(taus, float), "delay": np.array(lags, int)}
    tables = scaling | {name: values for name, values in (mean | drive).items() if values.size}
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
