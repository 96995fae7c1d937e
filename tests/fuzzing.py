"""Seeded, structured damage to files: headers, metadata and tensors that are wrong in a well-formed way.

A changed file carries a checksum that fits, so that what lies behind the checksum is reached, or a header that was
edited by hand. All randomness comes from one generator: case k of a seed is always the same bytes.
"""

import copy
import json
import random
import time
import tomllib
from collections.abc import Callable
from typing import Any

import numpy as np

from mrgpssm.file import unpack
from mrgpssm.file.tensors import _digest as digest
from mrgpssm.file.tensors import _serialise as serialise

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 10**6, 10**9, 2**31, 2**63, 10**30, 10**400, -(10**400), 0.5, -0.0, 1e-320, 1e308,
    float("inf"), float("-inf"), float("nan"), "", "a", "__import__('os').system('true')", "os.system", "../../etc/passwd",
    "stable", "paper", "float32", "float64", "cache", "initial", "recognition", "\x00", "\ud800", "é" * 50, "9" * 5000, "x" * 7_000,
    [], [1], [0], [1] * 300, [[]], {}, {"a": 1}, ["a"], ["a"] * 2, [str(i) for i in range(300)], {"__class__": "os.system"},
)  # fmt: skip
SPLINTERS = (b"[" * 2000, b'{"a":' * 500, b"1" * 6000, b"\\u0000", b"\xff\xfe", b"NaN", b"1e999999", b'"version":9,')
DTYPES = ("F16", "F32", "F64", "BF16", "I8", "I32", "I64", "U64", "BOOL", "C64", "", "f64", "F8_E4M3", 3, None)


def paths_of(tree: Any) -> list[tuple]:
    """The places of all values in a tree of dictionaries and lists."""
    found, waiting = [], [((), tree)]
    while waiting:
        at, value = waiting.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        below = [((*at, key), child) for key, child in items]
        found += [path for path, _ in below]
        waiting += below
    return found


