"""The jobs that a monitor runs from time to time: when they are due, what a failure does, and that none outlives it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.main import root
from cli.outcome import Exit
from cli.times import Duration
from integration_tests.waiting import wait_until
from spark_jobs.monitor.checks import AUDIT_STATUS, RETRY_S, Check, Checks


class Scene:
    """Checks under a clock that is set by hand; each run of a job leaves a line in `ran`."""

    def __init__(self, folder: Path, checks: Sequence[tuple[str, float, int]]) -> None:
        self.now_s = 1_000_000.0
        self.folder = folder
        self.failed: list[str] = []
        made = [
            Check(name=name, every_s=every_s, command=self.command(f"print('{name} ran'); sys.exit({status})"), outcome=f"last_{name}")
            for name, every_s, status in checks
        ]
        self.checks = Checks(made, folder, self.failed.append, lambda: self.now_s)

    def command(self, text: str) -> list[str]:
        record = f"open({str(self.folder / 'ran')!r}, 'a').write(str(os.getpid()) + ' '); "
        return [sys.executable, "-c", f"import os, sys; {record}{text}"]

    @property
    def runs(self) -> int:
        file = self.folder / "ran"
        return len(file.read_text().split()) if file.exists() else 0

    def settle(self) -> int:
        """Look until nothing runs; how many runs there were so far."""

        def has_settled() -> bool:
            self.checks.look()
            return self.checks.running is None

        wait_until(has_settled, "the end of what runs")
        return self.runs


def test_a_job_runs_when_its_last_outcome_is_old_enough_and_then_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [("verify", 3600, 0)])
    scene.checks.start({"last_verify": json.dumps({"at_ms": (scene.now_s - 3000) * 1000})})
    assert scene.settle() == 0
    scene.now_s += 601
    assert scene.settle() == 1
    assert (tmp_path / "verify.log").read_text() == "verify ran\n"
    scene.now_s += 3599
    assert scene.settle() == 1
    scene.now_s += 2
    assert scene.settle() == 2
    assert scene.failed == []


@pytest.mark.parametrize("known", [{}, {"last_verify": "null"}, {"last_verify": "{"}, {"last_verify": "[]"}])
def test_a_job_without_an_outcome_runs_at_once(tmp_path: Path, known: dict[str, str]) -> None:
    scene = Scene(tmp_path, [("verify", 3600, 0)])
    scene.checks.start(known)
    assert scene.settle() == 1


def test_one_at_a_time_the_longest_due_first(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [("verify", 3600, 0), ("objects", 7200, 0)])
    scene.checks.start({"last_verify": json.dumps({"at_ms": 0}), "last_objects": json.dumps({"at_ms": 0})})
    scene.checks.look()
    assert scene.checks.running is not None
    assert scene.checks.running[0].name == "verify"
    assert scene.settle() == 2, "the other follows when the first has ended"


def test_a_finding_is_work_done_and_a_failure_is_counted_and_tried_again_soon(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [("objects", 86_400, 5)])
    scene.checks.start({})
    assert (scene.settle(), scene.failed) == (1, [])
    scene.now_s += RETRY_S + 1
    assert scene.settle() == 1
    failing = Scene(tmp_path / "failing", [("verify", 3600, 4)])
    failing.folder.mkdir()
    failing.checks.start({})
    assert (failing.settle(), failing.failed) == (1, ["verify"])
    failing.now_s += RETRY_S - 1
    assert failing.settle() == 1
    failing.now_s += 2
    assert (failing.settle(), failing.failed) == (2, ["verify", "verify"])


def test_the_status_of_a_job_that_found_something_is_that_of_the_command_line() -> None:
    assert Exit.AUDIT == AUDIT_STATUS


def test_a_job_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    failed: list[str] = []
    check = Check(name="verify", every_s=3600, command=[str(tmp_path / "missing")], outcome="last_verify")
    checks = Checks([check], tmp_path, failed.append)
    checks.start({})
    checks.look()
    assert failed == ["verify"]


def test_the_end_of_the_monitor_ends_its_job(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [])
    endless = Check(name="verify", every_s=3600, command=scene.command("import time; time.sleep(600)"), outcome="last_verify")
    checks = Checks([endless], tmp_path, scene.failed.append)
    checks.start({})
    checks.look()
    assert checks.running is not None
    process = checks.running[1]
    checks.stop()
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    checks.stop()
    assert scene.failed == []


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1h", 3600), ("1.5 h", 5400), ("7d", 604_800)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert Duration(10).convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "1w", "1e9", "9", "nan", "1h30m", "٣h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration(10).convert(text, None, None)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--verify-every", "1h"], "--verify-server"),
        (["--objects-every", "24h"], "object.store.url"),
        (["--objects-every", "24h", "--once"], "--once ends with the log"),
        (["--verify-every", "soon"], "is no duration"),
    ],
)
def test_a_job_that_cannot_be_run_is_refused_before_anything_starts(tmp_path: Path, options: list[str], told: str) -> None:
    where = ["monitor", "run", "--bootstrap-server", "127.0.0.1:1", "--dir", str(tmp_path)]
    found = CliRunner().invoke(root, [*where, *options], prog_name="diskless", env={"COLUMNS": "300"})
    assert (found.exit_code, told in found.output) == (Exit.USAGE, True), found.output
