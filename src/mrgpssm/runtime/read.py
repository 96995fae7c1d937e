"""Reading a model file: checksum, version, settings, shapes, finiteness, in this order."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from mrgpssm.errors import ModelFileError
from mrgpssm.file.tensors import read_tensors, unpack
from mrgpssm.runtime.arrays import JITTER, PRESETS, lower_triangular, make_arrays
from mrgpssm.runtime.model import Initial, RuntimeModel
from mrgpssm.runtime.noise_files import read_noise
from mrgpssm.spec.cascade import slower

FORMAT_VERSION = 5
_KIND, _FILTERS, _DELAY = "mrgpssm-model", 16, 100_000
_COUNTS = ("latent_dim", "inducing", "window", "restarts")
_CHOICES = {"preset": PRESETS, "precision": JITTER, "window_start": ("cache", "initial")}

Tensors = dict[str, np.ndarray]


def load(path: str | Path) -> RuntimeModel:
    """The fitted model in a file that `MRGPSSM.save` wrote."""
    return parse(read_tensors(Path(path)), str(path))


def parse(data: bytes, name: str) -> RuntimeModel:
    """A model from a file's bytes; `name` is what messages call the file."""
    content, tensors = unpack(data, _KIND, name)
    options = _options(content, name)
    inputs, outputs = (_names(content.get(key), key, name) for key in ("inputs", "outputs"))
    groups = (tuple(range(len(outputs))),) if options["joint"] else tuple((i,) for i in range(len(outputs)))
    rounds, filters, delays = content.get("ensemble", 1), _filters(options, name), _delays(options, name)
    drives = len(inputs) * (1 + len(filters) + len(delays))
    if rounds * len(groups) * len(options["resolutions"]) > len(tensors):
        raise ModelFileError(f"{name}: its settings ask for more models than there are tensors.")
    prefixes = [f"models.{g}" if n == 0 else f"ensemble.{n}.{g}" for n in range(rounds) for g in range(len(groups))]
    d, parts, width = options["latent_dim"], range(len(options["resolutions"])), len(groups[0])
    driving = [slower(options["resolutions"], i) if options.get("cascade") else () for i in parts]
    sizes = {"d": d, "m": options["inducing"]}
    widths = [drives + d * len(some) for some in driving]
    wanted = [_shapes(sizes | {"u": u, "z": d + u}, options["preset"]) for u in widths]
    found = [[_take_all(tensors, f"{p}.components.{i}", wanted[i], name) for i in parts] for p in prefixes]
    noise = np.stack([_take(tensors, f"{p}.raw_observation_noise", (width,), name) for p in prefixes])
    widths = {"input": drives, "output": len(outputs)}
    scaling = {f"{side}_{what}": _take(tensors, f"scaling.{side}_{what}", (widths[side],), name)
               for side in widths for what in ("mean", "sd")}  # fmt: skip
    calibration = np.ones(len(outputs))
    if content["version"] > 1:
        calibration = _take(tensors, "calibration", (len(outputs),), name)
    if not all((values > 0).all() for values in (scaling["input_sd"], scaling["output_sd"], calibration)):
        raise ModelFileError(f"{name}: deviations and calibration factors must be positive.")
    return RuntimeModel(
        input_names=inputs,
        output_names=outputs,
        units=dict(content["units"]),
        dt=float(content["dt"]),
        filters=filters,
        delays=delays,
        resolutions=tuple(options["resolutions"]),
        precision=options["precision"],
        groups=groups,
        rounds=rounds,
        **scaling,
        calibration=calibration,
        noise=read_noise(tensors, options.get("noise", "gaussian"), len(outputs), drives, name),
        arrays=make_arrays(found, noise, options["preset"], options["precision"], driving),
        initials=tuple(tuple(_initial(c) for c in model) for model in found),
    )


