"""Processes of nodes and gateways for development and tests: real ones, each with a folder of its own.

A process is started from a properties file that is written here, watched through its log and its HTTP port, and never
outlives the process that started it (see `cli.dev.process`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path

from cli.dev.place import HERE, Place
from cli.dev.ports import PortLease
from cli.dev.process import ChildProcess, start_child

LOOK_EVERY_S = 0.05
WAIT_S = 60.0
SERVING_LINE = re.compile(rb"^serving \w+=\d+ .*$", re.MULTILINE)


class ProcessFailedError(Exception):
    """A process ended, or did not become what was waited for; the text ends with its last log lines."""


class ServiceProcess:
    """One process. `start` again after an end to get the same one back, with its data and ports."""

    metric_prefix = "diskless_coordinator_"

    def __init__(
        self,
        name: str,
        module: str,
        folder: Path,
        leases: Sequence[PortLease],
        properties: Mapping[str, str],
        *,
        place: Place = HERE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`module` is run with a properties file in `folder`, which also gets the log. The first two leases are for the listener and HTTP.

        `environment` is added to this process's own at each start, as it is then.
        """
        self.name = name
        self.folder = folder
        self.log_file = folder / f"{name.partition(' ')[0]}.log"
        self._module = module
        self._ports = leases
        self.address = f"{place.host}:{leases[0].port}"
        self.http = f"http://{place.host}:{leases[1].port}"
        self.properties = dict(properties)
        self._place = place
        self.environment = dict(environment or {})
        self.process: ChildProcess | None = None
        self._log_start = 0

    # ---- life

    def start(self) -> None:
        """Start the process; it serves after `wait_serving` and leads its share after `wait_ready`."""
        if self.process is not None and self.process.is_running():
            raise ProcessFailedError(f"{self.name} runs already")
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.log_file.with_suffix(".properties")
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()), encoding="utf-8")
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        command = [*self._place.command_prefix, sys.executable, "-m", self._module, str(config)]
        environment = {**os.environ, **self.environment}
        self.process = start_child(command, marker=self._module, log=self.log_file, environment=environment)

    def wait_listening(self, timeout_s: float = WAIT_S) -> None:
        """Wait until the listener takes connections, which it does before Kafka was reached."""
        self._wait(self._is_listening, "the listener", timeout_s)

    def _is_listening(self) -> bool:
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def wait_serving(self, timeout_s: float = WAIT_S) -> None:
        """Wait for the line `serving`: Kafka was reached and the state is loaded."""
        self._wait(self.is_serving, "the line `serving`", timeout_s)

    def is_serving(self) -> bool:
        """Whether the line `serving` was logged since the last start."""
        return SERVING_LINE.search(self._log()) is not None

    def wait_ready(self, timeout_s: float = WAIT_S) -> None:
        """Wait until /ready says yes: a member, with every assigned partition leading."""
        self._wait(lambda: self.readiness()[0], "/ready", timeout_s)

    def _wait(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            looked_at = time.monotonic()
            if condition():
                return
            if self.process is None or not self.process.is_running():
                raise ProcessFailedError(f"{self.name} ended while {what} was waited for\n{self.log_tail()}")
            if looked_at > deadline:
                raise ProcessFailedError(f"{self.name}: waited {timeout_s:g} s in vain for {what}\n{self.log_tail()}")
            time.sleep(LOOK_EVERY_S)

    def terminate(self, timeout_s: float = WAIT_S) -> int:
        """SIGTERM, and wait for the end; returns the exit status."""
        process = self._running()
        process.send(signal.SIGTERM)
        return process.wait(timeout_s)

    def request_stop(self) -> None:
        """SIGTERM without waiting; a paused one is resumed first, for it could not react."""
        self._running().send(signal.SIGCONT)
        self._running().send(signal.SIGTERM)

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait for the end; False when it still runs after `timeout_s`."""
        try:
            self._running().wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        """End the process if it runs, and give its ports back."""
        self.kill()
        for lease in self._ports:
            lease.close()

    @property
    def pid(self) -> int:
        """Process id of the process that was started last."""
        return self._running().pid

    def pause(self) -> None:
        """SIGSTOP."""
        self._running().pause()

    def resume(self) -> None:
        """SIGCONT."""
        self._running().send(signal.SIGCONT)

    def _running(self) -> ChildProcess:
        if self.process is None:
            raise ProcessFailedError(f"{self.name} was not started")
        return self.process

    # ---- looking at it

    def get(self, path: str, timeout_s: float = 5) -> tuple[int, bytes]:
        """GET of the HTTP port: (status, body); status 0 when there is no answer."""
        try:
            try:
                with urllib.request.urlopen(self.http + path, timeout=timeout_s) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read()
        except (OSError, HTTPException):  # no process listens, or it ended within its answer
            return 0, b""

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Ask /ready; returns (is ready, detail)."""
        status, body = self.get("/ready")
        return status == 200, json.loads(body) if body else {}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(value for given, value in self.samples(name).items() if all(label in given for label in wanted))

    def samples(self, name: str, timeout_s: float = 5) -> dict[str, float]:
        """The samples of a metric by their labels, all of one look; none when there is no answer."""
        found = {}
        for line in self.get("/metrics", timeout_s)[1].decode().splitlines():
            sample, _, value = line.rpartition(" ")
            sample_name, _, labels = sample.partition("{")
            if sample_name == self.metric_prefix + name:
                found[labels] = float(value)
        return found

    def _log(self) -> bytes:
        if not self.log_file.exists():
            return b""
        with self.log_file.open("rb") as file:
            file.seek(self._log_start)
            return file.read()

    def log_text(self) -> str:
        """Everything logged since the last start."""
        return self._log().decode(errors="replace")

    def log_tail(self, lines: int = 25) -> str:
        """The last lines of the log."""
        return "\n".join(self.log_text().splitlines()[-lines:])
