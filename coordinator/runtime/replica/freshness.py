"""How new the state of a replica is known to be, so that no reader is sent to an object that is about to be deleted.

An object outlives its last batch by `file.delete.grace.ms`. A replica whose state may be older than half of that answers no FindBatches:
the other half is left to the reader. An idle log tells its followers nothing, and a leader that was paused does not know of its
successor, so each replica is compared with the end of its log: everything that the log held when the brokers were asked is applied.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from coordinator.runtime.ports import Cluster, KafkaUnavailable, TopicMissing

ASKED_MAX = 64
"""Ends that are not reached yet and remembered; a replica that lags more is not fresh enough anyway."""
PAUSE_S = (0.02, 5.0)
QUESTIONS_PER_LAG = 6
"""How often the end is asked for within the allowed lag: some answers may be lost."""


class _End(NamedTuple):
    asked_s: float
    offset: int


class Freshness:
    """How new the state of one replica is; all times are of a clock that does not jump."""

    def __init__(self, *, monotonic_s: Callable[[], float], lag_max_s: float) -> None:
        """`lag_max_s` is infinite when every state is new enough."""
        self._monotonic_s = monotonic_s
        self._lag_max_s = lag_max_s
        self._confirmed_s = float("-inf")
        self._ends: deque[_End] = deque(maxlen=ASKED_MAX)
        self._newest_end: int | None = None

    @property
    def is_sufficient(self) -> bool:
        """Whether the state is at most as old as is allowed."""
        return self._monotonic_s() - self._confirmed_s <= self._lag_max_s

    @property
    def reason(self) -> str:
        """Why it is not, for clients."""
        age_s = self._monotonic_s() - self._confirmed_s
        known = "has not been at the end of its log yet" if age_s == float("inf") else f"was at the end of its log {age_s:.1f} s ago"
        return f"{known}, and reads may lag at most {self._lag_max_s:g} s (half of file.delete.grace.ms)"

    def forget(self) -> None:
        """Another state is loaded."""
        self._confirmed_s = float("-inf")
        self._ends.clear()
        self._newest_end = None

    def entries_behind(self, next_offset: int) -> int | None:
        """How many entries the log had, when it was asked last, that are not applied; None when it was not asked yet."""
        return None if self._newest_end is None else max(0, self._newest_end - next_offset)

    def learned_end(self, asked_s: float, end_offset: int) -> None:
        """The log ended there at some time after `asked_s`. The oldest of too many ends stays, or a busy replica would reach none."""
        self._newest_end = end_offset
        if len(self._ends) == ASKED_MAX:
            self._ends.pop()
        self._ends.append(_End(asked_s, end_offset))

    def reached(self, next_offset: int) -> None:
        """Everything before this offset is applied."""
        ends = self._ends
        while ends and ends[0].offset <= next_offset:
            self.confirm(ends.popleft().asked_s)

    def confirm(self, at_s: float) -> None:
        """The state has everything that was acknowledged before this time."""
        self._confirmed_s = max(self._confirmed_s, at_s)


async def keep_asking(cluster: Cluster, partition: int, freshness: Callable[[], Freshness | None], lag_max_s: float) -> None:
    """Ask for the end of a partition's log while `freshness` gives that of the replica which is in service then."""
    least_s, most_s = PAUSE_S
    pause_s = min(max(lag_max_s / QUESTIONS_PER_LAG, least_s), most_s)
    while (asked_of := freshness()) is not None:
        asked_s = asyncio.get_running_loop().time()
        # The guard of the topic tells operators that Kafka does not answer; reads tell their clients for how long.
        with suppress(KafkaUnavailable, TopicMissing):
            _, end = await cluster.log_range(partition)
            asked_of.learned_end(asked_s, end)
        await asyncio.sleep(pause_s)
