"""Gaps in time: what is walked over them is what the rows of the gap, with the input held, would have given.

`held` is a recording without gaps, `gappy` the same without the rows of its gap. A run over one must be the run over
the other, whatever walks it.
"""

import functools
from dataclasses import replace
from typing import Any
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from c_code import compile_c, needs_gcc, walk_in_c
from fleets import TINY, problem
from untrained import untrained

from mrgpssm import MRGPSSM, DataError, Sequence, runtime
from mrgpssm.arrays.gaps import LONGEST, cut
from mrgpssm.arrays.precision import floating_point
from mrgpssm.cli import main
from mrgpssm.data import Scaling, fill
from mrgpssm.export import c_source
from mrgpssm.model.stability import noiseless_radius
from mrgpssm.prediction import predict
from mrgpssm.prediction.fitted import FittedModel, model_bytes
from mrgpssm.prediction.mean import mean_run
from mrgpssm.prediction.run import free_run
from mrgpssm.spec import arrange
from mrgpssm.training.planning import make_plan
from mrgpssm.training.series import Series, flatten, make_clock
from mrgpssm.training.state import Cache
from mrgpssm.training.step import Phase, _gather
from mrgpssm.training.sweep import sweep

pytestmark = pytest.mark.once
LENGTHS = (10, 200, 5000)
BEFORE = 40  # rows before the gap, and after it
COLUMNS: dict[str, Any] = {"input_names": ("speed", "load"), "output_names": ("NOx", "Temp")}
EVERYTHING: dict[str, Any] = {"filters": (4, 60), "delays": (7, 2)}
MORE: dict[str, dict[str, Any]] = {"": {}, "full": EVERYTHING, "through": EVERYTHING | {"feedthrough": True}}


