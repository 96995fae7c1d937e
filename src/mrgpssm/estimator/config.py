"""Configuration of a run: a TOML file, every key also a flag, unknown keys answered with the nearest known one.

[data]      files, inputs, outputs, time, dt, gaps, validation
[model]     the options of `Structure`
[training]  those of `Training`
[bands]     those of `Bands`
[run]       directory, checkpoint_seconds, blend
"""

import json
import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mrgpssm.errors import ConfigError
from mrgpssm.file import read_toml
from mrgpssm.spec import SECTIONS, Spec, describe_unknown, read_spec

_TABLES = ("data", *SECTIONS, "run")
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
    """Where the run lives, how often it is made safe, and whether the model is blended with static simulators."""

    directory: str = "run"
    checkpoint_seconds: float = 30.0
    blend: bool = False


@dataclass(frozen=True)
class RunConfig:
    """All that `mrgpssm fit` needs."""

    data: DataConfig = field(default_factory=DataConfig)
    spec: Spec = field(default_factory=Spec)
    run: RunOptions = field(default_factory=RunOptions)

    def to_toml(self) -> str:
        """The same as a TOML text that `read_config` takes back; what is not set is left out."""
        lines = []
        for title, table in (("data", asdict(self.data)), *self.spec.tables().items(), ("run", asdict(self.run))):
            lines.append(f"[{title}]")
            lines += [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None and value != ()]
            lines.append("")
        return "\n".join(lines)


def read_config(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a run's TOML file."""
    tables = read_toml(path)
    for name, table in tables.items():
        if name not in _TABLES:
            raise ConfigError(f"{path}: {describe_unknown('section', name, _TABLES)}")
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name} must be a section [{name}], not a value.")
    return tables


def make_config(tables: dict[str, dict[str, Any]], where: str) -> RunConfig:
    """Checked sections; `where` is what messages call the source."""
    for section, known in (("data", DataConfig), ("run", RunOptions)):
        keys = [f.name for f in fields(known)]
        for key in tables.get(section, {}):
            if key not in keys:
                raise ConfigError(f"{where}: {describe_unknown(f'key in [{section}]', key, keys)}")
    data, run = tables.get("data", {}), tables.get("run", {})
    texts = ("files", "inputs", "outputs", "validation")
    lists = {key: _strings(data[key], f"{where}: data.{key}") for key in texts if key in data}
    config = RunConfig(DataConfig(**{**data, **lists}), read_spec(tables, where), RunOptions(**run))
    _check(config, where)
    return config


def resolve_config(config: RunConfig, spec: Spec) -> RunConfig:
    """The configuration with every option spelled out and files that are found from anywhere."""
    files = {key: tuple(os.path.abspath(f) for f in getattr(config.data, key)) for key in ("files", "validation")}
    return replace(config, data=replace(config.data, **files), spec=spec)


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
    if not isinstance(run.blend, bool):
        raise ConfigError(f"{where}: run.blend must be true or false; got {run.blend!r:.80}.")
    if not isinstance(run.directory, str) or not run.directory:
        raise ConfigError(f"{where}: run.directory must be the name of a folder; got {run.directory!r:.80}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) and item for item in items):
        raise ConfigError(f"{where} must be a list of texts; got {value!r:.80}.")
    return tuple(items)


def _toml(value: Any) -> str:
    """Texts, numbers, truth values and flat lists: all that a configuration holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
