"""Hostile files under an audit hook: what Python imports, executes, starts, connects to or writes is watched.

Run as a program, because an audit hook cannot be taken away again: `python tests/audit.py FOLDER`. Every reader is first
used on a good file, so that what it imports lazily is there; then the hook is armed and the hostile ones come. Prints one
JSON object: the cases, what each was answered with, and every event that must not happen.
"""

import functools
import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import sealed
from places import GOLDEN
from recordings import recording

from mrgpssm import MRGPSSM, Columns, ConfigError, DataError, ModelFileError, load, read_sequences
from mrgpssm.data.datasets import dataset, find_file
from mrgpssm.data.fetch import fetch
from mrgpssm.errors import StorageError
from mrgpssm.estimator.config import make_config, read_config
from mrgpssm.file import pack, read_json, unpack

TYPED = (ConfigError, DataError, ModelFileError, StorageError)
FORBIDDEN = (
    "import", "exec", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "subprocess.Popen",
    "pickle.find_class", "ctypes.dlopen", "socket.connect", "socket.getaddrinfo", "urllib.Request", "webbrowser.open",
    "shutil.unpack_archive", "os.symlink", "os.link", "code.__new__", "marshal.loads",
)  # fmt: skip
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "tempfile.mkstemp")


class Watch:
    """The hook: silent until armed."""

    def __init__(self, folder: Path):
        self.folder, self.armed, self.events = str(folder.resolve()), False, []

    def __call__(self, event: str, arguments: tuple) -> None:
        if not self.armed:
            return
        if event in FORBIDDEN or (event in CHANGES and not self.inside(arguments[0])):
            self.events.append(f"{event} {str(arguments[0])[:100]}")
        if event == "open" and isinstance(arguments[2], int):
            writes = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if writes and not self.inside(arguments[0]):
                self.events.append(f"open for writing {str(arguments[0])[:100]}")

    def inside(self, path: Any) -> bool:
        return isinstance(path, (str, bytes, os.PathLike)) and os.path.realpath(os.fsdecode(path)).startswith(
            self.folder
        )


class Trap:
    """Unpickled, it would run a command."""

    def __reduce__(self):
        return os.system, ("touch unpickled",)


def nested(opening: bytes, closing: bytes, depth: int = 200_000) -> bytes:
    return opening * depth + closing * depth