def pair(gap: int, outputs: np.ndarray | None = None) -> tuple[Sequence, Sequence, np.ndarray]:
    """`held`, `gappy` and the rows of the first that the second has; the input steps just before the gap."""
    u = np.repeat(np.random.default_rng(gap).uniform(-8, 8, (2 * BEFORE // 8, 2)), 8, axis=0)
    u[BEFORE - 1] = [9.0, -9.0]
    full = np.concatenate([u[:BEFORE], np.repeat(u[BEFORE - 1 : BEFORE], gap - 1, axis=0), u[BEFORE:]])
    kept = np.r_[0:BEFORE, BEFORE + gap - 1 : len(full)]
    y = np.full((len(full), 2), np.nan) if outputs is None else outputs
    return Sequence(full, y, 0.1, **COLUMNS), Sequence(u, y[kept], 0.1, 0.1 * kept, **COLUMNS), kept


def uneven(rows: int = 60, seed: int = 0) -> Sequence:
    """Steps of a tenth of a sample to four samples."""
    rng = np.random.default_rng(seed)
    time = 3.0 + 0.1 * np.append(0.0, np.cumsum(rng.choice([0.1, 0.45, 0.8, 1.0, 1.3, 2.0, 3.7], rows - 1)))
    return Sequence(rng.uniform(-8, 8, (rows, 2)), rng.standard_normal((rows, 2)), 0.1, time, **COLUMNS)


@functools.cache
def made(more: str = "", seed: int = 0) -> MRGPSSM:
    """A model of two time scales, alone or with all that can be beside it."""
    return untrained(resolutions=(30, 1), inducing=4, seed=seed, precision="float64", **MORE[more])


@functools.cache
def truth(gap: int) -> np.ndarray:
    """What another system of the same kind does over `held`."""
    return made(seed=1).simulate_mean(pair(gap)[0])


@functools.cache
def at_runtime(model: MRGPSSM) -> runtime.RuntimeModel:
    return runtime.parse(model_bytes(model.fitted_), "model")


def gaps_of(sequence: Sequence) -> np.ndarray:
    return np.append(np.diff(sequence.clock()), 1.0)


def stepped(model: MRGPSSM, sequence: Sequence) -> np.ndarray:
    stepper = at_runtime(model).stepper(samples=3)
    rows = zip(sequence.inputs, gaps_of(sequence), strict=True)
    return np.array([stepper.update(u, elapsed=gap).mean for u, gap in rows])


def foreseen(model: MRGPSSM, sequence: Sequence) -> np.ndarray:
    stepper = at_runtime(model).stepper(samples=3)
    stepper.update(sequence.inputs[0], elapsed=float(gaps_of(sequence)[0]))
    ahead = stepper.forecast(sequence.inputs[1:], sequence.dt * sequence.clock()[1:])
    return np.concatenate([np.full((1, 2), np.nan), ahead.mean])


PATHS = {
    "free run": lambda model, s: model.simulate(s, samples=3).mean,
    "mean run": lambda model, s: model.simulate_mean(s),
    "runtime": lambda model, s: at_runtime(model).simulate(s.inputs, samples=3, time=s.dt * s.clock()).mean,
    "runtime mean": lambda model, s: at_runtime(model).simulate_mean(s.inputs, s.dt * s.clock()),
    "stepper": stepped,
    "forecast": foreseen,
}


@pytest.mark.parametrize("gap", LENGTHS)
@pytest.mark.parametrize("path", PATHS)
def test_after_a_gap_a_run_is_as_good_as_without_it(path, gap):
    """The truth is a run of the same system with other parameters; the input steps just before the gap."""
    held, gappy, kept = pair(gap)
    whole, found = PATHS[path](made(), held)[kept], PATHS[path](made(), gappy)
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-9)
    after = slice(BEFORE, BEFORE + 10)
    error, usual = (np.sqrt(np.mean((run - truth(gap)[kept])[after] ** 2)) for run in (found, whole))
    assert error <= 1.2 * usual


@pytest.mark.parametrize("more", ["full", "through"])
@pytest.mark.parametrize("path", PATHS)
def test_averages_delays_and_parts_go_on_over_a_gap(path, more):
    held, gappy, kept = pair(200)
    found, whole = (PATHS[path](made(more), s) for s in (gappy, held))
    np.testing.assert_allclose(found, whole[kept], rtol=0, atol=1e-9)


@pytest.mark.parametrize("more", MORE)
def test_steps_of_any_length_are_the_same_everywhere(more):
    """JAX, the NumPy runtime and its stepper, on fractions of samples."""
    model, s = made(more), uneven()
    runs = {path: run(model, s) for path, run in PATHS.items()}
    for path in ("runtime", "stepper", "forecast"):
        np.testing.assert_allclose(runs[path][1:], runs["free run"][1:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(runs["runtime mean"], runs["mean run"], rtol=0, atol=1e-9)


def test_a_component_takes_the_steps_that_time_asks_for():
    """The mean run of a linear system, against a loop over rows: x' = x + h (A x + B u + b), h = samples / R <= 1."""
    model, s = without_gp(untrained(resolutions=(4,), inducing=2, precision="float64", joint=True)), uneven(20)
    found, scaling = mean_run(model, s), model.scaling
    with floating_point("float64"):
        component = model.models[0].components[0]
        A, B, b = (np.asarray(getattr(component.dynamics(), name)) for name in ("A", "B", "b"))
        x = np.asarray(component.initial.posterior().mean)
    for row, gap in enumerate(gaps_of(s)):
        np.testing.assert_allclose(found[row], scaling.output_mean + scaling.output_sd * x[:2], rtol=0, atol=1e-9)
        count = max(int(np.ceil(gap - 0.05)), 1)
        for _ in range(count):
            x = x + gap / count / 4 * (A @ x + B @ scaling.inputs(s.inputs)[row] + b)


def without_gp(model: MRGPSSM) -> FittedModel:
    """The same model, linear: the mean of its GP is zero."""

    def means(ssm):
        return [component.transition.gp.posterior.mean for component in ssm.components]

    def linear(ssm):
        return eqx.tree_at(means, ssm, [jnp.zeros_like(mean) for mean in means(ssm)])

    return replace(model.fitted_, ensemble=tuple(tuple(map(linear, models)) for models in model.fitted_.ensemble))


@needs_gcc
@pytest.mark.parametrize("more", MORE)
def test_the_c_file_advances_over_any_time(more, tmp_path):
    model = made(more)
    library = compile_c(c_source(at_runtime(model)), tmp_path)
    for s in (*(pair(gap)[1] for gap in LENGTHS), uneven()):
        found = walk_in_c(library, s.inputs, outputs=2, gaps=gaps_of(s))
        np.testing.assert_allclose(found, model.simulate_mean(s), rtol=0, atol=1e-9)
    held, gappy, kept = pair(200)
    whole = walk_in_c(library, held.inputs, outputs=2)[kept]
    np.testing.assert_allclose(walk_in_c(library, gappy.inputs, 2, gaps=gaps_of(gappy)), whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("gap", LENGTHS)
def test_training_sweeps_walk_over_a_gap(gap):
    """The plan that `fit` makes, swept: caches at the rows that were measured."""
    options: dict[str, Any] = {"resolutions": (30, 1), "window": 2, "buffer": 0, "inducing": 4, "precision": "float32",
                               "folds": 0}  # fmt: skip
    measured = np.random.default_rng(0).standard_normal((2 * BEFORE + gap - 1, 2))
    held, gappy, kept = pair(gap, measured)
    caches = []
    for sequence in (held, gappy):
        checked, training, _ = MRGPSSM(**arrange(**options, filters=(50,))).check(sequence)
        plan, ssm = make_plan(checked, training, Scaling(np.zeros(4), np.full(4, 6.0), np.zeros(2), np.ones(2)))
        rows, component = plan.series.clock.shape[0], ssm.components[1]
        blank = Cache(*(jnp.zeros((2, rows, width), component.dtype) for width in (1, 2, 2)))
        walks: dict[str, Any] = {"samples": 2, "chunk": 10_000, "longest": rows, "keys": plan.tasks.key}
        caches.append(sweep(component, 1, plan.series, plan.tasks, blank, **walks))
        assert rows == len(held)
    for whole, found in zip(*map(jax.tree.leaves, caches), strict=True):
        np.testing.assert_allclose(found[:, kept], whole[:, kept], rtol=0, atol=1e-5)


def test_windows_take_strides_of_their_true_length():
    series, tasks, _ = problem(1)
    rows, dtype = series.clock.shape[0], series.inputs.dtype
    clock = np.cumsum(np.random.default_rng(0).uniform(0.2, 1, rows))
    series = eqx.tree_at(lambda s: s.clock, series, make_clock([clock], dtype))
    cache = Cache(jnp.zeros((rows, 1), dtype), jnp.zeros((rows, 2), dtype), jnp.zeros((rows, 2), dtype))
    phase = Phase(jnp.asarray(3, jnp.int32), cache.outputs, (cache,), jnp.asarray(True), jnp.ones((), dtype))
    batch = _gather(TINY, series, jax.tree.map(lambda x: x[0], tasks), phase, jax.random.key(1))
    inner, strides = ~np.asarray(batch.at_start), np.asarray(batch.windows.strides)
    ends = clock[np.minimum(np.asarray(batch.first)[:, None] + 3 * np.arange(9), rows - 1)]
    true, scored = np.diff(ends, axis=1) / 3, np.asarray(batch.weights) > 0
    assert (scored & inner[:, None]).any()
    np.testing.assert_allclose(strides[scored & inner[:, None]], true[scored & inner[:, None]], rtol=0, atol=1e-6)
    assert strides.max() <= 1


def test_scaling_is_learned_on_measured_rows_alone():
    held, gappy, _ = pair(5000, np.random.default_rng(0).standard_normal((2 * BEFORE + 4999, 2)))
    _, _, scaling = MRGPSSM((1,), **arrange(window=2, buffer=0)).check(gappy)
    np.testing.assert_allclose(scaling.input_mean, gappy.inputs.mean(0))
    assert np.abs(scaling.input_mean - held.inputs.mean(0)).max() > 1


def test_a_noiseless_run_with_random_gaps_stays_inside_its_radius():
    model, rng = untrained(resolutions=(30, 1), inducing=4, precision="float64", joint=True), np.random.default_rng(3)
    gaps = rng.choice([0.3, 1.0, 1.04, 2.5, 40.0, 333.3], 120)
    u, scaling = rng.uniform(-9, 9, (121, 2)), model.fitted_.scaling
    s = Sequence(u, np.full((121, 2), np.nan), 0.1, 0.1 * np.append(0.0, np.cumsum(gaps)), **COLUMNS)
    radius, norm = 0.0, np.linalg.norm(scaling.inputs(u), axis=1).max()
    with floating_point("float64"):
        for component in model.fitted_.models[0].components:
            d, start = component.dynamics(), component.initial.posterior().mean
            radius += float(noiseless_radius(d, d.gp.mean, jnp.asarray(norm), jnp.linalg.norm(start)))
    reached = np.linalg.norm((model.simulate_mean(s) - scaling.output_mean) / scaling.output_sd, axis=1)
    assert reached.max() <= radius


# Warm-up


@pytest.mark.parametrize("more", ["full", "through"])
@pytest.mark.parametrize("cut_at", [BEFORE - 10, BEFORE, BEFORE + 10])
def test_a_warm_up_has_a_clock_of_its_own(cut_at, more):
    """The gap lies inside the run, between it and the warm-up, or inside the warm-up."""
    measured = np.random.default_rng(0).standard_normal((2 * BEFORE + 199, 2))
    measured[BEFORE : BEFORE + 199] = np.nan
    held, gappy, kept = pair(200, measured)
    past, rest = part(gappy, slice(None, cut_at)), part(gappy, slice(cut_at, None))
    found, first = made(more).simulate(rest, warmup=past, samples=4), kept[cut_at]
    before = (held.inputs[:first], held.outputs[:first])
    whole = made(more).simulate(held.inputs[first:], warmup=before, samples=4)
    np.testing.assert_allclose(found.mean, whole.mean[kept[cut_at:] - first], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.time, 0.1 * kept[cut_at:])


def test_a_stride_over_a_gap_reports_some_of_the_rows():
    _, gappy, _ = pair(10)
    some, whole = (made().simulate(gappy, samples=3, stride=stride) for stride in (7, 1))
    np.testing.assert_array_equal(some.mean, whole.mean[::7])
    np.testing.assert_array_equal(some.time, whole.time[::7])


def part(s: Sequence, rows: slice) -> Sequence:
    return replace(s, inputs=s.inputs[rows], outputs=s.outputs[rows], time=None if s.time is None else s.time[rows])


def test_a_warm_up_takes_steps_of_their_true_length(monkeypatch):
    model, s, seen = untrained(resolutions=(3, 1), inducing=4), uneven(40), []

    def spy(ssm, particles, inputs, outputs, gaps, *, key):
        seen.append(np.asarray(gaps))
        return particles

    monkeypatch.setattr(predict, "assimilate", spy)
    model.simulate(part(s, slice(25, None)), warmup=part(s, slice(None, 25)), samples=2)
    expected = np.concatenate(
        [np.full(n, gap / n) for gap in gaps_of(s)[:25] for n in [max(int(np.ceil(gap - 0.05)), 1)]]
    )
    np.testing.assert_allclose(seen[0][-len(expected) :], expected, rtol=1e-5)
    assert not seen[0][: -len(expected)].any()  # rows that change nothing
    assert seen[0].max() <= 1


def test_columns_of_a_warm_up_are_found_by_name():
    model, (held, _, _) = untrained(resolutions=(3, 1), inducing=4), pair(10, np.zeros((2 * BEFORE + 9, 2)))
    past, rest = part(held, slice(None, 40)), part(held, slice(40, None))
    turned = replace(past, inputs=past.inputs[:, ::-1], input_names=past.input_names[::-1])
    runs = [model.simulate(rest, warmup=w, samples=3).mean for w in (past, turned, (past.inputs, past.outputs))]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
    with pytest.raises(DataError, match="must be a Sequence, or a pair"):
        model.simulate(rest, warmup=past.inputs, samples=3)  # pyright: ignore[reportArgumentType]


def test_the_command_warms_up_by_the_clock(tmp_path):
    model = made()
    model.save(tmp_path / "model.mrgpssm")
    _, gappy, _ = pair(200, np.random.default_rng(0).standard_normal((2 * BEFORE + 199, 2)))
    table = np.column_stack([gappy.time, gappy.inputs, gappy.outputs])  # pyright: ignore[reportArgumentType,reportCallIssue]
    np.savetxt(tmp_path / "a.csv", table, "%.12g", ",", header="t,speed,load,NOx,Temp", comments="")
    words = ["simulate", "model.mrgpssm", "a.csv", "--out", "run.csv", "--samples", "4", "--time", "t"]
    words += ["--gaps", "irregular", "--warmup-rows", str(BEFORE)]
    with mock.patch("sys.argv", ["mrgpssm", *words]), pytest.MonkeyPatch.context() as moved:
        moved.chdir(tmp_path)
        with pytest.raises(SystemExit) as stopped:
            main()
    assert not stopped.value.code
    written = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True, deletechars="")
    expected = model.simulate(part(gappy, slice(BEFORE, None)), warmup=part(gappy, slice(None, BEFORE)), samples=4)
    np.testing.assert_allclose(written["NOx.mean"], expected.mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(written["time"], expected.time, rtol=1e-6)


# Steps and clocks


def test_gaps_are_cut_into_equal_steps_of_at_most_one_sample():
    gaps = np.array([1.0, 0.3, 1.05, 1.06, 2.0, 2.04, 7.5, 200.0, 1 + 1e-9, 1.0])
    steps = cut(gaps, "s")
    counts = np.bincount(steps.source)
    assert counts.tolist() == [1, 1, 1, 2, 2, 2, 8, 200, 1, 1]
    assert steps.sizes.max() <= 1
    np.testing.assert_array_equal(np.flatnonzero(np.diff(steps.source, prepend=-1)), steps.rows)
    sums = np.add.reduceat(steps.sizes, steps.rows)
    assert np.all(sums <= gaps + 1e-12)
    assert np.all(sums >= gaps - 0.05 - 1e-12)


def test_filling_is_for_gaps_alone():
    held, gappy, kept = pair(10)
    assert fill(held).sequence is held
    filled = fill(gappy)
    np.testing.assert_array_equal(filled.sequence.inputs, held.inputs)
    np.testing.assert_array_equal(filled.rows, kept)
    assert filled.sequence.time is None  # it is even now
    assert np.isnan(filled.sequence.outputs[np.setdiff1d(np.arange(len(held)), kept)]).all()
    again = fill(uneven())
    assert fill(again.sequence).sequence is again.sequence
    np.testing.assert_allclose(fill(again.sequence).steps, again.steps, atol=1e-9)
    # A clock in seconds since 1970 is even up to rounding.
    dated = fill(replace(held, time=1.7e9 + 0.1 * np.arange(len(held))))
    assert dated.is_even


def test_gaps_that_cannot_be_filled_are_refused():
    u = np.zeros((4, 2))
    long = Sequence(u, u, 0.1, 0.1 * np.array([0, 1, LONGEST + 2.0, LONGEST + 3.0]), name="bench 7", **COLUMNS)
    says = r"bench 7: row 1 is followed by a gap of 100,001 samples, more than 100,000; split the recording there\."
    with pytest.raises(DataError, match=says):
        fill(long)
    model = at_runtime(untrained(resolutions=(3, 1), inducing=4))
    with pytest.raises(DataError, match="split the recording there"):
        model.simulate(u, samples=2, time=long.time)
    with pytest.raises(DataError, match="time must have shape"):
        model.simulate(u, samples=2, time=np.zeros(3))
    for elapsed in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(DataError, match="must be positive"):
            model.stepper(2).update(u[0], elapsed=elapsed)


def test_nothing_takes_a_step_of_more_than_one_time_unit():
    _, gappy, _ = pair(10)
    with pytest.raises(ValueError, match="fill the sequence first"):
        flatten([gappy], [Scaling(np.zeros(2), np.ones(2), np.zeros(2), np.ones(2))], jnp.dtype("float32"))
    model = untrained(resolutions=(3, 1), inducing=4)
    stacked = jax.tree.map(lambda x: x[None], model.fitted_.models[0])
    run = free_run(
        stacked, (), [gappy.inputs], [gappy.clock()], stride=1, chunk=100, keys=jax.random.split(jax.random.key(0), 1)
    )
    with pytest.raises(ValueError, match="fill the gaps"):
        next(run)


def test_the_training_clock_is_exact_after_a_million_rows():
    rows = 1_000_000
    clock = np.append(0.0, np.cumsum(np.resize([0.3, 0.7, 1.0, 0.15], rows - 1)))
    s = Sequence(np.zeros((rows, 1)), np.zeros((rows, 1)), 0.1, 0.1 * clock)
    series: Series = flatten(
        [s], [Scaling(*np.zeros((1, 1)), *np.ones((1, 1)), *np.zeros((1, 1)), *np.ones((1, 1)))], jnp.dtype("float32")
    )
    for resolution in (1, 2, 30):
        first = np.r_[0:100, rows - 200 : rows - resolution]
        found = series.clock.between(jnp.asarray(first), jnp.asarray(first + resolution)) / resolution
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, (clock[first + resolution] - clock[first]) / resolution, rtol=0, atol=1e-6)
        assert float(found.max()) <= 1


# Learning


def lagging(u: np.ndarray, seed: int) -> np.ndarray:
    """Outputs that lag 5 samples behind a nonlinearity of the input."""
    x = np.zeros((len(u), 1))
    for t in range(1, len(u)):
        x[t] = x[t - 1] + 0.2 * (np.tanh(2 * u[t - 1]) - x[t - 1])
    return x + 0.02 * np.random.default_rng(seed).standard_normal(x.shape)


def test_learning_from_a_recording_with_gaps_is_as_good_as_from_its_pieces():
    gap, rows = 60, 120
    u = np.repeat(np.random.default_rng(0).uniform(-1, 1, (66, 1)), 10, axis=0)
    pieces = [slice(i * (rows + gap), i * (rows + gap) + rows) for i in range(4)]
    for piece in pieces[:-1]:
        u[piece.stop : piece.stop + gap] = u[piece.stop - 1]  # the truth holds its input, too
    y, kept = lagging(u, 1), np.concatenate([np.arange(len(u))[piece] for piece in pieces])
    new = u[:300][::-1]
    test = Sequence(new, lagging(new, 2), 0.1)
    small: dict[str, Any] = {"latent_dim": 2, "inducing": 6, "samples": 4, "windows": 8, "window": 10, "buffer": 2}
    scores = []
    for data in ([Sequence(u[kept], y[kept], 0.1, 0.1 * kept)], [Sequence(u[p], y[p], 0.1) for p in pieces]):
        model = MRGPSSM((4, 1), **arrange(**small, cycles=3, steps=30)).fit(data, progress=False)
        scores.append(model.score(test, samples=20).loc["y1", "rmse"])
    assert scores[0] < 1.2 * scores[1]
