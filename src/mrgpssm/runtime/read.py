"""From a model file to the arrays that a simulation needs."""

from pathlib import Path

import numpy as np

from mrgpssm.errors import ConfigError
from mrgpssm.file.model import StoredModel, Tensors, unpack_model
from mrgpssm.file.tensors import find_model, read_tensors
from mrgpssm.runtime.arrays import lower_triangular, make_arrays
from mrgpssm.runtime.horizon import Horizon
from mrgpssm.runtime.model import RuntimeModel
from mrgpssm.runtime.noise import StudentNoise
from mrgpssm.runtime.paths import PathLaw
from mrgpssm.runtime.territory import Territory
from mrgpssm.spec import INGREDIENTS, Structure


def load(path: str | Path) -> RuntimeModel:
    """The fitted model in a file that `MRGPSSM.save` wrote, or in the folder of a run."""
    path = find_model(Path(path))
    return parse(read_tensors(path), str(path))


def parse(data: bytes, name: str) -> RuntimeModel:
    """A model from a file's bytes; `name` is what messages call the file."""
    return make_runtime(unpack_model(data, name))


def make_runtime(stored: StoredModel) -> RuntimeModel:
    """The arrays of a simulation from the tensors of a file."""
    structure, members = stored.structure, [member for row in stored.ensemble for member in row]
    _check_parts(structure)
    parts = range(len(structure.resolutions))
    components = [[_component(member, part) for part in parts] for member in members]
    together = lambda name: np.array([[c[name] for c in row] for row in components])  # noqa: E731
    noise = np.stack([member["raw_observation_noise"] for member in members]).astype(float)
    return RuntimeModel(
        input_names=stored.input_names,
        output_names=stored.output_names,
        units=stored.units,
        dt=stored.dt,
        drive=structure.drive,
        resolutions=structure.resolutions,
        precision=structure.precision,
        groups=structure.groups(len(stored.output_names)),
        rounds=len(stored.ensemble),
        **stored.scaling,
        calibration=stored.calibration,
        noise=None if stored.noise is None else StudentNoise(**stored.noise),
        paths=PathLaw.white(len(stored.output_names)) if stored.paths is None else PathLaw(**stored.paths),
        territory=None if stored.territory is None else Territory(**stored.territory),
        horizon=None if stored.horizon is None else Horizon(**stored.horizon),
        arrays=make_arrays(components, noise, structure),
        initial_mean=together("initial.mean"),
        initial_factor=lower_triangular(together("initial.raw_factor")),
        prior_mean=together("initial.prior_mean"),
        prior_factor=lower_triangular(together("initial.prior_raw_factor")),
    )


def _check_parts(structure: Structure) -> None:
    """Refuse a user's own kernel or emission."""
    for name in ("kernel", "emission"):
        part = INGREDIENTS[name]
        if not isinstance(getattr(structure, name), str):
            raise ConfigError(
                f"The runtime, steppers and C know the {name}s {', '.join(part.words)}, not "
                f"{part.to_json(getattr(structure, name))}; simulate with MRGPSSM, or fit with one of these."
            )


def _component(member: Tensors, part: int) -> Tensors:
    """The tensors of one component, in double precision."""
    prefix = f"components.{part}."
    return {key.removeprefix(prefix): t.astype(float) for key, t in member.items() if key.startswith(prefix)}
