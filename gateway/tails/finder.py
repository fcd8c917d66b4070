"""Finds batches for waiting readers (`gateway.fetch` asks here): from what is known of the ends of partitions, else from the coordinators.

Readers below the end ask the coordinators at once. Those at an end wait for news of it, from a long poll that they share with all other
readers of the node, or from a commit of this gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.kafka.batches import LOG_APPEND_TIME, BatchArray
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.find_batches import BatchLocation
from gateway.tails.lanes import MAY_HEAL, FindsBatches, PollLane
from gateway.tails.tail import Tail, TailWaiter, TailWatch

TIMEOUT_MS: Final = 5_000
UNUSED_S: Final = 10.0
"""A partition that no reader has asked for is followed for so long."""
QUIET_S: Final = 5.0
"""Without news for so long a partition moves to the quiet lane."""
MAGIC: Final = 2
UNKNOWN_ID: Final = -1
"""The id of a batch that this gateway has committed: readers do not need it."""


class _Group:
    """The lanes of one node of coordinators."""

    def __init__(self, busy: PollLane, quiet: PollLane) -> None:
        self.busy = busy
        self.quiet = quiet


class Tails:
    """See the module's text. Used on one event loop."""

    def __init__(self, coordinators: FindsBatches, group_of: Callable[[PartitionId], Hashable]) -> None:
        """`group_of` says which partitions one node knows first: those whose coordinators it leads."""
        self._coordinators = coordinators
        self._group_of = group_of
        self._tails: dict[PartitionId, Tail] = {}
        self._groups: dict[Hashable, _Group] = {}
        self._of_keys: dict[bytes, Tail] = {}
        self.asked = 0
        """How often the coordinators were asked for readers that are not at an end."""

    @property
    def followed(self) -> int:
        """How many partitions are followed."""
        return len(self._tails)

    @property
    def waiting(self) -> int:
        """How many times readers wait for a partition."""
        return sum(len(tail.waiters) + len(tail.watches) for tail in self._tails.values())

    @property
    def polls(self) -> int:
        """How many long polls were sent."""
        return sum(group.busy.polls + group.quiet.polls for group in self._groups.values())

    async def close(self) -> None:
        """Follow nothing any more. Readers that wait are answered when their time is over."""
        for group in self._groups.values():
            await group.busy.close()
            await group.quiet.close()
        self._tails.clear()
        self._of_keys.clear()

    # ---- readers

    async def find(self, fetches: Sequence[FetchFrom], *, min_bytes: int, max_bytes: int, max_wait_ms: int) -> list[PartitionBatches]:
        """Find batches of partitions from offsets on, one result for each in order.

        Returns when there are `min_bytes` of them, when a partition has an error, or after `max_wait_ms`. The first batch found comes
        whatever its size. Raises `coordinator.errors.DisklessError` when nothing can be found any more.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + max_wait_ms / 1000
        found = await self._look(fetches, max_bytes)
        while fetches and not _is_enough(found, min_bytes, max_bytes):
            left_s = until_s - loop.time()
            if left_s <= 0 or not await self._wait(fetches, found, left_s):
                break
            found = await self._look(fetches, max_bytes)
        return found

    def watch(self, fetches: Sequence[FetchFrom], found: Sequence[PartitionBatches], woken: Callable[[], None]) -> TailWatch | None:
        """See `gateway.fetch.ports.TailFinder`."""
        now_s, tails = asyncio.get_running_loop().time(), []
        for fetch, one in zip(fetches, found, strict=True):
            tail = self._tails.get(fetch.partition)
            if tail is None or not tail.is_live(now_s) or not one.high_watermark == fetch.offset == tail.end:
                return None
            if tail.log_start != one.log_start_offset:
                return None
            tails.append(tail)
        return TailWatch(tails, woken)

    async def _look(self, fetches: Sequence[FetchFrom], max_bytes: int) -> list[PartitionBatches]:
        """What there is now."""
        now_s, tails = asyncio.get_running_loop().time(), self._tails
        found: list[PartitionBatches | None] = []
        for fetch in fetches:
            tail = tails.get(fetch.partition)
            found.append(None if tail is None else tail.known(fetch.offset, now_s))
        missing = [place for place, one in enumerate(found) if one is None]
        if missing:
            self.asked += 1
            asked = [fetches[place] for place in missing]
            answers = await self._coordinators.find_batches(asked, fetch_bytes_max=max(1, max_bytes), timeout_ms=TIMEOUT_MS)
            now_s = asyncio.get_running_loop().time()
            for place, fetch, one in zip(missing, asked, answers, strict=True):
                found[place] = one
                tail = tails.get(fetch.partition)
                if tail is not None and one.error is ErrorCode.NONE:
                    tail.learn(one.log_start_offset, one.high_watermark, one.batches, now_s)
        return _cut(fetches, found, max_bytes)

    async def _wait(self, fetches: Sequence[FetchFrom], found: Sequence[PartitionBatches], timeout_s: float) -> bool:
        """Wait for news of some partition after what was found; returns whether there is some, or may be."""
        now_s, waiter, tails = asyncio.get_running_loop().time(), TailWaiter(), []
        for fetch, one in zip(fetches, found, strict=True):
            tail = self._follow(fetch.partition, one, now_s)
            if tail.end > one.high_watermark or tail.log_start > fetch.offset:
                return True
            tails.append(tail)
        for tail in tails:
            tail.waiters[waiter] = None
        try:
            return await waiter.wait(timeout_s)
        finally:
            for tail in tails:
                tail.waiters.pop(waiter, None)

    # ---- followed partitions

    def _follow(self, partition: PartitionId, found: PartitionBatches, now_s: float) -> Tail:
        """The tail of a partition, of which a node has just told this."""
        tail = self._tails.get(partition)
        if tail is None:
            tail = self._tails[partition] = Tail(partition, found.log_start_offset, found.high_watermark, now_s)
            self._of_keys[partition.key] = tail
            self._group(partition).busy.join(tail)
        tail.used_s = now_s
        return tail

    def _group(self, partition: PartitionId) -> _Group:
        name = self._group_of(partition)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(*(PollLane(self._coordinators, settle=self._settle, leaves=self._leaves) for _ in range(2)))
        return group

    def _settle(self, tail: Tail, found: PartitionBatches) -> None:
        """Take what a poll was answered for a partition."""
        now_s = asyncio.get_running_loop().time()
        if found.error is ErrorCode.NONE:
            tail.polled(now_s)
            tail.learn(found.log_start_offset, found.high_watermark, found.batches, now_s)
            group = self._group(tail.partition)
            if found.batches and group.quiet.members.pop(tail.partition, None) is not None:
                group.busy.join(tail)
        elif found.error not in MAY_HEAL:
            # Readers ask for themselves, and are told.
            self._forget(tail)
            tail.wake()

    def _leaves(self, lane: PollLane, tail: Tail) -> bool:
        """Decide whether a member leaves a lane: for good, for the quiet lane, or for those of another node."""
        now_s = asyncio.get_running_loop().time()
        if not tail.waiters and tail.used_s < now_s - UNUSED_S:
            self._forget(tail)
            tail.wake()
            return True
        group = self._group(tail.partition)
        if lane is group.quiet or (lane is group.busy and tail.news_s >= now_s - QUIET_S):
            return False
        (group.quiet if lane is group.busy else group.busy).join(tail)
        return True

    def _forget(self, tail: Tail) -> None:
        """Follow a partition no longer."""
        if self._tails.get(tail.partition) is tail:
            del self._tails[tail.partition]
            del self._of_keys[tail.partition.key]
        for group in self._groups.values():
            for lane in (group.busy, group.quiet):
                if lane.members.get(tail.partition) is tail:
                    del lane.members[tail.partition]

    # ---- commits of this gateway

    def committed(self, object_key: str, rows: BatchArray, base_offsets: Iterable[int]) -> None:
        """Batches of a file were accepted, in the order of their offsets: `rows` (dtype `BATCH`), with the offsets that they got."""
        if not self._of_keys:
            return
        now_s = asyncio.get_running_loop().time()
        for row, (key, base) in enumerate(zip(rows["topic_partition"].tolist(), np.asarray(base_offsets).tolist(), strict=True)):
            tail = self._of_keys.get(key)
            if tail is not None and rows["timestamp_type"][row] != LOG_APPEND_TIME:
                tail.commit(_location(object_key, rows[row], base), now_s)


def _location(object_key: str, row: np.void, base_offset: int) -> BatchLocation:
    """Where a batch is that was committed here. It has the times of its producer."""
    count = int(row["last_offset"]) - int(row["base_offset"]) + 1
    return BatchLocation(
        batch_id=UNKNOWN_ID,
        object_key=object_key,
        magic=MAGIC,
        byte_offset=int(row["byte_offset"]),
        byte_size=int(row["size"]),
        base_offset=base_offset,
        last_offset=base_offset + count - 1,
        log_append_timestamp=-1,
        batch_max_timestamp=int(row["max_timestamp"]),
        timestamp_type=int(row["timestamp_type"]),
    )


def _is_enough(found: Sequence[PartitionBatches], min_bytes: int, max_bytes: int) -> bool:
    """Whether an answer is worth giving: an error, enough bytes, or all that it may hold."""
    size = 0
    for one in found:
        if one.error is not ErrorCode.NONE:
            return True
        if one.batches:
            size += sum([batch.byte_size for batch in one.batches])
            if one.batches[-1].last_offset + 1 < one.high_watermark:
                return True
    return size >= min(min_bytes, max_bytes)


def _cut(fetches: Sequence[FetchFrom], found: Sequence[PartitionBatches | None], max_bytes: int) -> list[PartitionBatches]:
    """Leave out batches beyond what readers want: as many as reach the bytes of the partition and of all, and the first of all."""
    left, is_first = max_bytes, True
    results = []
    for fetch, one in zip(fetches, found, strict=True):
        assert one is not None, "it was asked for"
        batches = one.batches
        if batches:
            room = min(fetch.bytes_max, left)
            room = max(1, room) if is_first else room
            count = size = 0
            for batch in batches:
                if size >= room:
                    break
                size += batch.byte_size
                count += 1
            is_first = is_first and not count
            left -= size
            if count < len(batches):
                one = PartitionBatches(
                    refusal=one.refusal,
                    log_start_offset=one.log_start_offset,
                    high_watermark=one.high_watermark,
                    batches=batches[:count],
                )
        results.append(one)
    return results
