"""The page of `diskless dev up`: `diskless dashboard` as a process of its own."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.dev.companion import Companion

PORT = 9180
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 2.0
SOON_S = 30.0


class DevDashboard(Companion):
    """See the module. Open pages say that the connection is lost when it ends."""

    def __init__(self, *, monitor_folder: Path, coordinators: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
        """`monitor_folder` is the monitor's, `coordinators` are `host:port` of the nodes' HTTP ports."""
        super().__init__("dashboard", folder, say, port=PORT, start_timeout_s=START_TIMEOUT_S, stop_timeout_s=STOP_TIMEOUT_S, soon_s=SOON_S)
        self._monitor_folder = monitor_folder
        self._coordinators = coordinators

    @property
    def address(self) -> str:
        """The page."""
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it without waiting."""
        self._launch()

    def wait_ready(self) -> bool:
        """Wait until the page is served; False when it is not."""
        return self._wait(self._answers)

    def _arguments(self) -> Sequence[str]:
        listen = ("--listen", f"127.0.0.1:{self.port}")
        return ("dashboard", "--dir", str(self._monitor_folder), *listen, "--coordinators", ",".join(self._coordinators))

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}healthz", timeout=ANSWER_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False  # the page does not answer yet
