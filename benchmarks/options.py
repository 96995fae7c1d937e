"""What an option is worth on the engine: every variant over five splits and four outputs, as one fleet each.

    python benchmarks/options.py train DATA_ROOT FOLDER [--variants plain filters ...] [--splits 0 1 2 3 4]
    python benchmarks/options.py record DATA_ROOT FOLDER [--splits ...] [--out results/options]

`train` (a GPU, 1 to 2 minutes a variant) fits three models to all training files of a split and two that each leave
two training files out, and keeps every tenth row of their free runs over files they have not seen. `record` judges
them and needs no GPU. A variant is chosen by the files that were left out of training, never by the test files; the
three models together, as a mixture, are the ensemble.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import t as student

from mrgpssm import MRGPSSM
from mrgpssm.arrays.drive import Drive
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling, apply_drive
from mrgpssm.estimator.noise import Runs as Noisy
from mrgpssm.estimator.noise import fit_law
from mrgpssm.file.record import device_name, write_record
from mrgpssm.paper.config import Evaluation
from mrgpssm.paper.evaluation import evaluate, lay_out_runs
from mrgpssm.paper.fleet import make_problem_fleet
from mrgpssm.paper.problems import Problem, ProblemFold, engine_problem
from mrgpssm.prediction.metrics import quantile_crps_terms
from mrgpssm.runtime.distributions.student import student_nll
from mrgpssm.spec import arrange
from mrgpssm.training import begin, fit_fleet

FILTERS = (10, 60, 300)
VARIANTS: dict[str, dict] = {
    "plain": {},
    "plain-10-3-1": {"resolutions": (10, 3, 1)},
    "filters": {"filters": FILTERS},
    "filters-10-3-1": {"filters": FILTERS, "resolutions": (10, 3, 1)},
    "filters-5-5-5": {"filters": FILTERS, "resolutions": (5, 5, 5)},
    "filters-latent-4": {"filters": FILTERS, "latent_dim": 4},
    "filters-delay-5": {"filters": FILTERS, "delays": (5,)},
    "filters-delays-3-8": {"filters": FILTERS, "delays": (3, 8)},
    "four-filters": {"filters": (*FILTERS, 1500)},
    "natural": {"filters": FILTERS, "latent_dim": 4, "optimiser": "natural"},
    "finetune": {"filters": FILTERS, "latent_dim": 4, "cycles": 8, "finetune": 2},
}
WHOLE, LEFT_OUT, THIN = 3, 2, 10


def folds_problem(root: str, splits: list[int]) -> Problem:
    """Per split: WHOLE folds with all training files and LEFT_OUT with two files left out, a long and a short one."""
    base = engine_problem("paper", root)
    folds = []
    for split in (base.folds[n] for n in splits):
        longest = sorted(split.train, key=lambda n: -len(base.sequences[n]))
        folds += [ProblemFold(split.train, split.test)] * WHOLE
        for out in ((longest[0], longest[5]), (longest[1], longest[4])):
            folds.append(ProblemFold(tuple(n for n in split.train if n not in out), tuple(sorted(out))))
    return Problem(base.name, base.sequences, tuple(folds))


def train(name: str, problem: Problem, folder: Path) -> None:
    """One variant as one fleet; its thinned free runs go into FOLDER/NAME.npz."""
    options = MRGPSSM(**arrange(**VARIANTS[name])).spec.complete()
    begun = time.perf_counter()
    with floating_point(options.structure.precision):
        fleet = make_problem_fleet(options, problem)
        fitted = fit_fleet(fleet.plan, begin(fleet.plan, fleet.ssm), lambda _: None)
        seconds = time.perf_counter() - begun
        everybody = list(range(fleet.size))
        judged = Evaluation(samples=20, chunk=1000)
        found = evaluate(fitted.state.ssm, fleet, lay_out_runs(fleet, problem), judged, seed=0, keep=everybody)
    kept = {"fold": fleet.fold, "output": fleet.output, "bounds": fitted.bounds, "seconds": seconds}
    for m in everybody:
        files = range(len(problem.folds[fleet.fold[m]].test))
        for key, runs in (("m", found.mean[m]), ("s", found.std[m])):
            kept[f"{key}{m}"] = np.concatenate([runs[k][::THIN] for k in files]).astype(np.float16)
    np.savez_compressed(folder / f"{name}.npz", **kept)


class Runs:
    """The kept free runs of one variant, in the data's units."""

    def __init__(self, path: Path, problem: Problem, drive: Drive):
        self.kept, self.problem = np.load(path), problem
        self.driven = [apply_drive(drive, s) for s in problem.sequences]
        self.scalings = [Scaling.fit([self.driven[k] for k in f.train]) for f in problem.folds]

    def member(self, fold: int, output: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation, noise included."""
        number = int(np.flatnonzero((self.kept["fold"] == fold) & (self.kept["output"] == output))[0])
        offset, sd = (getattr(self.scalings[fold], k)[output] for k in ("output_mean", "output_sd"))
        return offset + sd * self.kept[f"m{number}"].astype(float), sd * self.kept[f"s{number}"].astype(float)

    def drive(self, fold: int, scaled_as: int) -> np.ndarray:
        """What drove the free runs of a fold, scaled as another's training files ask."""
        files = self.problem.folds[fold].test
        return np.concatenate([self.scalings[scaled_as].inputs(self.driven[k].inputs)[::THIN] for k in files])

    def measured(self, fold: int, output: int) -> np.ndarray:
        """What the free runs are judged against."""
        files = self.problem.folds[fold].test
        return np.concatenate([self.problem.sequences[k].outputs[::THIN, output] for k in files])


def scores(y: np.ndarray, means: np.ndarray, sds: np.ndarray) -> dict[str, float]:
    """Of a mixture of Gaussians (K, T): RMSE of its mean, nLL, CRPS in closed form, coverage of its central bands.

    CRPS = E|X - y| - E|X - X'| / 2 with E|N(μ, σ²)| = 2 σ φ(μ/σ) + μ (2 Φ(μ/σ) - 1).
    """
    seen = ~np.isnan(y)
    y, means, sds = y[seen], means[:, seen], sds[:, seen]
    z = (y - means) / sds
    nll = np.log(len(means)) + 0.5 * np.log(2 * np.pi) - logsumexp(-0.5 * z**2 - np.log(sds), axis=0)
    pairs = absolute(means[:, None] - means[None], np.sqrt(sds[:, None] ** 2 + sds[None] ** 2)).mean((0, 1))
    distance = np.abs(ndtr(z).mean(0) - 0.5)
    return {
        "rmse": float(np.sqrt(np.mean((means.mean(0) - y) ** 2))),
        "nll": float(nll.mean()),
        "crps": float(np.mean(absolute(y - means, sds).mean(0) - pairs / 2)),
        **{f"coverage_{round(100 * q)}": float(np.mean(distance <= q / 2)) for q in (0.5, 0.9, 0.95)},
    }


def learned_scores(
    runs: "Runs", first: int, output: int, y: np.ndarray, means: np.ndarray, sds: np.ndarray
) -> dict[str, float]:
    """The same mean with bands by `noise="student"`, learned from the runs over left-out files."""
    folds = range(first + WHOLE, first + WHOLE + LEFT_OUT)
    held = [(*runs.member(f, output), runs.measured(f, output)) for f in folds]
    drive = np.concatenate([runs.drive(f, first) for f in folds])
    offset, sd = (getattr(runs.scalings[first], k)[output] for k in ("output_mean", "output_sd"))
    mean, deviation, measured = (np.concatenate([h[i] for h in held])[:, None] for i in range(3))
    scaled = ((measured - offset) / sd, (mean - offset) / sd, deviation / sd)
    law = fit_law(Noisy(*scaled, drive, groups=np.zeros(len(drive), int)))
    centre, spread = means.mean(0), np.sqrt(np.mean(sds**2, axis=0) + means.var(0))
    scale = sd * law.scale((centre[:, None] - offset) / sd, spread[:, None] / sd, runs.drive(first, first))[:, 0]
    seen, dof = ~np.isnan(y), law.dof[0]
    residual, scale = (y - centre)[seen], scale[seen]
    quantiles = student.ppf((np.arange(199) + 0.5) / 199, dof)[:, None] * scale
    found = {"nll": student_nll(residual, scale, np.asarray(dof)).mean()}
    found["crps"] = quantile_crps_terms(residual, quantiles).mean()
    for q in (0.5, 0.9, 0.95):
        found[f"coverage_{round(100 * q)}"] = np.mean(np.abs(residual) <= scale * student.ppf(0.5 + q / 2, dof))
    return {key: float(value) for key, value in found.items()}


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Five digits are enough for a record."""
    return {key: round(value, 5) for key, value in values.items()}


def absolute(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """E|N(mean, sd²)|."""
    z = mean / sd
    return 2 * sd * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) + mean * (2 * ndtr(z) - 1)


def judge(name: str, runs: Runs, device: str) -> dict:
    """All scores of one variant, per output and split."""
    each = WHOLE + LEFT_OUT
    table: dict[str, dict] = {}
    for output, title in enumerate(runs.problem.outputs):
        rows: dict[str, list] = {"ensemble": [], "student": [], "single_rmse": [], "left_out_rmse": []}
        for split in range(len(runs.problem.folds) // each):
            first = split * each
            members = [runs.member(first + k, output) for k in range(WHOLE)]
            means, sds = (np.stack([m[i] for m in members]) for i in (0, 1))
            y = runs.measured(first, output)
            rows["ensemble"].append(rounded(scores(y, means, sds)))
            rows["student"].append(rounded(learned_scores(runs, first, output, y, means, sds)))
            rows["single_rmse"].append([round(scores(y, m[None], s[None])["rmse"], 5) for m, s in members])
            for fold in range(first + WHOLE, first + each):
                mean, sd = runs.member(fold, output)
                held = scores(runs.measured(fold, output), mean[None], sd[None])
                rows["left_out_rmse"].append(round(held["rmse"], 5))
        table[title] = rows
    return {
        "experiment": "options",
        "variant": name,
        "options": MRGPSSM(**arrange(**VARIANTS[name])).spec.complete().to_json(),
        "data": runs.problem.describe(),
        "rows": f"every {THIN}th",
        "trained_on": device,
        "fit_seconds": round(float(runs.kept["seconds"]), 1) if "seconds" in runs.kept else None,
        "outputs": table,
    }


def main() -> None:
    """Train what has no runs yet, or write a record of every variant that has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["train", "record"])
    parser.add_argument("root")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("results/options"))
    parser.add_argument("--device", default=None, help="what the runs were trained on, if not this machine")
    given = parser.parse_args()
    problem = folds_problem(given.root, given.splits)
    for name in given.variants:
        path = given.folder / f"{name}.npz"
        if given.task == "train" and not path.exists():
            train(name, problem, given.folder)
        if given.task == "record" and path.exists():
            device = given.device or device_name()
            write_record(
                given.out / f"engine-{name}.json",
                judge(name, Runs(path, problem, MRGPSSM(**arrange(**VARIANTS[name])).spec.structure.drive), device),
            )


if __name__ == "__main__":
    main()
