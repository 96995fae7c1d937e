"""Files that try to be executed, to reach out of their folder or to eat the machine: refused, and nothing happens."""

import json
import os
import subprocess
import sys

import pytest
from places import TESTS

pytestmark = pytest.mark.once


def test_nothing_in_a_file_is_imported_executed_or_written_elsewhere(tmp_path):
    """An audit hook sees all that Python does meanwhile; memory does not grow either."""
    (tmp_path / "inside").mkdir()
    command = [sys.executable, str(TESTS / "audit.py"), str(tmp_path / "inside")]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert len(told["answers"]) > 60
    assert {name: said for name, said in told["answers"].items() if said != "refused"} == {}
    assert told["events"] == []
    assert told["left"] == []
    assert told["megabytes"] < 50
    assert sorted(p.name for p in tmp_path.iterdir()) == ["inside"]