def deep(rng: random.Random) -> Any:
    """Lists in lists."""
    value: Any = 1
    for _ in range(rng.choice((5, 50))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def spoil(text: str, rng: random.Random) -> Any:
    """A tree, given as JSON, with one to three values replaced, removed, added, swapped or nested."""
    tree = json.loads(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = paths_of(tree)
        if not places:
            return tree
        *way, last = rng.choice(places)
        parent = tree
        for key in way:
            parent = parent[key]
        act = rng.randrange(7)
        if act == 0:
            del parent[last]
        elif act == 1 and isinstance(parent, dict):
            parent[rng.choice(("extra", "version", "structure", "\x00", "__metadata__", "a" * 300))] = copy.deepcopy(
                rng.choice(ODD)
            )
        elif act == 2 and isinstance(parent[last], (int, float)) and not isinstance(parent[last], bool):
            parent[last] = rng.choice((1, -1, 2, 10, 1000)) * parent[last] + rng.choice((0, 1, -1))
        elif act == 3:
            parent[last] = [parent[last]] if rng.random() < 0.5 else deep(rng)
        elif act == 4 and isinstance(parent, list):
            parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(rng.choice((*ODD, *parent))))
        else:
            parent[last] = copy.deepcopy(rng.choice(ODD))
    return tree


def dumped(tree: Any) -> bytes:
    """JSON with whatever Python would write, NaN and lone surrogates included."""
    return json.dumps(tree, allow_nan=True).encode("utf-8", "surrogatepass")


def sealed(kind: str, text: str, tensors: dict[str, np.ndarray]) -> bytes:
    """A file whose checksum fits its content, even where `pack` would refuse to write that."""
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    return serialise(arrays, {"kind": kind, "content": text, "sha256": digest(kind, text, arrays)})


def spoil_tensors(tensors: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """One tensor renamed, dropped, doubled, reshaped, of another type, or with odd values."""
    tensors = dict(tensors)
    name = rng.choice(sorted(tensors))
    array, act = tensors[name], rng.randrange(8)
    if act == 0:
        del tensors[name]
    elif act == 1:
        tensors[
            rng.choice(("", "extra", name + ".x", name[:-1], "models.0.0", "models.9.0.components.0.x", "\x00"))
        ] = array
    elif act == 2:
        tensors[name] = array.reshape(-1)
    elif act == 3:
        tensors[name] = array[:0] if array.ndim else array[None]
    elif act == 4:
        tensors[name] = array.astype(rng.choice((np.float32, np.float64, np.int32, np.int64, np.bool_)))
    elif act == 5:
        tensors[name] = np.full_like(
            array, rng.choice((0, -1, 1)) if array.dtype.kind != "f" else rng.choice((np.nan, np.inf, -1e30, 0))
        )
    elif act == 6:
        other = rng.choice(sorted(tensors))
        tensors[name], tensors[other] = tensors[other], tensors[name]
    else:
        tensors[name] = np.zeros((0, 2**40), np.float32) if rng.random() < 0.5 else np.expand_dims(array, 0)
    return tensors


class Fuzzer:
    """Damaged copies of one good file."""

    def __init__(self, good: bytes, kind: str, seed: int):
        self.good, self.kind, self.rng = good, kind, random.Random(seed)
        self.content, self.tensors = unpack(good, kind, "good")
        self.text = json.dumps(self.content, sort_keys=True)
        length = int.from_bytes(good[:8], "little")
        self.header_text, self.body = good[8 : 8 + length].decode(), good[8 + length :]
        self.header = json.loads(self.header_text)

    def case(self) -> bytes:
        """The next one."""
        act = self.rng.random()
        if act < 0.2:
            return sealed(self.kind, json.dumps(spoil(self.text, self.rng), sort_keys=True), self.tensors)
        if act < 0.3:
            return sealed(self.kind, self.text, spoil_tensors(self.tensors, self.rng))
        if act < 0.35:
            return sealed(
                self.kind, tear(self.text.encode(), self.rng).decode("utf-8", "surrogateescape"), self.tensors
            )
        if act < 0.75:
            return self.edited_header()
        return self.torn()

    def edited_header(self) -> bytes:
        """Types, shapes, offsets and texts of the header changed by hand."""
        header, rng = self.header, self.rng
        if rng.random() < 0.5:
            name = rng.choice([key for key in header if key != "__metadata__"])
            entry = dict(header[name])
            field = rng.choice(sorted(entry))
            entry[field] = (
                rng.choice(DTYPES) if field == "dtype" else spoil(json.dumps({"v": entry[field]}), rng).get("v")
            )
            header = header | {name: entry}
        else:
            header = spoil(self.header_text, rng)
        return framed(dumped(header), self.body)

    def torn(self) -> bytes:
        """A header that is no longer JSON, or a length that lies."""
        text = tear(self.header_text.encode(), self.rng)
        if self.rng.random() < 0.7:
            return framed(text, self.body)
        lie = self.rng.choice((0, 1, 8, len(text) - 1, 2**31, 2**63, 2**64 - 1))
        return lie.to_bytes(8, "little") + text + self.body


def tear(text: bytes, rng: random.Random) -> bytes:
    """Bytes replaced, repeated, cut or put in."""
    torn = bytearray(text)
    i, j = sorted((rng.randrange(len(text)), rng.randrange(len(text))))
    act = rng.randrange(3)
    if act == 0:
        for _ in range(rng.randint(1, 8)):
            torn[rng.randrange(len(text))] = rng.randrange(256)
    elif act == 1:
        torn[i:j] = torn[i:j] * rng.choice((0, 2, 3))
    else:
        torn[i:i] = rng.choice(SPLINTERS)
    return bytes(torn)


def framed(header: bytes, body: bytes) -> bytes:
    """A header with its length in front."""
    return len(header).to_bytes(8, "little") + header + body


_SEEMS_SLOW = 0.2  # seconds


class Tally:
    """What became of the cases: loaded or refused in one sentence, and the slowest; anything else is raised."""

    def __init__(self, refusal: type[Exception]):
        self.refusal, self.loaded, self.refused, self.slowest = refusal, 0, 0, 0.0

    def take(self, parse: Callable[[Any], object], case: Any) -> None:
        """One case; one that seems slow is timed again, in seconds of the processor: other programs do not count."""
        began = time.perf_counter()
        used = self.used(parse, case)
        took = time.perf_counter() - began
        if took > _SEEMS_SLOW:
            began = time.process_time()
            self.used(parse, case)
            took = time.process_time() - began
        self.loaded, self.refused = self.loaded + used, self.refused + (not used)
        self.slowest = max(self.slowest, took)

    def used(self, parse: Callable[[Any], object], case: Any) -> bool:
        """Whether it could be used; if not, one sentence must say why."""
        try:
            parse(case)
        except self.refusal as error:
            text = str(error)
            if "\n" in text or len(text) > 1000:
                raise AssertionError(f"not one short sentence: {text[:500]!r}") from error
            return False
        return True


CONFIG = """
[data]
files = ["a.csv", "b.csv"]
inputs = ["speed", "load"]
outputs = ["NOx"]
time = "t"
dt = 0.1
gaps = "split"
validation = ["c.csv"]
[model]
resolutions = [30, 5, 1]
preset = "stable"
joint = false
[training]
learning_rate = 0.05
restarts = 3
[run]
directory = "run"
checkpoint_seconds = 30.0
"""


class ConfigFuzzer:
    """Damaged configurations: as TOML texts, and as tables that no text would give."""

    def __init__(self, seed: int):
        self.rng, self.tables = random.Random(seed), json.dumps(tomllib.loads(CONFIG))

    def case(self) -> Any:
        """A text, or sections as a TOML reader would hand them on."""
        if self.rng.random() < 0.5:
            return tear(CONFIG.encode(), self.rng)
        tables = spoil(self.tables, self.rng)
        return {name: table for name, table in tables.items() if isinstance(table, dict)}
