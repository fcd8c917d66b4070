"""The batch jobs that a monitor runs from time to time, `monitor verify` and `restore report`, each as a process of its own.

A process, because such a job wants memory of its own and must not take the log's followers with it when it fails; one at a
time, because two would double that memory. When a job is due follows from what it last wrote into the monitor's database, so
a restart neither repeats nor forgets one. Invariant: none of them outlives the monitor.
"""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOG = logging.getLogger("monitor.checks")

RETRY_S = 300.0
"""A job that failed is tried again after this, or after its interval if that is shorter."""
STOP_WAIT_S = 5.0
AUDIT_STATUS = 5
"""A job that found something has done its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One job: `command` is its whole command line, which keeps its outcome under `outcome` in the database."""

    name: str
    every_s: float
    command: Sequence[str]
    outcome: str


class Checks:
    """See the module. Used by one thread, which the jobs do not outlive."""

    def __init__(
        self,
        checks: Sequence[Check],
        folder: Path,
        on_failure: Callable[[str], None],
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """`folder` gets the output of each job's last run. `on_failure` gets the name of a job that could not do its work."""
        self._checks = {check.name: check for check in checks}
        self._folder = folder
        self._on_failure = on_failure
        self._clock_s = clock_s
        self._due_s: dict[str, float] = {}
        self.running: tuple[Check, subprocess.Popen[bytes]] | None = None
        """The job under way and its process; None while none runs."""

    def start(self, known: Mapping[str, str]) -> None:
        """Plan the first runs; `known` are the outcomes of earlier ones, as JSON with `at_ms`, by name."""
        for check in self._checks.values():
            self._due_s[check.name] = _at_s(known.get(check.outcome)) + check.every_s

    def look(self) -> None:
        """Notice a job that ended, and start one that is due. Never waits."""
        if self.running is not None:
            check, process = self.running
            status = process.poll()
            if status is None:
                return
            self.running = None
            self._take(check, status)
        now_s = self._clock_s()
        due = [(due_s, name) for name, due_s in self._due_s.items() if due_s <= now_s]
        if due:
            self._begin(self._checks[min(due)[1]])

    def stop(self) -> None:
        """End the job that runs, if one does."""
        if self.running is None:
            return
        _, process = self.running
        self.running = None
        process.terminate()
        try:
            process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _begin(self, check: Check) -> None:
        with self._log_file(check).open("wb") as output:
            try:
                process = subprocess.Popen(check.command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            except OSError as error:
                self._fail(check, f"cannot be started: {error}")
                return
        LOG.info("%s started, pid %d", check.name, process.pid)
        self.running = (check, process)

    def _take(self, check: Check, status: int) -> None:
        if status in (0, AUDIT_STATUS):
            self._due_s[check.name] = self._clock_s() + check.every_s
            LOG.log(logging.WARNING if status else logging.INFO, "%s done: %s", check.name, self._last_line(check))
        else:
            self._fail(check, f"ended with status {status}: {self._last_line(check)}")

    def _fail(self, check: Check, text: str) -> None:
        pause_s = min(RETRY_S, check.every_s)
        self._due_s[check.name] = self._clock_s() + pause_s
        LOG.error("%s %s; its output: %s; it is tried again in %g s", check.name, text, self._log_file(check), pause_s)
        self._on_failure(check.name)

    def _last_line(self, check: Check) -> str:
        lines = self._log_file(check).read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "no output")

    def _log_file(self, check: Check) -> Path:
        return self._folder / f"{check.name}.log"


def _at_s(outcome: str | None) -> float:
    """When an outcome was found; long ago when there is none that can be read."""
    try:
        return float(json.loads(outcome or "null")["at_ms"]) / 1000
    except (ValueError, TypeError, KeyError):
        return 0.0
