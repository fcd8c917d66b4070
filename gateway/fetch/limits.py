"""The bounds of Fetch, its counters, and the places for which it waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from coordinator.adapters.metrics.histogram import Series

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Bounds of memory and time."""

    cache_bytes: int = 256 * MIB
    old_share: float = 0.4
    """The part of the cache that is for old data, when there is some to read."""
    answers_bytes: int = 128 * MIB
    """Records of all answers that are being made or sent."""
    answer_bytes_max: int = 16 * MIB
    answer_bytes_least: int = 1 * MIB
    """As many an answer may have even while others take most of `answers_bytes`."""
    block_bytes: int = 16 * MIB
    """Objects are read in aligned ranges of this size, which are whole objects mostly."""
    block_worth_bytes: int = 2 * MIB
    block_worth_reads: int = 8
    """Of old data a block is read once this much of it, or this often some of it, was asked for; only ranges before."""
    range_gap_bytes: int = 256 * 1024
    """Ranges of an object that are no further apart become one read."""
    tail_reads_max: int = 32
    tail_bytes_max: int = 128 * MIB
    old_reads_max: int = 8
    old_bytes_max: int = 64 * MIB
    """Reads of the store that are under way, and their bytes; old data has places of its own."""
    classic_bytes: int = 64 * MIB
    """Records of classic parts that are being read from brokers."""
    old_after_ms: int = 60_000
    ahead_bytes_max: int = 8 * MIB
    """How much is read ahead for a reader of old data, of one partition."""
    read_timeout_s: float = 15.0
    """How long an answer waits for the store; the consumer waits for half a minute, mostly."""
    wait_ms_max: int = 4_000
    """The longest long poll. Rights are asked for when it begins: one that is taken away meanwhile counts when it is over."""

    @staticmethod
    def within(memory_bytes: int) -> FetchLimits:
        """Divide the memory that all of Fetch may hold, besides first batches and files that are larger than its parts."""
        cache_bytes = int(memory_bytes * 0.44)
        return FetchLimits(
            cache_bytes=cache_bytes,
            answers_bytes=int(memory_bytes * 0.22),
            block_bytes=max(4 * MIB, min(16 * MIB, cache_bytes // 16)),
            tail_bytes_max=int(memory_bytes * 0.22),
            old_bytes_max=int(memory_bytes * 0.06),
            classic_bytes=int(memory_bytes * 0.06),
        )


@dataclass(slots=True, kw_only=True)
class FetchStats:
    """Counters since the start; `cached_bytes` and those that end with `_waiting` are levels."""

    requests: int = 0
    bytes_out: int = 0
    """Of records."""
    cache_hits: int = 0
    """Runs of neighbouring batches that were in memory; the others are `cache_misses`."""
    cache_misses: int = 0
    cached_bytes: int = 0
    store_reads: int = 0
    store_read_bytes: int = 0
    store_read_failures: int = 0
    read_seconds: Series = field(default_factory=lambda: Series(()))
    joined_reads: int = 0
    """Runs whose bytes another reader was fetching already."""
    ahead_reads: int = 0
    reads_too_late: int = 0
    """Answers that went without bytes for which the store took too long."""
    damaged: int = 0
    """Batches that were not what the coordinator says."""
    old_waiting: int = 0
    tail_waiting: int = 0
    answers_waiting: int = 0


class Places:
    """A bound on bytes, and on how many have some, in the order in which they are asked for.

    What is larger than the bound has a turn when it is alone, so nothing waits for ever.
    """

    def __init__(self, bytes_max: int, count_max: int, *, waiting: Callable[[int], None]) -> None:
        """`waiting` is told how many wait, whenever that changes."""
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._tell_waiting = waiting
        self._bytes = 0
        self._count = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def bytes_free(self) -> int:
        """How many bytes may be taken."""
        return max(0, self._bytes_max - self._bytes)

    @property
    def is_busy(self) -> bool:
        """Whether a place would have to be waited for, or is one of the last."""
        return bool(self._queue) or 2 * self._bytes >= self._bytes_max or 2 * self._count >= self._count_max

    async def take(self, size_bytes: int) -> None:
        """Return when there is a place; `give` it back."""
        if not self._queue and self._has_room(size_bytes):
            self._admit(size_bytes)
            return
        turn = asyncio.get_running_loop().create_future()
        entry = (size_bytes, turn)
        self._queue.append(entry)
        self._tell_waiting(len(self._queue))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(size_bytes)
            else:
                self._queue.remove(entry)
                self._tell_waiting(len(self._queue))
                self._let_in()
            raise

    def give(self, size_bytes: int) -> None:
        """Give a place back."""
        self._bytes -= size_bytes
        self._count -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._queue and self._has_room(self._queue[0][0]):
            size_bytes, turn = self._queue.popleft()
            self._tell_waiting(len(self._queue))
            if not turn.done():
                self._admit(size_bytes)
                turn.set_result(None)

    def _has_room(self, size_bytes: int) -> bool:
        return self._count == 0 or (self._count < self._count_max and self._bytes + size_bytes <= self._bytes_max)

    def _admit(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        self._count += 1
