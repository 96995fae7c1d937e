"""Arrays and a JSON text in one safetensors file with a checksum; nothing in a file is executed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from mrgpssm.errors import ModelFileError, StorageError
from mrgpssm.file.regular import MOST_BYTES, reading
from mrgpssm.file.texts import MOST_TEXT, is_modest, parse_json
from mrgpssm.file.words import one_line

Tensors = dict[str, np.ndarray]

BLEND_KIND = "mrgpssm-blend"
_INSIDE = (
    "holds a blend, which is not what is needed here; take the state-space model out of it with "
    'mrgpssm.load(FILE).parts_["mrgpssm"].save(...)'
)
_DTYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "bool": "BOOL"}


def pack(kind: str, content: dict[str, Any], tensors: Tensors) -> bytes:
    """The bytes of a file: metadata `kind`, `content` (JSON) and `sha256`, then the tensors."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    for name, array in arrays.items():
        if str(array.dtype) not in _DTYPES:
            raise ValueError(f"Tensor {name} has dtype {array.dtype}; files hold {', '.join(_DTYPES)}.")
    metadata = {"kind": kind, "content": text, "sha256": _digest(kind, text, arrays)}
    return _serialise(arrays, metadata)


def _serialise(arrays: Tensors, metadata: dict[str, str]) -> bytes:
    """The safetensors layout in sorted order; the library's own writer does not fix the order of the metadata."""
    header: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # wide types first keeps all aligned
    for name in names:
        stop = start + arrays[name].nbytes
        kind, shape = _DTYPES[str(arrays[name].dtype)], list(arrays[name].shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":"))
    if not is_modest(text):
        raise StorageError(f"A file of {len(arrays):,} tensors is too large to be read again; keep fewer models in it.")
    head = text.encode()
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *(arrays[name].tobytes() for name in names)])


def unpack(data: bytes, kind: str, name: str) -> tuple[dict[str, Any], Tensors]:
    """Content and tensors from the bytes of a file; the checksum is checked first."""
    metadata = _metadata(data, name)
    if set(metadata) != {"kind", "content", "sha256"} or not all(isinstance(v, str) for v in metadata.values()):
        raise ModelFileError(f"{name}: this is a safetensors file, but not one of mrgpssm's.")
    try:
        tensors = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ModelFileError(
            f"{name}: the tensors cannot be read ({one_line(error)}); the file is damaged, restore a copy."
        ) from None
    if _digest(metadata["kind"], metadata["content"], tensors) != metadata["sha256"]:
        raise ModelFileError(f"{name}: the checksum does not match; the file is damaged or was edited, restore a copy.")
    if metadata["kind"] == BLEND_KIND != kind:
        raise ModelFileError(f"{name} {_INSIDE}.")
    if metadata["kind"] != kind:
        raise ModelFileError(f"{name}: this is a file of kind {metadata['kind'][:40]!r}; a {kind!r} is needed here.")
    content = parse_json(metadata["content"], name)
    if not isinstance(content, dict):
        raise ModelFileError(f"{name}: the metadata is not a table of names and values.")
    return content, tensors


def read_kind(data: bytes, name: str) -> str:
    """The kind of a file, as its header says; empty where it says none."""
    kind = _metadata(data, name).get("kind")
    return kind if isinstance(kind, str) else ""


def read_tensors(path: Path) -> bytes:
    """The bytes of a file of tensors; the header is checked before the rest is read."""
    with reading(path, MOST_BYTES) as file:
        head = file.read(8)
        _metadata(head + file.read(min(int.from_bytes(head, "little"), MOST_TEXT)), str(path))
        file.seek(0)
        return file.read(os.fstat(file.fileno()).st_size)


def find_model(path: Path) -> Path:
    """The model file: the path itself, or the model in the folder of a run."""
    model = path / "model.mrgpssm" if path.is_dir() else path
    if model != path and not model.exists():
        begun = (path / "config.toml").exists()
        remedy = f"go on with: mrgpssm resume {path}" if begun else "give a model file or the folder of a run."
        raise ModelFileError(f"{path} holds no finished model; {remedy}")
    return model


def find_tensor(
    tensors: Tensors, key: str, shape: tuple[int, ...], dtype: object = None, where: str = ""
) -> np.ndarray:
    """The tensor of that name, shape and, if it is given, type; `where` begins the messages."""
    if key not in tensors:
        raise ModelFileError(f"{where}tensor {key} is missing; the file does not fit its own settings.")
    found, kind = tensors[key], "" if dtype is None else str(dtype)
    have = "" if dtype is None else str(found.dtype)
    if found.shape != shape or have != kind:
        raise ModelFileError(
            f"{where}tensor {key} is {have}{list(found.shape)}; its settings ask for {kind}{list(shape)}."
        )
    return found


def check_finite(tensor: np.ndarray, key: str, where: str = "") -> None:
    """Refuse a tensor with values that are not finite."""
    if not np.isfinite(tensor).all():
        raise ModelFileError(f"{where}tensor {key} holds values that are not finite.")


def numbers(tensors: Tensors, key: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of finite numbers of that shape."""
    values = find_tensor(tensors, key, shape).astype(float)
    check_finite(values, key)
    return values


def whole_numbers(tensors: Tensors, key: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of whole numbers of 32 bits of that shape."""
    values = find_tensor(tensors, key, shape)
    if values.dtype != np.int32:
        raise ModelFileError(f"tensor {key} is of {values.dtype}; it must hold whole numbers of 32 bits.")
    return values


def _metadata(data: bytes, name: str) -> dict[str, Any]:
    """The header's metadata: 8 bytes of length, then JSON."""
    if len(data) < 8:
        raise ModelFileError(f"{name}: the file is empty or cut short ({len(data)} bytes).")
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, MOST_TEXT):
        raise ModelFileError(f"{name}: this is not a safetensors file, or it is cut short.")
    header = parse_json(data[8 : 8 + length], name)
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        raise ModelFileError(f"{name}: this is a safetensors file without metadata, not one of mrgpssm's.")
    return metadata


def _digest(kind: str, text: str, tensors: Tensors) -> str:
    sha = hashlib.sha256()
    listing = [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in sorted(tensors)]
    for part in (kind, text, json.dumps(listing)):
        encoded = part.encode("utf-8", "surrogatepass")
        sha.update(len(encoded).to_bytes(8, "little"))
        sha.update(encoded)
    for name in sorted(tensors):
        sha.update(tensors[name].tobytes())
    return sha.hexdigest()
