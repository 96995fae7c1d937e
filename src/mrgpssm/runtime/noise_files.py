"""The law of measurements as tensors of a model file: written under their names, read with every check."""

from mrgpssm.errors import ModelFileError
from mrgpssm.file.numbers import Tensors, numbers
from mrgpssm.runtime.noise import StudentNoise, feature_count


def noise_tensors(noise: StudentNoise | None) -> Tensors:
    """What the tensors are called; there are none where no law was learned."""
    if noise is None:
        return {}
    return {f"noise.{key}": getattr(noise, key) for key in ("weights", "dof", "edges")}


def read_noise(tensors: Tensors, kind: object, outputs: int, drives: int, name: str) -> StudentNoise | None:
    """The law, where one was learned; ν is above 2, so that deviations exist."""
    if kind == "gaussian" or "noise.weights" not in tensors:
        return None
    weights = numbers(tensors, "noise.weights", (outputs, feature_count(drives)), name)
    dof = numbers(tensors, "noise.dof", (outputs,), name)
    edges = numbers(tensors, "noise.edges", (outputs, 2), name)
    if not (dof > 2).all():
        raise ModelFileError(f"{name}: the noise must have more than 2 degrees of freedom.")
    return StudentNoise(weights, dof, edges)
