"""How well `suggest` finds known time scales: ten seeds of the mixed demo sets and, with a data root, the engine set.

python benchmarks/suggest.py [DATA_ROOT] [--out results/suggest.json]
"""

import argparse
from pathlib import Path
from typing import Any

from mrgpssm.advice.suggest import suggest
from mrgpssm.data.engine import PAPER_OUTPUTS, fixed_splits, load_engine
from mrgpssm.data.synthetic import two_scales
from mrgpssm.file.record import write_record


def synthetic(kind: str, seed: int) -> dict[str, Any]:
    """True and found time constants, slow before fast, and the worst factor between them."""
    data = two_scales(kind, seed=seed)
    true = sorted(data.time_constants.values(), reverse=True)
    found = [scale.seconds for scale in suggest(data.sequence).per_output[0].scales]
    factors = [max(a / b, b / a) for a, b in zip(found, true, strict=True)]
    return {"set": kind, "seed": seed, "true": true, "found": [round(f, 3) for f in found], "factor": max(factors)}


def main() -> None:
    """Write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("results/suggest.json"))
    arguments = parser.parse_args()
    runs = [synthetic(kind, seed) for kind in ("M1", "M2") for seed in range(10)]
    record: dict[str, Any] = {"experiment": "suggest", "runs": runs, "worst_factor": max(r["factor"] for r in runs)}
    if arguments.root is not None:
        advice = suggest(load_engine("gengine2", fixed_splits()[0].train, PAPER_OUTPUTS, arguments.root))
        record["engine_seconds"] = {a.output: round(a.speed, 3) for a in advice.per_output}
    write_record(arguments.out, record)
    print(record["worst_factor"], record.get("engine_seconds"))


if __name__ == "__main__":
    main()
