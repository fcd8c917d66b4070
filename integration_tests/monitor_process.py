"""`diskless monitor run` as tests start it: a real process with its JVM and Python workers, and what its folder says."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from cli.dev.process import ChildProcess, command_line, start_child, started_at, state_of
from integration_tests.waiting import wait_until
from spark_jobs.monitor.report import NoMonitorError, open_report
from spark_jobs.store.engine import PostgresPlace, StorePlace

START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60
"""More than a stop takes on a busy machine; the job itself waits 6 s for its micro-batch and 10 s for the JVM."""


class MonitorProcess:
    """One folder, and at most one process that writes it. Use as a context manager: what runs at the end is killed."""

    def __init__(self, bootstrap: str, topic: str, folder: Path, place: PostgresPlace | None = None) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.folder = folder / "monitor"
        self.place: StorePlace = self.folder if place is None else place
        self.log_file = folder / "monitor.log"
        self._process: ChildProcess | None = None
        self._seen = 0

    def __enter__(self) -> MonitorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.is_running():
            family = self.family()
            self._process.kill()
            wait_until(lambda: not any(alive(pid) for pid in family), "Spark to end after its driver")

    # ---- life

    def command(self, *options: str) -> list[str]:
        """The command line."""
        where = ["--bootstrap-server", self.bootstrap, "--metadata-topic", self.topic, "--dir", str(self.folder)]
        where += ["--store", self.place.url] if isinstance(self.place, PostgresPlace) else []
        return [sys.executable, "-m", "cli.program", "monitor", "run", *where, *options]

    def start(self, *options: str) -> MonitorProcess:
        """Start it without waiting."""
        self._seen = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = start_child(self.command(*options), marker="cli.program", log=self.log_file)
        return self

    def start_ready(self, *options: str) -> MonitorProcess:
        """Start it and wait until its query runs."""
        self.start(*options)
        wait_until(lambda: self.has_ended() or "ready topic=" in self.said(), "the line `ready`", START_TIMEOUT_S)
        assert not self.has_ended(), self.said()
        return self

    def run_once(self, *options: str) -> None:
        """Merge what is in the log."""
        self.start("--once", *options)
        status = self.process.wait(START_TIMEOUT_S)
        assert status == 0, self.said()

    @property
    def process(self) -> ChildProcess:
        """The process started last."""
        assert self._process is not None
        return self._process

    def has_ended(self) -> bool:
        """Whether it ended."""
        return not self.process.is_running()

    def wait_ended(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for its end by itself; its status."""
        return self.process.wait(timeout_s)

    def terminate(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM; its status."""
        self.process.send(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def said(self) -> str:
        """What the process started last wrote."""
        if not self.log_file.exists():
            return ""
        return self.log_file.read_bytes()[self._seen :].decode(errors="replace")

    def ended_with_one_message(self) -> str:
        """The message it ended with, which is all it said besides `ready` and its log."""
        lines = [line for line in self.said().splitlines() if line.startswith("diskless: ")]
        assert len(lines) == 1, self.said()
        assert "Traceback" not in self.said()
        return lines[0]

    # ---- its processes

    def family(self) -> dict[int, str]:
        """Its pid, which comes first, and those of all it started, with their command lines."""
        answer = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True, timeout=60)
        rows = [line.split(None, 2) for line in answer.stdout.splitlines()]
        found = {self.process.pid}
        while True:
            more = {int(pid) for pid, parent, *_ in rows if int(parent) in found} - found
            if not more:
                lines = {int(pid): " ".join(args) for pid, _, *args in rows}
                return {pid: lines.get(pid, "") for pid in (self.process.pid, *sorted(found - {self.process.pid}))}
            found |= more

    def jvm(self) -> int | None:
        """The JVM's pid, if it has one now."""
        return next((pid for pid in self.family() if "org.apache.spark.deploy.SparkSubmit" in command_line(pid)), None)

    def workers(self) -> list[int]:
        """Pids of the Python processes of Spark: the one that makes the others comes first."""
        return sorted((pid for pid, line in self.family().items() if "pyspark.daemon" in line), key=_started)

    # ---- what it found

    def total(self, name: str) -> int:
        """One total, 0 while there is none."""
        try:
            with open_report(self.place) as report:
                return report.totals().get(name, 0)
        except NoMonitorError:
            return 0

    def wait_total(self, name: str, at_least: int, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until a total is that high; the process must not end meanwhile."""
        wait_until(lambda: self.has_ended() or self.total(name) >= at_least, f"{name} >= {at_least}", timeout_s)
        assert self.total(name) >= at_least, self.said()

    def scrape(self) -> dict[str, float]:
        """Its metrics by name and labels; the port is in the line `ready`."""
        url = next(word.removeprefix("metrics=") for word in self.said().split() if word.startswith("metrics="))
        with urllib.request.urlopen(url, timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def _started(pid: int) -> tuple[int, int]:
    """What orders processes by their start; numbers alone do not, for they begin anew. One that is gone comes last."""
    started = started_at(pid)
    return (int(started) if started is not None else sys.maxsize, pid)


def alive(pid: int) -> bool:
    """Whether there is such a process; one that nobody has waited for yet does not count."""
    return state_of(Path(f"/proc/{pid}/stat")) not in "ZX"
