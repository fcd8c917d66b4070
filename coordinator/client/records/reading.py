"""Records of one diskless log are read from an offset on, to the end or following it.

Any node answers where batches are; the objects that hold them are read in bulk. What one answer names is passed on before the next
question, so a reader holds at most `fetch_bytes_max` of batches, or one batch that is larger.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from coordinator.client.client import DisklessClient
from coordinator.client.errors import OffsetOutOfRange, Unavailable
from coordinator.client.model import FetchFrom, PartitionId
from coordinator.client.records.wal_objects import read_batches
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST_LOCAL, LATEST
from coordinator.object_store import ObjectMissing, ObjectStore, StoreUnavailable
from records.record_batch import StoredRecord

_RETRY_PAUSE_S: Final = 0.02
"""How long a reader waits before it asks again: a node that is behind the end of the partition, or a store that did not answer."""


async def read_records(
    client: DisklessClient,
    store: ObjectStore,
    topic: str | bytes,
    partition: int,
    *,
    offset: int | None,
    follow: bool,
    fetch_bytes_max: int,
    poll_interval_ms: int,
    timeout_ms: int,
) -> AsyncGenerator[StoredRecord]:
    """Yield the records from `offset` on (None: the log start); without `follow` up to the end that the partition has now.

    A node is asked, and a store that does not answer is read again, for at most the timeout without progress. Raises NotFound,
    OffsetOutOfRange (also when the records to come were deleted), Unavailable, StoreError.
    """
    described = await client.describe_topic(topic, timeout_ms=timeout_ms)
    target = PartitionId(described.topic_id, partition)
    name = f"{described.name}-{partition}"
    # Only the diskless part of a migrated partition is read here; `migration/hybrid.py` reads both.
    start, end = await client.list_offsets([(target, EARLIEST_LOCAL), (target, LATEST)], timeout_ms=timeout_ms)
    start.raise_for_error()
    end.raise_for_error()
    next_offset = start.offset if offset is None else offset
    if not start.offset <= next_offset <= end.offset:
        text = f"{name}: offset {next_offset} is outside the log, which has offsets {start.offset} to {end.offset} (exclusive)"
        raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, text)
    missing_at = -1
    now_s = asyncio.get_running_loop().time
    progress_s = now_s()
    while follow or next_offset < end.offset:
        [found] = await client.find_batches(
            [FetchFrom(target, next_offset, fetch_bytes_max)], fetch_bytes_max=fetch_bytes_max, timeout_ms=timeout_ms
        )
        found.raise_for_error()
        try:
            async with aclosing(read_batches(store, name, found.batches)) as batches:
                async for batch, records in batches:
                    for record in records:
                        if record.offset >= next_offset and (follow or record.offset < end.offset):
                            yield record
                    next_offset, progress_s = batch.last_offset + 1, now_s()
        except ObjectMissing:
            # Records may be deleted, and then their object, between the answer and the read: asked again, a node says so.
            if missing_at == next_offset:
                raise
            missing_at = next_offset
        except StoreUnavailable:
            if now_s() - progress_s >= timeout_ms / 1000:
                raise
            await asyncio.sleep(_RETRY_PAUSE_S)
        if found.batches:
            continue
        if follow:
            progress_s = now_s()
            await asyncio.sleep(poll_interval_ms / 1000)
        elif now_s() - progress_s < timeout_ms / 1000:
            await asyncio.sleep(_RETRY_PAUSE_S)
        else:
            text = f"{name}: no node tells of the batches from offset {next_offset} to the end {end.offset}; retry"
            raise Unavailable(ErrorCode.OFFSET_NOT_AVAILABLE, text)
