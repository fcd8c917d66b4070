"""The two parts of a migrated partition as one log: the classic prefix from Kafka, the diskless suffix from the coordinators.

The classic log owns the offsets below B0, the diskless log those from B0 on; what stands in the classic log from B0 on does not count.
Invariant: records come in the order of offsets, each once, and a part that is missing is an error. Readers that come through the prefix
pass over what is deleted at the beginning of the suffix, by retention or by an operator's repair: the coordinator says where it begins.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.client import DisklessClient
from coordinator.client.errors import OffsetOutOfRange, Unavailable
from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, LATEST
from migration.classic import ClassicRecords
from records.record_batch import StoredRecord


class HybridOffset(NamedTuple):
    """An offset that was looked up, and the timestamp there; -1 where it has none."""

    offset: int
    timestamp_ms: int = -1


class HybridReader:
    """Reads the partitions of one migrated topic; born diskless partitions are read, too, and have no prefix."""

    def __init__(self, client: DisklessClient, topic_id: bytes, classic: ClassicRecords) -> None:
        """`client` has an object store when records are read."""
        self._client = client
        self._topic_id = topic_id
        self._classic = classic

    async def offset_for(self, partition: int, timestamp: int) -> HybridOffset | None:
        """Look up an offset by time in ms, EARLIEST or LATEST; None when no record is so young.

        Raises `ServiceError`, Kafka's errors; ValueError for other negative times.
        """
        if timestamp < 0 and timestamp not in (EARLIEST, LATEST):
            raise ValueError(
                f"time {timestamp}: milliseconds from 0 on, EARLIEST ({EARLIEST}) and LATEST ({LATEST}) are looked up in both parts"
            )
        log = await self._log(partition)
        if timestamp == EARLIEST:
            return HybridOffset(await self._first_offset(partition, log))
        if timestamp != LATEST:
            found = await self._classic.offset_for_time(partition, timestamp) if log.start_offset > 0 else None
            # Records of both parts may have any time: the smaller offset is in the prefix.
            if found is not None and found[0] < log.start_offset:
                return HybridOffset(*found)
        [listed] = await self._client.list_offsets([(PartitionId(self._topic_id, partition), timestamp)])
        listed.raise_for_error()
        return HybridOffset(listed.offset, listed.timestamp_ms) if listed.offset >= 0 else None

    async def read(self, partition: int, *, offset: int | None = None, follow: bool = False) -> AsyncGenerator[StoredRecord]:
        """Yield records from an offset on (None: the first one), to the end that the partition has now, or following it for ever.

        Raises as `DisklessClient.read` and, for the prefix, as `ClassicRecords.read`; `Unavailable` while the partition is not migrated.
        """
        log = await self._log(partition)
        first = await self._first_offset(partition, log)
        start = first if offset is None else offset
        if start < first:
            text = f"partition {partition}: offset {start} is before the log, which begins at {first}"
            raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if start < log.start_offset:
            async with aclosing(self._classic.read(partition, start, log.start_offset)) as prefix:
                async for record in prefix:
                    yield record
            start = log.suffix_start
        async with aclosing(self._client.read(self._topic_id, partition, offset=start, follow=follow)) as suffix:
            async for record in suffix:
                yield record

    async def _log(self, partition: int) -> DisklessLogState:
        log = await self._client.admin.describe_diskless_log(self._topic_id, partition)
        if log.state == "pending":
            text = (
                f"partition {partition} is not migrated yet: Kafka alone serves it; retry once `diskless migration state` shows its start"
            )
            raise Unavailable(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        return log

    async def _first_offset(self, partition: int, log: DisklessLogState) -> int:
        """Kafka's own log start counts, not the one that was reported: retention may have moved it since."""
        if log.start_offset > 0 and (start := await self._classic.log_start(partition)) < log.start_offset:
            return start
        return log.suffix_start
