"""The monitor of `diskless dev up`: `diskless monitor run` as a process of its own. The JVM inside it ends with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.dev.companion import Companion

METRICS_PORT = 9189
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
SOON_S = 60.0


class DevMonitor(Companion):
    """See the module. It ends after the micro-batch it is at."""

    def __init__(self, bootstrap: str, folder: Path, say: Callable[[str], None]) -> None:
        """`folder` gets the database and the log of the process."""
        super().__init__(
            "monitor", folder, say, port=METRICS_PORT, start_timeout_s=START_TIMEOUT_S, stop_timeout_s=STOP_TIMEOUT_S, soon_s=SOON_S
        )
        self._bootstrap = bootstrap

    @property
    def metrics(self) -> str:
        """Address of its metrics."""
        return f"http://127.0.0.1:{self.port}/metrics"

    def start(self) -> bool:
        """Start it; returns when its database is there, numbers come some seconds later. False when it cannot run here."""
        from cli.outcome import Failed
        from cli.spark.session import find_engine

        start_s = time.monotonic()
        self.say("monitor ...")
        try:
            find_engine(self.folder)  # fetches the jars, once per machine
        except Failed as failed:
            self.say(f"no monitor: {failed}")
            return False
        self._launch()
        if not self._wait(self._has_store):
            return False
        self.say(f"monitor: {time.monotonic() - start_s:.1f} s")
        return True

    def _has_store(self) -> bool:
        from spark_jobs.monitor.report import NoMonitorError, open_report
        from spark_jobs.store.engine import STORE_ERRORS

        try:
            with open_report(self.folder):
                return True
        except NoMonitorError:
            return False
        except STORE_ERRORS:
            return False  # it is being made

    def _arguments(self) -> Sequence[str]:
        where = ("--bootstrap-server", self._bootstrap, "--dir", str(self.folder))
        return ("monitor", "run", *where, "--metrics-port", str(self.port))
