"""Cascades: states of slower components drive the faster ones, against NumPy loops that know nothing of the package."""

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from c_code import compile_c, needs_gcc, walk_in_c
from configurations import Family, as_oracle, noise_as_oracle, random_component, random_noise, random_windows
from exhibits import evidence
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, ConfigError, ModelFileError, Sequence, runtime
from mrgpssm.arrays.params import positive_inverse
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling
from mrgpssm.elbo import elbo
from mrgpssm.export import c_source
from mrgpssm.file import pack, unpack
from mrgpssm.gp import RBF
from mrgpssm.model import SSM, Component, LinearEmission
from mrgpssm.paper.fleet import Problem, make_problem_fleet
from mrgpssm.prediction.drift import extract_learned
from mrgpssm.prediction.fitted import model_bytes, parse_model
from mrgpssm.prediction.run import assimilate, free_run
from mrgpssm.report.charts.dynamics import relevance
from mrgpssm.rollout import FullMC, Particles, draw_particles, draw_process
from mrgpssm.spec import arrange, cascade
from mrgpssm.training import begin, fit_fleet
from mrgpssm.training import sweep as walks
from mrgpssm.training.backfit import driving_states
from mrgpssm.training.checkpoint import pack_snapshot, unpack_snapshot
from mrgpssm.training.estimate import estimate
from mrgpssm.training.fleet import make_fleet
from mrgpssm.training.members import model_shape, start_on_data
from mrgpssm.training.planning import list_members
from mrgpssm.training.state import Cache
from mrgpssm.training.step import Phase, _gather

D, M, U = 2, 4, 1
UNITS = [(3.0, 1.0), (1.0, 6.0, 2.0)]


def drivers(units, part):
    """By hand: in the order of the units, all that are larger."""
    return [j for j in range(len(units)) if units[j] > units[part]]


def random_cascade(rng, units) -> SSM[Component]:
    components = tuple(
        random_component(rng, Family(RBF, D, U + D * len(drivers(units, part)), 1, M, units))
        for part in range(len(units))
    )
    return SSM(components, positive_inverse(jnp.asarray([0.4])), units, True)


def inducing_outputs(c, noise):
    roots = [np.linalg.cholesky(oracle.k_mm(c, d)) for d in range(D)]
    return [root @ (c["mean"][d] + c["factor"][d] @ noise[d]) for d, root in enumerate(roots)]


def walked(ssm, starts, inducing, inputs, steps, process):
    """All components together, row by row from the states of the row: x_0, ..., x_T of each, for one sample."""
    parts = [as_oracle(c) for c in ssm.components]
    f_M = [inducing_outputs(c, np.asarray(e)) for c, e in zip(parts, inducing, strict=True)]
    paths = [[np.asarray(x)] for x in starts]
    for t in range(len(inputs)):
        now = [path[t] for path in paths]
        for part, c in enumerate(parts):
            u = np.concatenate([inputs[t], *(now[j] for j in drivers(ssm.time_units, part))])
            mean, variance = oracle.step(c, now[part], u, steps[part][t], f_M[part])
            paths[part].append(mean + np.sqrt(variance) * process[part][t])
    return [np.array(path) for path in paths]


def stacked(tree):
    return jax.tree.map(lambda x: x[None], tree)


@pytest.mark.once
def test_who_drives_whom():
    assert [cascade.slower((30, 5, 1), part) for part in range(3)] == [(), (0,), (0, 1)]
    assert [cascade.slower((1, 5, 30, 5), part) for part in range(4)] == [(1, 2, 3), (2,), (), (2,)]
    assert cascade.slow_to_fast((1, 5, 30, 5)) == [2, 1, 3, 0]
    assert [cascade.slower((4, 4), part) for part in range(2)] == [(), ()]


