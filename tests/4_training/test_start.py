"""A linear start: the model begins as the linear model that was identified, in coordinates where its norm is bounded."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import recording, wiener_hammerstein
from scipy.signal import lfilter
from systems import make

from mrgpssm import MRGPSSM, Bands, Sequence, Training
from mrgpssm.arrays.params import contraction, contraction_inverse
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Scaling
from mrgpssm.data.ranges import Recording, whole
from mrgpssm.errors import ConfigError, DataError
from mrgpssm.model import spectral_norm
from mrgpssm.spec import make_spec
from mrgpssm.training.fleet import Member, find_starts, make_fleet
from mrgpssm.training.linear.hankel import Modes
from mrgpssm.training.linear.start import (
    LinearPart,
    add_integrators,
    assign_modes,
    find_again,
    find_start,
    hold,
    place,
    shift,
)
from mrgpssm.training.linear.statespace import StateSpace
from mrgpssm.training.linear.subspace import SubspaceSearch, SubspaceSettings, fit_inputs, identify
from mrgpssm.training.planning import make_plan

pytestmark = pytest.mark.once


def blocks(*poles: complex) -> np.ndarray:
    """A block-diagonal A with these poles; of a pair, one is given."""
    sizes = [2 if np.imag(p) else 1 for p in poles]
    A, at = np.zeros((sum(sizes), sum(sizes))), 0
    for p, n in zip(poles, sizes, strict=True):
        A[at : at + n, at : at + n] = np.array([[np.real(p), -np.imag(p)], [np.imag(p), np.real(p)]])[:n, :n]
        at += n
    return A


def run(A, B, b, C, start, inputs):
    """(T, D_y) outputs, row by row."""
    x, found = start, []
    for u in inputs:
        found.append(C @ x)
        x = A @ x + B @ u + b
    return np.array(found)


def scaled(data: list[Sequence]) -> list[Recording]:
    scaling = Scaling.fit(data)
    return [Recording(scaling.inputs(s.inputs), scaling.outputs(s.outputs)) for s in data]


def test_a_held_step_is_so_many_rows():
    rng = np.random.default_rng(0)
    A, B, u = 0.3 * rng.standard_normal((3, 3)), rng.standard_normal((3, 2)), rng.standard_normal(2)
    x = start = rng.standard_normal(3)
    for _ in range(7):
        x = A @ x + B @ u
    power, gain = hold(A, B, 7)
    np.testing.assert_allclose(power @ start + gain @ u, x, rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_placed_component_is_the_same_system_and_its_norm_is_bounded(seed):
    """Also with poles that nearly coincide, where modal coordinates are far from orthogonal."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((4, 4))
    A = mixing @ blocks(0.9, 0.9 + 1e-4, 0.6 + 0.5j) @ np.linalg.inv(mixing)
    B, C, offset = rng.standard_normal((4, 1)), rng.standard_normal((2, 4)), rng.standard_normal(2)
    inputs = rng.standard_normal((400, 1))
    (part,) = shift([place(A, B, C, inputs, 50, 6)], offset)
    assert np.linalg.norm(part.A, 2) < 0.98
    ours = run(part.A, part.B, part.b, part.C, part.rest, inputs)
    theirs = run(A, B, np.zeros(4), C, np.zeros(4), inputs) + offset
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())
    assert np.all(part.C[:, 4:] == 0)
    assert part.spreads.max() == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("pole", [0.9899, 0.98999999, 0.9999])
def test_a_pole_at_or_beyond_the_memory_is_drawn_in(pole):
    """And what the fleet makes of it is finite in float32."""
    part = place(np.array([[pole]]), np.ones((1, 1)), np.ones((1, 1)), np.ones((50, 1)), 100, 1)
    assert 0.98 < np.linalg.norm(part.A, 2) < 0.99
    raw = contraction_inverse(jnp.asarray(part.A / 0.99, jnp.float32))
    np.testing.assert_allclose(0.99 * np.asarray(contraction(raw)), part.A, rtol=1e-4)


def test_a_slow_mode_is_identified_as_one_of_the_memory_and_others_keep_their_place():
    rng = np.random.default_rng(0)
    u = rng.standard_normal((4000, 1))
    slow, fast = (np.asarray(lfilter([0, 1.0], [1, -pole], u[:, 0])) for pole in (0.9995, 0.8))
    start = find_start([Recording(u, (0.05 * slow + fast)[:, None])], (1,), 2, 100)
    assert start is not None
    poles = np.sort(np.abs(np.linalg.eigvals(start.parts[0].A)))
    np.testing.assert_allclose(poles, [0.8, 0.985], atol=0.02)


