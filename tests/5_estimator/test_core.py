"""Kernels, emissions and schemes as options: ours by name, the user's own as a class or an instance."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm import MRGPSSM, ConfigError, ModelFileError, Sequence, load, runtime
from mrgpssm.arrays.precision import floating_point
from mrgpssm.data import Seen
from mrgpssm.export import c_source
from mrgpssm.gp import KERNELS, RBF, AbstractKernel, Matern32, make_kernel
from mrgpssm.model import EMISSIONS, AbstractEmission, LinearEmission
from mrgpssm.prediction.mean import mean_paths
from mrgpssm.rollout import SCHEMES, AbstractScheme, FullMC
from mrgpssm.rollout.fused import has_kernel
from mrgpssm.spec import INGREDIENTS, Structure, arrange, make_spec

pytestmark = pytest.mark.once
TINY: dict[str, Any] = {"samples": 2, "windows": 2, "window": 6, "buffer": 2, "cycles": 1, "steps": 2, "folds": 0}
CALLS: list[str] = []


class RationalQuadratic(AbstractKernel):
    alpha: float = eqx.field(static=True, default=1.0)

    def correlation(self, squared_distance):
        return (1 + squared_distance / (2 * self.alpha)) ** -self.alpha


class Triangle(RBF):
    """Derived from one of ours, with another covariance."""

    def correlation(self, squared_distance):
        return jnp.exp(-squared_distance)


class Scaled(AbstractEmission):
    scale: Any = None

    def start(self, outputs, latent_dim, *, key, dtype):
        return replace(self, scale=jnp.ones((outputs,), dtype))

    def __call__(self, x):
        assert self.scale is not None
        return self.scale * x[: len(self.scale)]


class Counted(AbstractScheme):
    def path(self, dynamics, start, inputs, steps, noise):
        CALLS.append("path")
        return FullMC().path(dynamics, start, inputs, steps, noise)


class Demanding(AbstractKernel):
    period: float = eqx.field(static=True, kw_only=True)

    def correlation(self, squared_distance):
        return jnp.exp(-squared_distance / self.period)


def test_a_word_a_class_and_an_instance_are_one_option():
    known: dict[str, dict[str, Any]] = {"kernel": KERNELS, "emission": EMISSIONS, "scheme": SCHEMES}
    for key, ours in known.items():
        assert INGREDIENTS[key].words == tuple(ours)
        for word, one in ours.items():
            for given in (word, one, type(one)):
                assert getattr(make_spec({key: given}).structure, key) == word
    own, again = Structure(kernel=RationalQuadratic), Structure(kernel=RationalQuadratic(alpha=1.0))
    assert own == again
    assert hash(own) == hash(again)
    assert own != Structure(kernel=RationalQuadratic(alpha=2.0))
    assert own != Structure()
    assert own.to_json()["kernel"] == "RationalQuadratic"
    assert Structure(kernel=Triangle).to_json()["kernel"] == "Triangle"
    model = MRGPSSM(kernel=Matern32(), emission=LinearEmission)
    assert (model.spec.structure.kernel, model.spec.structure.emission) == ("matern32", "linear")
    assert isinstance(model.get_params()["kernel"], Matern32)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("rbff", "one of rbf, matern32, matern52, or a subclass of mrgpssm.gp.AbstractKernel"),
        (3, "one of rbf"),
        (AbstractKernel, "one of rbf"),
        (LinearEmission, "one of rbf"),
        (make_kernel(RBF, 1.0, jnp.ones(2)), "without arrays"),
        (Demanding, r"give an instance of it, Demanding\(...\)"),
    ],
)
def test_what_is_no_kernel_is_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        _ = MRGPSSM(kernel=given).spec


PAIRS = [("matern32", "identity"), ("matern52", "nonlinear"), ("rbf", "linear")]


@pytest.mark.parametrize(("kernel", "emission"), PAIRS)
def test_files_runtime_and_stepper_know_all_of_ours(kernel, emission, tmp_path):
    sizes: dict[str, Any] = {"joint": True, "latent_dim": 1} if emission == "linear" else {}
    model = untrained(resolutions=(3, 1), inducing=4, kernel=kernel, emission=emission, **sizes)
    path, u = tmp_path / "m.mrgpssm", recording(2).inputs[:40]
    model.save(path)
    again, small = load(path), runtime.load(path)
    assert (again.kernel, again.emission) == (kernel, emission)
    run = model.simulate(u, samples=4, keep_samples=True)
    np.testing.assert_array_equal(again.simulate(u, samples=4).mean, run.mean)
    samples = small.simulate(u, samples=4, keep_samples=True).samples
    assert samples is not None
    assert run.samples is not None
    np.testing.assert_allclose(samples, run.samples, rtol=0, atol=1e-4)
    np.testing.assert_allclose(small.simulate_mean(u), model.simulate_mean(u), rtol=0, atol=1e-4)
    stepper = small.stepper(samples=4)
    np.testing.assert_allclose([stepper.update(row).mean for row in u], run.mean, rtol=0, atol=1e-4)
    if kernel == "rbf":
        assert "double C[" in c_source(small)
    else:
        with pytest.raises(ConfigError, match="A C file holds the kernel rbf and the emissions identity and linear"):
            c_source(small)


def test_a_measurement_corrects_what_a_learned_emission_shows():
    model = untrained(resolutions=(1,), inducing=4, emission="linear", outputs=("NOx",))
    stepper = model.stepper(samples=200)
    u, far = np.zeros(2), stepper.estimate().mean + 3.0
    stepper.update(u, far)
    before = model.stepper(samples=200)
    before.update(u)
    assert np.abs(stepper.estimate().mean - far) < 0.9 * np.abs(before.estimate().mean - far)


def test_a_model_with_parts_of_the_users_own_is_read_with_them(tmp_path):
    model = untrained(
        resolutions=(1,), inducing=4, kernel=RationalQuadratic(alpha=2.0), emission=Scaled, scheme=Counted
    )
    path, u = tmp_path / "own.mrgpssm", recording(2).inputs[:20]
    model.save(path)
    own: dict[str, Any] = {"kernel": RationalQuadratic(alpha=2.0), "emission": Scaled, "scheme": Counted}
    np.testing.assert_array_equal(load(path, **own).simulate(u, samples=3).mean, model.simulate(u, samples=3).mean)
    with pytest.raises(ModelFileError, match="load it with kernel=RationalQuadratic"):
        load(path)
    with pytest.raises(ModelFileError, match="its emission is Scaled; got emission=linear"):
        load(path, kernel=own["kernel"], emission=LinearEmission, scheme=Counted)
    with pytest.raises(ModelFileError, match="its kernel is RationalQuadratic"):
        runtime.load(path)
    with pytest.raises(ConfigError, match="know the kernels rbf, matern32, matern52, not RationalQuadratic"):
        model.stepper()
    model.fitted_ = replace(model.fitted_, structure=replace(model.fitted_.structure, kernel="rbf"))
    with pytest.raises(ConfigError, match="know the emissions identity, linear, nonlinear, not Scaled"):
        model.stepper()


def test_a_kernel_derived_from_rbf_does_not_take_the_native_path():
    for kernel, native in (("rbf", True), (Triangle, False)):
        model = untrained(resolutions=(1,), inducing=4, kernel=kernel)
        assert has_kernel(model.fitted_.models[0].components[0].dynamics(), 1, 1) == native


@pytest.mark.parametrize(
    ("kernel", "emission", "scheme"), [("matern32", "linear", "marginal"), ("matern52", "nonlinear", Counted)]
)
def test_they_train(kernel, emission, scheme):
    u, before = recording(0).inputs[:60], len(CALLS)
    s = Sequence(u, np.hstack([u[:, :1], u[:, :1] ** 2]), 1.0)
    options = arrange(
        resolutions=(1,), latent_dim=1, joint=True, inducing=4, kernel=kernel, emission=emission, scheme=scheme, **TINY
    )
    with floating_point("float32"):
        model = MRGPSSM(**options).fit(s, progress=False)
    emitted = model.fitted_.models[0].components[0].emission
    assert isinstance(emitted, type(EMISSIONS[emission]))
    assert not np.allclose(emitted.C, [[1.0], [0.0]], atol=1e-3)  # pyright: ignore[reportAttributeAccessIssue]
    assert np.isfinite(model.simulate(u, samples=3).mean).all()
    assert (len(CALLS) > before) == (scheme is Counted)
    assert np.isfinite(model.radius_).all()


@pytest.mark.parametrize("cascade", [False, True])
def test_a_long_noiseless_run_stays_inside_the_radius(cascade):
    model = untrained(resolutions=(5, 1), inducing=4, precision="float64", cascade=cascade, filters=(10.0,))
    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(-9, 9, (400, 2)), 25, axis=0)
    s = Sequence(u, np.full((len(u), 2), np.nan), 0.1, None, ("speed", "load"), ("NOx", "Temp"))
    assert np.isinf(model.radius_).all()  # nobody knows the ranges yet
    model.fitted_ = replace(model.fitted_, seen=Seen.of([s]))
    radius, drive = model.radius_, model.fitted_.drive(s)
    assert radius.shape == (2, 2)
    for group, ssm in enumerate(model.fitted_.models):
        with floating_point("float64"):
            paths = mean_paths(ssm, [c.initial.mean for c in ssm.components], drive, np.ones(len(drive)))
        furthest = np.array([np.linalg.norm(path, axis=1).max() for path in paths])
        assert (furthest <= radius[group]).all()
        assert (furthest > 0.01 * radius[group]).all()


def test_the_paper_promises_no_radius():
    model = untrained(resolutions=(1,), inducing=4, preset="paper")
    model.fitted_ = replace(model.fitted_, seen=Seen.of([recording(0)]))
    assert np.isinf(model.radius_).all()
