"""Reading what was saved: a state-space model or a blend."""

import os
from pathlib import Path
from typing import Any

from mrgpssm.blend.blend import Blend
from mrgpssm.blend.files import parse_blend
from mrgpssm.estimator.estimator import from_fitted
from mrgpssm.file import read_tensors
from mrgpssm.file.tensors import BLEND_KIND, find_model, read_kind
from mrgpssm.gp import AbstractKernel
from mrgpssm.model import AbstractEmission
from mrgpssm.prediction.fitted import parse_model
from mrgpssm.rollout import AbstractScheme


def load(
    path: str | os.PathLike[str],
    *,
    kernel: AbstractKernel | type[AbstractKernel] | None = None,
    emission: AbstractEmission | type[AbstractEmission] | None = None,
    scheme: AbstractScheme | type[AbstractScheme] | None = None,
) -> Any:
    """The fitted `MRGPSSM` or `Blend` in a file that `save` wrote.

    Nothing in the file is executed. Checksum, version, shapes and finiteness are checked, in this order.

    Args:
        path: The file, or the folder of a run.
        kernel: Your own kernel, where the model has one: a file holds its class's name and no code.
        emission: Your own emission, where it has one.
        scheme: Your own scheme, where it has one.

    Returns:
        A model or a blend that can simulate, score and save.

    Raises:
        ModelFileError: The file is absent, damaged, foreign, too new, or inconsistent.
    """
    path = find_model(Path(path))
    data, own = read_tensors(path), {"kernel": kernel, "emission": emission, "scheme": scheme}
    if read_kind(data, str(path)) != BLEND_KIND:
        return from_fitted(parse_model(data, str(path), own))
    fitted = parse_blend(data, str(path), own)
    blend = Blend(fitted.parts)
    blend.fitted_, blend.chosen_, blend.validation_scores_ = fitted, (), None
    return blend
