"""Records know which code they speak of, and pages say where it has changed since."""

import json

import pytest

from mrgpssm.file import record
from mrgpssm.file.record import OLDER, age_note, is_older, sources, write_record

pytestmark = pytest.mark.once


@pytest.fixture
def fresh(tmp_path) -> dict:
    write_record(tmp_path / "record.json", {"rmse": 1.0})
    return json.loads((tmp_path / "record.json").read_text())


def test_a_record_of_the_code_as_it_is_needs_no_note(fresh):
    assert {"gp", "training", "data", "file"} <= fresh["sources"].keys()
    assert not is_older(fresh)
    assert age_note([fresh]) == ""


def test_a_changed_part_and_a_record_without_marks_are_older(fresh, monkeypatch):
    changed = sources() | {"training": "0"}
    monkeypatch.setattr(record, "sources", lambda: changed)
    assert is_older(fresh)
    assert is_older({"rmse": 1.0})
    assert age_note([fresh, fresh | {"sources": changed}]) == f"**1 of 2 records below were {OLDER}.**"


@pytest.mark.parametrize("change", [{"report": "0"}, {"new": "0"}])
def test_parts_that_only_show_numbers_may_change_and_new_parts_may_not_come(fresh, monkeypatch, change):
    monkeypatch.setattr(record, "sources", lambda: sources() | change)
    assert is_older(fresh) == ("new" in change)
    assert is_older(fresh, ignored=())
