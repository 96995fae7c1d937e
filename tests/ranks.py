"""Simulation-based calibration (Talts et al., 2018): the rank of a truth among draws of its posterior is uniform.

Truths come from the NumPy oracle, draws from the package. Where both are right, ranks among 99 draws fill 20 bins evenly;
with n simulations Σ (count - n / 20)² / (n / 20) is a chi-square of 19 degrees of freedom, above 55.9 once in 60,000.
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
from configurations import Family, as_oracle, random_component

from mrgpssm.arrays.params import positive_inverse
from mrgpssm.gp import RBF
from mrgpssm.model import SSM, Component
from mrgpssm.prediction.run import assimilate
from mrgpssm.rollout import AbstractScheme, Noise, Particles, inducing_given_path, prior_dynamics

FAMILY = Family(RBF, d=2, u=1, y=1, m=5, units=(2.0,))
DRAWS, BINS, LIMIT, MODELS, STEPS = 99, 20, 55.9, 8, 5


def chi_square(truths: np.ndarray, draws: np.ndarray | jax.Array) -> float:
    """How unevenly the ranks of n truths among their (n, 99) draws fill the bins."""
    ranks = np.sum(np.asarray(draws) < np.asarray(truths)[:, None], axis=1)
    counts = np.bincount(ranks * BINS // (DRAWS + 1), minlength=BINS)
    expected = len(truths) / BINS
    return float(np.sum((counts - expected) ** 2) / expected)


@dataclass(frozen=True)
class Worlds:
    """n simulated truths: which model, from where, driven by what, and where they went; q(v) is the prior."""

    components: list[Component]
    which: np.ndarray
    starts: np.ndarray
    inputs: np.ndarray
    steps: np.ndarray
    inducing: np.ndarray
    states: np.ndarray

    def stacked(self) -> Component:
        """The model of every simulation, along a leading axis."""
        fleet = jax.tree.map(lambda *leaves: jnp.stack(leaves), *self.components)
        return jax.tree.map(lambda x: x[self.which], fleet)

    def arrays(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Starts, inputs and steps."""
        return jnp.asarray(self.starts), jnp.asarray(self.inputs), jnp.asarray(self.steps)


def silence(component: Component) -> Component:
    """The same with a GP of deviation 1e-6: a linear system."""
    amplitude = lambda c: c.transition.gp.kernel.raw_amplitude  # noqa: E731
    return eqx.tree_at(amplitude, component, positive_inverse(jnp.full_like(amplitude(component), 1.01e-6)))


def prior(component: Component) -> dict:
    """The oracle's component with q(v) = N(0, I)."""
    c = as_oracle(component)
    return c | {"mean": np.zeros_like(c["mean"]), "factor": np.broadcast_to(np.eye(FAMILY.m), c["factor"].shape)}


def simulate_worlds(count: int, seed: int, linear: bool = False, steps: int = STEPS) -> Worlds:
    """v ~ N(0, I), then the path, all by the oracle's loops."""
    rng = np.random.default_rng([seed, linear, steps])
    components = [random_component(rng, FAMILY) for _ in range(MODELS)]
    components = [silence(c) for c in components] if linear else components
    oracles, which = [prior(c) for c in components], np.arange(count) % MODELS
    starts, inputs = rng.standard_normal((count, FAMILY.d)), rng.standard_normal((count, steps, FAMILY.u))
    sizes = rng.uniform(0.3, 1.0, (count, steps))
    inducing = rng.standard_normal((count, FAMILY.d, FAMILY.m))
    process = rng.standard_normal((count, steps, FAMILY.d))
    states = []
    for i in range(count):
        c = oracles[which[i]] | {"m_0": starts[i], "S_0_factor": np.zeros((FAMILY.d, FAMILY.d))}
        noise = {"initial": np.zeros(FAMILY.d), "inducing": inducing[i], "process": process[i]}
        states.append(oracle.run(c, inputs[i], sizes[i], noise))
    return Worlds(components, which, starts, inputs, sizes, inducing, np.array(states))


@eqx.filter_jit
def _draw(scheme: AbstractScheme, components: Component, starts, inputs, steps, keys):
    """(n, 99) draws of the first coordinate of the last state."""

    def world(component, start, inputs, steps, key):
        dynamics = prior_dynamics(component.dynamics())
        a, b = jax.random.split(key)
        inducing = jax.random.normal(a, (DRAWS, FAMILY.d, FAMILY.m))
        process = jax.random.normal(b, (DRAWS, inputs.shape[0], FAMILY.d))

        def one(v, e):
            return scheme.path(dynamics, start, inputs, steps, Noise(start, v, e)).states[-1, 0]

        return jax.vmap(one)(inducing, process)

    return jax.vmap(world)(components, starts, inputs, steps, keys)