def test_components_without_modes_leave_the_offset_to_the_others():
    """All modes are fast: the slow component has spare states alone, and the fast one rests at the offset."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((2000, 1))
    y = 3 + np.asarray(lfilter([0, 1.0], [1, -0.5], u[:, 0]))[:, None]
    start = find_start([Recording(u, y)], (30, 1), 2, 100)
    assert start is not None
    assert sum(float((part.C @ part.rest)[0]) for part in start.parts) == pytest.approx(3, abs=0.05)
    assert not start.parts[0].C.any()


def made_of(poles, drift: float, rows: int = 1500, noise: float = 0.01) -> Recording:
    """A system with these poles and an integrator that adds up its output, with a drift."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((rows, 1))
    velocity = np.asarray(lfilter([0, 0.3], np.poly(poles), u[:, 0])) + drift
    position = np.concatenate([[0.5], 0.5 + np.cumsum(velocity)[:-1]])
    return Recording(u, (position + noise * rng.standard_normal(rows))[:, None])


def test_an_integrator_is_identified_with_its_drift_and_adds_up_another_state():
    data = made_of([0.8], 0.05)
    start = find_start([data], (1,), 2, 100, integrators=1)
    assert start is not None
    (part,) = start.parts
    np.testing.assert_array_equal(part.A[:, 0], [1, 0])
    assert part.A[1, 1] == pytest.approx(0.8, abs=0.02)
    assert abs(part.B[0, 0]) < 1e-9  # the input moves the velocity alone
    assert abs(part.C[0, 1]) < 0.05  # and the output is the position
    free = run(part.A, part.B, part.b, part.C, part.rest, data.inputs)
    shift = np.mean(data.outputs - free)  # where it began, q(x_0) has to learn
    np.testing.assert_allclose(free + shift, data.outputs, atol=0.06 * data.outputs.std())


@pytest.mark.parametrize("resolutions", [(1,), (3, 1), (1, 1)], ids=str)
def test_training_begins_at_a_linear_model_with_an_integrator(resolutions):
    own = made_of([0.8, 0.6], 0.02)
    data = [Sequence(own.inputs, own.outputs)]
    given = {"resolutions": resolutions, "latent_dim": 3, "emission": "linear", "precision": "float64", "inducing": 5}
    spec, scaling = make_spec(given | {"start": "linear", "integrators": 1}).complete(), Scaling.fit(data)
    with floating_point("float64"):
        _, fleet = make_plan(spec, data, scaling)
        ssm = jax.tree.map(lambda x: x[0], fleet)
        start = find_start(scaled(data), resolutions, 3, 100, integrators=1)
        assert start is not None
        for component, part in zip(ssm.components, start.parts, strict=True):
            dynamics = component.dynamics()
            np.testing.assert_allclose(dynamics.A + np.eye(3), part.A, atol=1e-6)
            np.testing.assert_allclose(dynamics.b, part.b, atol=1e-6)
            assert np.isfinite(np.asarray(dynamics.Q)).all()
    assert start.parts[0].A[0, 0] == 1
    assert resolutions != (3, 1) or np.linalg.norm(start.parts[1].A, 2) < 1


def test_an_input_that_moves_an_integrator_alone_does_so():
    """Two inputs, and hardly any of the second in the state that fades: no large weights stand for it."""
    part = LinearPart(np.array([[0.8]]), np.array([[1.0, 1e-6]]), np.zeros(1), np.ones((1, 1)), np.zeros(1), np.ones(1))
    found = add_integrators(part, np.array([[0.5, 0.5, 0.1]]), np.array([[2.0]]), 1, 1)
    np.testing.assert_allclose(found.B[0], [0.0, 1.0], atol=1e-5)
    np.testing.assert_allclose(found.A[0], [1.0, 0.2], atol=1e-5)
    inputs = np.random.default_rng(0).standard_normal((50, 2))
    there = run(
        np.diag([1.0, 0.8]), np.array([[0.5, 0.5], [1.0, 1e-6]]), np.array([0.1, 0]), np.array([[2.0, 1.0]]), np.zeros(2), inputs
    )  # fmt: skip
    here = run(found.A, found.B, found.b, found.C, found.rest, inputs)
    np.testing.assert_allclose(here, there, atol=1e-9)


