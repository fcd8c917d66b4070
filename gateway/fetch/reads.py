"""The batches of an answer are brought together: from the cache, from reads under way and from the store.

A batch that cannot be read, or is damaged, ends its partition's share of the answer and no other's. Batches become those of the client
(offsets, append times, checksums) as they are copied into the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from coordinator.client.records.wal_objects import BatchOf, WrongObject, check_batch
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import ObjectStore
from coordinator.protocol.find_batches import BatchLocation
from gateway.fetch.batch_loops import assign_batches, neighbours
from gateway.fetch.blocks import BlockReader, Flight, Range
from gateway.fetch.cache import Extent, ExtentCache
from gateway.fetch.limits import FetchLimits, FetchStats

log = logging.getLogger(__name__)

_TOLD: Final = 1024
"""Of so many damaged batches is remembered that they are in the log: consumers ask for them again and again."""


class Share:
    """What an answer has of a partition: the first `count` of the batches, from `at` on."""

    __slots__ = ("at", "batches", "count", "error", "partition", "size_bytes", "topic")

    def __init__(self, topic: str, partition: int, batches: Sequence[BatchLocation], count: int, size_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self.batches = batches
        self.count = count
        self.size_bytes = size_bytes
        self.at = 0
        self.error = ErrorCode.NONE

    def end_before(self, number: int, error: ErrorCode) -> None:
        """End the share before a batch, for a reason that the client is told if nothing comes before it."""
        if number < self.count:
            self.count, self.error = number, error
            self.size_bytes = sum(one.byte_size for one in self.batches[:number])


class _Run:
    """Neighbouring batches of an object that belong to one share, from `first` to `stop`, and their place in the answer."""

    __slots__ = ("at", "first", "range", "share", "stop")

    def __init__(self, share: Share, first: int, stop: int, at: int) -> None:
        self.share = share
        self.first = first
        self.stop = stop
        self.at = at
        last = share.batches[stop - 1]
        self.range = Range(share.batches[first].byte_offset, last.byte_offset + last.byte_size)


class BatchReader:
    """See the module. `cache` is where own files belong. Used on the event loop."""

    def __init__(self, store: ObjectStore, limits: FetchLimits, stats: FetchStats, *, now_ms: Callable[[], int]) -> None:
        self.cache = ExtentCache(limits.cache_bytes, limits.old_share, stats)
        self._blocks = BlockReader(store, self.cache, limits, stats)
        self._limits = limits
        self._stats = stats
        self._now_ms = now_ms
        self._told: dict[tuple[str, int], None] = {}

    async def close(self) -> None:
        """End all reads."""
        await self._blocks.close()

    def is_old(self, batch: BatchLocation) -> bool:
        """Whether a batch was written some time ago: hardly anyone reads it but the one who asks."""
        return batch.log_append_timestamp < self._now_ms() - self._limits.old_after_ms

    async def read(self, shares: Sequence[Share], out: bytearray) -> None:
        """Fill the answer's bytes, one share behind the other, and begin to read the old batches that come after the shares.

        What cannot be read in time ends its share.
        """
        view, at = memoryview(out), 0
        rest = [share.batches[share.count :] for share in shares if share.count < len(share.batches)]
        missing: dict[str, list[_Run]] = {}
        for share in shares:
            share.at = at
            for first, stop in pairwise(neighbours(share.batches, share.count)):
                run = _Run(share, first, stop, at)
                at += run.range.stop - run.range.start
                key = share.batches[first].object_key
                extent = self.cache.find(key, *run.range)
                if extent is None:
                    self._stats.cache_misses += 1
                    missing.setdefault(key, []).append(run)
                else:
                    self._stats.cache_hits += 1
                    self._fill(run, extent, view)
        waiting = self._begin(missing)
        for batches in rest:
            self._read_ahead(batches)
        if waiting:
            await self._landed(waiting, view)

    def _read_ahead(self, batches: Sequence[BatchLocation]) -> None:
        """Begin to read old batches that are not asked for yet, unless that is in the way of others."""
        for first, stop in pairwise(neighbours(batches, len(batches))):
            if self._blocks.is_old_busy or not self.is_old(batches[first]):
                return
            key, last = batches[first].object_key, batches[stop - 1]
            wanted = Range(batches[first].byte_offset, last.byte_offset + last.byte_size)
            if self.cache.find(key, *wanted) is None:
                self._stats.ahead_reads += sum(1 for _ in self._blocks.begin(key, [wanted], is_old=True))

    def _begin(self, missing: dict[str, list[_Run]]) -> dict[Flight, list[_Run]]:
        """Begin reads, or join those under way; returns which of them brings what."""
        waiting: dict[Flight, list[_Run]] = {}
        for key, runs in missing.items():
            by_range: dict[Range, list[_Run]] = {}
            for run in runs:
                by_range.setdefault(run.range, []).append(run)
            is_old = all(self.is_old(run.share.batches[run.first]) for run in runs)
            for flight, wanted in self._blocks.begin(key, by_range, is_old=is_old):
                waiting.setdefault(flight, []).extend(by_range[wanted])
        return waiting

    async def _landed(self, waiting: dict[Flight, list[_Run]], view: memoryview) -> None:
        """Return when all of these reads are over, or have taken too long; what they bring is taken at once."""
        over = asyncio.get_running_loop().create_future()

        def landed(flight: Flight) -> None:
            self._take(flight, waiting.pop(flight), view)
            if not waiting and not over.done():
                over.set_result(None)

        for flight in waiting:
            flight.add_done_callback(landed)
        try:
            async with asyncio.timeout(self._limits.read_timeout_s):
                await over
        except TimeoutError:
            self._stats.reads_too_late += 1
            for run in (run for runs in waiting.values() for run in runs):
                run.share.end_before(run.first, ErrorCode.KAFKA_STORAGE_ERROR)
        finally:
            for flight in waiting:
                flight.remove_done_callback(landed)  # it would keep the answer in memory

    def _take(self, flight: Flight, runs: Sequence[_Run], view: memoryview) -> None:
        """Take what a read brought, or the lack of it."""
        if flight.cancelled() or flight.exception() is not None:
            for run in runs:
                run.share.end_before(run.first, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        for run in runs:
            self._fill(run, flight.result(), view)

    def _fill(self, run: _Run, extent: Extent, view: memoryview) -> None:
        share, (start, stop) = run.share, run.range
        if stop > extent.stop:
            self._tell(run, run.first, f"the object ends at {extent.stop}")
            share.end_before(run.first, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        place, size = start - extent.start, stop - start
        view[run.at : run.at + size] = memoryview(extent.data)[place : place + size]
        good = assign_batches(view, view, run.at, share.batches, run.first, run.stop, extent.marks, extent.start)
        if good < run.stop:
            self._judge(run, good, extent)

    def _judge(self, run: _Run, number: int, extent: Extent) -> None:
        """Note a damaged batch. It is read again next time, since it may have been damaged on its way."""
        share = run.share
        batch = share.batches[number]
        place = batch.byte_offset - extent.start
        try:
            check_batch(BatchOf(share.topic, share.partition, batch), bytes(extent.data[place : place + batch.byte_size]))
            reason = "its header and the coordinator contradict each other"
        except WrongObject as error:
            reason = str(error)
        self._stats.damaged += 1
        self._tell(run, number, reason)
        self.cache.forget(extent)
        share.end_before(number, ErrorCode.CORRUPT_MESSAGE)

    def _tell(self, run: _Run, number: int, reason: str) -> None:
        batch = run.share.batches[number]
        place = (batch.object_key, batch.byte_offset)
        if place in self._told:
            return
        if len(self._told) >= _TOLD:
            self._told.clear()
        self._told[place] = None
        log.error(
            "batch damaged topic=%s partition=%d offsets=%d..%d object=%s range=[%d,+%d) reason=%r",
            run.share.topic, run.share.partition, batch.base_offset, batch.last_offset, batch.object_key, batch.byte_offset,
            batch.byte_size, reason,
        )  # fmt: skip
