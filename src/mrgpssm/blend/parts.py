"""The parts of a blend: their names, their settings, and how they and those of its folds are trained."""

import contextlib
import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace

import numpy as np

from mrgpssm.blend.simulator import Simulator, call, copy_untrained
from mrgpssm.blend.static import AbstractStatic
from mrgpssm.data import Scaling, Sequence, check_folds, take_unseen, trained_on
from mrgpssm.errors import ConfigError, DataError, DataWarning, FitError, Interrupted
from mrgpssm.estimator.estimator import MRGPSSM, from_fitted
from mrgpssm.estimator.fitting import read_folds
from mrgpssm.prediction.fitted import read_model
from mrgpssm.spec import Bands
from mrgpssm.training.runs import RunDirectory

Parts = dict[str, Simulator]


def name_parts(given: SequenceOf[Simulator] | Mapping[str, Simulator]) -> Parts:
    """Parts by name; those of a list are called after their classes."""
    parts: Parts = {}
    if isinstance(given, Mapping):
        parts.update(given)
    else:
        for part in given:
            kind = type(part).__name__.lower()
            count = sum(name.partition("_")[0] == kind for name in parts)
            parts[f"{kind}_{count + 1}" if count else kind] = part
    if not parts:
        raise ConfigError("A blend needs at least one part; give Blend([MRGPSSM(), ...]), or leave parts out.")
    for name, part in parts.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ConfigError(f"Names of parts are letters, digits and _, a letter first; got {name!r:.80}.")
        if not isinstance(part, Simulator) or isinstance(part, type):
            raise ConfigError(f"Part {name!r} is no simulator: it needs the methods fit, simulate and score.")
    return parts


def settle_parts(parts: Parts, training: list[Sequence], folds: int) -> tuple[Parts, tuple[str, ...]]:
    """Untrained parts whose settings are chosen from all recordings, so that those of a fold are as large.

    The sentences say what was chosen. A state-space model has no bands of its own here; it trains its folds along, each
    with as many restarts as the whole.
    """
    settled, reasons = {}, []
    for name, part in parts.items():
        settled[name] = own = copy_untrained(part)
        if isinstance(own, MRGPSSM):
            if own.training.early_stopping:
                raise ConfigError(
                    f"Part {name!r} has early_stopping, which is judged on data that the blend keeps for its shares; "
                    "leave it out."
                )
            own.set_params(bands=Bands(folds=0, calibrate=False))
            spec, *_ = own.check(training)
            bands = replace(spec.bands, folds=folds, fold_restarts=spec.training.restarts)
            settled[name] = MRGPSSM.from_spec(replace(spec, bands=bands))
            reasons += own.chosen_
        elif isinstance(own, AbstractStatic):
            own.settle(training)
    return settled, tuple(reasons)


def find_folds(training: list[Sequence], held_out: list[Sequence], folds: int, parts: Parts) -> list[int]:
    """Numbers of the folds that parts can be trained in: where an input does not vary, a fold is left out.

    With validation recordings held out, there are none.
    """
    if held_out:
        _check_measured(held_out)
        return []
    check_folds(training, folds)
    found = []
    for k in range(folds):
        own = trained_on(training, folds, k)
        try:
            Scaling.fit(own)
        except DataError as error:
            warnings.warn(f"Fold {k + 1} of {folds} is left out: {error}", stacklevel=3)
            continue
        found.append(k)
    if not found:
        raise DataError("No fold can be trained; give validation recordings, or fewer folds.")
    for part in parts.values():
        if isinstance(part, MRGPSSM):
            part.check(training)
    _check_measured([s for k in found for s in take_unseen(training, folds, k)])
    return found


def _check_measured(left_out: list[Sequence]) -> None:
    """Every output is measured somewhere in what was left out."""
    for column, name in enumerate(left_out[0].output_names):
        if all(np.isnan(s.outputs[:, column]).all() for s in left_out):
            raise DataError(
                f"Output {name!r} is measured in no recording that can be left out to learn shares on; give "
                "validation recordings that have it, or leave it out."
            )


@dataclass(frozen=True)
class PartTrainer:
    """Trains parts; state-space models in folders of `run`, where there is one. `stage` hears what is under way."""

    parts: Parts
    run: RunDirectory | None
    progress: bool
    stage: Callable[[str], None]

    @contextlib.contextmanager
    def explain_stop(self) -> Iterator[None]:
        """A stop while a part is trained says how to go on with the blend."""
        try:
            yield
        except Interrupted as stop:
            if self.run is None:
                raise
            raise Interrupted(self.run.explain_stop("the parts that are finished are kept"), stop.number) from None

    def identify(self, options: dict[str, object], sequences: Iterable[Sequence]) -> None:
        """Make the folder, where there is one, that of this blend, or check that it is."""
        if self.run is None:
            return
        settings = options | {name: _describe(part) for name, part in self.parts.items()}
        sha = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for s in sequences:
            for values in (s.inputs, s.outputs, s.clock()):
                sha.update(f"{values.dtype} {values.shape}".encode())
                sha.update(values.tobytes())
        self.run.identify(sha.hexdigest(), {"options": settings})

    def fit(self, training: list[Sequence], folds: list[int], count: int) -> tuple[Parts, dict[int, Parts]]:
        """All parts, and for each of `count` folds that is wanted those that have not seen what it leaves out.

        A state-space model trains them all as one fleet. A part that has been left in its folder is read. A fold that
        one of the parts could not be trained in is left out. What is doubtful about data is said by the blend.
        """
        whole: Parts = {}
        apart: dict[int, Parts] = {k: {} for k in folds}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            for name, part in self.parts.items():
                if isinstance(part, MRGPSSM):
                    whole[name] = model = self._fit_fleet(name, part, training)
                    for k in apart.keys() & model.folds_.keys():
                        apart[k][name] = from_fitted(model.folds_[k])
                    continue
                for k in apart:
                    apart[k][name] = self._fit_one(name, trained_on(training, count, k), f"fold {k + 1} of {count}")
                whole[name] = self._fit_one(name, training, "the blend")
        for k in [k for k, parts in apart.items() if len(parts) < len(whole)]:
            warnings.warn(f"Fold {k + 1} of {count} is left out: a part could not be trained in it.", stacklevel=4)
            del apart[k]
        if folds and not apart:
            raise FitError("No fold could be trained; give validation recordings, or lower learning_rate.")
        return whole, apart

    def _fit_fleet(self, name: str, part: MRGPSSM, training: list[Sequence]) -> MRGPSSM:
        model, whose = copy_untrained(part), "the blend and of all folds" if part.bands.folds else "the blend"
        folder = None if self.run is None else RunDirectory(self.run.root / "parts" / name, self.run.every)
        if folder is not None and folder.model.exists():
            self.stage(f"{name} of {whose}, which is finished")
            return from_fitted(read_model(folder.model), read_folds(folder))
        self.stage(f"{name} of {whose}")
        return model.fit(training, progress=self.progress, run_dir=folder)

    def _fit_one(self, name: str, training: list[Sequence], whose: str) -> Simulator:
        part = copy_untrained(self.parts[name])
        self.stage(f"{name} of {whose}")
        call(part.fit, training, progress=self.progress)
        return part


def _describe(part: Simulator) -> str:
    """A part and its arguments in words."""
    params = part.get_params(deep=False) if hasattr(part, "get_params") else {}  # pyright: ignore
    return f"{type(part).__name__}({', '.join(f'{key}={value!r}' for key, value in params.items())})"
