"""Full Monte Carlo rollouts of all windows and samples at once, by a native kernel, with its own reverse pass.

The kernels (`mrgpssm/native`) take what a rollout needs as twelve arrays and return the states; their reverse passes
return the gradients of all twelve. The per-trajectory scan of `FullMC.path` is the referee.
"""

from functools import partial

import jax
import jax.numpy as jnp

from mrgpssm import native
from mrgpssm.arrays.types import Array, Float
from mrgpssm.gp import RBF
from mrgpssm.model import Dynamics
from mrgpssm.native import cpu, gpu, gpu_rollout
from mrgpssm.rollout.base import Noise

_WHITENER, _NOISE = 3, 11  # places among the arguments
_einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


def has_kernel(dynamics: Dynamics, windows: int, samples: int) -> bool:
    """The kernels know the RBF covariance; the one for GPUs only so many inducing points and dimensions."""
    if type(dynamics.gp.kernel) is not RBF:  # a subclass may have another covariance
        return False
    if native.platform() == "cpu":
        return True
    d, m = dynamics.gp.mean.shape
    shape = _block(str(dynamics.A.dtype), m, d, samples, windows)[1]
    return gpu_rollout.usable(shape)


def native_states(
    dynamics: Dynamics,
    starts: Float[Array, "n s d"],
    inputs: Float[Array, "n t u"],
    steps: Float[Array, "n t"],
    noise: Noise,
) -> Float[Array, "n s t d"]:
    """x_1, ..., x_T of every window and sample."""
    gp, (n, s, d) = dynamics.gp, starts.shape
    v = jax.vmap(jax.vmap(gp.inducing_outputs))(noise.inducing)
    forcing = jax.vmap(jax.vmap(dynamics.forcing))(inputs)
    portions = 1 if native.platform() == "cpu" else _block(str(starts.dtype), v.shape[-1], d, s, n)[0]

    def divide(samples: Float[Array, "n s ..."]) -> Float[Array, "blocks share ..."]:
        """Samples too many for one block, as windows of their own."""
        return samples.reshape(n * portions, s // portions, *samples.shape[2:])

    def repeat(windows: Float[Array, "n ..."]) -> Float[Array, "blocks ..."]:
        return jnp.repeat(windows, portions, axis=0) if portions > 1 else windows

    states = _states(
        divide(starts),
        gp.inducing[:, :, :d],
        gp.relevance[:d],
        gp.whitener,
        gp.variance,
        divide(v),
        dynamics.A,
        dynamics.Q,
        repeat(forcing.drift),
        repeat(forcing.squared_distance),
        repeat(steps),
        divide(noise.process),
    )
    return states.reshape(n, s, *states.shape[2:])


@jax.custom_vjp
def _states(*arguments):
    like = _like(arguments[_NOISE])
    if native.platform() == "cpu":
        return _call(cpu.target("forward", str(like.dtype)), like, *arguments)
    shape, n, t = _plan_launch(arguments)
    return _call(gpu.TARGET, like, *arguments, **gpu_rollout.launch("forward", shape, n, t))


def _forward(*arguments):
    states = _states(*arguments)
    return states, (arguments, states)


def _backward(kept, cotangent):
    arguments, states = kept
    if native.platform() == "cpu":
        name = cpu.target("backward", str(states.dtype))
        return tuple(_call(name, tuple(map(_like, arguments)), *arguments, states, cotangent))
    return _gpu_backward(arguments, states, cotangent)


_states.defvjp(_forward, _backward)


def _gpu_backward(arguments, states, cotangent):
    """The kernel's sums per particle, window and block, put together (the equations are in `rollout.cu`)."""
    shape, n, t = _plan_launch(arguments)
    starts, _, relevance, whitener, _, outputs, _, _, drift, forcing, steps, noise = arguments
    blocks, (d, m) = -(-n // shape.windows), whitener.shape[:2]

    def per_block(*axes: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((blocks, *axes), states.dtype)

    results = [_like(x) for x in (starts, outputs, noise, drift, forcing, steps)]
    results += [per_block(d, m, m), per_block(shape.groups, d, m, d), per_block(shape.groups, d, m, d)]
    results += [per_block(d), per_block(d, d), per_block(d)]
    launch = gpu_rollout.launch("backward", shape, n, t)
    dstart, kappa, dnoise, ddrift, dforcing, dsteps, *sums = _call(
        gpu.TARGET, tuple(results), *arguments, states, cotangent, **launch
    )
    moments, slopes, curves, dvariance, dA, dQ = (jnp.sum(x, axis=0) for x in sums)
    lower, products = jnp.tril(whitener), _einsum("nsdi,nsdj->dij", outputs, kappa)
    dwhitener = jnp.tril(products - 2 * _einsum("dij,djk->dik", lower, moments))
    doutputs = _einsum("dij,nsdj->nsdi", lower, kappa)
    dcentres = 2 * relevance[None, None, :] * jnp.sum(slopes, axis=0)
    drelevance = jnp.sum(curves, axis=(0, 1, 2))
    return dstart, dcentres, drelevance, dwhitener, dvariance, doutputs, dA, dQ, ddrift, dforcing, dsteps, dnoise


def _plan_launch(arguments) -> tuple[gpu_rollout.Shape, int, int]:
    """The block that the kernels are compiled for, the number of windows, and of steps."""
    n, s, t, d = arguments[_NOISE].shape
    shape = _block(str(arguments[_NOISE].dtype), arguments[_WHITENER].shape[-1], d, s, n)[1]
    if shape is None:
        raise RuntimeError("No GPU kernel for this shape; `has_kernel` must be asked first.")
    return shape, n, t


def _block(dtype: str, m: int, d: int, samples: int, windows: int) -> tuple[int, gpu_rollout.Shape | None]:
    """In how many portions the samples must come to fit a block, and that block; None where nothing fits."""
    for portions in range(1, samples + 1):
        each = samples // portions
        if samples % portions == 0 and (each * d <= gpu_rollout.MOST_THREADS or each == 1):
            shape = gpu_rollout.block_shape(dtype, m, d, each, windows * portions)
            if shape is not None:
                return portions, shape
    return 1, None


def _call(target: str, result, /, *arguments, **attributes):
    return jax.ffi.ffi_call(target, result, vmap_method="broadcast_all")(*arguments, **attributes)


def _like(array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
