"""One broker process: start, signals, end. It knows nothing of the cluster beyond its own ports.

Invariant: after `kill` or `terminate` returned, the process is gone and reaped.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.dev.kafka.properties import NodeAddress, Profile, render
from cli.dev.kafka.runtime import BrokerRuntime
from cli.dev.place import HERE, Place
from cli.dev.process import ChildProcess, start_child

LOG_TAIL_LINES = 40
LOOK_EVERY_S = 0.01


class KafkaStartError(Exception):
    """A broker did not start; the message has the end of its log."""


class KafkaNode:
    """One combined broker and controller. Its folder holds `server.properties`, `data` and `broker.log`."""

    def __init__(self, address: NodeAddress, *, folder: Path, runtime: BrokerRuntime, profile: Profile, place: Place = HERE) -> None:
        self.address = address
        self.folder = folder.resolve()
        self.data_folder = self.folder / "data"
        self.log_file = self.folder / "broker.log"
        self._runtime = runtime
        self._profile = profile
        self._place = place
        self._process: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs, else None."""
        return self._process.pid if self._process is not None and self._process.is_running() else None

    def start(self, properties: Mapping[str, str], more_options: Sequence[str] = ()) -> None:
        """Start the process; it is not yet open for clients (`wait_until_open`)."""
        if self.pid is not None:
            raise RuntimeError(f"node {self.address.node_id} is running already (pid {self.pid})")
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "server.properties"
        file.write_text(render(properties), encoding="utf-8")
        command = [*self._place.command_prefix, *self._runtime.command(file, self._profile, more_options)]
        self._process = start_child(command, marker=str(file), log=self.log_file)

    def is_open(self) -> bool:
        """Tell whether the port for clients accepts connections; it does so only once the broker is in service."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((self.address.host, self.address.client_port)) == 0

    def wait_until_open(self, timeout_s: float) -> None:
        """Wait until clients can connect. Raises `KafkaStartError` when the process ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not self.is_open():
            if self._process is None or not self._process.is_running():
                raise KafkaStartError(f"node {self.address.node_id} ended {self._status()} while starting{self.log_tail()}")
            if time.monotonic() > deadline:
                raise KafkaStartError(f"node {self.address.node_id} is not open after {timeout_s:g} s{self.log_tail()}")
            time.sleep(LOOK_EVERY_S)

    def _status(self) -> str:
        return "before it was started" if self._process is None else f"with status {self._process.exit_status()}"

    def log_tail(self) -> str:
        """Return the end of the log as text to append to a message."""
        if not self.log_file.exists():
            return f"; {self.log_file} was never written"
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return f"; the end of {self.log_file}:\n" + "\n".join(lines)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; nothing happens when it does not run."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        self._running().pause()

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._running().send(signal.SIGCONT)

    def request_stop(self) -> None:
        """SIGTERM without waiting; a paused one is resumed first, for it could not react."""
        if self._process is not None and self._process.is_running():
            self._process.send(signal.SIGCONT)
            self._process.send(signal.SIGTERM)

    def wait_until_gone(self, timeout_s: float) -> None:
        """Wait for the end. Raises `TimeoutError`."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"node {self.address.node_id} still runs {timeout_s:g} s after SIGTERM{self.log_tail()}") from late

    def terminate(self, timeout_s: float) -> None:
        """SIGTERM, and wait for the clean end. Raises `TimeoutError`; in a cluster it needs a quorum of the others."""
        self.request_stop()
        self.wait_until_gone(timeout_s)

    def _running(self) -> ChildProcess:
        if self._process is None or not self._process.is_running():
            raise RuntimeError(f"node {self.address.node_id} does not run")
        return self._process
