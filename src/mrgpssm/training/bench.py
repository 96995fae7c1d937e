"""How fast: one gradient of the bound by every path we have, on the same numbers, in one run. Ratios, not claims.

The floor is what no implementation of this mathematics avoids: its exponentials and its products with the whitener
(one in the forward pass, three in the reverse pass), as large dense operations, measured here.
"""

import dataclasses
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mrgpssm import native
from mrgpssm.arrays.precision import floating_point
from mrgpssm.elbo import Windows, elbo
from mrgpssm.model import SSM, STABLE, Component, init_ssm
from mrgpssm.rollout import FullMC, advance, draw_noise, draw_particles, fastest
from mrgpssm.training import torch_step

OURS = "ours"
FLOAT32_RATE = {"NVIDIA H200": 67e12}  # the vendor's figure for plain float32, operations a second


@dataclass(frozen=True)
class Size:
    """One gradient step: N windows of `steps` points, S samples, M inducing points, D latent dimensions."""

    windows: int = 20
    steps: int = 60
    samples: int = 20
    inducing: int = 50
    latent: int = 2
    inputs: int = 4
    members: int = 1

    @property
    def operations(self) -> float:
        """Additions and multiplications of one gradient step in products with the whitener's triangle.

        One product in the forward pass, three in the reverse pass.
        """
        states = self.members * self.windows * self.samples * self.steps * self.latent
        return 4 * 2 * states * self.inducing * (self.inducing + 1) / 2


PAPER, PEERS = Size(), Size(windows=10, steps=50, samples=50, inducing=20, latent=4, inputs=1)
GROWTH = {
    "inducing": (25, 50, 100),
    "samples": (10, 20, 40, 80),
    "windows": (10, 20, 40),
    "steps": (30, 60, 120),
    "latent": (1, 2, 4),
    "members": (1, 2, 4),
}


def problem(size: Size, dtype: str) -> tuple[SSM[Component], Windows]:
    """A model at its starting values and random windows, with a leading fleet axis."""
    rng = np.random.default_rng(0)
    keys = jax.random.split(jax.random.key(0), size.members)
    n, t = size.windows, size.steps

    def init(key):
        return init_ssm(
            STABLE,
            (1,),
            latent_dim=size.latent,
            input_dim=size.inputs,
            output_dim=1,
            inducing=size.inducing,
            key=key,
            dtype=jnp.dtype(dtype),
        )

    windows = Windows(
        jnp.asarray(rng.standard_normal((n, t, size.inputs)), dtype),
        jnp.asarray(rng.standard_normal((n, t, 1)), dtype),
        jnp.ones((n, t), dtype),
    )
    return eqx.filter_vmap(init)(keys), windows


