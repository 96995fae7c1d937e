"""The members of a fleet at their starting values."""

import functools
import math
from collections.abc import Sequence as SequenceOf
from operator import attrgetter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.compile import quick_jit
from mrgpssm.arrays.params import positive_inverse
from mrgpssm.arrays.types import Array, Bool, Float, Key, Keys, Scalar
from mrgpssm.gp import KERNELS
from mrgpssm.model import EMISSIONS, PRESETS, SSM, Component, StableMean, init_ssm
from mrgpssm.spec import Structure
from mrgpssm.training.linear.start import LinearPart, LinearStart
from mrgpssm.training.series import Series
from mrgpssm.training.state import Task
from mrgpssm.training.step import member_inputs

_PLAIN = 6  # two latent dimensions and four inputs: what the starting lengthscales were found for
_PLACES = 2000
_START_AMPLITUDE, _STILL_AMPLITUDE = 0.02, 1e-4  # of the Gaussian process beside a linear model; if it will not train
_LEAST_SPREAD, _LEAST_ERROR = 0.02, 1e-3  # smaller ones count as these


def init_model(structure: Structure, inputs: int, outputs: int, key: Key) -> SSM[Component]:
    """One model at its starting values."""
    preset, dtype = PRESETS[structure.preset], jnp.dtype(structure.precision)
    kernel, emission = structure.kernel, structure.emission
    return init_ssm(
        preset,
        structure.resolutions,
        latent_dim=structure.latent_dim,
        input_dim=inputs,
        output_dim=outputs,
        inducing=structure.inducing,
        key=key,
        dtype=dtype,
        kernel=KERNELS[kernel] if isinstance(kernel, str) else kernel,
        emission=EMISSIONS[emission] if isinstance(emission, str) else emission,
        cascading=structure.cascade,
        memory=structure.memory,
        integrators=structure.integrators,
    )


@quick_jit
def init_models(structure: Structure, inputs: int, outputs: int, keys: Keys) -> SSM[Component]:
    """A model for each of the keys, as one program."""
    return eqx.filter_vmap(lambda key: init_model(structure, inputs, outputs, key))(keys)


@quick_jit
def start_on_data(ssm: SSM[Component], series: Series, tasks: Task) -> SSM[Component]:
    """Inducing inputs at random rows that the member trains on, and lengthscales that grow with the number of inputs.

    Uniform points fill a cube that the data leave nearly empty when there are many inputs; the mean squared distance
    of two points grows with their number, and lengthscales start at sqrt(z / 6) of the preset's to make up for it.
    States that drive a component of a cascade come after the inputs; nobody has seen them yet, and they stay uniform.
    """
    width, count = series.inputs.shape[-1], len(ssm.components)

    def draw(task: Task, shape: tuple[int, ...], key: Key) -> Float[Array, "*b u"]:
        lengths = jnp.where(task.training, series.lengths, 0)
        ends = jnp.cumsum(lengths)
        drawn = jax.random.randint(key, shape, 0, ends[-1])
        sequence = jnp.searchsorted(ends, drawn, side="right")
        return member_inputs(series, task, series.offsets[sequence] + drawn - (ends - lengths)[sequence])

    def place(component: Component, task: Task, key: Key) -> Component:
        at, first = component.transition.gp.inducing, component.inducing_shape[0]
        at = at.at[..., first : first + width].set(draw(task, at.shape[:-1], key))
        lengthscales = component.transition.gp.kernel.lengthscales * math.sqrt(at.shape[-1] / _PLAIN)
        return eqx.tree_at(
            lambda c: (c.transition.gp.inducing, c.transition.gp.kernel.raw_lengthscales),
            component,
            (at, positive_inverse(lengthscales)),
        )

    def one(member: SSM[Component], task: Task) -> SSM[Component]:
        split = jax.random.split(jax.random.fold_in(task.key, _PLACES), count)
        placed = tuple(place(c, task, k) for c, k in zip(member.components, split, strict=True))
        return eqx.tree_at(lambda s: s.components, member, placed)

    return eqx.filter_vmap(one)(ssm, tasks)


def start_linear(ssm: SSM[Component], starts: SequenceOf[LinearStart | None], still: bool = False) -> SSM[Component]:
    """Members at linear models, one each; their Gaussian processes are small and know nothing yet.

    A member without one stays as it is. Members that are to be `still` will not train: they are linear models.

    Lengthscales and inducing inputs follow the deviations of the states, and the observation noise starts at the error
    of the linear model. Process noise starts at what adds a tenth of that to the output.
    """
    some = next(start for start in starts if start is not None)
    together = jax.tree.map(lambda *values: np.stack(values), *(start or some for start in starts))
    return _place_linear(ssm, together, jnp.asarray([start is not None for start in starts]), still)


@quick_jit
def _place_linear(ssm: SSM[Component], starts: LinearStart, found: Bool[Array, " f"], still: bool) -> SSM[Component]:
    dtype, amplitude = ssm.raw_observation_noise.dtype, _STILL_AMPLITUDE if still else _START_AMPLITUDE
    together = jax.tree.map(lambda values: values.astype(dtype), starts)

    def place(component: Component, part: LinearPart, error: Scalar) -> Component:
        mean, gp = component.transition.mean, component.transition.gp
        if not isinstance(mean, StableMean):
            raise ValueError("A linear start needs a mean that is stable.")
        rest = jnp.zeros(gp.inducing.shape[-1] - part.rest.shape[0], dtype)
        spreads = jnp.maximum(part.spreads, _LEAST_SPREAD)
        scales, centres = jnp.concatenate([spreads, rest + 1]), jnp.concatenate([part.rest, rest])
        A, k = jnp.asarray(part.A), mean.integrators
        fading = jnp.sqrt(1 - jnp.linalg.norm(A[k:, k:], 2) ** 2)
        new: dict[str, Any] = {
            "transition.mean": StableMean.of(A, jnp.asarray(part.B), jnp.asarray(part.b), mean.rho, k),
            "transition.gp.kernel.raw_amplitude": positive_inverse(jnp.full_like(error, amplitude)),
            "transition.gp.kernel.raw_lengthscales": positive_inverse(scales * gp.kernel.lengthscales),
            "transition.gp.inducing": centres[None, None] + scales[None, None] * gp.inducing,
            "transition.gp.posterior.mean": jnp.zeros_like(gp.posterior.mean),
            "transition.raw_process_noise": positive_inverse(0.1 * error * fading * spreads),
            "initial.mean": part.rest,
            "emission.C": part.C,
        }
        return eqx.tree_at(lambda c: [attrgetter(name)(c) for name in new], component, list(new.values()))

    def one(member: SSM[Component], start: LinearStart) -> SSM[Component]:
        errors = jnp.maximum(start.errors, _LEAST_ERROR)
        components = zip(member.components, start.parts, strict=True)
        placed = tuple(place(component, part, jnp.mean(errors)) for component, part in components)
        changed = (placed, positive_inverse(errors))
        return eqx.tree_at(lambda s: (s.components, s.raw_observation_noise), member, changed)

    def choose(new: Float[Array, "f ..."], old: Float[Array, "f ..."]) -> Float[Array, "f ..."]:
        return jnp.where(found.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return jax.tree.map(choose, eqx.filter_vmap(one)(ssm, together), ssm)


@functools.lru_cache(maxsize=32)
def model_shape(structure: Structure, inputs: int, outputs: int) -> SSM[Component]:
    """The same tree with shapes in place of arrays: what a model file must hold."""
    return eqx.filter_eval_shape(lambda: init_model(structure, inputs, outputs, jax.random.key(0)))
