"""The classic parts of migrated topics, which Kafka has: the offsets of a partition below its B0, read through Kafka's consumer.

Invariant: what stands in the classic log from B0 on does not count, so a part ends there however long Kafka's log is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from coordinator.adapters.kafka.settings import KafkaPropertyRefused
from coordinator.client.errors import OffsetOutOfRange
from coordinator.client.model import PartitionId
from coordinator.errors import DisklessError
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL
from migration.kafka.records import KafkaClassicRecords
from tables.reading.coordinators import listed_offsets
from tables.reading.span import HEADERS, ReadOptions, Span
from tables.source.access import properties_of
from tables.source.loss import data_loss, report_loss
from tables.source.offsets import TopicPlace
from tables.source.options import KAFKA, SourceOptionError, SourceOptions
from tables.source.planning import Task, place_of, size_of

if TYPE_CHECKING:
    import pyarrow

    from coordinator.client.client import DisklessClient
    from records.record_batch import StoredRecord

AT_ONCE: Final = 8
CLIENT_ID: Final = "diskless-source"
_MS_MAX: Final = (1 << 63) // 1000 - 1
"""As far as 64 bits of microseconds reach."""


class KafkaSaysNo(DisklessError):
    """Kafka does not give the classic part of a migrated partition; the text says which one, why, and what to look at."""


class ClassicReader:
    """See the module's text. Each question has a connection of its own, a few at a time. Used on one event loop."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def ends(self, client: DisklessClient, partitions: Sequence[PartitionId]) -> dict[PartitionId, int]:
        """Return B0 of the partitions that have a classic part. Raises ServiceError."""
        queries = [(one, when) for one in partitions for when in (EARLIEST, EARLIEST_LOCAL)]
        found = iter(await listed_offsets(client, queries))
        migrated = [one for one, first, local in zip(partitions, found, found, strict=True) if first < local]
        states = await client.admin.describe_diskless_logs(migrated) if migrated else []
        for state in states:
            state.raise_for_error()
        return {one: state.start_offset for one, state in zip(migrated, states, strict=True)}

    async def first_offset(self, place: TopicPlace) -> int:
        """Return where Kafka's log begins now. Raises KafkaSaysNo."""
        async with self._slots:
            with self._asking(place):
                return await self._records(place).log_start(place.partition)

    async def reaching(self, place: TopicPlace, time_ms: int, end: int) -> int | None:
        """Return the first record before `end` that is of that time or later, if there is one. Raises KafkaSaysNo."""
        async with self._slots:
            with self._asking(place):
                found = await self._records(place).offset_for_time(place.partition, time_ms)
        return found[0] if found is not None and found[0] < end else None

    async def shared_out(self, client: DisklessClient, task: Task) -> tuple[list[Span], Task]:
        """Return what a task has of classic parts, and the rest of it. Raises DataLoss, ServiceError, KafkaSaysNo."""
        ends = await self.ends(client, [PartitionId(span.topic_id, span.partition) for span in task])
        classic, rest = [], []
        for span in task:
            end = min(ends.get(PartitionId(span.topic_id, span.partition), 0), span.to_offset)
            if end <= span.from_offset:
                rest.append(span)
                continue
            begin = min(max(await self.first_offset(place_of(span)), span.from_offset), end)
            if begin > span.from_offset:
                text = f"{place_of(span)}: offsets {span.from_offset} to {begin} (exclusive) are not in Kafka any more"
                report_loss(text, fails=self._options.fail_on_data_loss)
            classic.append(replace(span, from_offset=begin, to_offset=end))
            rest.append(replace(span, from_offset=end))
        return list(filter(size_of, classic)), tuple(filter(size_of, rest))

    async def read(self, span: Span, options: ReadOptions) -> AsyncGenerator[pyarrow.RecordBatch]:
        """Yield the records of a span of a classic part. Raises DataLoss, KafkaSaysNo."""
        place, size = place_of(span), 0
        rows: list[StoredRecord] = []
        try:
            with self._asking(place):
                async with aclosing(self._records(place).read(place.partition, span.from_offset, span.to_offset)) as records:
                    async for record in records:
                        rows.append(record)
                        size += len(record.key or b"") + len(record.value or b"")
                        if len(rows) >= options.batch_rows or size >= options.batch_bytes:
                            yield batch_of(span, rows, options)
                            rows, size = [], 0
        except OffsetOutOfRange as error:
            raise data_loss(str(error)) from error
        if rows:
            yield batch_of(span, rows, options)

    def _records(self, place: TopicPlace) -> KafkaClassicRecords:
        try:
            return KafkaClassicRecords(
                place.topic,
                bootstrap_servers=self._options.kafka_servers,
                client_id=CLIENT_ID,
                kafka_properties=properties_of(self._options.access),
                timeout_s=self._options.access.timeout_ms / 1000,
            )
        except KafkaPropertyRefused as error:
            raise SourceOptionError(f"{KAFKA}: {error}") from error

    @contextmanager
    def _asking(self, place: TopicPlace) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            said = error.args[0] if error.args else error
            raise KafkaSaysNo(
                f"{place} was migrated, and Kafka does not give its classic part: {said}; look at {KAFKA}, and at READ on the topic there"
            ) from error


def batch_of(span: Span, records: Sequence[StoredRecord], options: ReadOptions) -> pyarrow.RecordBatch:
    """Return records of Kafka as rows."""
    import pyarrow as pa

    from tables.reading.arrow import schema_of

    schema = schema_of(options)
    return pa.RecordBatch.from_arrays([pa.array(_column(field.name, span, records), field.type) for field in schema], schema=schema)


def _column(name: str, span: Span, records: Sequence[StoredRecord]) -> list[Any]:
    match name:
        case "topic":
            return [span.topic] * len(records)
        case "partition":
            return [span.partition] * len(records)
        case "timestamp":
            return [min(max(one.timestamp_ms, -_MS_MAX), _MS_MAX) * 1000 for one in records]
        case "timestampType":
            return [int(one.timestamp_type) for one in records]
        case _ if name == HEADERS:
            return [[{"key": key, "value": value} for key, value in one.headers] or None for one in records]
    return [getattr(one, name) for one in records]
