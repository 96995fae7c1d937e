"""Where things lie: the repository, the golden model file, public data, and the test of a name."""

import os
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SOURCES = ROOT / "src" / "mrgpssm"
GOLDEN = TESTS / "golden" / "model-v1.mrgpssm"
EXPECTED = TESTS / "golden" / "model-v1-expected.npz"
DATA = Path(os.environ.get("MRGPSSM_DATA") or ROOT.parent / "shared" / "data")
ENGINE = next((p for p in (DATA / "bosch-engine", DATA) if (p / "gengine2").is_dir()), None)


def find_test(node: str) -> str:
    """`test_x.py::name`, or the file alone, with the folder of its layer in front."""
    file, *name = node.split("::")
    (path,) = TESTS.rglob(file)
    return "::".join([path.relative_to(TESTS).as_posix(), *name])
