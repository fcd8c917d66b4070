"""What is known of the end of a followed partition: bounds, the newest batches, and who waits for more.

Used on the event loop; `now_s` is its clock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from coordinator.client.errors import SERVED
from coordinator.client.model import PartitionBatches, PartitionId
from coordinator.protocol.find_batches import BatchLocation

LIVE_S: Final = 15.0
"""For so long an answer of a node holds: longer than a poll waits. Then readers ask for themselves, and learn what is wrong."""
BATCHES_MAX: Final = 256
"""The newest batches of a partition that are kept for readers who come a little later than others."""
WATCH_S: Final = 5.0
"""For so long a watch is believed to have a reader: less than a partition is followed without one."""
BATCHES_S: Final = 10.0
"""How long. The objects of deleted batches last longer."""


class TailWaiter:
    """A reader that waits for news of some partitions."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        self._woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """Have the reader look again."""
        if not self._woken.done():
            self._woken.set_result(True)

    async def wait(self, timeout_s: float) -> bool:
        """Return whether it was woken in time."""
        woken = self._woken
        timer = asyncio.get_running_loop().call_later(timeout_s, _give_up, woken)
        try:
            return await woken
        finally:
            timer.cancel()


def _give_up(woken: asyncio.Future[bool]) -> None:
    if not woken.done():
        woken.set_result(False)


class TailWatch:
    """A look at partitions at whose ends there is nothing new. Implements `gateway.fetch.ports.Watch`."""

    __slots__ = ("_tails", "_woken")

    def __init__(self, tails: Sequence[Tail], woken: Callable[[], None]) -> None:
        self._tails = tails
        self._woken = woken
        for tail in tails:
            tail.watches[self] = None

    def holds_until_s(self) -> float:
        """See `Watch`."""
        now_s = asyncio.get_running_loop().time()
        until_s = now_s + WATCH_S
        for tail in self._tails:
            tail.used_s = now_s
            until_s = min(until_s, tail.live_until_s)
        return until_s

    def close(self) -> None:
        """See `Watch`."""
        tails, self._tails = self._tails, ()
        for tail in tails:
            tail.watches.pop(self, None)

    def wake(self) -> None:
        """Say that something is new."""
        if self._tails:
            self.close()
            self._woken()


class Tail:
    """See the module's text. `end` is the high watermark as far as it is known."""

    __slots__ = ("_at_end", "_batches", "end", "live_until_s", "log_start", "news_s", "partition", "used_s", "waiters", "watches")

    def __init__(self, partition: PartitionId, log_start: int, end: int, now_s: float) -> None:
        self.partition = partition
        self.log_start = log_start
        self.end = end
        self.waiters: dict[TailWaiter, None] = {}
        self.watches: dict[TailWatch, None] = {}
        self.used_s = now_s
        """When a reader asked last."""
        self.news_s = now_s
        """When the end moved last."""
        self.live_until_s = now_s + LIVE_S
        self._batches: deque[tuple[float, BatchLocation]] = deque(maxlen=BATCHES_MAX)
        # Without a hole; the last one may end before `end`, when an answer did not hold all there was.
        self._at_end: PartitionBatches | None = None

    def is_live(self, now_s: float) -> bool:
        """Whether what is known may be told."""
        return now_s < self.live_until_s

    def known(self, offset: int, now_s: float) -> PartitionBatches | None:
        """Return what a reader at an offset is answered; None when a node has to be asked."""
        self.used_s = now_s
        if not self.is_live(now_s) or not self.log_start <= offset <= self.end:
            return None
        if offset == self.end:
            if self._at_end is None:
                self._at_end = PartitionBatches(refusal=SERVED, log_start_offset=self.log_start, high_watermark=self.end)
            return self._at_end
        batches = self._batches
        while batches and batches[0][0] < now_s - BATCHES_S:
            batches.popleft()
        if not batches or not batches[0][1].base_offset <= offset <= batches[-1][1].last_offset:
            return None
        found = tuple(one for _, one in batches if one.last_offset >= offset)
        return PartitionBatches(refusal=SERVED, log_start_offset=self.log_start, high_watermark=self.end, batches=found)

    def learn(self, log_start: int, end: int, batches: Iterable[BatchLocation], now_s: float) -> None:
        """Take an answer of a node, and wake who waits for what it tells."""
        self._append(batches, now_s)
        self._reach(end, now_s)
        if log_start > self.log_start:
            self.log_start, self._at_end = log_start, None
            self.wake()

    def polled(self, now_s: float) -> None:
        """Note that a poll was answered."""
        self.live_until_s = now_s + LIVE_S

    def commit(self, batch: BatchLocation, now_s: float) -> bool:
        """Take a batch that was committed here; returns False when others are missing before it."""
        if batch.base_offset > self.end:
            return False
        if batch.base_offset == self.end:
            self._append((batch,), now_s)
            self._reach(batch.last_offset + 1, now_s)
        return True

    def wake(self) -> None:
        """Have all that wait look again."""
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.wake()
        for watch in list(self.watches):
            watch.wake()

    def _append(self, batches: Iterable[BatchLocation], now_s: float) -> None:
        kept = self._batches
        for batch in batches:
            if batch.base_offset >= self.end and kept and kept[-1][1].last_offset + 1 != batch.base_offset:
                kept.clear()
            if batch.base_offset >= self.end:
                kept.append((now_s, batch))

    def _reach(self, end: int, now_s: float) -> None:
        if end > self.end:
            self.end, self.news_s, self._at_end = end, now_s, None
            self.wake()
