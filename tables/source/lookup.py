"""What the driver asks the service: which topics and partitions there are, and the offsets of bounds.

Offsets are asked for strictly (ListOffsets): every record that was acknowledged before is there.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from coordinator.client.model import FetchFrom, PartitionId, TopicDescription
from coordinator.client.records.wal_objects import BatchOf, append_ms_of, find_record
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, LATEST
from coordinator.object_store import ObjectStore
from tables.reading.coordinators import ALL_BYTES, listed_offsets
from tables.reading.span import Span
from tables.source.offsets import EARLIEST as FROM_EARLIEST
from tables.source.offsets import LATEST as FROM_LATEST
from tables.source.offsets import TopicPlace, places_text
from tables.source.options import KAFKA, AtOffset, AtOffsets, AtTime, AtTimes, Bound, NoMatch, SourceOptionError, TopicChoice

if TYPE_CHECKING:
    from coordinator.client.client import DisklessClient
    from coordinator.protocol.find_batches import BatchLocation
    from tables.source.classic import ClassicReader

LOG = logging.getLogger("diskless.source")

AT_ONCE: Final = 16
"""Questions about single partitions, or batches that are read for their records' times, at the same time."""


_BOUNDS: Final = (EARLIEST, EARLIEST_LOCAL, LATEST)


class LogBounds(NamedTuple):
    """The log of a partition: offsets `start` to `end` (exclusive), and from `earliest` on those that Kafka has of a migrated one."""

    earliest: int
    start: int
    end: int

    def __str__(self) -> str:
        classic = f", and those from {self.earliest} on are in Kafka, since the topic was migrated" if self.earliest < self.start else ""
        return f"offsets {self.start} to {self.end} (exclusive){classic}"


class Topics:
    """The topics that are read, by name, and their partitions."""

    def __init__(self, found: Sequence[TopicDescription], places: Sequence[TopicPlace]) -> None:
        self.ids = {one.name: one.topic_id for one in found}
        self.places = tuple(sorted(places))

    def target(self, place: TopicPlace) -> PartitionId:
        """Name a partition as requests do."""
        return PartitionId(self.ids[place.topic], place.partition)

    def span(self, place: TopicPlace, from_offset: int, to_offset: int) -> Span:
        """Return offsets of a partition as what is read."""
        return Span(
            topic=place.topic, topic_id=self.ids[place.topic], partition=place.partition, from_offset=from_offset, to_offset=to_offset
        )