def sampler_chi_square(scheme: AbstractScheme, worlds: Worlds, seed: int) -> float:
    """The truth's last state among the scheme's."""
    keys = jax.random.split(jax.random.key(seed), len(worlds.which))
    return chi_square(worlds.states[:, -1, 0], _draw(scheme, worlds.stacked(), *worlds.arrays(), keys))


@eqx.filter_jit
def _posterior(components: Component, starts, inputs, steps, states, points, keys):
    """(n, 99) draws of f(z) given the path: f_M from the lemma, then f(z) given f_M."""

    def world(component, start, inputs, steps, states, z, key):
        dynamics = prior_dynamics(component.dynamics())
        mean, covariance = (x[0] for x in inducing_given_path(dynamics, start, inputs, steps, states))
        values, vectors = jnp.linalg.eigh(covariance)
        a, b = jax.random.split(key)
        scaled = jnp.sqrt(jnp.maximum(values, 0.0))[None] * jax.random.normal(a, (DRAWS, FAMILY.m))
        features = dynamics.gp.features(z)
        whitened = jax.scipy.linalg.solve_triangular(
            dynamics.gp.root[0], (mean[None] + scaled @ vectors.T).T, lower=True
        )
        return features.weights[0] @ whitened + jnp.sqrt(features.variance[0]) * jax.random.normal(b, (DRAWS,))

    return jax.vmap(world)(components, starts, inputs, steps, states, points, keys)


def posterior_chi_square(worlds: Worlds, seed: int) -> float:
    """f at a random point, given the path that it drove, among draws from q(f | path)."""
    rng, oracles = np.random.default_rng(seed), [prior(c) for c in worlds.components]
    count = len(worlds.which)
    points, truths = rng.uniform(-2, 2, (count, FAMILY.d + FAMILY.u)), np.empty(count)
    for i in range(count):
        c = oracles[worlds.which[i]]
        f_M = np.linalg.cholesky(oracle.k_mm(c, 0)) @ worlds.inducing[i, 0]
        mean, variance = oracle.conditional(c, 0, points[i], f_M)
        truths[i] = mean + np.sqrt(variance) * rng.standard_normal()
    keys = jax.random.split(jax.random.key(seed), count)
    draws = _posterior(worlds.stacked(), *worlds.arrays(), jnp.asarray(worlds.states), jnp.asarray(points), keys)
    return chi_square(truths, draws)


@partial(eqx.filter_jit, donate="none")
def _filtered(components: Component, starts, inputs, outputs, noise, keys, particles: int):
    """(n, 99) of the ensemble's states after all rows."""

    def world(args):
        component, start, u, y, key = args
        ssm = SSM((component,), noise, FAMILY.units)
        a, b = jax.random.split(key)
        here = start[None] + 0.5 * jax.random.normal(a, (particles, FAMILY.d))
        first = (Particles(here, jnp.zeros((particles, FAMILY.d, FAMILY.m))),)
        return assimilate(ssm, first, u, y, jnp.ones(u.shape[0]), key=b)[0].states[:DRAWS, 0]

    return jax.lax.map(world, (components, starts, inputs, outputs, keys))


def filter_chi_square(count: int, seed: int, particles: int) -> float:
    """States of a linear system given outputs and known parameters: the truth among the warm-up's ensemble."""
    rng, omega = np.random.default_rng(seed), 0.2
    worlds = simulate_worlds(count, seed, linear=True)
    centres = worlds.starts
    starts = centres + 0.5 * rng.standard_normal(centres.shape)
    outputs, ends = np.empty((count, STEPS, 1)), np.empty(count)
    dynamics = [c.dynamics() for c in worlds.components]
    linear = [tuple(np.asarray(x) for x in (d.A, d.B, d.b, d.Q)) for d in dynamics]
    emissions = [as_oracle(c)["emission"] for c in worlds.components]
    h = 1 / FAMILY.units[0]
    for i in range(count):
        (A, B, b, Q), x = linear[worlds.which[i]], starts[i]
        for t in range(STEPS):
            outputs[i, t] = emissions[worlds.which[i]](x) + omega * rng.standard_normal(1)
            x = x + h * (A @ x + B @ worlds.inputs[i, t] + b) + np.sqrt(h * Q) * rng.standard_normal(FAMILY.d)
        ends[i] = x[0]
    noise = positive_inverse(jnp.full((1,), omega))
    centre, u, y = (jnp.asarray(x) for x in (centres, worlds.inputs, outputs))
    keys = jax.random.split(jax.random.key(seed), count)
    return chi_square(ends, _filtered(worlds.stacked(), centre, u, y, noise, keys, particles))