def test_poles_too_close_to_refine_are_left_alone():
    u = np.repeat(np.random.default_rng(0).standard_normal((50, 1)), 20, axis=0)
    y = np.asarray(lfilter([0, 1.0], np.poly([0.995, 0.99, 0.98, 0.97, 0.95]), u[:, 0]))[:, None]
    data = [Recording(u, (y - y.mean()) / y.std())]
    assert SubspaceSearch(data, direct=False).fit(SubspaceSettings(8, 20, 8, True), whole([1000])) is None


def test_as_many_states_as_there_are_is_an_order_where_no_other_fits():
    found = identify([made_of([0.8], 0.0)], most=5, integrators=4)
    assert found is None or found.settings.order == 5


def test_a_pair_next_to_one_becomes_an_integrator_and_a_real_pole():
    poles = np.array([0.5, 0.99 + 0.02j, 0.99 - 0.02j])
    found = Modes(poles, np.array([[1.0, 1 + 2j, 1 - 2j]])).integrate(1)
    assert found is not None
    np.testing.assert_allclose(np.sort(np.real(found.poles)), [0.5, abs(poles[1]), 1.0])
    assert not np.imag(found.poles).any()
    assert Modes(np.array([1.0]), np.ones((1, 1))).integrate(1) is None


def test_poles_that_output_error_steps_refine_are_closer_to_the_truth():
    """Averaged Hankel matrices see a fast pole badly; the error of the free run does not."""
    rng = np.random.default_rng(3)
    u = rng.standard_normal((600, 1))
    y = np.asarray(lfilter([0, 1.0], np.poly([0.95, 0.7]), u[:, 0]))[:, None] + 0.5 * rng.standard_normal((600, 1))
    rows, data = whole([600]), [Recording(u, y)]
    plain = SubspaceSettings(2, 8, 8)
    search = SubspaceSearch(data, direct=False)
    models = [search.fit(settings, rows) for settings in (plain, replace(plain, refined=True))]
    apart = [np.abs(np.sort(np.abs(np.linalg.eigvals(m.A))) - [0.7, 0.95]).max() for m in models if m is not None]
    assert apart[1] < 0.3 * apart[0]
    assert apart[1] < 0.05


@pytest.mark.parametrize("outputs", [1, 2])
def test_short_runs_have_starts_of_their_own(outputs):
    """The regression over pieces is that of every piece by hand, and gaps leave their pieces out."""
    rng = np.random.default_rng(0)
    A, B, C = blocks(0.9, 0.7 + 0.3j), rng.standard_normal((3, 1)), rng.standard_normal((outputs, 3))
    u, states = rng.standard_normal((400, 1)), [np.zeros(3)]
    for row in u:
        kick = (
            3.0 * rng.standard_normal(3) if len(states) % 20 == 0 else 0.0
        )  # a run over all rows would lose the state
        states.append(A @ states[-1] + B @ row + kick)
    y = np.array(states[:-1]) @ C.T
    y[45, 0] = np.nan
    poles, vectors = np.linalg.eig(A)
    modes = Modes(poles, C @ vectors)
    short, long = (fit_inputs(modes, [Recording(u, y)], 10_000, False, reach) for reach in (20, 0))
    impulse = [[C @ np.linalg.matrix_power(A, k) @ B for k in range(10)]]
    for model, close in ((short, True), (long, False)):
        found = [[model.C @ np.linalg.matrix_power(model.A, k) @ model.B for k in range(10)]]
        assert np.allclose(found, impulse, atol=1e-8) == close
    assert short.noise[:, 0].max() < 1e-12 < long.noise[:, 0].min()
    assert fit_inputs(modes, [Recording(u[:15], y[:15])], 10_000, False, 20).A.shape == (3, 3)  # shorter than a piece


def test_a_filter_start_is_identified_over_short_runs_where_long_ones_lose_the_state(monkeypatch):
    seen = []
    monkeypatch.setattr("mrgpssm.training.fleet.find_start", lambda *given: seen.append(given[-1]))
    data = [recording(0)]
    given = {"resolutions": (1,), "emission": "linear", "inducing": 3, "start": "linear", "window": 8, "buffer": 2}
    for more in ({}, {"window_start": "filter"}, {"window_start": "filter", "cycles": 0}):
        with pytest.raises(DataError, match="No linear model"), floating_point("float32"):
            make_plan(make_spec(given | more).complete(), data, Scaling.fit(data))
    assert seen[::2] == [False, True, False]
    explains, loses = scaled([wiener_hammerstein(0, 1200)]), scaled([make("limit-cycle", 0, 1500)])
    whole = identify(explains)
    assert find_again(whole, explains) is whole
    whole = identify(loses)
    start = find_again(whole, loses)
    assert whole is not None
    assert start is not None
    assert (whole.reach, start.reach) == (0, 20)
    assert float(start.errors[0]) < 0.8 * float(whole.errors[0])
    assert start.model.largest_pole() > 0.985  # it goes on and on


