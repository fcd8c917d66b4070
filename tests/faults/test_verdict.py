"""A run comes to a verdict, or says why not, whatever fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.dev.coordinator import CoordinatorFailedError
from coordinator.client.errors import TimedOut, Unavailable
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.kafka.errors import ErrorCode
from integration_tests.faults import __main__ as command
from integration_tests.faults.preload import NoPreload
from integration_tests.faults.run import Result, Settings, failures_are_violations
from integration_tests.faults.topology import Machine


def some_result(folder: Path) -> Result:
    settings = Settings(actions=("kill",), seed=1, minutes=1.0, together_max=1, quick_brokers=False, folder=folder)
    return Result(settings=settings, machine=Machine(network=None, clock_library=None, disk_library=None, has_mounts=False))


@pytest.mark.parametrize(
    "failure",
    [
        AssertionError("a node ended"),
        ConnectionLost("gone"),
        CoordinatorFailedError("did not start"),
        RequestTimedOut("late"),
        TimedOut(ErrorCode.REQUEST_TIMED_OUT, "a read is not answered"),
        Unavailable(ErrorCode.OFFSET_NOT_AVAILABLE, "nobody tells of batches"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_service_that_fails_its_clients_is_in_violation(failure: Exception, tmp_path: Path) -> None:
    result, said = some_result(tmp_path), list[str]()
    with failures_are_violations(result, said.append):
        raise failure
    assert result.violations == [f"{type(failure).__name__}: {failure}"]
    assert len(said) == 1


def test_a_fault_of_the_run_itself_is_no_verdict(tmp_path: Path) -> None:
    result = some_result(tmp_path)
    with pytest.raises(ValueError, match="a row"), failures_are_violations(result, print):
        raise ValueError("a row that cannot be read")
    assert result.violations == []


def ends_well(result: Result, say: Callable[[str], None]) -> None:
    result.broken_off = None


def finds_something(result: Result, say: Callable[[str], None]) -> None:
    result.violations.append("a record is lost")
    result.broken_off = None


def fails_by_itself(result: Result, say: Callable[[str], None]) -> None:
    raise ValueError("a row that cannot be read")


@pytest.mark.parametrize(
    ("run", "status", "is_broken_off"), [(ends_well, 0, False), (finds_something, 1, False), (fails_by_itself, 2, True)]
)
def test_every_run_is_written_down(
    run: Callable[[Result, Callable[[str], None]], None],
    status: int,
    is_broken_off: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_library(folder: Path) -> Path:
        raise NoPreload("not here")

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "end_all_children", lambda: None)
    monkeypatch.setattr("integration_tests.faults.clock.build_library", no_library)
    assert command.main(["--no-namespaces", "--report", str(tmp_path)]) == status
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["broken_off"] is not None) is is_broken_off
    assert len(report["violations"]) == (status == 1)
