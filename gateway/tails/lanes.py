"""Long polls: a lane asks one node for all of its partitions again and again, from their ends on.

A poll of many partitions costs as much as they are, however few have news. So partitions without news for a while move to a lane of their
own, whose poll is seldom answered early. A partition that joins a lane ends the poll under way, which the next one replaces at the node.
Invariant: a lane with members has a task; every member is part of a poll, or of the next one, which is at most a pause away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.errors import DisklessError
from coordinator.kafka.errors import ErrorCode
from gateway.tails.tail import Tail

LOG = logging.getLogger(__name__)

WAIT_MS: Final = 10_000
TIMEOUT_MS: Final = 3_000
BYTES_MAX: Final = 64 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 8 * 1024 * 1024
BATCHES_MAX: Final = 200
"""Of a partition in an answer."""
JOIN_S: Final = 0.002
"""Partitions that join within this time do so together."""
POINT_S: Final = 0.00005
"""The pause after a poll that was answered early, for each of its partitions: gateway and node spend a tenth of that on it."""
RETRY_S: Final = (0.05, 1.0)
MAY_HEAL: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors after which a partition is asked for again. Readers hear of them when they last (`tail.LIVE_S`)."""


class FindsBatches(Protocol):
    """The operations of the service that are needed; `DisklessClient` has them."""

    async def find_batches(
        self,
        fetches: Sequence[FetchFrom],
        *,
        fetch_bytes_max: int,
        batches_per_partition_max: int = 0,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> list[PartitionBatches]:
        """Find batches, with `max_wait_ms` at one node that waits for them."""


class PollLane:
    """See the module's text. `settle` takes the answer for a member; `leaves` says whether a member is of this lane no longer."""

    def __init__(
        self,
        coordinators: FindsBatches,
        *,
        settle: Callable[[Tail, PartitionBatches], None],
        leaves: Callable[[PollLane, Tail], bool],
    ) -> None:
        self.members: dict[PartitionId, Tail] = {}
        self.polls = 0
        """How many polls were sent."""
        self._coordinators = coordinators
        self._settle = settle
        self._leaves = leaves
        self._task: asyncio.Task[None] | None = None
        self._poll: asyncio.Task[list[PartitionBatches]] | None = None
        self._replacing: asyncio.TimerHandle | None = None
        self._began_s = 0.0

    def join(self, tail: Tail) -> None:
        """Follow a partition."""
        self.members[tail.partition] = tail
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._task = loop.create_task(self._run(), name="follow-tails")
        elif self._poll is not None and self._replacing is None:
            pause_s = max(JOIN_S, self._began_s + len(self.members) * POINT_S - loop.time())
            self._replacing = loop.call_later(pause_s, self._replace)

    async def close(self) -> None:
        """Follow nothing any more."""
        self.members.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _replace(self) -> None:
        self._replacing = None
        if self._poll is not None:
            self._poll.cancel()

    async def _run(self) -> None:
        failures = 0
        try:
            while self._sort_out():
                pause_s = await self._ask(failures)
                if pause_s is None:
                    failures += 1
                    pause_s = min(RETRY_S[0] * 2.0 ** min(failures, 10), RETRY_S[1])
                else:
                    failures = 0
                if pause_s:
                    await asyncio.sleep(pause_s)
        finally:
            self._task = None
            if self._poll is not None:
                self._poll.cancel()
            if self._replacing is not None:
                self._replacing.cancel()
                self._replacing = None

    def _sort_out(self) -> bool:
        """Let members go that belong elsewhere; returns whether there are others."""
        for tail in list(self.members.values()):
            if self._leaves(self, tail):
                self.members.pop(tail.partition, None)
        return bool(self.members)

    async def _ask(self, failures: int) -> float | None:
        """Ask once; returns how long to pause, None when no node could be asked."""
        loop = asyncio.get_running_loop()
        asked = list(self.members.values())
        self._began_s = loop.time()
        self.polls += 1
        poll = self._poll = loop.create_task(
            self._coordinators.find_batches(
                [FetchFrom(tail.partition, tail.end, PARTITION_BYTES_MAX) for tail in asked],
                fetch_bytes_max=BYTES_MAX,
                batches_per_partition_max=BATCHES_MAX,
                max_wait_ms=WAIT_MS,
                timeout_ms=TIMEOUT_MS,
            )
        )
        try:
            await asyncio.wait({poll})
        finally:
            poll.cancel()
            self._poll = None
            if self._replacing is not None:
                self._replacing.cancel()
                self._replacing = None
        if poll.cancelled():
            return 0.0
        error = poll.exception()
        if error is None:
            return self._take(asked, poll.result())
        if not isinstance(error, DisklessError):
            LOG.error("a poll failed", exc_info=error)
        elif not failures:
            LOG.warning("ends of partitions cannot be followed error=%r", str(error))
        return None

    def _take(self, asked: Sequence[Tail], found: Sequence[PartitionBatches]) -> float | None:
        has_news = has_failed = False
        for tail, one in zip(asked, found, strict=True):
            if self.members.get(tail.partition) is tail:
                has_news |= bool(one.batches)
                has_failed |= one.error in MAY_HEAL
                self._settle(tail, one)
        if has_failed:
            return None
        return len(asked) * POINT_S if has_news else 0.0
