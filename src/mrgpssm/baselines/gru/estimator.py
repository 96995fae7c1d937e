"""The GRU behind `fit`, `simulate` and `score`; several of them can be trained as one fleet."""

import copy
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.precision import floating_point
from mrgpssm.baselines.bands import Calibration, QuantileBands, calibrate
from mrgpssm.baselines.base import AbstractBaseline, Recording, Report, reporter
from mrgpssm.baselines.gru.fleet import BestWeights, left_out, simulate, train
from mrgpssm.baselines.gru.layout import Layout, lay_out, network_features
from mrgpssm.baselines.gru.network import Weights
from mrgpssm.data import Sequence

_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class OutputNetworks:
    """The restarts of one output, stacked, and their calibration."""

    weights: Weights
    units: np.ndarray
    inputs: np.ndarray
    calibration: Calibration

    def take(self, number: int) -> "OutputNetworks":
        """One restart of the ensemble."""
        own = slice(number, number + 1)
        weights = jax.tree.map(lambda w: w[own], self.weights)
        return replace(self, weights=weights, units=self.units[own], inputs=self.inputs[own])


class GRU(AbstractBaseline):
    """An ensemble of gated recurrent networks per output, trained to simulate.

    Each restart leaves out another part of the training data and keeps the weights that simulate that part best. The
    settings (width, learning rate, with or without exponential averages of the inputs) with the lowest left-out loss
    over all restarts are chosen. Training windows start with a burn-in that does not enter the loss. In half of the
    windows the network sees the measured outputs of the burn-in, so that a warm-up can set its state. Mean and
    quantiles are averages over the restarts.
    """

    title = "GRU"
    outputs_: "list[OutputNetworks]"
    scales_: tuple[float, ...]
    burn_: int

    def __init__(
        self,
        width: int = 64,
        learning_rate: float = 3e-3,
        restarts: int = 3,
        steps: int = 2000,
        batch: int = 16,
        window: int = 400,
        burn: int = 100,
        seed: int = 0,
    ):
        self.width = width
        self.learning_rate = learning_rate
        self.restarts = restarts
        self.steps = steps
        self.batch = batch
        self.window = window
        self.burn = burn
        self.seed = seed

    def learn(self, recordings: list[Recording], report: Report) -> None:
        learn_together([self], [recordings], report)

    def predict(self, inputs: np.ndarray, warmup: Recording | None) -> QuantileBands:
        columns = range(len(self.outputs_))
        x = np.stack([self._network_inputs(inputs, warmup, column) for column in columns])
        masks = np.concatenate([np.pad(o.inputs, ((0, 0), (0, 2)), constant_values=1.0) for o in self.outputs_])
        wide = np.repeat(x, len(masks) // len(x), axis=0) * masks[:, None]
        with floating_point("float32"):  # every restart of every output in one run
            weights = jax.tree.map(lambda *w: jnp.concatenate(w), *[o.weights for o in self.outputs_])
            units = jnp.asarray(np.concatenate([o.units for o in self.outputs_]), jnp.float32)
            found = [np.asarray(a, float) for a in simulate(weights, units, jnp.asarray(wide, jnp.float32))]
        rows = slice(self.burn_, self.burn_ + len(inputs))
        mean, quantiles = (a.reshape(len(x), -1, *a.shape[1:]).mean(1)[:, rows] for a in found)
        return Calibration.join(o.calibration for o in self.outputs_).apply(mean.T, quantiles.transpose(2, 1, 0))

    def members(self) -> "list[GRU]":
        """Every restart as a model of its own."""
        found = [copy.copy(self) for _ in range(self.restarts)]
        for k, alone in enumerate(found):
            alone.outputs_ = [o.take(k) for o in self.outputs_]
        return found

    def _network_inputs(self, inputs: np.ndarray, warmup: Recording | None, column: int) -> np.ndarray:
        """(burn + T + padding, F + 2): features and known outputs, from `burn` rows before the first on."""
        past = inputs[:0] if warmup is None else warmup.inputs
        features = network_features(np.concatenate([past, inputs]), self.scales_)
        at = np.maximum(np.arange(len(past) - self.burn_, len(features)), 0)
        known, y = np.zeros(len(at)), np.zeros(len(at))
        if warmup is not None:
            shown = np.arange(len(past) - self.burn_, len(past))
            values = warmup.outputs[np.maximum(shown, 0), column]
            seen = (shown >= 0) & np.isfinite(values)
            known[: self.burn_], y[: self.burn_] = seen, np.where(seen, values, 0.0)
        x = np.column_stack([features[at], y, known])
        # few lengths, few compilations; what is appended comes after everything that is read
        padding = -len(x) % (_CHUNK_ROWS if len(x) > _CHUNK_ROWS else 256)
        return np.concatenate([x, np.repeat(x[-1:], padding, axis=0)])


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
        held = [np.asarray(a, float) for a in left_out(layout.rows, layout.members, best.weights, layout.program)]
    for number, model in enumerate(models):
        model.scales_, model.burn_ = layout.scales, layout.program.burn
        columns = range(sets[number][0].outputs.shape[1])
        found = [_find_winner(layout, best, held, number, column) for column in columns]
        model.chosen_, model.outputs_ = ([pair[k] for pair in found] for k in range(2))


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
    networks = OutputNetworks(
        weights=jax.tree.map(lambda w: w[group], best.weights),
        units=np.asarray(layout.members.units)[group],
        inputs=np.asarray(layout.members.inputs)[group],
        calibration=calibrate(np.moveaxis(quantiles[seen], -1, 0)[..., None], y[seen][:, None]),
    )
    return asdict(layout.candidates[winner]) | {"left_out_loss": float(mean[winner])}, networks
