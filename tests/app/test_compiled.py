"""What the service says of its loops."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

import coordinator.core.files.commit_loops as commit_loops
from coordinator.app.process.compiled import interpreted_loops, warn_of_interpreted_loops


def test_a_loop_that_was_not_compiled_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    compiled = ModuleType("coordinator.one_loops")
    compiled.__file__ = "/somewhere/one_loops.cpython-311-x86_64-linux-gnu.so"
    source = ModuleType("records.two_loops")
    source.__file__ = "/somewhere/two_loops.py"
    for module in (compiled, source):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert "records.two_loops" in interpreted_loops()
    assert "coordinator.one_loops" not in interpreted_loops()
    warn_of_interpreted_loops()
    assert "records.two_loops" in caplog.text
    assert "C compiler" in caplog.text


def test_these_tests_run_against_compiled_loops() -> None:
    assert commit_loops.__file__ is not None
    assert not commit_loops.__file__.endswith(".py"), "no C compiler? see setup.py"
