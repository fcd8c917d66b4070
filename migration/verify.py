"""Proves of a migrated partition that readers get every record once and in order: those of the classic log below B0, all above.

The prefix is compared record by record with a witness that reads the classic log in another way; the suffix must have every offset up to
the high watermark.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from coordinator.client.errors import OffsetOutOfRange
from coordinator.kafka.timestamps import EARLIEST
from coordinator.object_store import StoreDenied, StoreError, StoreUnavailable
from migration.calls import MigrationCalls
from migration.classic import ClassicPartition, MigrationRefused
from migration.driver import check_end
from migration.hybrid import HybridOffset
from records.record_batch import CorruptBatch, StoredRecord


class WholeReader(Protocol):
    """Reads both parts of migrated partitions; `HybridReader` does."""

    async def offset_for(self, partition: int, timestamp: int) -> HybridOffset | None:
        """Look up an offset by time in ms, EARLIEST or LATEST."""

    def read(self, partition: int, *, offset: int) -> AsyncGenerator[StoredRecord]:
        """Yield records from an offset on to the end that the partition has now."""


class ClassicWitness(Protocol):
    """Another way to the records of the partitions of a classic topic."""

    def records(self, partition: int, start_offset: int, end_offset: int) -> AsyncGenerator[StoredRecord]:
        """Yield the records of ended, successful writes from `start_offset` to before `end_offset`, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProof:
    """The result of reading a partition. `finding` is the first thing that is wrong, empty when nothing is.

    When the partition could not be read now, `unread` says why, and nothing else is known of it.
    """

    name: str
    partition: int
    first_offset: int = -1
    start_offset: int = -1
    end_offset: int = -1
    prefix_records: int = 0
    suffix_records: int = 0
    finding: str = ""
    unread: str = ""


async def prove(calls: MigrationCalls, reader: WholeReader, witness: ClassicWitness, partition: ClassicPartition) -> PartitionProof:
    """Read a whole partition; an object that is missing or cut is a finding.

    Raises `ServiceError`, `StoreDenied`, `StoreUnavailable` and Kafka's errors when something cannot be read now.
    """
    index = partition.partition
    log = await calls.describe_diskless_log(partition.topic_id, index)
    first = await reader.offset_for(index, EARLIEST)
    assert first is not None, "a log has a first offset"
    comparison = _Comparison(first.offset, log.start_offset, log.suffix_start)
    finding = ""
    try:
        await check_end(partition, log.start_offset)
        async with (
            aclosing(witness.records(index, first.offset, log.start_offset)) as expected,
            aclosing(reader.read(index, offset=first.offset)) as read,
        ):
            async for record in read:
                if finding := await comparison.take(record, expected):
                    break
            else:
                finding = await comparison.end(expected, log.high_watermark)
    except OffsetOutOfRange as error:
        finding = f"records were deleted while they were read ({error.message}): verify again"
    except (StoreDenied, StoreUnavailable):
        raise
    except (MigrationRefused, CorruptBatch, StoreError) as error:
        finding = str(error)
    return PartitionProof(
        name=partition.name,
        partition=index,
        first_offset=first.offset,
        start_offset=log.start_offset,
        end_offset=log.high_watermark,
        prefix_records=comparison.prefix_records,
        suffix_records=comparison.suffix_records,
        finding=finding,
    )


class _Comparison:
    def __init__(self, first_offset: int, start_offset: int, suffix_start: int) -> None:
        self._start_offset = start_offset
        self._next_offset = first_offset
        self._next_suffix_offset = max(first_offset, suffix_start)
        self.prefix_records = 0
        self.suffix_records = 0

    async def take(self, record: StoredRecord, expected: AsyncGenerator[StoredRecord]) -> str:
        """Compare the next record that was read; returns what is wrong with it."""
        if record.offset < self._next_offset:
            return f"offset {record.offset} is read where {self._next_offset} or a later one is due"
        self._next_offset = record.offset + 1
        if record.offset < self._start_offset:
            self.prefix_records += 1
            wanted = await anext(expected, None)
            return "" if record == wanted else _difference(wanted, record)
        if self.suffix_records == 0 and (missing := await anext(expected, None)) is not None:
            return f"the record at {missing.offset} is not read"
        self.suffix_records += 1
        due, self._next_suffix_offset = self._next_suffix_offset, record.offset + 1
        return "" if record.offset == due else f"offset {due} is not read; {record.offset} follows"

    async def end(self, expected: AsyncGenerator[StoredRecord], high_watermark: int) -> str:
        """Return what is missing when nothing more is read."""
        if (missing := await anext(expected, None)) is not None:
            return f"the record at {missing.offset} is not read"
        if self._next_suffix_offset < high_watermark:
            return f"offsets {self._next_suffix_offset} to {high_watermark - 1} are not read"
        return ""


def _difference(wanted: StoredRecord | None, read: StoredRecord) -> str:
    if wanted is None:
        return f"offset {read.offset} is read, and the classic log has no such record"
    if wanted.offset != read.offset:
        return f"the record at {wanted.offset} is not read; {read.offset} follows"
    different = [name for name in ("timestamp_ms", "key", "value", "headers") if getattr(wanted, name) != getattr(read, name)]
    return f"the record at {read.offset} is read with another {' and '.join(different)}"