def raw(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def archive(name: str, content: bytes, level: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", level) as target:
        target.writestr(name, content)
    return made.getvalue()


@functools.cache
def bomb() -> bytes:
    """400 MB of zeros in 400 KB, made without ever holding them."""
    made, million = io.BytesIO(), bytes(2**20)
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("u.npy", "w") as target:
        target.write(array_bytes(np.zeros(1, np.float32)).replace(b"(1,)", b"(100000000,)")[:128])
        for _ in range(400):
            target.write(million)
    return made.getvalue()


def array_bytes(array: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, array, allow_pickle=True)
    return made.getvalue()


def with_options(**changed: Any) -> bytes:
    content, tensors = unpack(GOLDEN.read_bytes(), "mrgpssm-model", "golden")
    return sealed("mrgpssm-model", json.dumps(content | {"structure": content["structure"] | changed}), tensors)


def with_content(**changed: Any) -> bytes:
    content, tensors = unpack(GOLDEN.read_bytes(), "mrgpssm-model", "golden")
    return sealed("mrgpssm-model", json.dumps(content | changed), tensors)


DOTTED = (
    "os.system",
    "mrgpssm.cli:main",
    "builtins.eval",
    "__import__('os').system('touch imported')",
    "jax.numpy.zeros",
)
TRAVERSAL = (
    "../evil",
    "../../etc/passwd",
    "/etc/passwd",
    "..\\evil",
    "gengine2/../../evil",
    "\x00",
    "~/.ssh/id_rsa",
    "",
)


def models() -> dict[str, bytes]:
    """Model files that try something."""
    trap = pickle.dumps(Trap())
    made = {
        "a pickle": trap,
        "a pickle behind a length": raw(trap),
        "a pickle in the kind": pack(trap.hex(), {}, {}),
        "deep header": raw(nested(b"[", b"]")),
        "deep table in the header": raw(nested(b'{"a":', b"}")),
        "16 MiB of brackets": raw(b"[" * 2**24),
        "16 MiB of empty lists": raw(b"[" + b"[]," * 5_592_404 + b"[]]"),
        "4 MiB of empty lists": raw(b"[" + b"[]," * 1_398_000 + b"[]]"),
        "deep metadata": sealed("mrgpssm-model", "[" * 200_000 + "]" * 200_000, {}),
        "repeated keys": raw(b"{" + b'"a":{},' * 100_000 + b'"__metadata__":{}}'),
        "a number of many digits": raw(b'{"a":' + b"9" * 100_000 + b"}"),
        "an archive": archive("../../evil.py", b"import os"),
        "ten thousand resolutions": with_options(resolutions=[1] * 10_000),
        "ten thousand outputs": with_content(outputs=[str(k) for k in range(10_000)]),
        "a model without end": with_options(latent_dim=2**31 - 1, inducing=2**31 - 1),
    }
    for text in DOTTED:
        made |= {f"preset {text}": with_options(preset=text), f"precision {text}": with_options(precision=text)}
        made[f"start {text}"] = with_options(window_start=text)
    return made


def tables() -> dict[str, tuple[str, bytes]]:
    """Tables that try something."""
    trap = pickle.dumps(Trap())
    return {
        "a pickle as csv": ("a.csv", trap),
        "a pickle as npz": ("a.npz", trap),
        "a pickle as mat": ("a.mat", trap),
        "a pickle as parquet": ("a.parquet", trap),
        "objects in npz": ("a.npz", archive("u.npy", array_bytes(np.array([Trap()], dtype=object)))),
        "traversal in npz": ("a.npz", archive("../../evil.npy", array_bytes(np.zeros(3)))),
        "absolute path in npz": ("a.npz", archive("/tmp/evil.npy", array_bytes(np.zeros(3)))),  # noqa: S108
        "code in npz": ("a.npz", archive("u.py", b"import os")),
        "a shape that lies in npz": ("a.npz", archive("u.npy", array_bytes(np.zeros(3)).replace(b"(3,)", b"(9" + b"9" * 12 + b",)"))),
        "400 MB in one archive of 400 KB": ("a.npz", bomb()),
        "a formula in csv": ("a.csv", b"u,y\n=cmd|' /C calc'!A0,1\n1,2\n"),
    }  # fmt: skip


def configurations() -> dict[str, bytes]:
    """TOML that tries something."""
    made = {
        "deep arrays": b"a = " + nested(b"[", b"]", 20_000),
        "deep tables": b"[" + b".".join([b"a"] * 20_000) + b"]\n",
        "a dotted key of 30 kB": b"a." * 15_000 + b"a = 1",
        "many tables": b"".join(b"[a%d]\n" % k for k in range(60_000)),
        "many digits": b"[training]\nseed = " + b"9" * 100_000,
        "a pickle": pickle.dumps(Trap()),
    }
    for text in DOTTED:
        made[f"preset {text}"] = (
            f"[data]\nfiles=['a']\ninputs=['u']\noutputs=['y']\n[model]\npreset = {json.dumps(text)}\n".encode()
        )
    return made


def read_options(path: Path) -> None:
    MRGPSSM.from_spec(make_config(read_config(path), "odd.toml").spec)


def cases(folder: Path) -> dict[str, Callable[[], object]]:
    """Every hostile thing and the reader that gets it."""
    made: dict[str, Callable[[], object]] = {}

    def put(kind: str, name: str, file: str, data: bytes, reader: Callable[[Path], object]) -> None:
        path = folder / f"{len(made)}-{file}"
        path.write_bytes(data)
        made[f"{kind}: {name}"] = lambda: reader(path)

    for name, data in models().items():
        put("model", name, "m.mrgpssm", data, load)
    for name, (file, data) in tables().items():
        put("table", name, file, data, lambda path: read_sequences(path, Columns(("u",), ("y",))))
    for name, data in configurations().items():
        put("configuration", name, "c.toml", data, read_options)
    for name, target in (("zeros", "/dev/zero"), ("a terminal", "/dev/tty"), ("a folder", str(folder))):
        link = folder / f"{len(made)}-m.mrgpssm"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        made[f"model: a link to {name}"] = lambda link=link: load(link)
        made[f"configuration: a link to {name}"] = lambda link=link: read_options(link)
    pipe = folder / f"{len(made)}-m.mrgpssm"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    made["model: a pipe"] = lambda: load(pipe)
    put("run", "deep run.json", "run.json", nested(b"[", b"]"), read_json)
    put("run", "a pickle as run.json", "run.json", pickle.dumps(Trap()), read_json)
    for name in TRAVERSAL:
        made[f"dataset {name!r}"] = lambda name=name: fetch(name, root=folder, report=str)
        made[f"file {name!r} of a dataset"] = lambda name=name: fetch("ballbeam", root=folder, only=[name], report=str)
        made[f"find {name!r}"] = lambda name=name: find_file(dataset("ballbeam"), name, folder)
    for address in ("file:///etc/passwd", "ftp://example.org/", "javascript:alert(1)", "//etc"):
        made[f"address {address}"] = lambda address=address: fetch(
            "ballbeam", root=folder, base_url=address, report=str
        )
    return made


def warm_up(folder: Path) -> None:
    """Every reader on something good, and once on something bad."""
    load(GOLDEN)
    table = {"u": np.arange(3.0), "y": np.arange(3.0)}
    np.savez(folder / "good.npz", u=table["u"], y=table["y"])
    (folder / "good.csv").write_text("u,y\n1,2\n3,4\n")
    from scipy.io import savemat

    savemat(folder / "good.mat", table)
    read_sequences([folder / "good.npz", folder / "good.csv", folder / "good.mat"], Columns(("u",), ("y",)))
    recording(0)
    for name, act in cases(folder).items():
        if name.split(":")[0] in ("table", "configuration", "run") or name.startswith(("dataset", "file", "find")):
            answer(act)


def answer(act: Callable[[], object]) -> str:
    """What a hostile thing is answered with."""
    try:
        act()
    except TYPED as error:
        return "refused" if "\n" not in str(error) and len(str(error)) < 1000 else f"unclear: {str(error)[:200]}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "accepted"


def main() -> None:
    """Warm up, arm, try all, tell."""
    import resource

    folder = Path(sys.argv[1])
    watch = Watch(folder)
    sys.addaudithook(watch)
    warm_up(folder)
    tried = cases(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch.armed = True
    answers = {name: answer(act) for name, act in tried.items()}
    watch.armed = False
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    left = sorted(p.name for p in Path.cwd().iterdir() if p.name in ("unpickled", "imported", "evil.npy", "evil.py"))
    print(json.dumps({"answers": answers, "events": watch.events, "megabytes": grown, "left": left}))


if __name__ == "__main__":
    main()
