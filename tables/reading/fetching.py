"""Batches of spans are fetched from their objects, several objects at the same time, and given out in order.

Invariant: the bytes that are fetched and not given out are about `fetch_bytes`, or one batch that is larger.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator
from typing import NamedTuple

from coordinator.client.records.wal_objects import OBJECTS_AT_ONCE, BatchOf, read_object
from coordinator.client.routing.retry import Deadline
from coordinator.object_store import ObjectMissing, ObjectStore, StoreDenied, StoreError, StoreUnavailable
from tables.reading.places import RETRIES, FetchStretch, SpanPlaces
from tables.reading.span import Damage, ReadCounts, ReadOptions, Span

log = logging.getLogger(__name__)

Flight = asyncio.Task[list[memoryview | None]]


class FetchedBatch(NamedTuple):
    """The bytes of a batch, unchecked, and the span whose records are wanted of it, from an offset on."""

    span: Span
    batch: BatchOf
    data: memoryview
    first_offset: int


class Fetcher:
    """See the module. Used on one event loop."""

    def __init__(self, places: SpanPlaces, store: ObjectStore, options: ReadOptions, counts: ReadCounts) -> None:
        self._places = places
        self._store = store
        self._options = options
        self._counts = counts
        self._flights: deque[tuple[FetchStretch, Flight]] = deque()
        self._rng = random.Random()

    async def batches(self) -> AsyncGenerator[list[FetchedBatch]]:
        """Yield batches, in order, as they are fetched. Raises as `read_spans`; what is under way ends with the generator."""
        try:
            while True:
                self._begin()
                if not self._flights:
                    if not await self._places.answered():
                        return
                    continue
                stretch, flight = self._flights.popleft()
                try:
                    found = await flight
                except ObjectMissing as error:
                    await self._find_anew(stretch, error)
                    continue
                for place, batch, first_offset in stretch.batches:
                    place.move_to(batch.location.last_offset + 1, first_offset, self._counts)
                yield [
                    FetchedBatch(place.span, batch, data, first_offset)
                    for (place, batch, first_offset), data in zip(stretch.batches, found, strict=True)
                    if data is not None
                ]
        finally:
            await self._places.close()
            await self._end_flights()

    def _begin(self) -> None:
        """Begin to fetch as much as there is room for, and to ask where the next batches are."""
        size = sum(stretch.size_bytes for stretch, _ in self._flights)
        # Parts of one large object are fetched at the same time, too.
        part = max(1, self._options.fetch_bytes // 4)
        while len(self._flights) < OBJECTS_AT_ONCE and (size + part <= self._options.fetch_bytes or not self._flights):
            stretch = self._places.take(part)
            if stretch is None:
                break
            size += stretch.size_bytes
            self._flights.append((stretch, asyncio.create_task(self._fetch(stretch))))
        self._places.ask_ahead()

    async def _find_anew(self, stretch: FetchStretch, error: ObjectMissing) -> None:
        """Ask where batches are whose object is missing: records may be deleted, or be in another object. Raises it the second time."""
        for place in {id(one.place): one.place for one in stretch.batches}.values():
            if place.missing_at == place.next_offset:
                raise error
            place.missing_at = place.next_offset
        await self._end_flights()
        await self._places.rewind()

    async def _end_flights(self) -> None:
        for _, flight in self._flights:
            flight.cancel()
        await asyncio.gather(*(flight for _, flight in self._flights), return_exceptions=True)
        self._flights.clear()

    async def _fetch(self, stretch: FetchStretch) -> list[memoryview | None]:
        """Fetch batches of one object; None for those that are left out since the object ends before."""
        batches = [one.batch for one in stretch.batches]
        deadline, attempt = Deadline.after_ms(self._options.timeout_s * 1000), 0
        while True:
            try:
                return list(await read_object(self._store, batches))
            except StoreUnavailable:
                if not await deadline.pause(RETRIES, attempt, self._rng):
                    raise
                attempt += 1
            except (ObjectMissing, StoreDenied):
                raise
            except StoreError as error:
                if self._options.on_damage is Damage.FAIL:
                    raise
                if len(batches) == 1:
                    skip(batches[0], error, self._counts)
                    return [None]
                alone = (FetchStretch([one], one.batch.location.byte_size) for one in stretch.batches)
                return [data for one in alone for data in await self._fetch(one)]


def skip(batch: BatchOf, error: StoreError, counts: ReadCounts) -> None:
    """Count and log a batch that is left out."""
    if counts.damage(batch.topic, batch.partition, batch.location.base_offset):
        log.warning("damaged batch left out: %s", error)
