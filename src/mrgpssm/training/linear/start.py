"""Where training starts from a linear model: its modes, shared out to the components, in coordinates that are bounded.

A mode with time constant τ, in rows, goes to the slowest component that takes at least `_STEPS` steps in τ, or to the
fastest. A component's step is R rows, over which the input is held:

    x_{t+R} = A^R x_t + (I + A + ... + A^{R-1}) B u_t.

Its norm must be below ρ = 1 - 1 / memory. With γ between the largest modulus of a pole and ρ, and

    P = Σ_k (A^R / γ)^kᵀ Q (A^R / γ)^k,    Q > 0,

a discrete Lyapunov equation, the norm of P^{1/2} A^R P^{-1/2} is below γ. Q weighs a state by what it adds to the
output, so that no direction of the new state is invisible and none is out of proportion. A rotation to the principal
axes of the states over the training data changes no norm.

An integrator x' = x + B_i u + b_i of the slowest component may add up other states instead of inputs: for the other
states s of that component and any T, the sum x + T s has

    (x + T s)' = (x + T s) + T (A_s - I) s + (B_i + T B_s) u + b_i,

and T leaves the least of B_i, as far as inputs move the other states. A position then adds up velocities, and what is
learned of these moves the position.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from mrgpssm.data.ranges import Recording
from mrgpssm.training.linear.statespace import INTEGRATES, LARGEST_POLE, StateSpace
from mrgpssm.training.linear.subspace import ORDERS, Identified, identify

_REACH, _LOST = 20, 0.5  # rows of short runs; the error, in deviations, above which long runs have lost the state
_STEPS = 4  # steps of a component in the shortest time constant that is its own
_VISIBLE = 1e-4  # share of Q that every state has
_INSIDE = 1.5  # poles are at most 1 - 1.5 / memory, so that there is room below the bound for a norm
_LEAST_ROWS = 20  # of a component, to see how far its states go
_STILL = 1e-3  # the least deviation that states are scaled by
_WEAK = 0.1  # inputs whose share in the other states is smaller move an integrator themselves
_SPARE_POLE, _SPARE_SEED = 0.9, 0  # states that no mode has taken: random inputs, not yet seen in the output


class LinearPart(NamedTuple):
    """One component: x' = A x + B u + b and the output C x, integrators first.

    Its states are around `rest` with deviations `spreads` (d,), the largest of which is 1.
    """

    A: np.ndarray
    B: np.ndarray
    b: np.ndarray
    C: np.ndarray
    rest: np.ndarray
    spreads: np.ndarray


class LinearStart(NamedTuple):
    """All components, and the error (D_y,) of the linear model on rows left out."""

    parts: tuple[LinearPart, ...]
    errors: np.ndarray


def find_start(
    recordings: list[Recording],
    resolutions: tuple[int, ...],
    latent_dim: int,
    memory: int,
    integrators: int = 0,
    filtered: bool = False,
) -> LinearStart | None:
    """The linear model of some recordings as components of `latent_dim` states; None if none could be identified.

    A mode that is slower than the memory of the slowest component is identified as one of that memory. That component
    has so many integrators. Where windows are started by a filter, it is the model of `find_again`.
    """
    largest = 1 - _INSIDE / memory
    most, bound = latent_dim * len(resolutions), largest ** (1 / max(resolutions))
    found = identify(recordings, most, largest=bound, integrators=integrators)
    if filtered:
        found = find_again(found, recordings, most, bound, integrators)
    if found is None:
        return None
    model, inputs = found.model, np.concatenate([r.inputs for r in recordings])
    parts = []
    for R, rows in zip(resolutions, assign_modes(model, resolutions, latent_dim, integrators), strict=True):
        driven = np.column_stack([model.B[rows], model.b[rows]])
        A, B = hold(model.A[np.ix_(rows, rows)], driven, R)
        seen = inputs[::R] if len(inputs) > _LEAST_ROWS * R else inputs
        adding = np.flatnonzero(np.diag(A) >= INTEGRATES)
        fading, count = np.setdiff1d(np.arange(len(A)), adding), integrators if max(resolutions) == R else 0
        C = model.C[:, rows]
        part = place(A[np.ix_(fading, fading)], B[fading, :-1], C[:, fading], seen, memory, latent_dim - count)
        parts.append(add_integrators(part, B[adding], C[:, adding], count, len(fading)))
    return LinearStart(tuple(shift(parts, model.c)), found.errors)


def find_again(
    found: Identified | None,
    recordings: list[Recording],
    most: int = ORDERS[-1],
    largest: float = LARGEST_POLE,
    integrators: int = 0,
) -> Identified | None:
    """The model that was identified; where its free runs lose the state, that of short runs.

    Windows that a filter starts are short, and need a model that is right over a few rows.
    """
    if found is not None and float(np.max(found.errors)) < _LOST:
        return found
    return identify(recordings, most, largest=largest, integrators=integrators, reach=_REACH) or found


def shift(parts: list[LinearPart], offset: np.ndarray) -> list[LinearPart]:
    """The same components, whose states rest where the outputs have this offset, as far as their states can show it."""
    rest = np.linalg.pinv(np.hstack([part.C for part in parts])) @ offset
    each = np.split(rest, np.cumsum([len(part.A) for part in parts])[:-1])
    return [p._replace(rest=own, b=p.b + own - p.A @ own) for p, own in zip(parts, each, strict=True)]


def assign_modes(
    model: StateSpace, resolutions: tuple[int, ...], latent_dim: int, integrators: int = 0
) -> list[list[int]]:
    """The states of every component; those of a pair of poles stay together. Fast modes may find no room.

    A is block-diagonal, with one row for a real pole and two for a pair. Every slowest component keeps room for so many
    integrators; all that were identified go to the first of them.
    """
    found: list[list[int]] = [[] for _ in resolutions]
    slow_first = sorted(range(len(resolutions)), key=lambda part: -resolutions[part])
    room = [latent_dim - (integrators if R == max(resolutions) else 0) for R in resolutions]
    room[slow_first[0]] += integrators
    for rows in sorted(_blocks(model.A), key=lambda rows: -_time_constant(model.A, rows)):
        own = [p for p in slow_first if resolutions[p] * _STEPS <= _time_constant(model.A, rows)] or slow_first[-1:]
        others = [p for p in slow_first[::-1] if p not in own]
        home = next((p for p in [*own, *others] if len(found[p]) + len(rows) <= room[p]), None)
        if home is not None:
            found[home] += rows
    return found


def _blocks(A: np.ndarray) -> list[list[int]]:
    """The rows of every diagonal block."""
    edges = [i for i in range(len(A) + 1) if i in (0, len(A)) or not (A[:i, i:].any() or A[i:, :i].any())]
    return [list(range(a, b)) for a, b in itertools.pairwise(edges)]


def _time_constant(A: np.ndarray, rows: list[int]) -> float:
    """In rows of the data; that of an integrator is infinite."""
    if len(rows) == 1 and A[rows[0], rows[0]] >= INTEGRATES:
        return np.inf
    own, none = A[np.ix_(rows, rows)], np.zeros((1, len(rows)))
    return StateSpace.of(own, none.T, none, none[:, :1], none[0, :1]).memory()


def hold(A: np.ndarray, B: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A and B of a step over so many rows, with the input held."""
    gain, power = np.zeros_like(A), np.eye(len(A))
    for _ in range(rows):
        gain, power = gain + power, A @ power
    return power, gain @ B


