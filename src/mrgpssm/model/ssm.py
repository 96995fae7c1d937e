"""The model: L additive components and one observation noise.

One component is a GPSSM, several at one resolution are an MC-GPSSM, several at different ones an MR-GPSSM.
"""

import abc
from typing import Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp

from mrgpssm.arrays.params import positive
from mrgpssm.arrays.types import Array, Float
from mrgpssm.model.emission import AbstractEmission
from mrgpssm.model.initial import InitialState
from mrgpssm.model.transition import Dynamics, Transition
from mrgpssm.spec import cascade


class AbstractComponent(eqx.Module):
    """One of the L independent parts of the latent state (paper, section 3.1)."""

    initial: eqx.AbstractVar[InitialState]
    emission: eqx.AbstractVar[AbstractEmission]

    @property
    @abc.abstractmethod
    def inducing_shape(self) -> tuple[int, int]:
        """Latent dimensions and inducing points, (D_l, M)."""

    @property
    @abc.abstractmethod
    def dtype(self) -> jnp.dtype:
        """The floating-point type of the parameters."""

    @abc.abstractmethod
    def dynamics(self) -> Dynamics:
        """The factored transition."""


ComponentT = TypeVar("ComponentT", bound=AbstractComponent, covariant=True)


class Component(AbstractComponent):
    """A component in the GPSSM formulation; `SDEComponent` is the other one."""

    transition: Transition
    initial: InitialState
    emission: AbstractEmission

    @property
    def inducing_shape(self) -> tuple[int, int]:
        d, m, _ = self.transition.gp.inducing.shape
        return d, m

    @property
    def dtype(self) -> jnp.dtype:
        return self.transition.gp.inducing.dtype

    def dynamics(self) -> Dynamics:
        return self.transition.condition()


class SSM(eqx.Module, Generic[ComponentT]):
    """p(x_0, x_T, f_M, y_T) of the paper's Eq. (11).

    `time_units[l]` is component l's time unit in raw samples: its resolution R_l. A step over r raw samples then has
    size h = r / R_l. Where `cascading`, the states of slower components are inputs of the faster ones
    (`mrgpssm.spec.cascade`).
    """

    components: tuple[ComponentT, ...]
    raw_observation_noise: Float[Array, " y"]
    time_units: tuple[float, ...] = eqx.field(static=True)
    cascading: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if not self.components:
            raise ValueError("A state-space model needs at least one component.")
        if len(self.time_units) != len(self.components):
            raise ValueError(
                f"Each component needs its own time unit; got {len(self.components)} components and "
                f"{len(self.time_units)} time units."
            )
        if any(unit <= 0 for unit in self.time_units):
            raise ValueError(f"Time units are numbers of raw samples and must be positive; got {self.time_units}.")

    def observation_variance(self) -> Float[Array, " y"]:
        """The diagonal of Ω."""
        return positive(self.raw_observation_noise) ** 2

    def dynamics(self) -> tuple[Dynamics, ...]:
        """Every component's factored transition."""
        return tuple(component.dynamics() for component in self.components)

    def slower(self, part: int) -> tuple[int, ...]:
        """The components whose states drive component `part`."""
        return cascade.slower(self.time_units, part) if self.cascading else ()

    def walk_order(self) -> list[int]:
        """All components, each after those that drive it."""
        return cascade.slow_to_fast(self.time_units) if self.cascading else list(range(len(self.components)))

    def steps(self, strides: Float[Array, " t"]) -> tuple[Float[Array, " t"], ...]:
        """Step sizes h = r / R_l of every component for strides r in raw samples."""
        return tuple(strides / unit for unit in self.time_units)

    def emit(self, states: tuple[Float[Array, "_"], ...]) -> Float[Array, " y"]:
        """Σ_l g_l(x^(l)), the mean of p(y | x)."""
        parts = [c.emission(x) for c, x in zip(self.components, states, strict=True)]
        return jnp.sum(jnp.stack(parts), axis=0)