@pytest.mark.float64
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("stride", [1, 5])
def test_a_free_run_is_what_the_oracle_walks(units, stride):
    """With strides above a time unit a component takes sub-steps; the states that drive it are the latest known."""
    rng, samples, rows = np.random.default_rng(2), 2, 24
    ssm, many = random_cascade(rng, units), len(units)
    inputs, clock = rng.standard_normal((rows, U)), np.cumsum(rng.uniform(0.2, 1, rows))
    states, noise = rng.standard_normal((many, samples, D)), rng.standard_normal((many, samples, D, M))
    particles = tuple(Particles(jnp.asarray(x)[None, None], jnp.asarray(e)[None, None]) for x, e in zip(states, noise, strict=True))  # fmt: skip
    keys = jax.random.split(jax.random.key(3), 1)
    runs = list(free_run(stacked(ssm), particles, [inputs], [clock], stride=stride, chunk=3, keys=keys))
    ours = [np.concatenate([draws.parts[part] for draws in runs], axis=3)[0, 0] for part in range(many)]
    for s in range(samples):
        at: dict[int, dict[int, np.ndarray]] = {}
        for part in sorted(range(many), key=lambda part: -units[part]):
            c, every = as_oracle(ssm.components[part]), int(np.ceil(stride / units[part]))
            begun = [r + k * stride // every for r in range(0, rows, stride) for k in range(every)]
            fine = [r for r in begun if r < rows]
            key = jax.random.fold_in(jax.random.fold_in(keys[0], 1), part)
            process = draw_process(key, jnp.asarray(0, jnp.int32), len(fine), (samples, D), jnp.dtype(float))[s]
            x, f_M = states[part, s], inducing_outputs(c, noise[part, s])
            at[part] = {0: x}
            for i, (here, there) in enumerate(itertools.pairwise(fine)):
                held = [at[j][max(r for r in at[j] if r <= here)] for j in drivers(units, part)]
                h = (clock[there] - clock[here]) / units[part]
                mean, variance = oracle.step(c, x, np.concatenate([inputs[here], *held]), h, f_M)
                x = mean + np.sqrt(variance) * np.asarray(process[i])
                at[part][there] = x
            expected = [c["emission"](at[part][r]) for r in range(0, rows, stride)]
            np.testing.assert_allclose(ours[part][s], expected, atol=1e-9)


@pytest.mark.float64
@pytest.mark.parametrize("units", UNITS)
def test_the_bound_on_windows_is_that_of_joint_trajectories(units):
    rng = np.random.default_rng(4)
    family = Family(RBF, D, U, 1, M, units)
    ssm, windows, noise = random_cascade(rng, units), random_windows(rng, family), random_noise(rng, family)
    ours = [elbo(ssm, windows, noise, FullMC(native), buffer=1, total=50.0, sequences=1) for native in (False, True)]
    np.testing.assert_allclose(ours[0].bound, ours[1].bound, rtol=1e-9)
    omega, total, e = float(ssm.observation_variance()[0]), 0.0, noise_as_oracle(noise)
    parts = [as_oracle(c) for c in ssm.components]
    for n, s in itertools.product(range(2), range(2)):
        starts = [c["m_0"] + c["S_0_factor"] @ part["initial"][n, s] for c, part in zip(parts, e, strict=True)]
        steps = [np.asarray(windows.strides[n]) / unit for unit in units]
        paths = walked(ssm, starts, [p["inducing"][n, s] for p in e], np.asarray(windows.inputs[n]), steps,
                       [p["process"][n, s] for p in e])  # fmt: skip
        outputs = sum(np.array([c["emission"](x) for x in path]) for c, path in zip(parts, paths, strict=True))
        error = np.asarray(windows.outputs)[n, 1:] - np.asarray(outputs)[2:]
        total += np.nansum(-0.5 * (error**2 / omega + np.log(2 * np.pi * omega))) / 2
    np.testing.assert_allclose(ours[0].likelihood, total * 50 / (2 * 4), rtol=1e-9)


@pytest.mark.float64
@pytest.mark.parametrize("units", UNITS)
def test_a_warm_up_without_measurements_walks_all_components_together(units):
    rng, samples, rows, many = np.random.default_rng(5), 3, 6, len(units)
    ssm, key = random_cascade(rng, units), jax.random.key(6)
    states, noise = rng.standard_normal((many, samples, D)), rng.standard_normal((many, samples, D, M))
    inputs, gaps = rng.standard_normal((rows, U)), rng.uniform(0.5, 1.5, rows)
    particles = tuple(Particles(jnp.asarray(x), jnp.asarray(e)) for x, e in zip(states, noise, strict=True))
    blank = jnp.full((rows, 1), jnp.nan)
    moved = assimilate(ssm, particles, jnp.asarray(inputs), blank, jnp.asarray(gaps), key=key)
    idle = [np.pad(values, ((4, 0), *[(0, 0)] * (values.ndim - 1))) for values in (inputs, gaps)]
    later = assimilate(
        ssm, particles, jnp.asarray(idle[0]), jnp.full((rows + 4, 1), jnp.nan), jnp.asarray(idle[1]), key=key
    )
    for a, b in zip(jax.tree.leaves(moved), jax.tree.leaves(later), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)  # rows of no outputs and no gap change nothing
    process = np.empty((many, samples, rows, D))
    for t in range(rows):
        row = jax.random.fold_in(jax.random.fold_in(key, 2), rows - 1 - t)
        for part in range(many):
            own = jax.random.fold_in(jax.random.split(row)[1], part)
            process[part, :, t] = jax.random.normal(own, (samples, D))
    for s in range(samples):
        paths = walked(ssm, states[:, s], noise[:, s], inputs, [gaps / unit for unit in units], process[:, s])
        for part in range(many):
            np.testing.assert_allclose(moved[part].states[s], paths[part][-1], atol=1e-9)


def problem(resolutions, members=1, cascade=True, **more):
    """A fleet on two recordings, as the estimator makes it."""
    given: dict[str, Any] = {"resolutions": resolutions, "inducing": M, "cascade": cascade, "samples": 3, "windows": 4, "window": 6,
             "buffer": 2, "cycles": 2, "steps": 4, "restarts": members}  # fmt: skip
    options = MRGPSSM(**arrange(**(given | more))).spec.complete()
    data = [recording(seed, rows) for seed, rows in ((0, 80), (1, 48))]
    return make_fleet(options, data, [Scaling.fit(data)], list_members(options, 2, 2))


@pytest.mark.once
def test_windows_see_the_inputs_and_the_cached_states_of_their_rows():
    plan, ssm = problem((5, 1, 3))
    rng, rows = np.random.default_rng(0), plan.series.clock.shape[0]

    def values(width):
        return jnp.asarray(rng.standard_normal((2, rows, width)), "float32")

    caches = tuple(Cache(values(1), values(2), values(2)) for _ in range(3))
    assert [len(driving_states(ssm, caches, part)) for part in range(3)] == [0, 2, 1]
    slower = tuple(x[0] for x in driving_states(ssm, caches, 1))
    others, cache = caches[1].outputs[0], jax.tree.map(lambda x: x[0], caches[1])
    phase = Phase(jnp.asarray(2, jnp.int32), others, cache, jnp.asarray(True), jnp.ones(()), slower)
    task = jax.tree.map(lambda x: x[0], plan.tasks)
    windows, first, at_start, *_ = _gather(plan.settings, plan.series, task, phase, jax.random.key(1))
    assert windows.inputs.shape == (4, 8, 2 + 2 * 2)
    assert not np.all(at_start)
    for n, j in itertools.product(np.flatnonzero(~np.asarray(at_start)), range(4)):
        row = int(first[n]) + 2 * j
        expected = [plan.series.inputs[0, row], caches[0].states[0, row], caches[2].states[0, row]]
        np.testing.assert_allclose(windows.inputs[n, j], np.concatenate(expected), rtol=1e-6)


def shown(component: Component) -> Component:
    """The same with C = [1, 0] written out, which is what the oracle reads."""
    return eqx.tree_at(lambda c: c.emission, component, LinearEmission(jnp.asarray([[1.0, 0.0]])))


@pytest.fixture(scope="module")
def moved():
    """A fleet of two equal members, off their starting values, and one of them."""
    plan, ssm = problem((4, 1), precision="float64")
    rng = np.random.default_rng(0)
    one = jax.tree.map(lambda x: x[0] + 0.3 * rng.standard_normal(x.shape[1:]), ssm)
    return plan, jax.tree.map(lambda x: jnp.stack([x, x]), one), one


def first_steps(key, samples):
    return np.asarray(draw_process(key, jnp.asarray(0, jnp.int32), 80, (2 * samples, D), jnp.dtype(float)))


@pytest.mark.float64
def test_the_bound_of_a_series_is_that_of_joint_samples(moved):
    (plan, whole, one), samples, keys = moved, 2, moved[0].tasks.key
    options = {"samples": samples, "longest": 80, "keys": keys}
    ours = walks.series_bound(whole, (4, 1), plan.series, plan.tasks, chunk=60, **options)
    own = [jax.random.fold_in(keys[0], part) for part in range(2)]
    here = [draw_particles(c, (2, samples), k) for c, k in zip(one.components, own, strict=True)]
    process, plain = [first_steps(k, samples) for k in own], eqx.tree_at(lambda s: s.components, one, tuple(map(shown, one.components)))  # fmt: skip
    omega, likelihood = float(one.observation_variance()[0]), 0.0
    for k, (first, rows) in enumerate(((0, 80), (80, 48))):
        inputs, y = (np.asarray(x)[first : first + rows] for x in (plan.series.inputs[0], plan.series.outputs[0, :, 0]))
        steps = [np.full(rows, 1 / r) for r in (4, 1)]
        for s in range(samples):
            paths = walked(plain, [h.states[k, s] for h in here], [h.inducing[k, s] for h in here], inputs, steps,
                           [p[k * samples + s] for p in process])  # fmt: skip
            error = y - sum(path[:rows, 0] for path in paths)
            likelihood += np.sum(-0.5 * error**2 / omega - 0.5 * np.log(2 * np.pi * omega)) / samples
    kl = sum(2 * float(c.initial.kl()) + float(c.dynamics().gp.kl()) for c in one.components)
    np.testing.assert_allclose(ours[0], likelihood - kl, rtol=1e-8)


@pytest.mark.float64
def test_the_cache_of_a_component_is_driven_by_caches_of_slower_ones(moved):
    (plan, whole, one), samples, keys = moved, 2, moved[0].tasks.key
    cached = jnp.asarray(np.random.default_rng(1).standard_normal((2, 128, D)))
    blank = Cache(jnp.zeros((2, 128, 1)), jnp.zeros((2, 128, D)), jnp.zeros((2, 128, D)))
    options = {"samples": samples, "longest": 80, "chunk": 60, "keys": keys}
    found = walks.sweep(whole.components[1], 1, plan.series, plan.tasks, blank, (cached,), **options)
    start = draw_particles(one.components[1], (2, samples), keys[0])
    inputs, paths = np.concatenate([plan.series.inputs[0, :79], cached[0, :79]], axis=1), []
    for s in range(samples):
        noise = {"initial": np.zeros(D), "inducing": np.asarray(start.inducing[0, s]), "process": first_steps(keys[0], samples)[s]}  # fmt: skip
        c = as_oracle(shown(one.components[1])) | {
            "m_0": np.asarray(start.states[0, s]),
            "S_0_factor": np.zeros((D, D)),
        }
        paths.append(np.concatenate([start.states[0, s][None], oracle.run(c, inputs, np.ones(79), noise)]))
    np.testing.assert_allclose(found.states[0, :80], np.mean(paths, axis=0), atol=1e-8)


def kept(run) -> np.ndarray:
    assert run.samples is not None
    return run.samples


CASES = {
    "three": {"resolutions": (30, 5, 1)},
    "unsorted": {"resolutions": (1, 30, 5), "joint": True, "rounds": 2, "filters": (4,)},
    "equal": {"resolutions": (1, 5, 5), "preset": "paper"},
}


@pytest.mark.once
@pytest.mark.parametrize("name", CASES)
def test_files_runtime_and_stepper_agree_with_the_jax_path(name):
    model = untrained(cascade=True, precision="float64", **CASES[name])
    data, inputs = model_bytes(model.fitted_), recording(2).inputs
    assert model_bytes(parse_model(data, name)) == data
    plain = runtime.parse(data, name)
    ours, theirs = (m.simulate(inputs, samples=7, seed=3, keep_samples=True) for m in (plain, model))
    np.testing.assert_allclose(kept(ours), kept(theirs), rtol=0, atol=1e-9)
    np.testing.assert_allclose(plain.simulate_mean(inputs), model.simulate_mean(inputs), rtol=0, atol=1e-9)
    stepper = plain.stepper(samples=7, seed=3)
    found = [stepper.update(u) for u in inputs]
    np.testing.assert_allclose([e.mean for e in found], ours.mean, rtol=1e-12)
    np.testing.assert_allclose([e.std for e in found], ours.std, rtol=1e-12)


@pytest.mark.once
@needs_gcc
@pytest.mark.parametrize("name", ["three", "unsorted"])
def test_the_c_file_is_the_mean_run(name, tmp_path):
    model = untrained(cascade=True, precision="float64", **CASES[name])
    source, inputs = c_source(runtime.parse(model_bytes(model.fitted_), name)), recording(2).inputs
    found = walk_in_c(compile_c(source, tmp_path), inputs, outputs=2)
    np.testing.assert_allclose(found, model.simulate_mean(inputs), rtol=0, atol=1e-9)


@pytest.mark.once
def test_the_stablehlo_program_is_the_mean_run():
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    from jax import export

    from mrgpssm.export.stablehlo import first_states, stablehlo

    model = untrained(cascade=True, resolutions=(1, 30, 5))
    program, inputs = export.deserialize(bytearray(stablehlo(model.fitted_))), recording(2).inputs.astype(np.float32)
    with jax.enable_x64(False):
        found, _ = program.call(inputs, first_states(model.fitted_))
    np.testing.assert_allclose(found, model.simulate_mean(inputs), rtol=0, atol=1e-5)


def widened(component: Component, like: Component, rng) -> Component:
    """A component that has room for states of others and does not listen: no slope, very long lengthscales."""

    def places(c: Component):
        return c.transition.gp.inducing, c.transition.gp.kernel.raw_lengthscales, c.transition.mean.B  # pyright: ignore

    inducing, lengthscales, B = places(component)
    assert lengthscales is not None
    room = places(like)[0].shape[-1] - inducing.shape[-1]
    new = (
        jnp.concatenate([inducing, jnp.asarray(rng.uniform(-2, 2, (*inducing.shape[:-1], room)))], axis=-1),
        jnp.concatenate([lengthscales, jnp.full((room,), 1e8)]),
        jnp.concatenate([B, jnp.zeros((B.shape[0], room))], axis=1),
    )
    return eqx.tree_at(places, component, new)


@pytest.mark.once
def test_components_that_do_not_listen_are_those_of_no_cascade():
    given = {"resolutions": (6, 1, 3), "precision": "float64"}
    plain, deaf = untrained(**given), untrained(cascade=True, **given)
    rng, past, inputs = np.random.default_rng(0), recording(3), recording(2).inputs
    with floating_point("float64"):
        models = []
        for narrow, wide in zip(plain.fitted_.models, deaf.fitted_.models, strict=True):
            parts = tuple(widened(c, w, rng) for c, w in zip(narrow.components, wide.components, strict=True))
            models.append(SSM(parts, narrow.raw_observation_noise, wide.time_units, wide.cascading))
    deaf.fitted_ = replace(deaf.fitted_, ensemble=(tuple(models),))
    for stride, warmup in ((1, None), (4, None), (1, (past.inputs, past.outputs))):
        more = {"samples": 5, "stride": stride, "warmup": warmup, "keep_samples": True}
        ours, theirs = (kept(m.simulate(inputs, **more)) for m in (deaf, plain))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(deaf.simulate_mean(inputs), plain.simulate_mean(inputs), rtol=0, atol=1e-9)


@pytest.mark.once
def test_components_of_equal_resolution_are_no_cascade():
    runs = []
    for cascading in (False, True):
        plan, ssm = problem((2, 2), cascade=cascading)
        runs.append(fit_fleet(plan, begin(plan, ssm), lambda _: None))
    for ours, theirs in zip(*(jax.tree.leaves(run.state) for run in runs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(runs[0].bounds, runs[1].bounds)


@pytest.mark.once
def test_a_training_goes_on_from_a_checkpoint_bit_by_bit():
    plan, ssm = problem((1, 4))
    snapshots = []
    whole = fit_fleet(plan, begin(plan, ssm), lambda _: None, snapshots.append)
    assert np.isfinite(whole.bounds).all()
    middle = unpack_snapshot(pack_snapshot(snapshots[2], "x"), begin(plan, ssm), "x", "checkpoint")
    again = fit_fleet(plan, middle, lambda _: None)
    for ours, theirs in zip(*(jax.tree.leaves(run.state) for run in (whole, again)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    cost = estimate(plan, begin(plan, ssm))
    assert cost["seconds"] > 0


@pytest.mark.once
def test_inducing_points_start_on_the_data_but_for_states():
    options = MRGPSSM(resolutions=(5, 1), inducing=M, cascade=True).spec.complete()
    rows = Sequence(np.random.default_rng(0).uniform(50, 60, (30, 2)), np.zeros((30, 1)))
    scaling = Scaling(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1))
    plan, ssm = make_fleet(options, [rows], [scaling], list_members(options, 1, 1))
    before, after = (s.components[1].transition.gp for s in (ssm, start_on_data(ssm, plan.series, plan.tasks)))
    assert np.all(np.asarray(after.inducing[..., 2:4]) >= 50)
    np.testing.assert_array_equal(after.inducing[..., 4:], before.inducing[..., 4:])
    scales = [np.asarray(gp.kernel.raw_lengthscales) for gp in (before, after)]  # z is 6, where the preset's are right
    np.testing.assert_allclose(*scales, rtol=1e-5)
    shapes = [c.transition.gp.inducing.shape for c in model_shape(options.structure, 2, 1).components]
    assert shapes == [(2, M, 4), (2, M, 6)]


def modulated(seed: int, rows: int = 1500) -> Sequence:
    """A slow level that is also the gain of something fast, which no sum of two components can say."""
    rng = np.random.default_rng(seed)
    u = np.stack([np.repeat(rng.uniform(-1.5, 1.5, rows // 150), 150), np.repeat(rng.uniform(-1, 1, rows // 6), 6)], 1)
    level, fast = np.zeros(rows), np.zeros(rows)
    for t in range(1, rows):
        level[t] = level[t - 1] + (u[t - 1, 0] - level[t - 1]) / 60
        fast[t] = fast[t - 1] + 0.4 * (level[t - 1] * u[t - 1, 1] - fast[t - 1])
    return Sequence(u, (level + fast + 0.02 * rng.standard_normal(rows))[:, None])


@pytest.mark.once
def test_a_cascade_learns_a_slow_gain_that_a_sum_does_not():
    """The root mean squared errors are 0.23 without and 0.07 with it."""
    sizes: dict[str, Any] = {
        "inducing": 20,
        "samples": 5,
        "windows": 10,
        "window": 20,
        "buffer": 5,
        "cycles": 3,
        "steps": 100,
        "folds": 0,
    }
    train, test, errors = [modulated(0), modulated(1)], modulated(2), []
    for cascading in (False, True):
        model = MRGPSSM(**arrange(resolutions=(20, 1), cascade=cascading, seed=1, **sizes)).fit(train)
        errors.append(float(model.score(test)["rmse"].iloc[0]))
    assert errors[1] < 0.6 * errors[0]
    found = extract_learned(model.fitted_, test.inputs)  # the report shows which states the fast component listens to
    assert found.states == ("state 1 of component 1", "state 2 of component 1")
    slow, fast = found.components[0]
    assert np.isinf(slow.lengthscales[4:]).all()
    assert np.isfinite(fast.lengthscales).all()
    assert slow.gain.shape == fast.gain.shape == (2, 4)
    assert np.linalg.norm(fast.gain[:, 2:]) + (1 / fast.lengthscales[4:]).sum() > 0.1
    assert [m.resolution for m in found.drifts] == [20, 1]
    exhibit = evidence(inputs=("speed", "load"), outputs=("NOx",), resolutions=(20, 1), learned=found)
    assert relevance(exhibit).panels[0].y_ticks[2:] == found.states


@pytest.mark.once
def test_files_and_experiments_that_do_not_fit_are_refused_in_one_sentence():
    content, tensors = unpack(model_bytes(untrained(resolutions=(3, 1)).fitted_), "mrgpssm-model", "x")
    flipped = pack("mrgpssm-model", content | {"structure": content["structure"] | {"cascade": True}}, dict(tensors))
    odd = pack("mrgpssm-model", content | {"structure": content["structure"] | {"cascade": "yes"}}, dict(tensors))
    for read in (partial(parse_model, name="f"), partial(runtime.parse, name="f")):
        with pytest.raises(ModelFileError, match="its settings ask for") as caught:
            read(flipped)
        assert "\n" not in str(caught.value)
        with pytest.raises(ModelFileError, match="cascade must be true or false"):
            read(odd)
    options = MRGPSSM(resolutions=(3, 1), cascade=True).spec.complete()
    with pytest.raises(ConfigError, match="no cascade"):
        make_problem_fleet(options, Problem("x", (recording(0),), ()))
