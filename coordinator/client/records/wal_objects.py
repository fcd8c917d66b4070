"""WAL files in the object store: one is uploaded, and batches of many are read back, checked and decoded.

Invariant: records are returned only from a batch whose CRC32C is right and which is as large and as long as the coordinator says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from coordinator.object_store import ObjectMissing, ObjectStore, StoreError
from coordinator.protocol.find_batches import BatchLocation
from records.record_batch import CorruptBatch, StoredRecord, TimestampType, decode_records, parse_header

OBJECTS_AT_ONCE: Final = 8
"""How many objects one read fetches from at the same time."""


class WrongObject(StoreError):
    """An object does not hold what the coordinator says; the text names partition, offsets, object and byte range."""


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


async def read_batches(
    store: ObjectStore, partition: str, batches: Sequence[BatchLocation]
) -> AsyncGenerator[tuple[BatchLocation, list[StoredRecord]]]:
    """Yield batches of one partition, which `partition` names in errors, with their records, in order.

    All ranges of one object are fetched together, and objects at the same time. Records have the offsets and append times that the
    coordinator assigned. Raises, once the batches before it were yielded, `WrongObject`, and `StoreError` and its kinds.
    """
    places: dict[str, list[int]] = {}
    for place, batch in enumerate(batches):
        places.setdefault(batch.object_key, []).append(place)
    slots = asyncio.Semaphore(OBJECTS_AT_ONCE)

    async def fetch(key: str) -> dict[int, bytes]:
        ranges = [(batches[place].byte_offset, batches[place].byte_size) for place in places[key]]
        async with slots:
            return dict(zip(places[key], await store.get_ranges(key, ranges), strict=True))

    tasks = {key: asyncio.create_task(fetch(key)) for key in places}
    try:
        for place, batch in enumerate(batches):
            try:
                data = (await tasks[batch.object_key])[place]
            except StoreError as error:
                remedy = "; is this the store that the file was uploaded to?" if isinstance(error, ObjectMissing) else ""
                raise type(error)(f"{_where(partition, batch)}: {error}{remedy}") from error
            yield batch, _records(partition, batch, data)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def _records(partition: str, batch: BatchLocation, data: bytes) -> list[StoredRecord]:
    try:
        header = parse_header(data)
        records = decode_records(data, header, base_offset=batch.base_offset)
    except CorruptBatch as error:
        raise WrongObject(f"{_where(partition, batch)}: {error}") from error
    if header.size_bytes != batch.byte_size or header.last_offset_delta != batch.last_offset - batch.base_offset:
        raise WrongObject(
            f"{_where(partition, batch)}: the object has {header.size_bytes} bytes and {header.record_count} records there, the "
            f"coordinator says {batch.byte_size} bytes and offsets {batch.base_offset} to {batch.last_offset}"
        )
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        return [replace(record, timestamp_ms=batch.log_append_timestamp) for record in records]
    return records


def _where(partition: str, batch: BatchLocation) -> str:
    span = f"[{batch.byte_offset}, +{batch.byte_size})"
    return f"{partition} offsets {batch.base_offset} to {batch.last_offset}: {batch.object_key} {span}"
