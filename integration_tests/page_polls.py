"""What a page showed, second by second, and whether it was true: charts and tiles against a count of the log made afterwards."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from integration_tests.log_count import UNITS, Counted, LogCount

EVERY_S = 1.0
RATE_S = 10
TIMEOUT_S = 60
ROUNDING = 0.001
"""Rates are rounded to so much."""


def ask(address: str, path: str, **parameters: object) -> Any:
    """Return an answer of the dashboard."""
    query = urllib.parse.urlencode(parameters)
    with urllib.request.urlopen(f"{address}api/{path}?{query}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)


class Poll(NamedTuple):
    """Answers of one moment, asked at `asked_ms`."""

    asked_ms: int
    overview: Any
    total: Any
    by_coordinator: Any


class Unwatched(NamedTuple):
    """A time in which nothing of the log could be seen: the monitor or Kafka was dead."""

    from_ms: int
    to_ms: int
    why: str


class PagePolls:
    """Asks a dashboard every second in a thread until the block ends."""

    def __init__(self, address: str) -> None:
        self.polls: list[Poll] = []
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="polls")
        self._failed: list[BaseException] = []

    def __enter__(self) -> PagePolls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert not self._failed, self._failed

    def _run(self) -> None:
        try:
            while not self._stop.wait(EVERY_S):
                asked_ms = time.time_ns() // 1_000_000
                overview = ask(self._address, "overview")
                total, split = (ask(self._address, "activity", range=300, split=split) for split in ("total", "coordinator"))
                self.polls.append(Poll(asked_ms, overview, total, split))
        except BaseException as error:
            self._failed.append(error)
            raise

    # ---- what was wrong

    def lies(self, log: LogCount, unwatched: Sequence[Unwatched]) -> Iterator[str]:
        """Yield every number that the page showed and the log does not have, and every one of a time that was not watched."""
        seconds = log.by_second()
        for poll in self.polls:
            yield from _wrong_chart(poll.asked_ms, poll.total, seconds, {"all coordinators": list(log.readers)})
            lanes = {f"coordinator {one}": [one] for one in log.readers}
            yield from _wrong_chart(poll.asked_ms, poll.by_coordinator, seconds, lanes)
            yield from _wrong_tiles(poll, log, seconds)
            for gap in unwatched:
                if gap.from_ms < poll.asked_ms < gap.to_ms:
                    yield from _seen_blindly(poll, gap)


Seconds = Any


def _truth(seconds: Seconds, coordinators: Sequence[int], first_s: int, end_s: int) -> Counted:
    return sum((seconds[one, second] for one in coordinators for second in range(first_s, end_s) if (one, second) in seconds), Counted())


def _values(chart: Any, unit: str, line: Any) -> Iterator[tuple[int, float | None]]:
    return zip(range(chart["first_s"], chart["end_s"], chart["step_s"]), line["rates"][unit], strict=True)


def _wrong_chart(asked_ms: int, chart: Any, seconds: Seconds, lanes: dict[str, list[int]]) -> Iterator[str]:
    for line in chart["lines"]:
        if line["label"] == "nothing":
            lane = [one for ones in lanes.values() for one in ones]
        else:
            lane = lanes[line["label"]]
        for place, unit in enumerate(UNITS):
            for first_s, shown in _values(chart, unit, line):
                if shown is None:
                    continue
                true = _truth(seconds, lane, first_s, first_s + chart["step_s"])[place] / chart["step_s"]
                if abs(shown - true) > ROUNDING:
                    yield f"{asked_ms}: {line['label']} {unit} at {first_s}: {shown} shown, {true} in the log"


def _wrong_tiles(poll: Poll, log: LogCount, seconds: Seconds) -> Iterator[str]:
    numbers = poll.overview["numbers"]
    if numbers is None:
        return
    until_ms = numbers["known_until_ms"]
    end_s = until_ms // 1000
    rates = _truth(seconds, list(log.readers), end_s - RATE_S, end_s)
    least = log.counted(lambda _, share: share.logged_ms < until_ms)
    most = log.counted(lambda _, share: share.logged_ms <= poll.asked_ms + TIMEOUT_S * 1000)
    for place, unit in enumerate(UNITS):
        shown, true = numbers["rates"][unit], rates[place] / RATE_S
        if abs(shown - true) > ROUNDING:
            yield f"{poll.asked_ms}: {unit} of the tile until {until_ms}: {shown} shown, {true} in the log"
        total = int(numbers["totals"][unit]["digits"])
        if not least[place] <= total <= most[place]:
            yield f"{poll.asked_ms}: {unit} in all until {until_ms}: {total} shown, the log has {least[place]} to {most[place]}"


def _seen_blindly(poll: Poll, gap: Unwatched) -> Iterator[str]:
    for chart in (poll.total, poll.by_coordinator):
        for line in chart["lines"]:
            for unit in UNITS:
                shown = [first_s for first_s, value in _values(chart, unit, line) if value is not None and first_s * 1000 >= gap.from_ms]
                if shown:
                    yield f"{poll.asked_ms}: {line['label']} {unit} at {shown} though {gap.why} at {gap.from_ms}"
    numbers = poll.overview["numbers"]
    if numbers is not None and numbers["known_until_ms"] > gap.from_ms:
        yield f"{poll.asked_ms}: known until {numbers['known_until_ms']} though {gap.why} at {gap.from_ms}"
