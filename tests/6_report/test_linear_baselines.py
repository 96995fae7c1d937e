"""ARX, subspace and output-error models against systems that are known, and on a public set."""

from typing import Any

import numpy as np
import pytest
from places import DATA
from scipy.optimize import approx_fprime
from scipy.signal import lfilter

from mrgpssm import FitError, Sequence
from mrgpssm.baselines import ARX, OutputError, Subspace
from mrgpssm.baselines.arx import ARXSettings, fit_equation, lift
from mrgpssm.baselines.base import AbstractBaseline, Recording
from mrgpssm.data.ranges import whole
from mrgpssm.training.linear.free_error import Stretch, _Problem, minimise
from mrgpssm.training.linear.statespace import LARGEST_POLE, StateSpace, reflect

pytestmark = pytest.mark.once
TANKS = DATA / "nonlinear" / "cascaded_tanks.csv"
NEW = {
    "subspace": lambda: Subspace(orders=(1, 2, 3), horizons=(6,), strides=(1,)),
    "oe": lambda: OutputError(orders=(1, 2, 3), horizons=(6,), strides=(1,)),
}


def response(numerator: list[float], denominator: list[float], signal: np.ndarray) -> np.ndarray:
    return np.asarray(lfilter(numerator, denominator, signal, axis=0))


def linear_system(seed: int, noise: float, rows: int = 600) -> Sequence:
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((rows, 1)).cumsum(0) * 0.1 + rng.standard_normal((rows, 1))
    clean = 3 + response([0.0, 0.5, 0.2], [1, -1.5, 0.7], u)
    return Sequence(u, clean + noise * rng.standard_normal(u.shape))


def test_arx_recovers_a_linear_system():
    train, test = [linear_system(k, 0.0) for k in range(3)], linear_system(9, 0.0)
    model = ARX(orders=(1, 2), ridges=(1e-12,)).fit(train, progress=False)
    equation = model.models_[0]
    assert equation.settings.order == 2
    np.testing.assert_allclose(equation.a, [1.5, -0.7], atol=1e-4)
    scale = model.scaling_.output_sd[0] / model.scaling_.input_sd[0]
    np.testing.assert_allclose(equation.b[:3] * scale, [0.0, 0.5, 0.2], atol=1e-3)
    np.testing.assert_allclose(equation.b[3:] * scale, 0.0, atol=1e-3)
    run = model.simulate(test.inputs[50:], warmup=(test.inputs[:50], test.outputs[:50]))
    np.testing.assert_allclose(run.mean, test.outputs[50:], atol=1e-2)


def test_refining_removes_the_bias_that_output_noise_gives_least_squares():
    train = [linear_system(k, 0.6) for k in range(3)]
    options = {"orders": (2,), "ridges": (1e-9,)}
    plain = ARX(refinements=(0,), **options).fit(train, progress=False)
    both = ARX(refinements=(0, 6), **options).fit(train, progress=False)
    assert both.models_[0].settings.refinements == 6
    errors = [np.abs(m.models_[0].a - [1.5, -0.7]).max() for m in (plain, both)]
    assert errors[1] < 0.05
    clean = linear_system(9, 0.0)
    assert both.score(clean)["rmse"].item() < plain.score(clean)["rmse"].item()


def test_an_unstable_equation_is_never_chosen():
    """A growing exponential is fitted best by an unstable pole."""
    rng = np.random.default_rng(4)
    u = rng.standard_normal((120, 1))
    y = response([1.0], [1, -1.05], u)
    model = ARX(orders=(1, 2)).fit(Sequence(u, y), progress=False)
    assert model.models_[0].largest_pole() < 1
    assert np.isfinite(model.simulate(rng.standard_normal((5000, 1))).mean).all()


def test_honest_variance_of_arx():
    train, test = [linear_system(k, 0.5) for k in range(4)], [linear_system(k, 0.5) for k in (8, 9)]
    scores = ARX(orders=(0, 2)).fit(train, progress=False).score(test)
    assert 0.85 < scores["coverage_90"].item() < 0.95
    assert scores["rmse"].item() == pytest.approx(0.5, rel=0.1)


