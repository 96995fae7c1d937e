"""Random models for the tests, as the package sees them and as the oracle does."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from oracle import softplus

from mrgpssm.arrays.linalg import base_jitter
from mrgpssm.arrays.params import lower_triangular_inverse, positive_inverse
from mrgpssm.elbo import Windows
from mrgpssm.gp import RBF, AbstractKernel, Matern32, Matern52, SparseGP, WhitenedPosterior
from mrgpssm.gp.kernels import make_kernel
from mrgpssm.model import SSM, Component, InitialState, LinearEmission, StableMean, Transition
from mrgpssm.rollout import Noise


@dataclass(frozen=True)
class Family:
    """Sizes that share one compiled program."""

    kernel: type[AbstractKernel]
    d: int
    u: int
    y: int
    m: int
    units: tuple[float, ...]


FAMILIES = [
    Family(RBF, d=1, u=0, y=1, m=5, units=(1.0,)),
    Family(Matern32, d=2, u=1, y=1, m=6, units=(5.0,)),
    Family(Matern52, d=2, u=2, y=2, m=4, units=(1.0, 3.0)),
    Family(RBF, d=3, u=2, y=2, m=7, units=(30.0, 1.0)),
]


def factor(rng, n, scale):
    return scale * (np.tril(0.3 * rng.standard_normal((n, n)), -1) + np.diag(rng.uniform(0.5, 1.5, n)))


def inducing_inputs(rng, d, m, z):
    """Spread out, so that the oracle's `inv` is accurate: the first coordinate is a jittered grid."""
    Z = rng.uniform(-2, 2, (d, m, z))
    Z[:, :, 0] = np.linspace(-2, 2, m) + 0.1 * rng.standard_normal((d, m))
    return Z


def random_component(rng, family: Family, dtype=jnp.float64, noise_sd=(0.05, 0.2)) -> Component:
    d, u, z = family.d, family.u, family.d + family.u

    def cast(x):
        return jnp.asarray(x, dtype)

    def clutter(raw):
        """Rubbish above the diagonal, which must not matter."""
        return raw + cast(np.triu(rng.standard_normal(raw.shape), 1))

    kernel = make_kernel(family.kernel, float(rng.uniform(0.2, 0.8)), cast(rng.uniform(0.7, 1.5, z)))
    posterior = WhitenedPosterior(
        cast(rng.standard_normal((d, family.m))),
        clutter(lower_triangular_inverse(cast(np.stack([factor(rng, family.m, 0.5) for _ in range(d)])))),
    )
    gp = SparseGP(kernel, cast(inducing_inputs(rng, d, family.m, z)), posterior)
    mean = StableMean(cast(rng.standard_normal((d, d))), cast(0.3 * rng.standard_normal((d, u))),
                      cast(0.1 * rng.standard_normal(d)), 0.99)  # fmt: skip
    noise = positive_inverse(cast(rng.uniform(*noise_sd, d)))
    initial = InitialState(
        cast(rng.standard_normal(d)),
        clutter(lower_triangular_inverse(cast(factor(rng, d, 0.3)))),
        cast(0.5 * rng.standard_normal(d)),
        lower_triangular_inverse(cast(factor(rng, d, 1.0))),
    )
    emission = LinearEmission(cast(rng.standard_normal((family.y, d))))
    return Component(transition=Transition(mean, gp, noise), initial=initial, emission=emission)


def random_ssm(rng, family: Family, dtype=jnp.float64) -> SSM[Component]:
    components = tuple(random_component(rng, family, dtype) for _ in family.units)
    noise = positive_inverse(jnp.asarray(rng.uniform(0.2, 1.0, family.y), dtype))
    return SSM(components, noise, family.units)


def random_windows(rng, family: Family, n=2, t=5, dtype=jnp.float64) -> Windows:
    outputs = rng.standard_normal((n, t, family.y))
    outputs[0, t - 1, 0] = np.nan
    return Windows(
        jnp.asarray(rng.standard_normal((n, t, family.u)), dtype),
        jnp.asarray(outputs, dtype),
        jnp.asarray(rng.uniform(0.2, 1.0, (n, t)) * min(family.units), dtype),
    )


def random_noise(rng, family: Family, n=2, s=2, t=5, dtype=jnp.float64) -> tuple[Noise, ...]:
    def normal(*shape):
        return jnp.asarray(rng.standard_normal(shape), dtype)

    return tuple(
        Noise(normal(n, s, family.d), normal(n, s, family.d, family.m), normal(n, s, t, family.d)) for _ in family.units
    )


def lower(raw) -> np.ndarray:
    """A lower-triangular factor from raw parameters, whatever stands above the diagonal."""
    raw = np.asarray(raw, float)
    return np.tril(raw, -1) + np.diag(softplus(np.diag(raw)))


def as_oracle(component: Component, dtype=np.float64) -> dict:
    """The same component by its natural parameters in NumPy float64."""
    transition, initial = component.transition, component.initial
    assert isinstance(transition.gp.posterior, WhitenedPosterior)
    assert isinstance(initial, InitialState)
    assert isinstance(component.emission, LinearEmission)
    A, B, b = (np.asarray(x, float) for x in transition.mean.matrices())
    C = np.asarray(component.emission.C, float)
    return {
        "kernel": type(transition.gp.kernel).__name__,
        "sd": float(softplus(transition.gp.kernel.raw_amplitude)),
        "lengthscales": softplus(transition.gp.kernel.raw_lengthscales),
        "inducing": np.asarray(transition.gp.inducing, float),
        "mean": np.asarray(transition.gp.posterior.mean, float),
        "factor": np.stack([lower(raw) for raw in transition.gp.posterior.raw_factor]),
        "jitter": base_jitter(jnp.dtype(dtype)),
        "A": A,
        "B": B,
        "b": b,
        "Q": softplus(transition.raw_process_noise) ** 2,
        "m_0": np.asarray(initial.mean, float),
        "S_0_factor": lower(initial.raw_factor),
        "mu_0": np.asarray(initial.prior_mean, float),
        "Q_0_factor": lower(initial.prior_raw_factor),
        "emission": lambda x: C @ x,
    }


def noise_as_oracle(noise: tuple[Noise, ...]) -> list[dict]:
    return [{name: np.asarray(getattr(e, name), float) for name in ("initial", "inducing", "process")} for e in noise]