def test_inputs_that_do_not_vary_leave_finite_numbers():
    part = place(blocks(0.9, 0.5), np.ones((2, 1)), np.ones((1, 2)), np.zeros((30, 1)), 100, 3)
    assert all(np.isfinite(values).all() for values in part)
    assert np.abs(part.B).max() < 1e4


def test_modes_go_to_the_component_whose_steps_fit_them():
    A = blocks(0.3, 0.999, 0.96 * np.exp(0.1j), 0.5)  # 1, 1000, 24 and 1.4 rows
    model = StateSpace.of(A, np.ones((5, 1)), np.ones((1, 5)), np.zeros((1, 1)), np.zeros(1))
    assert assign_modes(model, (30, 5, 1), 2) == [[1], [2, 3], [4, 0]]
    assert assign_modes(model, (1,), 5) == [[1, 2, 3, 4, 0]]
    assert assign_modes(model, (1,), 2) == [[1, 4]]  # a pair has no room beside the slow one
    adding = replace(model, A=blocks(1.0, 0.999, 0.9, 0.5, 0.3))
    assert assign_modes(adding, (30, 1), 2, 1) == [[0, 1], [2, 3]]
    assert assign_modes(adding, (1, 1), 2, 1) == [[0, 1], [2]]  # the second one keeps room, too


def test_an_order_is_not_chosen_for_what_noise_alone_explains():
    rng = np.random.default_rng(1)
    u = rng.standard_normal((3000, 1))
    y = np.asarray(lfilter([0, 1.0], np.poly([0.9, 0.7]), u[:, 0]))[:, None] + 0.1 * rng.standard_normal((3000, 1))
    found = identify([Recording(u, y)])
    assert found is not None
    assert found.settings.order == 2
    np.testing.assert_allclose(found.errors, 0.1, rtol=0.1)
    np.testing.assert_allclose(np.sort(np.abs(np.linalg.eigvals(found.model.A))), [0.7, 0.9], atol=0.03)


@pytest.mark.parametrize("resolutions", [(1,), (4, 1)], ids=str)
def test_training_begins_at_the_linear_model(resolutions):
    """The mean of the first model, with all v at zero, is the free run of the linear model at each component's steps."""
    data = [wiener_hammerstein(seed, 1200) for seed in (0, 1)]
    given = {"resolutions": resolutions, "latent_dim": 6, "emission": "linear", "precision": "float64", "inducing": 5}
    spec = make_spec(given | {"start": "linear", "memory": 300}).complete()
    scaling = Scaling.fit(data)
    with floating_point("float64"):
        _, fleet = make_plan(spec, data, scaling)
        ssm = jax.tree.map(lambda x: x[0], fleet)
        inputs = scaling.inputs(data[0].inputs)
        start = find_start(scaled(data), resolutions, 6, 300)
        assert start is not None
        np.testing.assert_allclose(np.sqrt(ssm.observation_variance()), start.errors, rtol=1e-5)
        for component, part, R in zip(ssm.components, start.parts, resolutions, strict=True):
            dynamics, some = component.dynamics(), inputs[::R]
            assert float(spectral_norm(dynamics)) < 1 - 1 / 300
            x, ours = component.initial.mean, []
            for u in jnp.asarray(some):
                ours.append(component.emission(x))
                x, _ = dynamics.transition(x, dynamics.forcing(u), jnp.asarray(1.0), dynamics.gp.mean)
            theirs = run(part.A, part.B, part.b, part.C, part.rest, some)
            np.testing.assert_allclose(np.array(ours), theirs, atol=1e-6)