def test_a_refined_equation_never_runs_worse_than_the_plain_one():
    """Refinement need not converge: on the modulus of an oscillation it makes the free run worse, and is not kept."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((400, 1))
    y = np.abs(response([0.0, 1.0], [1, -1.8, 0.9], u[:, 0]))
    spans = tuple((lag, lag) for lag in range(7))
    lifted, errors = lift([Recording(u, y[:, None])], spans), []
    for rounds in (0, 6):
        equation = fit_equation(lifted, whole([400]), ARXSettings(6, spans, 1e-3, rounds), {})
        assert equation is not None
        errors.append(np.mean((equation.run_forced(lifted[0].inputs[6:], y[:6]) - y[6:]) ** 2))
    assert errors[1] <= errors[0]


# State-space models


def three_states() -> StateSpace:
    """Two inputs, two outputs, a pair of poles and a real one."""
    A = np.array([[0.8, 0.3, 0.0], [-0.3, 0.8, 0.1], [0.0, 0.0, 0.95]])
    B = np.array([[1.0, 0.0], [0.2, -0.5], [0.0, 0.3]])
    C = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -1.0]])
    return StateSpace.of(A, B, C, np.array([[0.0, 0.3], [0.0, 0.0]]), np.array([2.0, -1.0]))


def made_by(system: StateSpace, seed: int, rows: int = 500, noise: float = 0.0, spread: float = 0.0) -> Sequence:
    """A recording of the system that starts at rest, or in a state of its own."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((rows, system.B.shape[1]))
    y = system.outputs(u, system.states(u, system.rest(u[0]) + spread * rng.standard_normal(len(system.A))))
    return Sequence(u, y + noise * rng.standard_normal(y.shape))


def markov(model: StateSpace, rows: int = 40) -> np.ndarray:
    """Impulse responses D, C B, C A B, ... of the inputs, by matrix powers."""
    found, power = [model.D], np.eye(len(model.A))
    for _ in range(rows - 1):
        found.append(model.C @ power @ model.B)
        power = power @ model.A
    return np.array(found)


def learned(model: AbstractBaseline) -> np.ndarray:
    """Impulse responses of a fitted baseline in the data's units."""
    rows = [markov(m)[:, [o if len(m.C) > 1 else 0]] for o, m in enumerate(model.models_)]  # pyright: ignore
    scale = model.scaling_.output_sd[:, None] / model.scaling_.input_sd
    return np.concatenate(rows, axis=1) * scale


def test_a_run_is_what_a_loop_says():
    system, rng = three_states(), np.random.default_rng(1)
    u, x = rng.standard_normal((30, 2)), rng.standard_normal(3)
    expected, first = np.empty((30, 2)), x
    for t in range(30):
        expected[t] = system.C @ x + system.D @ u[t] + system.c
        x = system.A @ x + system.B @ u[t]
    states = system.states(u, first)
    np.testing.assert_allclose(system.outputs(u, states), expected, atol=1e-12)
    np.testing.assert_allclose(states[-1], x, atol=1e-12)
    held = np.repeat(u[:1], 20, axis=0)
    np.testing.assert_allclose(system.states(held, system.rest(u[0])), np.tile(system.rest(u[0]), (21, 1)), atol=1e-12)
    repeated = StateSpace.of(
        np.array([[0.5, 1.0], [0.0, 0.5]]), np.ones((2, 1)), np.eye(1, 2), np.zeros((1, 1)), np.zeros(1)
    )
    np.testing.assert_allclose(repeated.states(np.zeros((3, 1)), np.array([0.0, 1.0]))[3], [0.75, 0.125], atol=1e-12)


def test_the_state_is_found_from_a_warmup_with_missing_outputs():
    system, whole_run = three_states(), made_by(three_states(), 3, 80, spread=1.0)
    outputs = whole_run.outputs.copy()
    outputs[5:20, 0] = np.nan
    outputs[20:25] = np.nan
    known = system.settle([Recording(s.inputs, s.outputs) for s in (made_by(system, k) for k in range(2))])
    run = known.run(whole_run.inputs[40:], Recording(whole_run.inputs[:40], outputs[:40]))
    np.testing.assert_allclose(run, whole_run.outputs[40:], atol=1e-6)
    blind = known.run(whole_run.inputs[40:], Recording(whole_run.inputs[:40], np.full((40, 2), np.nan)))
    np.testing.assert_allclose(blind[30:], whole_run.outputs[70:], atol=1.0)


