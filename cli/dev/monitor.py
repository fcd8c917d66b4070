"""The monitor of `diskless dev up`: `diskless monitor run` as a process of its own, started again when it ends by accident.

It is of no importance to the service: what is wrong with it is said, and ends nothing. Invariant: when `stop` returned, its
process is gone; the JVM inside it ends with it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cli.dev.ports import PortLease, lease_ports
from cli.dev.process import ChildProcess, start_child

METRICS_PORT = 9189
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
LOOK_EVERY_S = 0.05
SOON_S = 60.0
DATABASE = "monitor.db"


@dataclass(slots=True)
class DevMonitor:
    """See the module. `folder` gets the database and the log of the process."""

    bootstrap: str
    folder: Path
    say: Callable[[str], None]
    _lease: PortLease | None = None
    _process: ChildProcess | None = None
    _started_s: float = 0.0
    _given_up: bool = False

    @property
    def log_file(self) -> Path:
        """What the process says."""
        return self.folder / "monitor.log"

    @property
    def metrics(self) -> str:
        """Address of its metrics."""
        return f"http://127.0.0.1:{0 if self._lease is None else self._lease.port}/metrics"

    @property
    def pid(self) -> int:
        """Its process, -1 when it does not run."""
        return -1 if self._process is None else self._process.pid

    def start(self) -> bool:
        """Start it; returns when its database is there, numbers come some seconds later. False when it cannot run here."""
        from cli.outcome import Failed
        from cli.spark import find_engine

        start_s = time.monotonic()
        self.say("monitor ...")
        try:
            find_engine(self.folder)  # fetches the jars, once per machine
        except Failed as failed:
            self.say(f"no monitor: {failed}")
            return False
        self._lease = lease_ports(1, preferred=[METRICS_PORT])[0]
        self._start_process()
        while not (self.folder / DATABASE).exists():
            if self._has_ended() or time.monotonic() - start_s > START_TIMEOUT_S:
                self.say(f"no monitor: it did not start; log: {self.log_file}")
                self._given_up = True
                return False
            time.sleep(LOOK_EVERY_S)
        self.say(f"monitor: {time.monotonic() - start_s:.1f} s")
        return True

    def _start_process(self) -> None:
        assert self._lease is not None
        command = [sys.executable, "-m", "cli.main", "monitor", "run", "--bootstrap-server", self.bootstrap, "--dir", str(self.folder)]
        command += ["--metrics-port", str(self._lease.port)]
        self._process = start_child(command, marker="cli.main", log=self.log_file)
        self._started_s = time.monotonic()

    def _has_ended(self) -> bool:
        return self._process is None or not self._process.is_running()

    def look(self) -> None:
        """Start it again when it ended; not when that was soon after its start."""
        if self._given_up or self._process is None or not self._has_ended():
            return
        status = self._process.exit_status()
        if time.monotonic() - self._started_s < SOON_S:
            self._given_up = True
            self.say(f"the monitor ended with status {status} soon after its start and stays away; log: {self.log_file}")
            return
        self.say(f"the monitor ended with status {status}; it is started again; log: {self.log_file}")
        self._start_process()

    def stop(self) -> None:
        """End it after the micro-batch it is at."""
        if self._process is not None and self._process.is_running():
            self._process.send(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.say(f"the monitor did not stop within {STOP_TIMEOUT_S:g} s and is killed; log: {self.log_file}")
                self._process.kill()
        if self._lease is not None:
            self._lease.close()
