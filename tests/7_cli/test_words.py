"""Names that users chose are shown as they are: nothing in them is markup, a command to the terminal, or a formula."""

import io
import os
import sys
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from recordings import recording
from untrained import untrained

from mrgpssm.cli import main
from mrgpssm.cli.show import print_rows, say
from mrgpssm.data.tables import Columns, csv_bytes, read_sequences
from mrgpssm.file.words import csv_name, drawable, printable
from mrgpssm.training.progress import announce

pytestmark = pytest.mark.once
MARKUP = ("NOx [ppm]", "flow [/min]", "[bold]x[/bold]", "[red]", "\\[b]", "<b>y</b>", ":smile:")
TERMINAL = ("\x1b]0;title\x07x", "a\x1b[2Jb", "a\rb", "a\nb", "\u202eevil", "\x9b31mx")


def call(capsys, *words) -> tuple[str, str]:
    called = mock.patch.object(sys, "argv", ["mrgpssm", *map(str, words)])
    with called, mock.patch.dict(os.environ), pytest.raises(SystemExit) as stopped:
        main()
    shown = capsys.readouterr()
    assert stopped.value.code == 0, shown.err
    return shown.out, shown.err


def test_tables_and_lines_show_names_as_they_are(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for name in MARKUP:
        print_rows(f"Title {name}", ["output", name], [[name, "1"]])
        say(f"{name}: good")
        shown = capsys.readouterr().out
        assert shown.count(name) == 4, shown
    for name in TERMINAL:
        print_rows(name, [name], [[name]])
        say(name)
        announce([name])
        shown = "".join(capsys.readouterr())
        assert not set(shown) & set("\x1b\x07\r\x9b\u202e")
        assert printable(name) in shown
        assert "\n" not in printable(name)


def test_a_model_whose_outputs_look_like_markup_is_judged_and_simulated(tmp_path, monkeypatch, capsys):
    """The names stand in the table of scores, and a spreadsheet finds no formula in what is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    names = ("=1+1 [ppm]", "flow [/min]")
    untrained(outputs=names, resolutions=(3, 1)).save("m.mrgpssm")
    s = recording(0)
    columns = dict(zip(("speed", "load", *names), [*s.inputs.T, *s.outputs.T], strict=True))
    pd.DataFrame(columns).to_csv("=data.csv", index=False)
    out, _ = call(capsys, "evaluate", "m.mrgpssm", "=data.csv", "--samples", "4")
    assert all(name in out for name in names)
    call(capsys, "simulate", "m.mrgpssm", "=data.csv", "--samples", "4", "--out", "run.csv")
    header, first, *_ = (tmp_path / "run.csv").read_text().splitlines()
    assert header.startswith("sequence,time,'=1+1 [ppm].mean,")
    assert first.startswith("'=data.csv,")
    [back] = read_sequences("run.csv", Columns((f"{names[0]}.mean",), (f"{names[1]}.mean",), time="time"))
    assert back.input_names == ("=1+1 [ppm].mean",)
    assert np.isfinite(back.inputs).all()


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-x", "@SUM(A1)", "\t=x", "\r=x"])
def test_names_in_files_are_no_formulas_and_are_found_again(name, tmp_path):
    frame = pd.DataFrame({name: [1.0, -2.0], "y": [3.0, 4.0], "text": [name, "plain"]})
    written = csv_bytes(frame)
    cells = pd.read_csv(io.BytesIO(written), skipinitialspace=False)
    assert cells.columns[0][0] == cells["text"].iloc[0][0] == "'"
    assert cells["text"].iloc[1] == "plain"
    assert cells.iloc[1, 0] == -2
    (tmp_path / "a.csv").write_bytes(csv_bytes(frame.drop(columns="text")))
    [back] = read_sequences(tmp_path / "a.csv", Columns((name,), ("y",)))
    np.testing.assert_array_equal(back.inputs[:, 0], [1, -2])
    assert csv_name("plain") == "plain"


def test_figures_draw_dollars_and_newlines_as_text():
    assert drawable("a$b$\nc") == r"a\$b\$ c"
    assert drawable("_x") == " _x"
