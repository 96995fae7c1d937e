"""From options to a fleet: training settings, and the members' tasks and starting values."""

import functools
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mrgpssm._types import Key
from mrgpssm.model import PRESETS, SSM, Component, init_ssm
from mrgpssm.model.presets import init_recognition
from mrgpssm.options import Options
from mrgpssm.training import Task, TrainingSettings

_HEAD = 20
_HIDDEN = 32
# Options that no shape depends on, at values of no meaning: files that differ in them alone share one shape.
_SHAPELESS: dict[str, Any] = dict.fromkeys(("samples", "windows", "cycles", "steps", "restarts", "ensemble"), 1)
_SHAPELESS |= {"learning_rate": 1.0, "anneal": 1.0, "seed": 0, "order": "given", "calibrate": True}
_CHUNKS = (25, 20, 10, 5, 4, 3, 2, 1)

Groups = tuple[tuple[int, ...], ...]


def training_settings(options: Options) -> TrainingSettings:
    """The numbers a training run is told; steps go to the device in equal chunks."""
    return TrainingSettings(
        samples=options.samples,
        windows=options.windows,
        window=options.window,
        buffer=options.buffer,
        cycles=options.cycles,
        steps=options.steps,
        learning_rate=options.learning_rate,
        anneal=options.anneal,
        window_start="cache" if options.window_start == "cache" else "initial",
        order=options.order,
        head=head_rows(options),
        chunk=next(c for c in _CHUNKS if options.steps % c == 0),
    )


def head_rows(options: Options) -> int:
    """How many first points of a window a recognition network looks at."""
    return min(_HEAD, options.buffer + options.window) if options.window_start == "recognition" else 0


def output_groups(options: Options, outputs: int) -> Groups:
    """The output columns of every model: all together where `joint`, else one each."""
    return (tuple(range(outputs)),) if options.joint else tuple((column,) for column in range(outputs))


def make_members(options: Options, sequences: int, inputs: int, outputs: int) -> tuple[Task, SSM[Component]]:
    """Tasks and starting values of all restarts of all outputs, with a leading fleet axis."""
    dtype = jnp.dtype(options.precision)
    groups, root = output_groups(options, outputs), jax.random.key(options.seed)
    pairs = [(g, r) for g in range(len(groups)) for r in range(options.restarts)]
    keys = jnp.stack([jax.random.fold_in(jax.random.fold_in(root, g), r) for g, r in pairs])
    members, width = len(keys), len(groups[0])
    tasks = Task(
        key=keys,
        columns=jnp.repeat(jnp.asarray(groups, jnp.int32), options.restarts, axis=0),
        training=jnp.ones((members, sequences), bool),
        input_shift=jnp.zeros((members, inputs), dtype),
        input_scale=jnp.ones((members, inputs), dtype),
        output_shift=jnp.zeros((members, width), dtype),
        output_scale=jnp.ones((members, width), dtype),
    )
    return tasks, eqx.filter_vmap(lambda key: init_model(options, inputs, width, key))(keys)


def init_model(options: Options, inputs: int, outputs: int, key: Key) -> SSM[Component]:
    """One model at its starting values."""
    preset, dtype = PRESETS[options.preset], jnp.dtype(options.precision)
    ssm = init_ssm(
        preset,
        options.resolutions,
        latent_dim=options.latent_dim,
        input_dim=inputs,
        output_dim=outputs,
        inducing=options.inducing,
        key=key,
        dtype=dtype,
    )
    if options.window_start != "recognition":
        return ssm
    head = (head_rows(options), inputs + outputs)
    keys = [jax.random.fold_in(key, 1000 + i) for i in range(len(options.resolutions))]
    networks = tuple(init_recognition(preset, options.latent_dim, head, _HIDDEN, key=k, dtype=dtype) for k in keys)
    return eqx.tree_at(lambda s: tuple(c.initial for c in s.components), ssm, networks)


def model_shape(options: Options, inputs: int, outputs: int) -> SSM[Component]:
    """The same tree with shapes in place of arrays: what a model file must hold."""
    return _shape(replace(options, window=max(head_rows(options), 1), buffer=0, **_SHAPELESS), inputs, outputs)


@functools.lru_cache(maxsize=32)
def _shape(options: Options, inputs: int, outputs: int) -> SSM[Component]:
    return eqx.filter_eval_shape(lambda: init_model(options, inputs, outputs, jax.random.key(0)))