def test_every_fold_starts_from_what_it_trains_on():
    """Poison in the recording that a fold leaves out changes nothing in its start, and something in the others'."""
    data = [wiener_hammerstein(seed, 400) for seed in range(3)]
    bad = [*data[:2], Sequence(-5 * data[2].inputs, np.cumsum(data[2].outputs, axis=0), name="bad")]
    spec = make_spec({"resolutions": (1,), "latent_dim": 2, "emission": "linear", "inducing": 3, "folds": 3,
                      "start": "linear"}).complete()  # fmt: skip
    with floating_point("float32"):
        clean, dirty = (make_plan(spec, some, Scaling.fit(some))[1] for some in (data, bad))
    changed = [
        any(not np.array_equal(a[member], b[member]) for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True))
        for member in range(4)
    ]  # fmt: skip
    assert changed == [True, True, True, False]


def test_every_output_starts_from_its_own_model_and_one_without_stays_at_the_preset(monkeypatch):
    """Also where all members are of one group, as in a sweep."""
    data = [wiener_hammerstein(seed, 400) for seed in range(2)]
    both = [Sequence(s.inputs, np.column_stack([s.outputs, s.inputs[::-1]]), name=s.name) for s in data]
    given = {"resolutions": (1,), "latent_dim": 2, "emission": "linear", "inducing": 3, "start": "linear"}
    spec, scaling = make_spec(given).complete(), Scaling.fit(both)
    members = [Member(0, 0, n, (n,), np.ones(2, bool), 0) for n in range(2)]
    one, other = find_starts(spec.structure, both, [scaling], members)
    assert one is not None
    assert other is not None
    assert not np.allclose(one.parts[0].C, other.parts[0].C)
    monkeypatch.setattr("mrgpssm.training.fleet.find_starts", lambda *given: [one, None])
    with floating_point("float32"):
        _, ssm = make_fleet(spec, both, [scaling], members)
        emissions = np.asarray(getattr(ssm.components[0].emission, "C"))  # noqa: B009
    np.testing.assert_allclose(emissions[0], one.parts[0].C, rtol=1e-5)
    np.testing.assert_array_equal(emissions[1], [[1, 0]])


def test_the_gaussian_process_learns_what_the_linear_model_leaves():
    data, test = [wiener_hammerstein(seed, 1500) for seed in (0, 1)], wiener_hammerstein(9, 1000)
    found = identify(scaled(data))
    assert found is not None
    linear = found.model.run(scaled([*data, test])[2].inputs, Recording(np.empty((0, 1)), np.empty((0, 1))))
    sd = Scaling.fit(data).output_sd
    left = np.sqrt(np.mean((linear * sd + Scaling.fit(data).output_mean - test.outputs)[100:] ** 2))
    model = MRGPSSM(
        resolutions=(1,),
        latent_dim=6,
        inducing=20,
        emission="linear",
        training=Training(start="linear", learning_rate=0.02, samples=4, windows=8, window=40, cycles=2, steps=200),
        bands=Bands(calibrate=False),
    ).fit(data, progress=False)
    error = np.sqrt(np.mean((model.simulate(test, samples=10).mean - test.outputs)[100:] ** 2))
    assert error < 0.5 * left
    assert 0 < model.radius_.max() < np.inf


def test_training_that_harms_leaves_the_linear_model():
    """Steps so large that they ruin any model: the start is the first of all cycles, and the best of them is kept."""
    data, fresh = wiener_hammerstein(0, 1200), wiener_hammerstein(1, 1200)
    given = {"start": "linear", "cycles": 2, "steps": 5, "learning_rate": 3.0, "samples": 4, "windows": 4, "window": 20}
    errors = {}
    for stopping in (False, True):
        training = Training(early_stopping=stopping, **given)
        bands = Bands(folds=2 if stopping else 0, calibrate=False)
        model = MRGPSSM((1,), 6, 10, emission="linear", training=training, bands=bands).fit(data, progress=False)
        errors[stopping] = model.score(fresh, samples=20, warmup_rows=50)["nrmse"].item()
    best = identify(scaled([data]))
    assert best is not None
    assert errors[True] < 1.2 * float(best.errors[0]) + 0.05
    assert errors[False] > 2 * errors[True]


def test_what_cannot_start_linear_is_one_sentence(monkeypatch):
    training = Training(start="linear", samples=2, windows=2, window=8, buffer=2, cycles=1, steps=1)
    with pytest.raises(ConfigError, match="needs emission='linear'; got 'identity'"):
        MRGPSSM((1,), training=training).fit(recording(0), progress=False)
    monkeypatch.setattr("mrgpssm.training.linear.start.identify", lambda *given, **more: None)
    with pytest.raises(DataError, match="No linear model could be identified"):
        MRGPSSM((1,), latent_dim=1, inducing=3, emission="linear", training=training).fit(recording(0), progress=False)