def place(A: np.ndarray, B: np.ndarray, C: np.ndarray, inputs: np.ndarray, memory: int, latent_dim: int) -> LinearPart:
    """A component of `latent_dim` states whose norm is below 1 - 1 / memory, in the principal axes of its states."""
    n, spare, bound = len(A), latent_dim - len(A), 1 - 1 / memory
    size = float(np.max(np.abs(np.linalg.eigvals(A)), initial=0.0))
    if size > 1 - _INSIDE / memory:  # a mode that has found no room in a slower component
        A, size = A * ((1 - _INSIDE / memory) / size), 1 - _INSIDE / memory
    if n:
        A, B, C = _balance(A, B, C, inputs, 0.5 * (size + bound))
    more = np.random.default_rng(_SPARE_SEED).standard_normal((spare, B.shape[1]))
    idle = min(_SPARE_POLE, 0.95 * bound) * np.eye(spare)
    more = more / np.maximum(_list_states(idle, more, inputs).std(axis=0), _STILL)[:, None]
    whole = np.zeros((latent_dim, latent_dim))
    whole[:n, :n], whole[n:, n:] = A, idle
    B, C, zero = np.concatenate([B, more]), np.hstack([C, np.zeros((len(C), spare))]), np.zeros(latent_dim)
    return LinearPart(whole, B, zero, C, zero, _list_states(whole, B, inputs).std(axis=0))


