"""The GRU behind `fit`, `simulate` and `score`; several of them can be trained as one fleet."""

import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.baselines.bands import Calibration, QuantileBands, calibrate
from mrgpssm.baselines.base import AbstractBaseline, Report, reporter
from mrgpssm.baselines.gru.fleet import BestWeights, GruMember, run_held, train
from mrgpssm.baselines.gru.layout import Layout, lay_out, stack_rows
from mrgpssm.baselines.gru.network import Weights
from mrgpssm.data import Sequence
from mrgpssm.data.ranges import Recording

_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class OutputNetworks:
    """The restarts of one output, stacked, and their calibration."""

    weights: Weights
    members: GruMember
    calibration: Calibration

    def take(self, number: int) -> "OutputNetworks":
        """One restart of the ensemble."""
        weights, members = jax.tree.map(lambda a: a[number : number + 1], (self.weights, self.members))
        return OutputNetworks(weights, members, self.calibration)


@dataclass(eq=False)
class GRU(AbstractBaseline):
    """An ensemble of gated recurrent networks per output, trained to simulate.

    Each restart leaves out another part of the training data and keeps the weights that simulate that part best. The
    settings (width, learning rate, with or without exponential averages of the inputs) with the lowest left-out loss
    over all restarts are chosen. Training windows start with a burn-in that does not enter the loss. In half of the
    windows the network sees the measured outputs of the burn-in, so that a warm-up can set its state. Mean and
    quantiles are averages over the restarts.
    """

    title = "GRU"

    width: int = 64
    learning_rate: float = 3e-3
    restarts: int = 3
    steps: int = 2000
    batch: int = 16
    window: int = 400
    burn: int = 100
    seed: int = 0

    def learn(self, recordings: list[Recording], report: Report) -> None:
        learn_together([self], [recordings], report)

    def predict(self, inputs: np.ndarray, warmup: Recording) -> QuantileBands:
        padding = _round_up(len(warmup) + len(inputs)) - len(warmup)
        later = np.concatenate([inputs, np.repeat(inputs[-1:], padding - len(inputs), axis=0)])
        unknown = np.full((padding, len(self.outputs_)), np.nan)
        whole = Recording(np.concatenate([warmup.inputs, later]), np.concatenate([warmup.outputs, unknown]))
        place = {"held": len(warmup), "held_rows": len(inputs), "known": min(self.burn_, len(warmup))}
        with floating_point("float32"):  # every restart of every output in one run
            rows, _ = stack_rows([[whole]], self.scales_)
            weights, members = (_join([getattr(o, name) for o in self.outputs_]) for name in ("weights", "members"))
            members = replace(members, **{name: jnp.full_like(members.held, at) for name, at in place.items()})
            longest = _round_up(self.burn_ + len(inputs)) - self.burn_
            found = run_held(rows, members, weights, self.burn_, longest)[:2]
        each = (np.asarray(a, float)[:, : len(inputs)] for a in found)
        mean, quantiles = (a.reshape(len(self.outputs_), -1, *a.shape[1:]).mean(1) for a in each)
        return Calibration.join(o.calibration for o in self.outputs_).apply(mean.T, quantiles.transpose(2, 1, 0))

    def keep(self, layout: Layout, found: list[tuple[dict[str, Any], OutputNetworks]]) -> None:
        """Take over what a fleet has found for every output."""
        self.scales_, self.burn_ = layout.scales, layout.program.burn
        self.chosen_, self.outputs_ = [chosen for chosen, _ in found], [networks for _, networks in found]

    def members(self) -> list[Self]:
        """Every restart as a model of its own."""
        found = [copy.copy(self) for _ in range(self.restarts)]
        for k, alone in enumerate(found):
            alone.outputs_ = [o.take(k) for o in self.outputs_]
        return found


def _join(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)


def _round_up(rows: int) -> int:
    """Few lengths are few compilations; what is appended comes after everything that is read."""
    return rows + -rows % (_CHUNK_ROWS if rows > _CHUNK_ROWS else 256)


def fit_together(models: list[GRU], training: list[list[Sequence]], progress: bool = True) -> list[GRU]:
    """Fit model i to training[i], all in one program. The models may differ in their seed only."""
    recordings = [model.prepare(sequences) for model, sequences in zip(models, training, strict=True)]
    report = reporter("GRU fleet", progress)
    learn_together(models, recordings, report)
    report("done")
    return models


def learn_together(models: list[GRU], sets: list[list[Recording]], report: Report) -> None:
    """Train every restart of every candidate of every output, and keep the best candidate of each output."""
    with floating_point("float32"):
        layout = lay_out([m.get_params() for m in models], sets)
        best = train(layout.rows, layout.members, layout.program, report)
        sizes = layout.program.burn, layout.program.longest
        held = [np.asarray(a, float) for a in run_held(layout.rows, layout.members, best.weights, *sizes)]
    for number, model in enumerate(models):
        columns = range(sets[number][0].outputs.shape[1])
        model.keep(layout, [_find_winner(layout, best, held, number, column) for column in columns])


def _find_winner(
    layout: Layout, best: BestWeights, held: list[np.ndarray], problem: int, column: int
) -> tuple[dict[str, Any], OutputNetworks]:
    """The candidate with the lowest left-out loss over its restarts, in words and as networks."""
    losses = np.asarray(best.loss, float)
    groups = [np.array(layout.index[problem, column, c]) for c in range(len(layout.candidates))]
    mean = np.array([losses[g].mean() for g in groups])
    winner = int(np.argmin(np.where(np.isfinite(mean), mean, np.inf)))
    group = groups[winner]
    _, quantiles, y, counted = (a[group] for a in held)
    seen = counted > 0
    calibration = calibrate(np.moveaxis(quantiles[seen], -1, 0)[..., None], y[seen][:, None])
    weights, members = jax.tree.map(lambda a: a[group], (best.weights, layout.members))
    chosen = asdict(layout.candidates[winner]) | {"left_out_loss": float(mean[winner])}
    return chosen, OutputNetworks(weights, members, calibration)
