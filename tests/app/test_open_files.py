"""The limit of open files, in processes of their own: it cannot be raised again where it was lowered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import logging, resource, sys
from coordinator.app.process.open_files import raise_open_files
logging.basicConfig(format="%(message)s")
soft, hard, connections = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(raise_open_files(connections), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "expected", "is_enough"),
    [(256, 2_000, 1_000, 1_500, True), (1_600, 2_000, 1_000, 1_600, True), (256, 1_200, 1_000, 1_200, False)],
)
def test_the_soft_limit_is_raised_as_far_as_needed_and_allowed(
    soft: int, hard: int, connections: int, expected: int, is_enough: bool
) -> None:
    command = [sys.executable, "-c", SCRIPT, str(soft), str(hard), str(connections)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == [str(expected), str(expected), str(hard)]
    assert ("LimitNOFILE" in done.stderr) is not is_enough


FITTING = """
import resource, sys
from coordinator.app.process.open_files import connections_that_fit
limit, connections, listeners = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
print(connections_that_fit(connections, listeners))
"""


@pytest.mark.parametrize(
    ("limit", "connections", "listeners", "expected"),
    [(2_000, 1_000, 1, 1_000), (1_200, 1_000, 1, 700), (1_200, 1_000, 2, 350), (300, 10_000, 1, 150), (64, 10_000, 100, 1)],
)
def test_connections_leave_files_for_everything_else(limit: int, connections: int, listeners: int, expected: int) -> None:
    command = [sys.executable, "-c", FITTING, str(limit), str(connections), str(listeners)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == [str(expected)]
