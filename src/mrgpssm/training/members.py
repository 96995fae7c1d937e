"""From options to a fleet: training settings, and the members' tasks and starting values."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm.arrays.params import positive_inverse
from mrgpssm.arrays.types import Array, Float, Key
from mrgpssm.data import Series, masks
from mrgpssm.model import PRESETS, SSM, Component, init_ssm
from mrgpssm.spec import Spec, Structure
from mrgpssm.training import Task, TrainingSettings
from mrgpssm.training.step import member_inputs

_PLAIN = 6  # two latent dimensions and four inputs: what the starting lengthscales were found for
_PLACES = 2000
_CHUNKS = (25, 20, 10, 5, 4, 3, 2, 1)


def training_settings(spec: Spec) -> TrainingSettings:
    """The numbers a training run is told; steps go to the device in equal chunks."""
    return TrainingSettings(
        samples=spec.training.samples,
        windows=spec.training.windows,
        window=spec.training.window,
        buffer=spec.training.buffer,
        cycles=spec.training.cycles,
        steps=spec.training.steps,
        learning_rate=spec.training.learning_rate,
        anneal=spec.training.anneal,
        window_start=spec.training.window_start,
        order=spec.training.order,
        optimiser=spec.training.optimiser,
        finetune=spec.training.finetune,
        chunk=next(c for c in _CHUNKS if spec.training.steps % c == 0),
    )


def make_members(
    spec: Spec, sequences: int, inputs: int, outputs: int, held_out: int = 0
) -> tuple[Task, SSM[Component]]:
    """Tasks and starting values of all restarts and folds of all outputs, with a leading fleet axis.

    Where there are fewer sequences than folds, the tasks are for `with_copies` of them. Nobody trains on the `held_out`
    ones that come after all of these. Restarts have the first scaling of the series, folds one each after it.
    """
    groups, root = spec.structure.groups(outputs), jax.random.key(spec.training.seed)
    each = spec.training.restarts + spec.bands.folds
    pairs = [(g, r) for g in range(len(groups)) for r in range(each)]
    keys = jnp.stack([jax.random.fold_in(jax.random.fold_in(root, g), r) for g, r in pairs])
    width = len(groups[0])
    tasks = Task(
        key=keys,
        columns=jnp.repeat(jnp.asarray(groups, jnp.int32), each, axis=0),
        training=jnp.asarray(np.tile(_training(spec, sequences, held_out), (len(groups), 1))),
        scaling=jnp.tile(
            jnp.asarray([0] * spec.training.restarts + list(range(1, 1 + spec.bands.folds)), jnp.int32), len(groups)
        ),
    )
    return tasks, eqx.filter_vmap(lambda key: init_model(spec.structure, inputs, width, key))(keys)


def _training(spec: Spec, sequences: int, held_out: int) -> np.ndarray:
    """Who trains on what: restarts on every given sequence, folds on all but their part."""
    folds = masks(spec.bands.folds, sequences)
    everything = np.arange(folds.shape[1]) < sequences
    return np.pad(np.concatenate([np.tile(everything, (spec.training.restarts, 1)), folds]), ((0, 0), (0, held_out)))


def init_model(structure: Structure, inputs: int, outputs: int, key: Key) -> SSM[Component]:
    """One model at its starting values."""
    preset, dtype = PRESETS[structure.preset], jnp.dtype(structure.precision)
    return init_ssm(
        preset,
        structure.resolutions,
        latent_dim=structure.latent_dim,
        input_dim=inputs,
        output_dim=outputs,
        inducing=structure.inducing,
        key=key,
        dtype=dtype,
        cascading=structure.cascade,
    )


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


@functools.lru_cache(maxsize=32)
def model_shape(structure: Structure, inputs: int, outputs: int) -> SSM[Component]:
    """The same tree with shapes in place of arrays: what a model file must hold."""
    return eqx.filter_eval_shape(lambda: init_model(structure, inputs, outputs, jax.random.key(0)))
