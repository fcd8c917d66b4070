"""A process of `diskless dev up` beside the service: one of no importance to it, started again when it ends by accident.

What is wrong with it is said, and ends nothing. Invariant: when `stop` returned, the process is gone.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.dev.ports import PortLease, lease_ports
from cli.dev.process import ChildProcess, start_child

LOOK_EVERY_S = 0.05


class Companion(ABC):
    """One `diskless` command as a process. One that ends within `soon_s` of its start stays away."""

    def __init__(
        self,
        name: str,
        folder: Path,
        say: Callable[[str], None],
        *,
        port: int,
        start_timeout_s: float,
        stop_timeout_s: float,
        soon_s: float,
    ) -> None:
        """`folder` gets its log; `port` is the preferred one, another is taken when it is in use."""
        self.name = name
        self.folder = folder
        self.say = say
        self._preferred_port = port
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._soon_s = soon_s
        self._lease: PortLease | None = None
        self._process: ChildProcess | None = None
        self._started_s = 0.0
        self._given_up = False

    @abstractmethod
    def _arguments(self) -> Sequence[str]:
        """The arguments after `diskless`."""

    @property
    def log_file(self) -> Path:
        """The file with the output of the process."""
        return self.folder / f"{self.name}.log"

    @property
    def port(self) -> int:
        """The port it serves on, 0 before it was started."""
        return 0 if self._lease is None else self._lease.port

    @property
    def pid(self) -> int:
        """The id of the companion's process, -1 when it does not run."""
        return -1 if self._process is None else self._process.pid

    def look(self) -> None:
        """Start it again when it ended; not when that was soon after its start."""
        if self._given_up or self._process is None or not self._has_ended():
            return
        status = self._process.exit_status()
        if time.monotonic() - self._started_s < self._soon_s:
            self._given_up = True
            self.say(f"the {self.name} ended with status {status} soon after its start and stays away; log: {self.log_file}")
            return
        self.say(f"the {self.name} ended with status {status}; it is started again; log: {self.log_file}")
        self._start_process()

    def stop(self) -> None:
        """Ask it to end, kill it if it does not, and give its port back."""
        if self._process is not None and self._process.is_running():
            self._process.send(signal.SIGTERM)
            try:
                self._process.wait(self._stop_timeout_s)
            except subprocess.TimeoutExpired:
                self.say(f"the {self.name} did not stop within {self._stop_timeout_s:g} s and is killed; log: {self.log_file}")
                self._process.kill()
        if self._lease is not None:
            self._lease.close()

    def _launch(self) -> None:
        """Take a port and start the process without waiting."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lease = lease_ports(1, preferred=[self._preferred_port])[0]
        self._start_process()

    def _wait(self, is_there: Callable[[], bool]) -> bool:
        """Wait until it is there; False, said and for good, when it ended or took too long."""
        while not is_there():
            if self._has_ended() or time.monotonic() - self._started_s > self._start_timeout_s:
                self.say(f"no {self.name}: it did not start; log: {self.log_file}")
                self._given_up = True
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def _start_process(self) -> None:
        self._process = start_child([sys.executable, "-m", "cli.program", *self._arguments()], marker="cli.program", log=self.log_file)
        self._started_s = time.monotonic()

    def _has_ended(self) -> bool:
        return self._process is None or not self._process.is_running()