class Lookup:
    """See the module's text. Used on one event loop."""

    def __init__(self, client: DisklessClient, store: ObjectStore | None = None, classic: ClassicReader | None = None) -> None:
        """The store is needed where bounds are times. With `classic` a migrated topic begins where Kafka's log of it does."""
        self._client = client
        self._store = store
        self._classic = classic

    async def topics(self, choice: TopicChoice) -> Topics:
        """Find the topics. Raises NotFound, SourceOptionError for a partition that a topic has not, Unavailable."""
        if choice.pattern:
            wanted = re.compile(choice.pattern)
            found = [one for one in await self._client.describe_topics() if wanted.fullmatch(one.name)]
        else:
            names = choice.names or sorted({place.topic for place in choice.places})
            found = await self._client.describe_topics(names)
        every = [TopicPlace(one.name, each.partition) for one in found for each in one.partitions]
        if choice.places:
            if missing := set(choice.places) - set(every):
                raise SourceOptionError(f"Option 'assign' names partitions that do not exist: {places_text(missing)}")
            every = list(choice.places)
        return Topics(found, every)

    async def logs(self, topics: Topics, places: Sequence[TopicPlace] | None = None) -> dict[TopicPlace, LogBounds]:
        """Return the bounds of the logs of partitions, all at the same moment. Raises ServiceError."""
        asked = topics.places if places is None else places
        offsets = await listed_offsets(self._client, [(topics.target(place), kind) for place in asked for kind in _BOUNDS])
        logs = {place: LogBounds(*offsets[3 * number : 3 * number + 3]) for number, place in enumerate(asked)}
        if self._classic is None:
            return logs
        migrated = [place for place, log in logs.items() if log.earliest < log.start]
        firsts = await asyncio.gather(*map(self._classic.first_offset, migrated))
        begins = {place: min(first, logs[place].start) for place, first in zip(migrated, firsts, strict=True)}
        return logs | {place: LogBounds(begin, begin, logs[place].end) for place, begin in begins.items()}

    async def ends(self, topics: Topics) -> dict[TopicPlace, int]:
        """Return the ends of the logs of all partitions. Raises ServiceError."""
        offsets = await listed_offsets(self._client, [(topics.target(place), LATEST) for place in topics.places])
        return dict(zip(topics.places, offsets, strict=True))

    async def offsets(
        self, topics: Topics, logs: Mapping[TopicPlace, LogBounds], bound: Bound, *, no_match: NoMatch = NoMatch.LATEST
    ) -> dict[TopicPlace, int]:
        """Return the offset of a bound in every partition. Raises SourceOptionError, ServiceError, StoreError."""
        match bound:
            case AtOffset(offset):
                wanted = dict.fromkeys(topics.places, offset)
            case AtOffsets(positions):
                _check_partitions(positions.offsets, topics.places)
                _check_ids(positions.topic_ids, topics)
                wanted = dict(positions.offsets)
            case AtTime(timestamp_ms):
                wanted = await self._by_time(topics, dict.fromkeys(topics.places, timestamp_ms), no_match)
            case AtTimes(times_ms):
                _check_partitions(times_ms, topics.places)
                wanted = await self._by_time(topics, times_ms, no_match)
        named = {place: {FROM_EARLIEST: log.start, FROM_LATEST: log.end} for place, log in logs.items()}
        return {place: named[place].get(offset, offset) for place, offset in wanted.items()}

    # ---- times

    async def _by_time(self, topics: Topics, times_ms: Mapping[TopicPlace, int], no_match: NoMatch) -> dict[TopicPlace, int]:
        found = await self.reaching(topics, times_ms)
        none = [place for place, offset in found.items() if offset is None]
        if none and no_match is NoMatch.ERROR:
            raise SourceOptionError(
                f"No offset matched the time {times_ms[none[0]]} of {none[0]}, nor in {len(none) - 1} other partitions: no record there is "
                "that new. Name an earlier time, or set startingOffsetsByTimestampStrategy=latest"
            )
        matched = {place: offset for place, offset in found.items() if offset is not None}
        exact = await self._to_the_record(topics, matched, times_ms)
        return {place: exact.get(place, FROM_LATEST) for place in found}

    async def reaching(self, topics: Topics, times_ms: Mapping[TopicPlace, int]) -> dict[TopicPlace, int | None]:
        """Return where the first batch with a record of that time or later begins; None where there is none. Raises ServiceError.

        In the classic part of a migrated partition it is the record itself.
        """
        offsets = await listed_offsets(self._client, [(topics.target(place), time_ms) for place, time_ms in times_ms.items()])
        found = {place: offset if offset >= 0 else None for place, offset in zip(times_ms, offsets, strict=True)}
        if self._classic is None:
            return found
        ends = await self._classic.ends(self._client, [topics.target(place) for place in times_ms])
        migrated = {place: end for place in times_ms if (end := ends.get(topics.target(place))) is not None}
        earlier = await asyncio.gather(*(self._classic.reaching(place, times_ms[place], end) for place, end in migrated.items()))
        return found | {place: offset for place, offset in zip(migrated, earlier, strict=True) if offset is not None}

    async def _to_the_record(
        self, topics: Topics, offsets: Mapping[TopicPlace, int], times_ms: Mapping[TopicPlace, int]
    ) -> dict[TopicPlace, int]:
        """Go on from the batches that coordinators know the times of to their records, as a broker does."""
        found = await self.first_batches(topics, [(place, offset) for place, offset in offsets.items()])
        slots = asyncio.Semaphore(AT_ONCE)

        async def exact(place: TopicPlace, batch: BatchLocation | None) -> int:
            if batch is None or append_ms_of(batch) is not None:
                return offsets[place]
            assert self._store is not None, "bounds by time need the store"
            named = BatchOf(place.topic, place.partition, batch)
            async with slots:
                found = await find_record(self._store, named, time_ms=times_ms[place], from_offset=offsets[place])
            return offsets[place] if found is None else found[0]

        made = await asyncio.gather(*(exact(place, batch) for place, batch in zip(offsets, found, strict=True)))
        return dict(zip(offsets, made, strict=True))

    async def first_batches(self, topics: Topics, at: Sequence[tuple[TopicPlace, int]]) -> list[BatchLocation | None]:
        """Return the batches at offsets; None where no node tells. Raises ServiceError."""
        pages = await self.pages(topics, at, 1)
        return [page[0] if page else None for page in pages]

    async def pages(self, topics: Topics, at: Sequence[tuple[TopicPlace, int]], count: int) -> list[Sequence[BatchLocation]]:
        """Return up to so many batches from each offset on; a partition may be asked about more than once. Raises ServiceError."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def page(place: TopicPlace, offset: int) -> Sequence[BatchLocation]:
            async with slots:
                fetches = [FetchFrom(topics.target(place), offset, ALL_BYTES)]
                [found] = await self._client.find_batches(fetches, fetch_bytes_max=ALL_BYTES, batches_per_partition_max=count)
            if found.error is not ErrorCode.OFFSET_OUT_OF_RANGE:  # records that are deleted meanwhile: whoever reads them says so
                found.raise_for_error()
            return found.batches

        return list(await asyncio.gather(*(page(place, offset) for place, offset in at)))


def warn_of_classic_parts(logs: Mapping[TopicPlace, LogBounds], begins: Mapping[TopicPlace, int]) -> None:
    """Say which partitions are read from the beginning of their diskless part on, though Kafka has records before it."""
    if classic := [place for place, log in logs.items() if log.earliest < log.start and begins[place] <= log.start]:
        text = "%s: earlier records are in Kafka and are not read, since the topic was migrated; with the option %s they are"
        LOG.warning(text, places_text(classic), KAFKA)


def _check_partitions(given: Mapping[TopicPlace, int], places: Sequence[TopicPlace]) -> None:
    if given.keys() != set(places):
        raise SourceOptionError(
            "If offsets or times are given by partition, all partitions must be there; use -1 for latest and -2 for earliest offsets. "
            f"Specified: {places_text(given)}. Assigned: {places_text(places)}"
        )


def _check_ids(given: Mapping[str, bytes], topics: Topics) -> None:
    for topic, topic_id in given.items():
        if topics.ids[topic] != topic_id:
            raise SourceOptionError(
                f"The offsets given for topic {topic} are those of a topic that was deleted; another one has its name. "
                "Name offsets of that one, and leave out topicId"
            )