def test_long_errors_do_not_move_the_state():
    """A constant error in the warm-up: taken for white it would be put into the slow state, known to last it is not."""
    slow = StateSpace.of(np.array([[0.9]]), np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1)), np.zeros(1))
    rng = np.random.default_rng(2)
    records = []
    for _ in range(20):
        u = rng.standard_normal((60, 1))
        states = slow.states(u, 2 * rng.standard_normal(1))
        records.append(Recording(u, slow.outputs(u, states) + 2 * rng.standard_normal()))
    known = slow.settle(records)
    white = slow.settle(records)
    white.noise[:, 1:] = 0.0
    u = np.zeros((20, 1))
    shifted = Recording(u, np.full((20, 1), 2.0))
    assert abs(known.run(u, shifted)[0, 0]) < abs(white.run(u, shifted)[0, 0])


def test_unstable_poles_are_reflected():
    poles = reflect(np.array([0.5, -2.0, 1.25j, 1.0]))
    np.testing.assert_allclose(poles, [0.5, -0.5, 0.8j, LARGEST_POLE])


def test_subspace_recovers_several_inputs_and_outputs_exactly():
    system = three_states()
    model = Subspace(horizons=(6,), strides=(1,)).fit(
        [made_by(system, k, spread=1.0) for k in range(3)], progress=False
    )
    assert [chosen["order"] for chosen in model.chosen_] == [3, 3]
    for found in model.models_:
        np.testing.assert_allclose(_sorted(found.A), _sorted(system.A), atol=1e-6)
    np.testing.assert_allclose(learned(model), markov(system), atol=1e-6)
    test = made_by(system, 9, spread=1.0)
    run = model.simulate(test.inputs[50:], warmup=(test.inputs[:50], test.outputs[:50]))
    np.testing.assert_allclose(run.mean, test.outputs[50:], atol=1e-5)


@pytest.mark.parametrize("name", list(NEW))
def test_one_output_is_recovered_exactly_from_recordings_that_start_anywhere(name):
    A, B = np.array([[1.5, 1.0], [-0.7, 0.0]]), np.array([[0.5], [0.2]])
    system = StateSpace.of(A, B, np.eye(1, 2), np.zeros((1, 1)), np.array([3.0]))
    model = NEW[name]().fit([made_by(system, k, rows=150 + 30 * k, spread=2.0) for k in range(4)], progress=False)
    assert model.chosen_[0]["order"] == 2
    np.testing.assert_allclose(_sorted(model.models_[0].A), _sorted(A), atol=1e-6)
    expected = response([0.0, 0.5, 0.2], [1, -1.5, 0.7], np.eye(40, 1)[:, 0])
    np.testing.assert_allclose(learned(model)[:, 0, 0], expected, atol=1e-6)


@pytest.mark.parametrize(("name", "most"), [("subspace", 10), ("oe", 4)])
def test_noise_is_averaged_out(name, most):
    """With N rows, impulse responses are right within a few noise / sqrt(N): few where the free run's error is least."""
    system = three_states()
    one = StateSpace.of(system.A, system.B, system.C[:1], system.D[:1], system.c[:1])
    model = NEW[name]().fit([made_by(one, k, noise=0.5) for k in range(4)], progress=False)
    assert np.max(np.abs(learned(model) - markov(one))) < most * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize("name", list(NEW))
def test_missing_outputs_are_left_out(name):
    system = three_states()
    one = StateSpace.of(system.A, system.B, system.C[:1], system.D[:1], system.c[:1])
    records, rng = [], np.random.default_rng(5)
    for k in range(3):
        s = made_by(one, k)
        outputs = s.outputs.copy()
        outputs[100:180] = np.nan
        if name == "oe":  # no window is whole, so that its starts are rough
            outputs[rng.random(len(outputs)) < 0.3] = np.nan
        records.append(Sequence(s.inputs, outputs))
    model = NEW[name]().fit(records, progress=False)
    np.testing.assert_allclose(learned(model), markov(one), atol=1e-5)


@pytest.mark.parametrize("name", list(NEW))
def test_a_growing_recording_gives_a_stable_model(name):
    rng = np.random.default_rng(4)
    u = rng.standard_normal((120, 1))
    model = NEW[name]().fit(Sequence(u, response([1.0], [1, -1.05], u)), progress=False)
    assert model.models_[0].largest_pole() < 1
    assert np.isfinite(model.simulate(rng.standard_normal((5000, 1))).mean).all()


