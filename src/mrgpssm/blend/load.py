"""Reading what was saved: a state-space model or a blend."""

import os
from pathlib import Path
from typing import Any

from mrgpssm.blend.blend import Blend
from mrgpssm.blend.files import parse_blend
from mrgpssm.estimator.estimator import from_fitted
from mrgpssm.file import read_tensors
from mrgpssm.file.tensors import BLEND_KIND, read_kind
from mrgpssm.prediction.fitted import parse_model


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted `MRGPSSM` or `Blend` in a file that `save` wrote.

    Nothing in the file is executed. Checksum, version, shapes and finiteness are checked, in this order.

    Args:
        path: The file, such as `run/model.mrgpssm`.

    Returns:
        A model or a blend that can simulate, score and save.

    Raises:
        ModelFileError: The file is absent, damaged, foreign, too new, or inconsistent.
    """
    data = read_tensors(Path(path))
    if read_kind(data, str(path)) != BLEND_KIND:
        return from_fitted(parse_model(data, str(path)))
    fitted = parse_blend(data, str(path))
    blend = Blend(fitted.parts)
    blend.fitted_, blend.chosen_, blend.validation_scores_ = fitted, (), None
    return blend