def _options(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The settings that simulation needs; a newer format is refused before anything else is looked at."""
    version, options, rounds = content.get("version"), content.get("options"), content.get("ensemble", 1)
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT_VERSION:
        raise ModelFileError(
            f"{name}: written in format {version!r:.40}; this runtime reads up to {FORMAT_VERSION}. Update mrgpssm."
        )
    if not isinstance(options, dict) or not _is_count(rounds):
        raise ModelFileError(f"{name}: the metadata has no settings of a model.")
    resolutions = options.get("resolutions")
    if not isinstance(resolutions, list) or not resolutions or not all(map(_is_count, resolutions)):
        raise ModelFileError(f"{name}: resolutions must be a list of whole numbers, at least 1.")
    for key in _COUNTS:
        if not _is_count(options.get(key)):
            raise ModelFileError(f"{name}: {key} must be a whole number, at least 1.")
    for key, choices in _CHOICES.items():
        if options.get(key) not in tuple(choices):
            raise ModelFileError(f"{name}: {key} must be one of {', '.join(choices)}.")
    if not isinstance(options.get("cascade", False), bool):
        raise ModelFileError(f"{name}: cascade must be true or false.")
    if not isinstance(options.get("joint"), bool) or not isinstance(options.get("buffer"), int):
        raise ModelFileError(f"{name}: joint must be true or false and buffer a whole number.")
    dt, units = content.get("dt"), content.get("units")
    if not _is_positive(dt) or not isinstance(units, dict):
        raise ModelFileError(f"{name}: dt must be a positive number, and units a table.")
    return options


def _filters(options: dict[str, Any], name: str) -> tuple[float, ...]:
    """Time constants of the averaged inputs, in steps; formats before 3 have none."""
    filters = options.get("filters", [])
    if not isinstance(filters, list) or len(filters) > _FILTERS or not all(map(_is_positive, filters)):
        raise ModelFileError(f"{name}: filters must be a list of at most {_FILTERS} positive numbers.")
    return tuple(float(tau) for tau in filters)


def _delays(options: dict[str, Any], name: str) -> tuple[int, ...]:
    """Delays of the copied inputs, in steps; formats before 4 have none."""
    delays = options.get("delays", [])
    whole = isinstance(delays, list) and all(_is_count(d) and d <= _DELAY for d in delays)
    if not whole or len(delays) > _FILTERS:
        raise ModelFileError(f"{name}: delays must be a list of at most {_FILTERS} whole numbers from 1 to {_DELAY}.")
    return tuple(delays)


def _shapes(n: dict[str, int], preset: str) -> dict[str, tuple[int, ...]]:
    """What a component's tensors are called, and their axes."""
    axes = {
        "transition.gp.kernel.raw_amplitude": "", "transition.gp.kernel.raw_lengthscales": "z",
        "transition.gp.inducing": "dmz", "transition.gp.posterior.mean": "dm",
        "transition.gp.posterior.raw_factor": "dmm", "transition.raw_process_noise": "d",
        "initial.mean": "d", "initial.raw_factor": "dd",
    }  # fmt: skip
    if PRESETS[preset][0] is not None:
        axes |= {"transition.mean.raw_contraction": "dd", "transition.mean.B": "du", "transition.mean.b": "d"}
    return {name: tuple(n[axis] for axis in text) for name, text in axes.items()}


def _take_all(tensors: Tensors, prefix: str, wanted: dict[str, tuple[int, ...]], name: str) -> Tensors:
    return {key: _take(tensors, f"{prefix}.{key}", shape, name) for key, shape in wanted.items()}


def _take(tensors: Tensors, key: str, shape: tuple[int, ...], name: str) -> np.ndarray:
    if key not in tensors or tensors[key].shape != shape:
        found = list(tensors[key].shape) if key in tensors else "missing"
        raise ModelFileError(f"{name}: tensor {key} is {found}; its settings ask for {list(shape)}.")
    values = tensors[key].astype(float)
    if not np.isfinite(values).all():
        raise ModelFileError(f"{name}: tensor {key} holds values that are not finite.")
    return values


def _initial(tensors: Tensors) -> Initial:
    return Initial(tensors["initial.mean"], lower_triangular(tensors["initial.raw_factor"]))


def _names(value: Any, key: str, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ModelFileError(f"{name}: {key} must be a list of names.")
    return tuple(value)


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