@pytest.mark.parametrize("name", list(NEW))
def test_bands_hold_their_share(name):
    system = three_states()
    one = StateSpace.of(system.A, system.B, system.C[:1], system.D[:1], system.c[:1])
    train = [made_by(one, k, noise=1.0, rows=400) for k in range(4)]
    test = made_by(one, 9, noise=1.0, rows=1050)
    rest = Sequence(test.inputs[50:], test.outputs[50:])
    scores = NEW[name]().fit(train, progress=False).score(rest, (test.inputs[:50], test.outputs[:50]))
    assert abs(scores["coverage_90"].item() - 0.9) < 4 * np.sqrt(0.09 / 1000)
    assert scores["rmse"].item() < 1.15  # the noise alone has 1.04 on these rows


def test_too_little_to_see_is_said_in_one_sentence():
    rng = np.random.default_rng(7)
    short = Sequence(rng.standard_normal((8, 1)), rng.standard_normal((8, 1)))
    with pytest.raises(FitError, match="too short or too constant"):
        Subspace().fit(short, progress=False)


# The error of the free run


def test_the_error_s_gradient_is_that_of_differences():
    """Eliminated parameters leave an exact gradient; several stretches, missing rows, thinned rows."""
    rng = np.random.default_rng(6)
    stretches = []
    for rows, step in ((80, 1), (120, 3)):
        u = rng.standard_normal((rows, 2))
        y = response([0.3], [1, -0.8], u[:, 0] - u[:, 1]) + 0.3 * rng.standard_normal(rows)
        y[10:15] = np.nan
        stretches.append(Stretch(u, y, step))
    problem, f = _Problem(stretches, 2), np.array([-1.1, 0.3])
    expected: Any = approx_fprime(f, lambda g: problem.solve(np.asarray(g)).error / 2, 1e-7)
    np.testing.assert_allclose(problem.solve(f).jacobian.T @ problem.residual(f), expected, rtol=1e-4)
    solution = minimise(stretches, f, 40)
    assert solution is not None
    assert solution.error < problem.solve(f).error
    runs = [_best_run(solution.model(), s) for s in stretches]
    rows = [s.rows for s in stretches]
    errors = np.concatenate([(run - s.target)[r] for run, s, r in zip(runs, stretches, rows, strict=True)])
    assert np.mean(errors**2) == pytest.approx(solution.error, rel=1e-6)


def _best_run(model: StateSpace, stretch: Stretch) -> np.ndarray:
    """The model's run from the initial state that fits the rows best, found by brute force."""
    n, rows = len(model.A), stretch.rows
    zero = model.outputs(stretch.inputs, model.states(stretch.inputs, np.zeros(n)))[:, 0]
    still = np.zeros_like(stretch.inputs)
    decays = np.column_stack([model.states(still, e)[:-1] @ model.C[0] for e in np.eye(n)])
    start = np.linalg.lstsq(decays[rows], (stretch.target - zero)[rows], rcond=None)[0]
    return zero + decays @ start


def _sorted(A: np.ndarray) -> np.ndarray:
    return np.sort_complex(np.linalg.eigvals(A))


# Cascaded tanks: of the test recording the inputs and the first 50 outputs are used, the error counts the other rows


@pytest.mark.skipif(not TANKS.exists(), reason=f"{TANKS.name} is not under {DATA}")
@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: ARX(), 0.65),
        (lambda: Subspace(strides=(1,)), 0.60),
        (lambda: OutputError(orders=(1, 2, 3), strides=(1,)), 0.605),
    ],
    ids=["arx", "subspace", "oe"],
)
def test_linear_models_of_the_cascaded_tanks_choose_their_order_well(make, most):
    u, u_test, y, y_test = (column[:, None] for column in np.genfromtxt(TANKS, delimiter=",", skip_header=1)[:, :4].T)
    model = make().fit(Sequence(u, y, 4.0), progress=False)
    (chosen,) = model.describe_choice().values()
    assert chosen["order"] >= 2
    score = model.score(Sequence(u_test[50:], y_test[50:], 4.0), (u_test[:50], y_test[:50]))
    assert score["rmse"].item() <= most