def add_integrators(part: LinearPart, driven: np.ndarray, C: np.ndarray, count: int, own: int) -> LinearPart:
    """The component with `count` integrators before its states, of which the first `own` are modes.

    `driven` is [B_i, b_i] and C their outputs. Fewer than `count` of them leave integrators that stand still. An
    integrator's unit is that of the outputs.
    """
    if not count:
        return part
    driven, C = (np.pad(driven, ((0, count - len(driven)), (0, 0))), np.pad(C, ((0, 0), (0, count - C.shape[1]))))
    sizes = np.linalg.norm(C, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    driven, C, B = driven * sizes[:, None], C / sizes, part.B[:own]
    T = np.zeros((count, len(part.A)))
    T[:, :own] = -driven[:, :-1] @ np.linalg.pinv(B, rcond=_WEAK)
    A = np.eye(count + len(part.A))
    A[count:, count:], A[:count, count:] = part.A, T @ (part.A - np.eye(len(part.A)))
    B = np.concatenate([driven[:, :-1] + T @ part.B, part.B])
    b, zero = np.concatenate([driven[:, -1], part.b]), np.zeros(count)
    rest, spreads = np.concatenate([zero, part.rest]), np.concatenate([zero + 1, part.spreads])
    return LinearPart(A, B, b, np.hstack([C, part.C - C @ T]), rest, spreads)


def _balance(
    A: np.ndarray, B: np.ndarray, C: np.ndarray, inputs: np.ndarray, norm: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same system with |A|₂ <= `norm`, in the principal axes of its states; the largest deviation is 1."""
    states = _list_states(A, B, inputs)
    scatter = np.atleast_2d(np.cov(states.T)) + _STILL**2 * np.eye(len(A))
    shown = np.trace(C @ scatter @ C.T)
    weights = C.T @ C / max(shown, 1e-12) + _VISIBLE / len(A) * np.diag(1 / np.diag(scatter))
    P = solve_discrete_lyapunov((A / norm).T, weights)
    values, vectors = np.linalg.eigh((P + P.T) / 2)
    values = np.maximum(values, 1e-12 * values[-1])
    root, inverse = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    sizes, axes = np.linalg.eigh(root @ scatter @ root.T)
    axes, scale = axes[:, ::-1], 1 / max(np.sqrt(sizes[-1]), _STILL)
    T, back = scale * axes.T @ root, inverse @ axes / scale
    return T @ A @ back, T @ B, C @ back


def _list_states(A: np.ndarray, B: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """(T, n) states over the inputs, from zero."""
    zero = np.zeros((1, len(A)))
    return StateSpace.of(A, B, zero, np.zeros((1, B.shape[1])), np.zeros(1)).states(inputs, zero[0])[:-1]
