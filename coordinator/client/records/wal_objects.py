"""WAL files in the object store: one is uploaded, and batches of many are read back, raw or checked and decoded.

Invariant: records are returned only from a batch whose CRC32C is right and which is as large and as long as the coordinator says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final, NamedTuple

from coordinator.kafka.batches import LOG_APPEND_TIME
from coordinator.object_store import ObjectMissing, ObjectStore, StoreError, grouped_ranges
from coordinator.protocol.find_batches import BatchLocation
from records.columns import decode_records, first_record, record_columns
from records.record_batch import BatchHeader, CorruptBatch, StoredRecord, parse_header

OBJECTS_AT_ONCE: Final = 8
"""How many objects one read fetches from at the same time."""
RANGE_GAP_BYTES: Final = 256 * 1024
"""So many bytes between two ranges are read with them: a request costs as much time."""
RANGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A range is no longer, unless one batch is: ranges of one object are requested at the same time."""


class WrongObject(StoreError):
    """An object does not hold what the coordinator says; the text names partition, offsets, object and byte range."""


class BatchOf(NamedTuple):
    """The place of a batch, and the partition that it belongs to."""

    topic: str
    partition: int
    location: BatchLocation

    def __str__(self) -> str:
        one = self.location
        span = f"[{one.byte_offset}, +{one.byte_size})"
        return f"{self.topic}-{self.partition} offsets {one.base_offset} to {one.last_offset}: {one.object_key} {span}"


async def upload(store: ObjectStore, key: str, data: bytes | Path, size_bytes: int) -> bool:
    """Store a WAL file under its key; return False when it was there. Raises `WrongObject` when the object has another size, `StoreError`.

    The caller gives a key to one content only, so two uploads under one key store the same bytes.
    """
    stored = await store.head(key)
    if stored is None:
        await store.put(key, data)
        return True
    if stored.size_bytes != size_bytes:
        raise WrongObject(
            f"{store.location}: {key} holds {stored.size_bytes} bytes, the file has {size_bytes} bytes; "
            "is this the store it was uploaded to?"
        )
    return False


async def read_object(store: ObjectStore, batches: Sequence[BatchOf]) -> list[memoryview]:
    """Read batches of one object, in order, unchecked; ranges that lie close together are one request.

    Raises `StoreError` and its kinds, which name partition and offsets.
    """
    spans = [(one.location.byte_offset, one.location.byte_offset + one.location.byte_size) for one in batches]
    groups = grouped_ranges(sorted(set(spans)), RANGE_GAP_BYTES, RANGE_BYTES_MAX)
    wholes = [(group[0][0], max(stop for _, stop in group) - group[0][0]) for group in groups]
    try:
        read = await store.get_ranges(batches[0].location.object_key, wholes)
    except StoreError as error:
        remedy = "; is this the store that the file was uploaded to?" if isinstance(error, ObjectMissing) else ""
        raise type(error)(f"{batches[0]}: {error}{remedy}") from error
    found: dict[tuple[int, int], memoryview] = {}
    for group, (first, _), data in zip(groups, wholes, read, strict=True):
        found.update({(start, stop): memoryview(data)[start - first : stop - first] for start, stop in group})
    return [found[span] for span in spans]


async def read_ranges(store: ObjectStore, batches: Sequence[BatchOf]) -> AsyncGenerator[tuple[BatchOf, memoryview]]:
    """Yield batches, in order, with their bytes as the objects hold them, unchecked.

    All ranges of one object are fetched together, and objects at the same time. Raises as `read_object`, once the batches before were
    yielded.
    """
    places: dict[str, list[int]] = {}
    for place, batch in enumerate(batches):
        places.setdefault(batch.location.object_key, []).append(place)
    slots = asyncio.Semaphore(OBJECTS_AT_ONCE)

    async def fetch(key: str) -> dict[int, memoryview]:
        async with slots:
            return dict(zip(places[key], await read_object(store, [batches[place] for place in places[key]]), strict=True))

    tasks = {key: asyncio.create_task(fetch(key)) for key in places}
    try:
        for place, batch in enumerate(batches):
            yield batch, (await tasks[batch.location.object_key])[place]
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def read_batches(store: ObjectStore, batches: Sequence[BatchOf]) -> AsyncGenerator[tuple[BatchOf, list[StoredRecord]]]:
    """Yield batches with their records, in order, as `read_ranges` does; `WrongObject` is raised besides.

    Records have the offsets and append times that the coordinator assigned.
    """
    async with aclosing(read_ranges(store, batches)) as ranges:
        async for batch, data in ranges:
            yield batch, _records(batch, data)


async def find_record(store: ObjectStore, batch: BatchOf, *, time_ms: int | None, from_offset: int) -> tuple[int, int] | None:
    """Read a batch, and look a record up in it as `first_record` does. Raises as `read_object`, and `WrongObject`."""
    [data] = await read_object(store, [batch])
    return await asyncio.to_thread(_find, batch, data, time_ms, from_offset)


def _find(batch: BatchOf, data: memoryview, time_ms: int | None, from_offset: int) -> tuple[int, int] | None:
    header = check_batch(batch, data)
    base_offset, append_ms = batch.location.base_offset, append_ms_of(batch.location)
    try:
        [columns] = record_columns(data, header, base_offset=base_offset, append_ms=append_ms)
    except CorruptBatch as error:
        raise WrongObject(f"{batch}: {error}") from error
    return first_record(columns, time_ms=time_ms, from_offset=from_offset)


def check_batch(batch: BatchOf, data: bytes | memoryview) -> BatchHeader:
    """Return the header of a batch that is whole and what the coordinator says. Raises `WrongObject`."""
    location = batch.location
    try:
        header = parse_header(data)
    except CorruptBatch as error:
        raise WrongObject(f"{batch}: {error}") from error
    if header.size_bytes != location.byte_size or header.last_offset_delta != location.last_offset - location.base_offset:
        raise WrongObject(
            f"{batch}: the object has {header.size_bytes} bytes and {header.record_count} records there, the "
            f"coordinator says {location.byte_size} bytes and offsets {location.base_offset} to {location.last_offset}"
        )
    return header


def append_ms_of(location: BatchLocation) -> int | None:
    """The time that all records of a batch have, in a topic of LogAppendTime."""
    return location.log_append_timestamp if location.timestamp_type == LOG_APPEND_TIME else None


def newest_ms_of(location: BatchLocation) -> int:
    """The newest time of a batch's records."""
    append_ms = append_ms_of(location)
    return location.batch_max_timestamp if append_ms is None else append_ms


def retained_ms_of(location: BatchLocation) -> int:
    """The time that retention counts from: the newest one of a batch's records, or, when they have none, that of the commit."""
    newest_ms = newest_ms_of(location)
    return newest_ms if newest_ms >= 0 else location.log_append_timestamp


def _records(batch: BatchOf, data: memoryview) -> list[StoredRecord]:
    header = check_batch(batch, data)
    base_offset, append_ms = batch.location.base_offset, append_ms_of(batch.location)
    try:
        return decode_records(data, header, base_offset=base_offset, append_ms=append_ms, partition=batch.partition)
    except CorruptBatch as error:
        raise WrongObject(f"{batch}: {error}") from error
