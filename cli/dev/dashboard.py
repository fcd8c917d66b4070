"""The page of `diskless dev up`: `diskless dashboard` as a process of its own, started again when it ends by accident.

Like the monitor it is of no importance to the service. Invariant: when `stop` returned, its process is gone.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.dev.ports import PortLease, lease_ports
from cli.dev.process import ChildProcess, start_child

PORT = 9180
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.05
ANSWER_TIMEOUT_S = 2.0
SOON_S = 30.0


@dataclass(slots=True)
class DevDashboard:
    """See the module. `monitor_folder` is the monitor's, `coordinators` are `host:port` of the nodes' HTTP ports."""

    monitor_folder: Path
    coordinators: Sequence[str]
    folder: Path
    say: Callable[[str], None]
    _lease: PortLease | None = None
    _process: ChildProcess | None = None
    _started_s: float = 0.0
    _given_up: bool = False

    @property
    def log_file(self) -> Path:
        """What the process says."""
        return self.folder / "dashboard.log"

    @property
    def address(self) -> str:
        """The page."""
        return f"http://127.0.0.1:{0 if self._lease is None else self._lease.port}/"

    @property
    def pid(self) -> int:
        """Its process, -1 when it does not run."""
        return -1 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it without waiting."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lease = lease_ports(1, preferred=[PORT])[0]
        self._start_process()

    def wait_ready(self) -> bool:
        """Wait until the page is served; False when it is not."""
        while not self._answers():
            if self._has_ended() or time.monotonic() - self._started_s > START_TIMEOUT_S:
                self.say(f"no dashboard: it did not start; log: {self.log_file}")
                self._given_up = True
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def look(self) -> None:
        """Start it again when it ended; not when that was soon after its start."""
        if self._given_up or self._process is None or not self._has_ended():
            return
        status = self._process.exit_status()
        if time.monotonic() - self._started_s < SOON_S:
            self._given_up = True
            self.say(f"the dashboard ended with status {status} soon after its start and stays away; log: {self.log_file}")
            return
        self.say(f"the dashboard ended with status {status}; it is started again; log: {self.log_file}")
        self._start_process()

    def stop(self) -> None:
        """End it; open pages say that the connection is lost."""
        if self._process is not None and self._process.is_running():
            self._process.send(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.say(f"the dashboard did not stop within {STOP_TIMEOUT_S:g} s and is killed; log: {self.log_file}")
                self._process.kill()
        if self._lease is not None:
            self._lease.close()

    def _start_process(self) -> None:
        assert self._lease is not None
        command = [sys.executable, "-m", "cli.main", "dashboard", "--dir", str(self.monitor_folder)]
        command += ["--listen", f"127.0.0.1:{self._lease.port}", "--coordinators", ",".join(self.coordinators)]
        self._process = start_child(command, marker="cli.main", log=self.log_file)
        self._started_s = time.monotonic()

    def _has_ended(self) -> bool:
        return self._process is None or not self._process.is_running()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}healthz", timeout=ANSWER_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False  # not yet
