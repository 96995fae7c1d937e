"""Full Monte Carlo rollouts of all windows and samples at once, by the native kernel, with its own reverse pass.

The kernel (`mrgpssm/native/rollout.cc`) takes what a rollout needs as twelve arrays and returns the states; its reverse
pass returns the gradients of all twelve. The per-trajectory scan of `FullMC.path` is the referee.
"""

import jax

from mrgpssm import native
from mrgpssm._types import Array, Float
from mrgpssm.gp import RBF
from mrgpssm.model import Dynamics
from mrgpssm.rollout.base import Noise

_NOISE = 11  # the place of ε among the arguments; the states have its shape


def supported(dynamics: Dynamics) -> bool:
    """The kernel knows the RBF covariance."""
    return isinstance(dynamics.gp.kernel, RBF)


def native_states(
    dynamics: Dynamics,
    starts: Float[Array, "n s d"],
    inputs: Float[Array, "n t u"],
    steps: Float[Array, "n t"],
    noise: Noise,
) -> Float[Array, "n s t d"]:
    """x_1, ..., x_T of every window and sample."""
    gp, d = dynamics.gp, dynamics.A.shape[0]
    v = jax.vmap(jax.vmap(gp.inducing_outputs))(noise.inducing)
    forcing = jax.vmap(jax.vmap(dynamics.forcing))(inputs)
    return _states(
        starts,
        gp.inducing[:, :, :d],
        gp.relevance[:d],
        gp.whitener,
        gp.variance,
        v,
        dynamics.A,
        dynamics.Q,
        forcing.drift,
        forcing.squared_distance,
        steps,
        noise.process,
    )


@jax.custom_vjp
def _states(*arguments):
    return _call("forward", _like(arguments[_NOISE]), *arguments)


def _forward(*arguments):
    states = _states(*arguments)
    return states, (arguments, states)


def _backward(kept, cotangent):
    arguments, states = kept
    return tuple(_call("backward", tuple(map(_like, arguments)), *arguments, states, cotangent))


_states.defvjp(_forward, _backward)


def _call(direction: str, result, *arguments):
    name = native.target(direction, str(arguments[0].dtype))
    return jax.ffi.ffi_call(name, result, vmap_method="broadcast_all")(*arguments)


def _like(array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
