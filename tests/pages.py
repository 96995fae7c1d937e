"""The documentation as something that runs: the code blocks of a page, in order, in one folder.

A fence says what its block is. `python` runs, in one namespace for the whole page. `sh` holds `mrgpssm` commands, which
run in this process. `toml` with a title is written to the file of that name. `text` is a formula, or what is typed into
other programs, and does not run, but with the title "Output" it is what the block before it prints: `...` there stands
for anything, and numbers may differ by a fifth, since training ends elsewhere on another machine. A block whose first
line is `# not run in the tests: REASON` does not run. There is no other kind of block. A page that says that it goes on
in the folder of another one finds there what that one left.
"""

import contextlib
import glob
import io
import math
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from mrgpssm.cli import main

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"# not run in the tests: (?P<reason>.+)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    title: str
    body: str

    @property
    def not_run(self) -> str:
        """Why it does not run, or nothing."""
        found = _NOT_RUN.match(self.body)
        return found["reason"] if found else ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        language, _, rest = fence["info"].partition(" ")
        title = re.search(r'title="([^"]*)"', rest)
        line = text.count("\n", 0, fence.start()) + 1
        found.append(Block(path.name, line, language, title[1] if title else "", fence["body"]))
    return found


def run_page(page: list[Block]) -> int:
    """Run the blocks of a page in the current folder; returns how many ran."""
    names: dict[str, object] = {"__name__": "page"}
    printed, count = "", 0
    for block in page:
        if block.not_run or (block.language == "text" and block.title != "Output"):
            continue
        count += 1
        if block.language == "text":
            assert alike(block.body, printed), f"{block.place} shows another output than:\n{printed}"
        elif block.language == "toml":
            Path(block.title).write_text(block.body, encoding="utf-8")
        else:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                _run(block, names)
            printed = out.getvalue()
    return count


def _run(block: Block, names: dict[str, object]) -> None:
    if block.language == "python":
        # Lines before it, so that a traceback names the line of the page.
        exec(compile("\n" * block.line + block.body, block.page, "exec"), names)
        return
    for command in _commands(block):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            code = _call(command)
        assert code == 0, f"{block.place}: {shlex.join(command)} stops with {code}: {err.getvalue()}"


def _commands(block: Block) -> list[list[str]]:
    """Commands as a shell would split them: lines joined at a backslash, comments dropped, bare patterns expanded."""
    commands = []
    for line in block.body.replace("\\\n", " ").splitlines():
        bare = shlex.split(line, comments=True, posix=False)  # keeps the quotes, which keep patterns as they are
        if bare:
            assert bare[0] == "mrgpssm", f"{block.place}: only mrgpssm commands run; mark others as not run."
            commands.append([word for text in bare[1:] for word in _expanded(text)])
    return commands


def _expanded(text: str) -> list[str]:
    return (sorted(glob.glob(text)) or [text]) if glob.has_magic(text) and text[0] not in "'\"" else shlex.split(text)


def _call(arguments: list[str]) -> int:
    words = mock.patch.object(sys, "argv", ["mrgpssm", *arguments])
    with words, mock.patch.dict(os.environ), mock.patch("webbrowser.open"):
        try:
            main()
        except SystemExit as stopped:
            return stopped.code if isinstance(stopped.code, int) else 0
    return 0


def alike(expected: str, got: str) -> bool:
    """Whether words and numbers agree."""
    return _alike(expected.split(), got.split())


def _alike(expected: list[str], got: list[str]) -> bool:
    if not expected:
        return not got
    if expected[0] == "...":
        return any(_alike(expected[1:], got[start:]) for start in range(len(got) + 1))
    return bool(got) and _same(expected[0], got[0]) and _alike(expected[1:], got[1:])


def _same(a: str, b: str) -> bool:
    try:
        return math.isclose(float(a.rstrip("%,.;")), float(b.rstrip("%,.;")), rel_tol=0.2, abs_tol=0.02)
    except ValueError:
        return a == b
