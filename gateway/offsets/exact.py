"""Offsets by time, to the record: coordinators know the times of batches, and a broker answers with the record.

The batch that a coordinator names is read from the store and looked through. Where no record in it has the time (its producer put another
one into the batch's header) the answer is the coordinator's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.client.records.wal_objects import BatchOf, find_record
from coordinator.kafka.batches import LOG_APPEND_TIME
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.kafka.timestamps import MAX_TIMESTAMP
from coordinator.object_store import ObjectStore, StoreError
from gateway.offsets.wire import LEADER_EPOCH, Told

AT_ONCE: Final = 4
"""Batches that are read and looked through at the same time: each may have some megabytes."""


ALL_BYTES: Final = 2**31 - 1
"""Of all partitions together: a smaller limit would leave out the batches of all but the first."""


class Finds(Protocol):
    """The operation of the service that is needed; `DisklessClient` has it."""

    async def find_batches(
        self, fetches: Sequence[FetchFrom], *, fetch_bytes_max: int, batches_per_partition_max: int = 0, timeout_ms: int | None = None
    ) -> list[PartitionBatches]:
        """Find batches and the objects that hold them."""


class ByTime(NamedTuple):
    """What a coordinator has listed for a time, or for `MAX_TIMESTAMP`."""

    partition: PartitionId
    asked: int
    timestamp_ms: int
    offset: int


class ExactOffsets:
    """See the module's text. Used on one event loop."""

    def __init__(self, coordinators: Finds, store: ObjectStore) -> None:
        self._coordinators = coordinators
        self._store = store
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def refine(self, listed: Sequence[ByTime], timeout_ms: int) -> list[Told]:
        """Return the offsets and times of the records, in order. Raises `coordinator.errors.DisklessError`."""
        fetches = [FetchFrom(one.partition, one.offset, 1) for one in listed]
        found = await self._coordinators.find_batches(
            fetches, fetch_bytes_max=ALL_BYTES, batches_per_partition_max=1, timeout_ms=timeout_ms
        )
        return await asyncio.gather(*(self._in_batch(one, batches, timeout_ms) for one, batches in zip(listed, found, strict=True)))

    async def _in_batch(self, one: ByTime, found: PartitionBatches, timeout_ms: int) -> Told:
        if found.error is not ErrorCode.NONE or not found.batches:
            # Its records were deleted meanwhile, or its coordinator moves: asked again, the client gets another answer.
            return Told(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        batch = found.batches[0]
        if batch.timestamp_type == LOG_APPEND_TIME:
            # All of its records have the same time.
            return Told(ErrorCode.NONE, batch.log_append_timestamp, max(batch.base_offset, found.log_start_offset), LEADER_EPOCH)
        place = BatchOf(topic_id_text(one.partition.topic_id), one.partition.partition, batch)
        try:
            async with self._slots, asyncio.timeout(timeout_ms / 1000):
                time_ms = None if one.asked == MAX_TIMESTAMP else one.asked
                record = await find_record(self._store, place, time_ms=time_ms, from_offset=found.log_start_offset)
        except TimeoutError:
            return Told(ErrorCode.REQUEST_TIMED_OUT)
        except StoreError:
            return Told(ErrorCode.KAFKA_STORAGE_ERROR)
        offset, timestamp_ms = record or (one.offset, one.timestamp_ms)
        return Told(ErrorCode.NONE, timestamp_ms, offset, LEADER_EPOCH)