def gradient(size: Size, dtype: str, scheme: FullMC) -> Callable[[], Any]:
    """The bound of one mini-batch and its gradient, noise included; call it to run it once."""
    ssm, windows = problem(size, dtype)

    def one(ssm, key):
        def loss(ssm):
            noise = draw_noise(ssm, size.windows, size.samples, size.steps, key=key)
            return -elbo(ssm, windows, noise, scheme, buffer=size.steps // 6, total=10_000.0, sequences=1).bound

        return eqx.filter_value_and_grad(loss)(ssm)

    run = eqx.filter_jit(eqx.filter_vmap(one, in_axes=(eqx.if_array(0), 0)))
    keys = jax.random.split(jax.random.key(1), size.members)
    return lambda: jax.block_until_ready(run(ssm, keys))


def floor(size: Size, dtype: str) -> Callable[[], Any]:
    """Exponentials of the forward pass and of its recomputation, and four products with the whitener."""
    rows = size.members * size.windows * size.samples * size.steps
    rng = np.random.default_rng(0)
    r2 = jnp.asarray(rng.random((size.latent, rows, size.inducing)), dtype)
    W = jnp.asarray(np.tril(rng.standard_normal((size.latent, size.inducing, size.inducing))), dtype)

    @jax.jit
    def run(r2, W):
        k, again = jnp.exp(-0.5 * r2), jnp.exp(-0.4 * r2)
        a, b = jnp.einsum("dpj,dij->dpi", k, W), jnp.einsum("dpj,dij->dpi", again, W)
        return jnp.sum(jnp.einsum("dpi,dij->dpj", b, W)[:, 0]), jnp.einsum("dpi,dpj->dij", a, k)

    return lambda: jax.block_until_ready(run(r2, W))


def time_calls(run: Callable[[], Any], seconds: float = 2.0) -> dict[str, float]:
    """First call (compilation included) and the median of what fits into the time, in milliseconds."""
    began = time.perf_counter()
    run()
    first, laps = time.perf_counter() - began, []
    while len(laps) < 3 or (sum(laps) < seconds and len(laps) < 200):
        began = time.perf_counter()
        run()
        laps.append(time.perf_counter() - began)
    return {"ms": 1e3 * float(np.median(laps)), "least_ms": 1e3 * min(laps), "first_s": first}


def contenders(size: Size, dtype: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every path that this machine has; PyTorch's computes on CPUs."""
    yield OURS, gradient(size, dtype, fastest())
    yield "JAX scan", gradient(size, dtype, FullMC())
    if torch_step.available() and native.platform() == "cpu":
        yield "PyTorch eager", torch_step.gradient(dataclasses.asdict(size), dtype)
    yield "floor", floor(size, dtype)


def compare(size: Size, dtype: str) -> dict[str, Any]:
    """All paths at one size, each as a multiple of ours."""
    with floating_point(dtype):
        times = {name: time_calls(run) for name, run in contenders(size, dtype)}
    ours = times[OURS]["ms"]
    ratios = {name: round(t["ms"] / ours, 3) for name, t in times.items()}
    return {"size": dataclasses.asdict(size), "dtype": dtype, "times": times, "ratio_to_ours": ratios}


def growth(name: str, dtype: str = "float32") -> dict[str, float]:
    """Milliseconds of our step while one size grows from the paper's."""
    with floating_point(dtype):
        grown = {n: gradient(dataclasses.replace(PAPER, **{name: n}), dtype, fastest()) for n in GROWTH[name]}
        return {str(n): time_calls(run, 1.0)["ms"] for n, run in grown.items()}


def free_run(samples: int, rows: int, dtype: str = "float32") -> dict[str, float]:
    """Microseconds per step of one component at the paper's sizes, all samples together."""
    with floating_point(dtype):
        ssm, _ = problem(PAPER, dtype)
        component = jax.tree.map(lambda x: x[0], ssm.components[0])
        inputs = jnp.asarray(np.random.default_rng(0).standard_normal((1, rows, PAPER.inputs)), dtype)

        @eqx.filter_jit
        def run(component, key):
            here = draw_particles(component, (1, samples), key)
            return advance(component, here, inputs, jnp.ones((1, rows), dtype), jnp.zeros((), jnp.int32), key)[1]

        result = time_calls(lambda: jax.block_until_ready(run(component, jax.random.key(0))))
    return {"samples": samples, "rows": rows, "us_per_step": 1e3 * result["ms"] / rows, "first_s": result["first_s"]}


def bench(quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """The whole comparison as one record."""
    comparisons = []
    for label, size, dtype in (("paper", PAPER, "float32"), ("paper", PAPER, "float64"), ("peers", PEERS, "float32")):
        report(f"gradient step, {label} sizes, {dtype}")
        comparisons.append({"label": label} | compare(size, dtype))
    result = {"experiment": "bench", "native_kernel": native.ready(), "steps": comparisons}
    if not quick:
        report("growth")
        result["growth_ms"] = {name: growth(name) for name in GROWTH}
        report("free run")
        result["free_run"] = [free_run(samples, 20_000) for samples in (20, 100)]
        result["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return result
