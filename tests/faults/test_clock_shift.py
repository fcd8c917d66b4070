"""A preloaded library makes the wall clock of a process jump while it runs, and nothing else of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.faults.clock import ShiftedClock, build_library
from integration_tests.faults.preload import NoPreload

PROGRAM = """
import sys, threading, time
for line in sys.stdin:
    began_s = time.monotonic()
    threading.Event().wait(0.01)
    print(time.time(), time.monotonic() - began_s, flush=True)
"""


def test_the_clock_of_a_running_process_jumps_forward_and_back(tmp_path: Path) -> None:
    try:
        clock = ShiftedClock(build_library(tmp_path), tmp_path / "clock")
    except NoPreload as reason:
        pytest.skip(str(reason))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **clock.environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None

        def ask() -> tuple[float, float]:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write("\n")
            program.stdin.flush()
            wall_s, waited_s = program.stdout.readline().split()
            return float(wall_s), float(waited_s)

        start_s, _ = ask()
        for shift_s in (600.0, -600.0, 0.25, 0.0):
            clock.set(shift_s)
            wall_s, waited_s = ask()
            assert abs(wall_s - start_s - shift_s) < 30
            assert 0.01 <= waited_s < 10
        program.stdin.close()
        assert program.wait(10) == 0
