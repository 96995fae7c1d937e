"""Configuration of a run: a TOML file, every key also a flag, unknown keys answered with the nearest known one.

[data]   files, inputs, outputs, time, dt, gaps, validation
[model]  the arguments of MRGPSSM
[run]    directory, checkpoint_seconds
"""

import difflib
import inspect
import json
import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mrgpssm.errors import ConfigError
from mrgpssm.file import read_toml

_GAPS = ("split", "irregular", "refuse")


@dataclass(frozen=True)
class DataConfig:
    """Which files, and which of their columns."""

    files: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    time: str | None = None
    dt: float | None = None
    gaps: str = "split"
    validation: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunOptions:
    """Where the run lives and how often it is made safe."""

    directory: str = "run"
    checkpoint_seconds: float = 30.0


@dataclass(frozen=True)
class RunConfig:
    """All that `mrgpssm fit` needs."""

    data: DataConfig = field(default_factory=DataConfig)
    model: dict[str, Any] = field(default_factory=dict)
    run: RunOptions = field(default_factory=RunOptions)

    def to_toml(self) -> str:
        """The same as a TOML text that `read_config` takes back; what is not set is left out."""
        lines = []
        for title, table in (("data", asdict(self.data)), ("model", self.model), ("run", asdict(self.run))):
            lines.append(f"[{title}]")
            lines += [f"{key} = {_toml(value)}" for key, value in table.items() if value not in (None, ())]
            lines.append("")
        return "\n".join(lines)


def model_keys() -> dict[str, Any]:
    """The model's options, and what they are where resolutions are given and they are not."""
    from mrgpssm.estimator.estimator import MRGPSSM
    from mrgpssm.spec.options import settled

    return settled({name: p.default for name, p in inspect.signature(MRGPSSM).parameters.items()})


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a run's TOML file."""
    tables = read_toml(path)
    for name, table in tables.items():
        if name not in ("data", "model", "run"):
            raise ConfigError(f"{path}: {_unknown('section', name, ('data', 'model', 'run'))}")
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name} must be a section [{name}], not a value.")
    return tables


def make_config(tables: dict[str, dict[str, Any]], where: str) -> RunConfig:
    """Checked sections; `where` is what messages call the source."""
    known = {
        "data": tuple(f.name for f in fields(DataConfig)),
        "run": tuple(f.name for f in fields(RunOptions)),
        "model": tuple(model_keys()),
    }
    for section, keys in known.items():
        for key in tables.get(section, {}):
            if key not in keys:
                raise ConfigError(f"{where}: {_unknown(f'key in [{section}]', key, keys)}")
    data, run = tables.get("data", {}), tables.get("run", {})
    lists = {key: _strings(data[key], f"{where}: data.{key}") for key in ("files", "inputs", "outputs", "validation")
             if key in data}  # fmt: skip
    config = RunConfig(DataConfig(**{**data, **lists}), dict(tables.get("model", {})), RunOptions(**run))
    _check(config, where)
    return config


def resolved(config: RunConfig, options: dict[str, Any]) -> RunConfig:
    """The configuration with every model option spelled out and files that are found from anywhere."""
    files = {key: tuple(os.path.abspath(f) for f in getattr(config.data, key)) for key in ("files", "validation")}
    return replace(config, data=replace(config.data, **files), model=options)


def _check(config: RunConfig, where: str) -> None:
    data, run = config.data, config.run
    for key, flag in (("files", "--data"), ("inputs", "--inputs"), ("outputs", "--outputs")):
        if not getattr(data, key):
            raise ConfigError(f"{where}: data.{key} is empty; give it in the file or with {flag}.")
    if data.gaps not in _GAPS:
        raise ConfigError(f"{where}: data.gaps must be one of {', '.join(_GAPS)}; got {data.gaps!r:.80}.")
    if data.time is not None and not isinstance(data.time, str):
        raise ConfigError(f"{where}: data.time must be the name of a column; got {data.time!r:.80}.")
    if data.dt is not None and not (_is_number(data.dt) and data.dt > 0):
        raise ConfigError(f"{where}: data.dt must be a positive number of seconds; got {data.dt!r:.80}.")
    if not (_is_number(run.checkpoint_seconds) and run.checkpoint_seconds >= 0):
        raise ConfigError(
            f"{where}: run.checkpoint_seconds must be a number of seconds, at least 0; "
            f"got {run.checkpoint_seconds!r:.80}."
        )
    if not isinstance(run.directory, str) or not run.directory:
        raise ConfigError(f"{where}: run.directory must be the name of a folder; got {run.directory!r:.80}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) and item for item in items):
        raise ConfigError(f"{where} must be a list of texts; got {value!r:.80}.")
    return tuple(items)


def _unknown(kind: str, name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]!r:.80}?" if near else f"known are {', '.join(known)}."
    return f"unknown {kind} {name!r:.80}; {hint}"


def _toml(value: Any) -> str:
    """Texts, numbers, truth values and flat lists: all that a configuration holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
