"""Where the batches of spans are: pages of FindBatches, asked for ahead, and cut into stretches of one object each.

Invariant: the batches of a span come in the order of offsets. Batches of several spans that lie in one object come together when all of
them are next: objects are taken in the order of their commits, which is that of every partition in them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.client.errors import Unavailable, error_of
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.client.records.wal_objects import BatchOf
from coordinator.client.routing.retry import Deadline, RetryPolicy
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL
from coordinator.protocol.find_batches import BatchLocation
from tables.reading.coordinators import ALL_BYTES, Coordinators, listed_offsets
from tables.reading.span import BelowMigration, OffsetsDeleted, ReadCounts, ReadOptions, Span

log = logging.getLogger(__name__)

BATCHES_PER_PAGE: Final = 5_000
"""No answer of a node has more batches."""
RETRIES: Final = RetryPolicy()
_DELETED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""What nodes say of a partition that there was when its span was made."""


class WantedBatch(NamedTuple):
    """Where a batch is, and the first offset that is wanted of it: the log may begin within it."""

    first_offset: int
    location: BatchLocation


class SpanPlace:
    """How far a span is read and found."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.target = PartitionId(span.topic_id, span.partition)
        self.next_offset = span.from_offset
        """The first offset that was not read."""
        self.find_offset = span.from_offset
        """The first offset whose batch is not found."""
        self.found: deque[WantedBatch] = deque()
        self.page = 0
        """How many batches the last page had."""
        self.missing_at = -1
        """Where an object was missing the last time."""
        self.deleted_to = 0
        """Offsets before this one are not there, unless they were read."""

    @property
    def is_found(self) -> bool:
        """Whether the batches up to the end are found."""
        return self.find_offset >= self.span.to_offset

    def move_to(self, offset: int, read_from: int, counts: ReadCounts) -> None:
        """Note that the records from `read_from` to before `offset` are read; what was deleted before them is counted."""
        if (stop := min(read_from, self.deleted_to)) > self.next_offset:
            counts.deleted(self.span.topic, self.span.partition, self.next_offset, stop)
        self.next_offset = offset

    def rewind(self) -> None:
        """Forget what is found and not read."""
        self.found.clear()
        self.find_offset, self.page = self.next_offset, 0


class PlacedBatch(NamedTuple):
    """A batch that is to be read, and the place whose span it belongs to."""

    place: SpanPlace
    batch: BatchOf
    first_offset: int


class FetchStretch(NamedTuple):
    """Batches of one object that are fetched together."""

    batches: list[PlacedBatch]
    size_bytes: int


class SpanPlaces:
    """See the module. Used on one event loop."""

    def __init__(self, coordinators: Coordinators, spans: Sequence[Span], options: ReadOptions, counts: ReadCounts) -> None:
        self._coordinators = coordinators
        self._options = options
        self._counts = counts
        self._places = [SpanPlace(span) for span in spans]
        self._live = self._places
        self._asking: asyncio.Task[None] | None = None
        self._deadline: Deadline | None = None
        """Until when nodes may have nothing to tell."""
        self._attempt = 0
        self._rng = random.Random()

    def take(self, bytes_max: int) -> FetchStretch | None:
        """Take the next batches that are found: of one object, and of about `bytes_max` or one batch that is larger."""
        live = self._live = [one for one in self._live if one.found or not one.is_found]
        if not live or not all(one.found for one in live):
            return None
        heads = (one.found[0].location for one in live)
        first = min(heads, key=lambda location: (location.log_append_timestamp, location.object_key))
        taken: list[PlacedBatch] = []
        size = 0
        for place in live:
            while place.found and place.found[0].location.object_key == first.object_key:
                if taken and size + place.found[0].location.byte_size > bytes_max:
                    return FetchStretch(taken, size)
                first_offset, location = place.found.popleft()
                taken.append(PlacedBatch(place, BatchOf(place.span.topic, place.span.partition, location), first_offset))
                size += location.byte_size
        return FetchStretch(taken, size)

    def ask_ahead(self) -> None:
        """Begin to ask for the next page of the spans of which less than half a page is left."""
        asking = self._asking
        if asking is not None and asking.done() and not asking.cancelled() and asking.exception() is None:
            asking = self._asking = None
        if asking is None:
            wanted = [one for one in self._live if not one.is_found and len(one.found) <= one.page // 2]
            if wanted:
                self._asking = asyncio.create_task(self._ask(wanted))

    async def answered(self) -> bool:
        """Wait for the page that was asked for; False when there is none, since all is taken. Raises what `read_spans` does."""
        if self._asking is None:
            for one in self._places:
                one.move_to(one.span.to_offset, one.span.to_offset, self._counts)
            return False
        asking, self._asking = self._asking, None
        await asking
        return True

    async def rewind(self) -> None:
        """Forget what is found and not read: it is asked for anew."""
        await self.close()
        self._live = self._places
        for one in self._live:
            one.rewind()

    async def close(self) -> None:
        """End what is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
            self._asking = None

    async def _ask(self, places: Sequence[SpanPlace]) -> None:
        timeout_ms = int(self._options.timeout_s * 1000)
        fetches = [FetchFrom(one.target, one.find_offset, ALL_BYTES) for one in places]
        share = max(1, BATCHES_PER_PAGE // len(places))
        answers = await self._coordinators.find_batches(
            fetches, fetch_bytes_max=ALL_BYTES, batches_per_partition_max=share, timeout_ms=timeout_ms
        )
        moved = [await self._note(place, answer) for place, answer in zip(places, answers, strict=True)]
        if any(moved):
            self._deadline = None
            return
        self._deadline = self._deadline or Deadline.after_ms(timeout_ms)
        self._attempt += 1
        if not await self._deadline.pause(RETRIES, self._attempt, self._rng):
            one = places[0]
            text = f"{one.span}: no node tells of the batches from offset {one.find_offset} on; repeat the read"
            raise Unavailable(ErrorCode.OFFSET_NOT_AVAILABLE, text)

    async def _note(self, place: SpanPlace, answer: PartitionBatches) -> bool:
        """Note what was found of a span; False when that is nothing."""
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(place, answer)
            return True
        if answer.error is not ErrorCode.NONE:
            said = (
                "its topic was deleted before these records were read" if answer.error in _DELETED else answer.message or answer.error.name
            )
            raise error_of(answer.error, f"{place.span}: {said}")
        place.page = len(answer.batches)
        if not answer.batches:
            return False
        wanted = (one for one in answer.batches if one.base_offset < place.span.to_offset)
        place.found.extend(WantedBatch(max(one.base_offset, place.find_offset), one) for one in wanted)
        place.find_offset = answer.batches[-1].last_offset + 1
        return True

    async def _out_of_range(self, place: SpanPlace, answer: PartitionBatches) -> None:
        """Go on at the log start where records were deleted, or raise BelowMigration, OffsetsDeleted."""
        span, offset, start = place.span, place.find_offset, answer.log_start_offset
        where = f"{span.topic}-{span.partition}"
        if offset < start:
            queries = [(place.target, EARLIEST), (place.target, EARLIEST_LOCAL)]
            earliest, local = await listed_offsets(self._coordinators, queries, timeout_ms=int(self._options.timeout_s * 1000))
            if earliest <= offset < local:
                raise BelowMigration(
                    f"{where}: offset {offset} is in the classic part of a migrated partition, offsets {earliest} to {local} "
                    f"(exclusive), which Kafka has; begin at {local} and read what is before it from Kafka"
                )
        stop = min(start, span.to_offset) if offset < start else span.to_offset
        text = (
            f"{where}: the records with offsets {offset} to {stop} (exclusive) are not there, the log has {start} to "
            f"{answer.high_watermark} (exclusive)"
        )
        if self._options.fail_on_data_loss:
            raise OffsetsDeleted(f"{text}: they were deleted before they were read; allow data loss to go on without them")
        log.warning("records left out: %s", text)
        place.deleted_to = stop
        place.find_offset = stop
