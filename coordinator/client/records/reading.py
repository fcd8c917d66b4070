"""Records of the diskless logs of a topic are read from offsets on, to their ends or following them.

Any node answers where batches are; the objects that hold them are read in bulk. What one answer names is passed on before the next
question, so a reader holds about `fetch_bytes_max` of batches, or one batch of each partition that is larger.
Invariant: records of one partition come in the order of offsets, each once; partitions take turns in no promised order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, Protocol

from coordinator.client.errors import InvalidRequest, NotFound, OffsetOutOfRange, Unavailable
from coordinator.client.model import FetchFrom, ListedOffset, PartitionBatches, PartitionId, TopicDescription
from coordinator.client.records.wal_objects import BatchOf, read_batches
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, LATEST
from coordinator.object_store import ObjectMissing, ObjectStore, StoreUnavailable
from records.record_batch import StoredRecord

_RETRY_PAUSE_S: Final = 0.02
"""How long a reader waits before it asks again: a node that is behind the end of the partition, or a store that did not answer."""

_FOLLOW_MS: Final = 30_000
"""How long a follower lets a node wait for batches before it asks again."""


class Finder(Protocol):
    """The operations of the service that a reader needs; `DisklessClient` has them."""

    async def describe_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> TopicDescription:
        """Describe a topic by name or id."""

    async def list_offsets(self, queries: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[ListedOffset]:
        """Look up offsets."""

    async def find_batches(
        self, fetches: Sequence[FetchFrom], *, fetch_bytes_max: int, max_wait_ms: int = 0, timeout_ms: int | None = None
    ) -> list[PartitionBatches]:
        """Find batches and the objects that hold them; wait for some."""


class ReadFrom(NamedTuple):
    """What to read: `partitions` None means all; `offsets` by partition, and those that have none begin at their log start."""

    topic: str | bytes
    partitions: Sequence[int] | None
    offsets: Mapping[int, int]


def read_from(topic: str | bytes, partitions: int | Sequence[int] | None, offset: int | Mapping[int, int] | None) -> ReadFrom:
    """Check what a caller wants to read. Raises TypeError, InvalidRequest."""
    _check("topic", topic, (str, bytes), "str (a name) or bytes (an id)")
    chosen: list[int] | None = None
    if isinstance(partitions, Iterable):
        chosen = list(dict.fromkeys(partitions))
    elif partitions is not None:
        chosen = [partitions]
    for one in chosen or ():
        _check("partition", one, (int,), "int, several of them, or None for all")
    if isinstance(offset, Mapping):
        for one, each in offset.items():
            _check(f"offset of partition {one}", each, (int,), "int")
        return ReadFrom(topic, chosen, offset)
    if offset is None:
        return ReadFrom(topic, chosen, {})
    _check("offset", offset, (int,), "int, {partition: offset}, or None for the log start")
    if chosen is None or len(chosen) != 1:
        text = f"offset {offset} is of one partition, and several are read; give offset={{partition: offset}}"
        raise InvalidRequest(ErrorCode.INVALID_REQUEST, text)
    return ReadFrom(topic, chosen, {chosen[0]: offset})


def _check(name: str, given: object, types: tuple[type, ...], wanted: str) -> None:
    if not isinstance(given, types):
        raise TypeError(f"{name}={given!r} has the type {type(given).__name__}; wanted: {wanted}")


class _Place:
    """How far a partition is read."""

    def __init__(self, topic: str, target: PartitionId, next_offset: int, end_offset: int) -> None:
        self.topic = topic
        self.target = target
        self.next_offset = next_offset
        self.end_offset = end_offset
        self.missing_at = -1

    def __str__(self) -> str:
        return f"{self.topic}-{self.target.partition}"


async def read_records(
    finder: Finder,
    store: ObjectStore,
    wanted: ReadFrom,
    *,
    follow: bool,
    fetch_bytes_max: int,
    timeout_ms: int,
) -> AsyncGenerator[StoredRecord]:
    """Yield the wanted records; without `follow` up to the ends that the partitions have now.

    A node is asked, and a store that does not answer is read again, for at most the timeout without progress. Raises NotFound,
    InvalidRequest for a migrated partition from its beginning, OffsetOutOfRange (also when the records to come were deleted), Unavailable,
    StoreError.
    """
    places = await _begin(finder, wanted, timeout_ms)
    now_s = asyncio.get_running_loop().time
    progress_s = now_s()
    while left := [one for one in places if follow or one.next_offset < one.end_offset]:
        places.append(places.pop(0))  # the first of a question gets its batches whatever their size
        found, batches = await _find(finder, left, fetch_bytes_max, _FOLLOW_MS if follow else 0, timeout_ms), 0
        of_partition = {one.target.partition: one for one in left}
        try:
            async with aclosing(read_batches(store, found)) as reading:
                async for batch, records in reading:
                    place = of_partition[batch.partition]
                    for record in records:
                        if record.offset >= place.next_offset and (follow or record.offset < place.end_offset):
                            yield record
                    place.next_offset, progress_s, batches = batch.location.last_offset + 1, now_s(), batches + 1
        except ObjectMissing:
            # Records may be deleted, and then their object, between the answer and the read: asked again, a node says so.
            place = of_partition[found[batches].partition]
            if place.missing_at == place.next_offset:
                raise
            place.missing_at = place.next_offset
        except StoreUnavailable:
            if now_s() - progress_s >= timeout_ms / 1000:
                raise
            await asyncio.sleep(_RETRY_PAUSE_S)
        if found:
            continue
        if follow:
            progress_s = now_s()
        elif now_s() - progress_s < timeout_ms / 1000:
            await asyncio.sleep(_RETRY_PAUSE_S)
        else:
            text = f"{left[0]}: no node tells of the batches from offset {left[0].next_offset} to the end {left[0].end_offset}; retry"
            raise Unavailable(ErrorCode.OFFSET_NOT_AVAILABLE, text)


async def _begin(finder: Finder, wanted: ReadFrom, timeout_ms: int) -> list[_Place]:
    """Look up where to begin and to end in each partition."""
    topic = await finder.describe_topic(wanted.topic, timeout_ms=timeout_ms)
    partitions = [one.partition for one in topic.partitions] if wanted.partitions is None else wanted.partitions
    for index in wanted.offsets.keys() - set(partitions):
        text = f"topic {topic.name}: an offset is given for partition {index}, which is not read"
        raise NotFound(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    targets = [PartitionId(topic.topic_id, index) for index in partitions]
    queries = [(target, when) for target in targets for when in (EARLIEST, EARLIEST_LOCAL, LATEST)]
    answers = iter(await finder.list_offsets(queries, timeout_ms=timeout_ms))
    places = []
    for target, earliest, start, end in zip(targets, answers, answers, answers, strict=True):
        for listed in (earliest, start, end):
            listed.raise_for_error()
        next_offset = wanted.offsets.get(target.partition)
        where = f"{topic.name}-{target.partition}"
        migrated = ""
        if earliest.offset < start.offset:
            migrated = f"; it was migrated: `migration.hybrid.HybridReader` reads offsets from {earliest.offset} on from Kafka, too"
        if next_offset is None and migrated:
            text = f"{where}: the diskless log begins at offset {start.offset}{migrated}, or read with offset={start.offset}"
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, text)
        next_offset = start.offset if next_offset is None else next_offset
        if not start.offset <= next_offset <= end.offset:
            log = f"which has offsets {start.offset} to {end.offset} (exclusive){migrated}"
            raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, f"{where}: offset {next_offset} is outside the log, {log}")
        places.append(_Place(topic.name, target, next_offset, end.offset))
    return places


async def _find(finder: Finder, places: Sequence[_Place], fetch_bytes_max: int, max_wait_ms: int, timeout_ms: int) -> list[BatchOf]:
    """Find the next batches of partitions; each partition gets its share of the bytes."""
    share = max(1, fetch_bytes_max // len(places))
    fetches = [FetchFrom(one.target, one.next_offset, share) for one in places]
    found = await finder.find_batches(fetches, fetch_bytes_max=fetch_bytes_max, max_wait_ms=max_wait_ms, timeout_ms=timeout_ms)
    if max_wait_ms and any(one.error is not ErrorCode.NONE for one in found):
        # Without waiting, errors that may heal are asked about until all partitions are served.
        found = await finder.find_batches(fetches, fetch_bytes_max=fetch_bytes_max, timeout_ms=timeout_ms)
    batches = []
    for place, one in zip(places, found, strict=True):
        one.raise_for_error()
        batches += [BatchOf(place.topic, place.target.partition, location) for location in one.batches]
    return batches
