"""Options are declared once: checks, flags, TOML keys and arguments follow from the declarations."""

import inspect
from dataclasses import fields, replace

import pytest
from sklearn.base import clone

from mrgpssm import MRGPSSM, Bands, ConfigError, Training
from mrgpssm.cli.fit import fit
from mrgpssm.spec import SECTIONS, Spec, Structure, arrange, make_spec, options_of, read_spec
from mrgpssm.training import TrainingSettings

pytestmark = pytest.mark.once


def test_no_name_is_in_two_sections_and_every_option_has_a_sentence():
    names = [name for section in SECTIONS.values() for name in options_of(section)]
    assert len(set(names)) == len(names)
    for section in SECTIONS.values():
        for name, option in options_of(section).items():
            assert option.help.endswith("."), name
            option.kind.check(name, Spec().complete().flat()[name])


def test_the_estimator_takes_the_options_of_the_structure_and_two_sections():
    given = inspect.signature(MRGPSSM).parameters
    assert list(given) == [*options_of(Structure), "training", "bands"]
    for field in fields(Structure):
        assert given[field.name].default == field.default, field.name
    assert (given["training"].default, given["bands"].default) == (Training(), Bands())


def test_every_option_is_a_flag():
    flags = inspect.signature(fit).parameters
    for section in SECTIONS.values():
        assert set(options_of(section)) <= set(flags)


def test_tables_of_a_file_make_the_same_specification():
    spec = make_spec({"resolutions": (5, 1), "steps": 7, "folds": 3, "filters": [2, 9.5]})
    assert read_spec(spec.tables(), "file") == spec
    assert make_spec(spec.to_json()) == spec
    assert spec.change(steps=8).training.steps == 8
    assert MRGPSSM.from_spec(spec).spec == spec
    assert MRGPSSM(**arrange(resolutions=(5, 1), steps=7, folds=3, filters=[2, 9.5])).spec == spec
    with pytest.raises(ConfigError, match=r"file: unknown key in \[training\] 'step'; did you mean 'steps'\?"):
        read_spec({"training": {"step": 3}}, "file")


def test_arguments_can_be_read_and_set_by_name():
    model = MRGPSSM((30, 1), training=Training(steps=100))
    assert model.get_params()["training__steps"] == 100
    assert "training__steps" not in model.get_params(deep=False)
    model.set_params(training__steps=50, training__seed=3, bands=Bands(folds=4), latent_dim=2)
    assert model.training == Training(steps=50, seed=3)
    assert (model.bands.folds, model.latent_dim) == (4, 2)
    again = clone(model)
    assert isinstance(again, MRGPSSM)
    assert again is not model
    assert again.get_params() == model.get_params()
    with pytest.raises(ConfigError, match=r"unknown argument 'training__step'; did you mean 'training__steps'\?"):
        model.set_params(training__step=1)
    with pytest.raises(ConfigError, match="steps must be a whole number, at least 1; got 0"):
        model.set_params(training__steps=0)
    with pytest.raises(ConfigError, match=r"training must be Training\(\.\.\.\); got \{'steps': 3\}"):
        MRGPSSM((1,), training={"steps": 3}).spec  # noqa: B018  # pyright: ignore[reportArgumentType]


def test_what_runs_share_is_all_of_training_but_what_no_program_depends_on():
    training = replace(Spec().complete().training, restarts=4, ensemble=2)
    shared = TrainingSettings.of(training)
    for name, option in options_of(Training).items():
        own = getattr(training, name)
        words = getattr(option.kind, "words", ())
        if words:
            other = next(word for word in words if word != own)
        else:
            other = not own if isinstance(own, bool) else own / 2 if isinstance(own, float) else own + 1
        kept = getattr(TrainingSettings.of(replace(training, **{name: other})), name) == other
        assert kept != (name in ("start", "seed", "restarts", "ensemble", "early_stopping")), name
    other = replace(training, seed=9, restarts=4, ensemble=2, early_stopping=True)
    assert TrainingSettings.of(other) == shared
    assert TrainingSettings.of(replace(training, anneal=0.5)) != shared
