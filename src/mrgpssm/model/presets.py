"""Starting values: `stable` is what trains; `paper` is the paper's table (supplement E.1), kept for comparison.

The table says nothing about q(x_0); both presets start it at N(0, 0.1²).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.params import lower_triangular_inverse, positive_inverse
from mrgpssm.arrays.types import Key
from mrgpssm.gp import RBF, AbstractKernel, CentredPosterior, SparseGP, WhitenedPosterior
from mrgpssm.gp.kernels import make_kernel
from mrgpssm.model.emission import AbstractEmission, IdentityEmission
from mrgpssm.model.initial import InitialState
from mrgpssm.model.ssm import SSM, Component
from mrgpssm.model.transition import AbstractMean, IdentityMean, StableMean, Transition
from mrgpssm.spec import MEMORY, cascade

_INSIDE = 0.95  # of the bound: where a mean starts at most
_EMISSION = 2  # the stream of keys; `init_component` splits the same key in two


@dataclass(frozen=True)
class Preset:
    """Initial values; standard deviations, not variances. One that is not `stable` has the paper's mean."""

    kernel_sd: float
    lengthscale: float
    inducing_range: float
    inducing_mean_sd: float
    inducing_sd: float
    process_sd: float
    observation_sd: float
    initial_sd: float
    whitened: bool
    stable: bool
    decay: float


STABLE = Preset(
    kernel_sd=0.1,
    lengthscale=2.0,
    inducing_range=2.0,
    inducing_mean_sd=0.05,
    inducing_sd=0.1,
    process_sd=0.002,
    observation_sd=0.3,
    initial_sd=0.1,
    whitened=True,
    stable=True,
    decay=0.1,
)
PAPER = Preset(
    kernel_sd=0.5,
    lengthscale=2.0,
    inducing_range=2.0,
    inducing_mean_sd=0.05,
    inducing_sd=0.01,
    process_sd=0.002,
    observation_sd=1.0,
    initial_sd=0.1,
    whitened=False,
    stable=False,
    decay=0.0,
)
PRESETS = {"stable": STABLE, "paper": PAPER}


def init_component(
    preset: Preset,
    *,
    latent_dim: int,
    input_dim: int,
    inducing: int,
    key: Key,
    dtype: jnp.dtype,
    emission: AbstractEmission,
    kernel: AbstractKernel | type[AbstractKernel] = RBF,
    memory: int = MEMORY,
    integrators: int = 0,
) -> Component:
    """One component at the preset's starting values; inducing inputs and means of q(f_M) are random."""
    key_inputs, key_outputs = jax.random.split(key)
    z_dim, edge = latent_dim + input_dim, preset.inducing_range
    inputs = jax.random.uniform(key_inputs, (latent_dim, inducing, z_dim), dtype, -edge, edge)
    mean = preset.inducing_mean_sd * jax.random.normal(key_outputs, (latent_dim, inducing), dtype)
    factor = preset.inducing_sd * jnp.broadcast_to(jnp.eye(inducing, dtype=dtype), (latent_dim, inducing, inducing))
    posterior = (WhitenedPosterior if preset.whitened else CentredPosterior)(mean, lower_triangular_inverse(factor))
    gp = SparseGP(
        make_kernel(kernel, preset.kernel_sd, jnp.full((z_dim,), preset.lengthscale, dtype)),
        inputs,
        posterior,
    )
    noise = positive_inverse(jnp.full((latent_dim,), preset.process_sd, dtype))
    transition = Transition(_init_mean(preset, latent_dim, input_dim, memory, integrators, dtype), gp, noise)
    return Component(transition=transition, initial=init_initial(preset, latent_dim, dtype), emission=emission)


def init_ssm(
    preset: Preset,
    resolutions: tuple[int, ...],
    *,
    latent_dim: int,
    input_dim: int,
    output_dim: int,
    inducing: int,
    key: Key,
    dtype: jnp.dtype,
    kernel: AbstractKernel | type[AbstractKernel] = RBF,
    emission: AbstractEmission = IdentityEmission(),  # noqa: B008  # frozen
    cascading: bool = False,
    memory: int = MEMORY,
    integrators: int = 0,
) -> SSM[Component]:
    """A model with one component per resolution; `kernel` and `emission` need no values yet.

    A stable mean has |I + A|₂ < 1 - 1 / `memory`, but for so many `integrators` of the slowest components.
    """
    keys = [jax.random.fold_in(key, index) for index in range(len(resolutions))]
    drivers = [len(cascade.slower(resolutions, part)) if cascading else 0 for part in range(len(resolutions))]
    components = tuple(
        init_component(
            preset,
            latent_dim=latent_dim,
            input_dim=input_dim + latent_dim * drivers[index],
            inducing=inducing,
            key=own,
            dtype=dtype,
            emission=emission.start(output_dim, latent_dim, key=jax.random.fold_in(own, _EMISSION), dtype=dtype),
            kernel=kernel,
            memory=memory,
            integrators=integrators if resolutions[index] == max(resolutions) else 0,
        )
        for index, own in enumerate(keys)
    )
    noise = positive_inverse(jnp.full((output_dim,), preset.observation_sd, dtype))
    return SSM(components, noise, tuple(float(r) for r in resolutions), cascading)


def init_initial(preset: Preset, latent_dim: int, dtype: jnp.dtype) -> InitialState:
    """q(x_0) = N(0, initial_sd²) and p(x_0) = N(0, I)."""
    eye, zero = jnp.eye(latent_dim, dtype=dtype), jnp.zeros((latent_dim,), dtype)
    q_factor, p_factor = lower_triangular_inverse(preset.initial_sd * eye), lower_triangular_inverse(eye)
    return InitialState(zero, q_factor, zero, p_factor)


def _init_mean(
    preset: Preset, latent_dim: int, input_dim: int, memory: int, integrators: int, dtype: jnp.dtype
) -> AbstractMean:
    """I + A starts at 1 - `decay`, or a little inside its bound where that is lower.

    An integrator starts by adding up `decay` times one of the other states.
    """
    if not preset.stable:
        return IdentityMean(latent_dim, input_dim, str(jnp.dtype(dtype)))
    rho = 1 - 1 / memory
    whole = min(1 - preset.decay, _INSIDE * rho) * np.eye(latent_dim)
    for state in range(integrators):
        whole[state, integrators + state % (latent_dim - integrators)] = preset.decay
    B, b = jnp.zeros((latent_dim, input_dim), dtype), jnp.zeros((latent_dim,), dtype)
    return StableMean.of(whole, B, b, rho, integrators)
