"""What an open page is told: the stream of events of a dashboard, read as a browser does, with the time of each sentence."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import NamedTuple

from integration_tests.waiting import wait_until

READ_TIMEOUT_S = 60


class Sentence(NamedTuple):
    """The head of the page at one time."""

    time_s: float
    level: str
    text: str
    problems: tuple[str, ...]


class PageNews:
    """Reads `/api/events` in a thread until the dashboard ends. `heard` are all sentences so far."""

    def __init__(self, address: str) -> None:
        self.heard: list[Sentence] = []
        self._address = address
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with urllib.request.urlopen(f"{self._address}api/events", timeout=READ_TIMEOUT_S) as stream:
                for line in stream:
                    if line.startswith(b"data: "):
                        verdict = json.loads(line.removeprefix(b"data: "))["verdict"]
                        problems = tuple(problem["text"] for problem in verdict["problems"])
                        self.heard.append(Sentence(time.monotonic(), verdict["level"], verdict["sentence"], problems))
        except OSError:
            return  # the dashboard ended, or was killed

    def since(self, time_s: float) -> list[Sentence]:
        """The sentences after a time."""
        return [sentence for sentence in self.heard if sentence.time_s >= time_s]

    def wait(self, is_wanted: Callable[[Sentence], bool], what: str, *, since_s: float = 0.0, timeout_s: float = 120.0) -> Sentence:
        """Wait for a sentence after a time."""
        try:
            wait_until(lambda: any(map(is_wanted, self.since(since_s))), f"the page to say {what}", timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {self.heard[-1:]}") from error
        return next(filter(is_wanted, self.since(since_s)))
