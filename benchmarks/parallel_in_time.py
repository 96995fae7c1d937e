"""Free runs parallel in time: Newton's method on all steps at once, against walking them one by one.

A path x_{t+1} = F_t(x_t) with its noise fixed is the root of x_{t+1} - F_t(x_t). One Newton iteration linearises F at
the last path and solves the linear recurrence

    x_{t+1} = F_t(x̂_t) + J_t (x_t - x̂_t)

by an associative scan (Lim et al., 2024). Our mean is contracting, so products of J_t shrink and it converges from the
zero path. `measure` compares with the walk: seconds, iterations, and the largest difference of the two paths.
"""

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm.arrays.precision import floating_point
from mrgpssm.rollout import Noise, draw_states, fastest
from mrgpssm.training.bench import PAPER, problem

TOLERANCE, MOST = 1e-5, 60


def newton(dynamics, start, inputs, noise, draws):
    """One path (T, D) and the iterations it took; every step has size 1."""
    forcing = jax.vmap(dynamics.forcing)(inputs)

    def one(x, forcing, epsilon):
        mean, variance = dynamics.transition(x, forcing, jnp.ones((), x.dtype), draws)
        return mean + jnp.sqrt(variance) * epsilon

    def linearised(x, forcing, epsilon):
        return one(x, forcing, epsilon), jax.jacfwd(one)(x, forcing, epsilon)

    def together(first, second):
        (A, a), (B, b) = first, second
        return jnp.einsum("tij,tjk->tik", B, A), jnp.einsum("tij,tj->ti", B, a) + b

    def iterate(carry):
        path, _, count = carry
        before = jnp.concatenate([start[None], path[:-1]])
        value, slope = jax.vmap(linearised)(before, forcing, noise)
        offset = value - jnp.einsum("tij,tj->ti", slope, before)
        offset = offset.at[0].add(slope[0] @ start)
        slope = slope.at[0].set(0.0)
        _, moved = jax.lax.associative_scan(together, (slope, offset))
        return moved, jnp.max(jnp.abs(moved - path)), count + 1

    def going(carry):
        return (carry[1] > TOLERANCE) & (carry[2] < MOST)

    begin = (jnp.zeros_like(noise), jnp.asarray(jnp.inf, noise.dtype), 0)
    path, _, count = jax.lax.while_loop(going, iterate, begin)
    return path, count


def measure(samples: int, rows: int, dtype: str = "float32") -> dict[str, Any]:
    """Both ways on the same model, inputs and noise."""
    with floating_point(dtype):
        ssm, _ = problem(PAPER, dtype)
        component = jax.tree.map(lambda x: x[0], ssm.components[0])
        d, m = component.inducing_shape
        keys = jax.random.split(jax.random.key(0), 4)
        inputs = jax.random.normal(keys[0], (rows, PAPER.inputs), dtype)
        inducing = jax.random.normal(keys[1], (samples, d, m), dtype)
        process = jax.random.normal(keys[2], (samples, rows, d), dtype)
        start = jnp.zeros((samples, d), dtype)

        @eqx.filter_jit
        def walk(component):
            noise = Noise(start[None], inducing[None], process[None])
            steps = jnp.ones((1, rows), dtype)
            return draw_states(fastest(), component.dynamics(), start[None], inputs[None], steps, noise)[0]

        @eqx.filter_jit
        def at_once(component):
            dynamics = component.dynamics()
            draws = jax.vmap(dynamics.gp.inducing_outputs)(inducing)
            return jax.lax.map(lambda a: newton(dynamics, a[0], inputs, a[1], a[2]), (start, process, draws))

        walked, (path, count) = walk(component), at_once(component)
        return {
            "samples": samples,
            "rows": rows,
            "walk_seconds": _seconds(walk, component),
            "newton_seconds": _seconds(at_once, component),
            "iterations": int(jnp.max(count)),
            "largest_difference": float(jnp.max(jnp.abs(walked - path))),
        }


def _seconds(run, component) -> float:
    began = time.perf_counter()
    jax.block_until_ready(run(component))
    return time.perf_counter() - began
