"""Which lines of a node's log a fault run reports, and which it expects."""

from __future__ import annotations

from pathlib import Path

from integration_tests.faults.actions import ACTIONS
from integration_tests.faults.unusual import DAMAGES, unusual_lines

LOG = """2026-01-01T00:00:00.000Z INFO coordinator.node all is well
2026-01-01T00:00:01.000Z ERROR coordinator.replica a read found what cannot be partition=1 reason='KeyError(7)'
Traceback (most recent call last):
  File "x.py", line 1
KeyError: 7
2026-01-01T00:00:02.000Z ERROR coordinator.node background task failed task=x
Traceback (most recent call last):
  File "x.py", line 2
2026-01-01T00:00:03.000Z CRITICAL coordinator.app ended: the disk is full
2026-01-01T00:00:03.000Z CRITICAL coordinator.kafka.client.producer FATAL
"""


def write(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    (folder / name / "coordinator.log").write_text(LOG, encoding="utf-8")


def test_a_traceback_is_unusual_unless_it_is_of_damage_that_was_done(tmp_path: Path) -> None:
    for name in ("node-1", "node-2", "twin-3"):
        write(tmp_path, name)
    fatal = "2026-01-01T00:00:03.000Z CRITICAL coordinator.kafka.client.producer FATAL"
    traceback = "Traceback (most recent call last):"
    assert unusual_lines(tmp_path, {"c2"}) == [
        *(f"node-1: {line}" for line in (traceback, traceback, fatal)),
        *(f"node-2: {line}" for line in (traceback, fatal)),
        *(f"twin-3: {line}" for line in (traceback, traceback, fatal)),
    ]


def test_the_damages_are_actions() -> None:
    assert set(ACTIONS) >= DAMAGES
