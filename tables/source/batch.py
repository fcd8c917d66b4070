"""A batch query: bounds are looked up once, on the driver, and tasks read what lies between them.

With the option `pushdown` Spark hands filters over. They only narrow the offsets that are read: all of them go back to Spark, which applies
them to the rows. Spark refuses a reader that takes filters while `spark.sql.python.filterPushdown.enabled` is off, so it is another class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from tables.source.access import open_client, open_objects
from tables.source.executor import classic_parts, read_task
from tables.source.lookup import Lookup, Topics, warn_of_classic_parts
from tables.source.loss import report_loss
from tables.source.offsets import TopicPlace
from tables.source.options import SourceOptionError, SourceOptions
from tables.source.planning import Task
from tables.source.stretches import tasks_of

if TYPE_CHECKING:
    import pyarrow

Offsets = Mapping[TopicPlace, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """What filters leave to be read: offsets from `begin` to before `end`, not older than `since_ms`, of chosen topics and partitions."""

    begin: int = 0
    end: int = 2**63 - 1
    since_ms: int = 0
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None

    def takes(self, place: TopicPlace) -> bool:
        """Whether records of a partition may pass."""
        return (self.topics is None or place.topic in self.topics) and (self.partitions is None or place.partition in self.partitions)


class TopicReader(DataSourceReader):
    """See the module's text. Spark pickles it, and reads tasks on executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks. Raises SourceOptionError, DataLoss, ServiceError, StoreError."""
        return [InputPartition(task) for task in asyncio.run(plan_batch(self._options, self.narrowing))]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read a task; Spark gives None where there is none."""
        return read_task(self._options, partition.value or ())


class FilteringTopicReader(TopicReader):
    """A reader that takes filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow what is read; every filter goes back to Spark."""
        self.narrowing = narrowed(filters)
        return filters


def batch_reader(options: SourceOptions) -> TopicReader:
    """Return the reader that the options ask for."""
    return FilteringTopicReader(options) if options.pushes_filters else TopicReader(options)


# ---- planning


async def plan_batch(options: SourceOptions, narrowing: Narrowing) -> list[Task]:
    """Return the tasks of a batch query. Raises SourceOptionError, DataLoss, ServiceError, StoreError."""
    store = open_objects(options.access)
    async with open_client(options.access, store) as client:
        return await plan_within(Lookup(client, store, classic_parts(options)), options, narrowing)


async def plan_within(lookup: Lookup, options: SourceOptions, narrowing: Narrowing) -> list[Task]:
    """As `plan_batch`, of a service that is connected to."""
    topics = await lookup.topics(options.choice)
    starts, ends = await _bounds(lookup, topics, options)
    if narrowing != Narrowing():
        starts, ends = await _narrow(lookup, topics, starts, ends, narrowing)
    spans = [topics.span(place, start, ends[place]) for place, start in starts.items()]
    return await tasks_of(lookup, spans, topics, options)


async def _bounds(lookup: Lookup, topics: Topics, options: SourceOptions) -> tuple[Offsets, Offsets]:
    """Where every partition begins and ends, within its log. Raises SourceOptionError, DataLoss."""
    logs = await lookup.logs(topics)
    starts = await lookup.offsets(topics, logs, options.starting, no_match=options.no_match)
    ends = await lookup.offsets(topics, logs, options.ending)
    for place, log in logs.items():
        start, end = starts[place], ends[place]
        if start > end:
            raise SourceOptionError(f"The starting offset {start} of {place} is greater than its ending offset {end}")
        if start < end and (start < log.start or end > log.end):
            report_loss(f"{place}: offsets {start} to {end} (exclusive) are asked for; the log has {log}", fails=options.fail_on_data_loss)
    warn_of_classic_parts(logs, starts)
    begins = {place: min(max(starts[place], log.start), log.end) for place, log in logs.items()}
    return begins, {place: min(max(ends[place], begins[place]), log.end) for place, log in logs.items()}


async def _narrow(lookup: Lookup, topics: Topics, starts: Offsets, ends: Offsets, by: Narrowing) -> tuple[Offsets, Offsets]:
    begins = {place: max(start, by.begin) for place, start in starts.items() if by.takes(place)}
    if by.since_ms:
        reached = await lookup.reaching(topics, dict.fromkeys(begins, by.since_ms))
        # None: no record is that new when this is asked, and those that come later are not of this query.
        begins = {place: ends[place] if (since := reached[place]) is None else max(begin, since) for place, begin in begins.items()}
    stops = {place: min(ends[place], by.end) for place in begins}
    return {place: min(begin, stops[place]) for place, begin in begins.items()}, stops


# ---- filters


@dataclass(slots=True)
class _Seen:
    """The conditions of filters, all of which hold."""

    begin: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    since_ms: list[int] = field(default_factory=list)
    topics: list[frozenset[str]] = field(default_factory=list)
    partitions: list[frozenset[int]] = field(default_factory=list)


def narrowed(filters: Sequence[Filter]) -> Narrowing:
    """Take of filters what narrows offsets; a filter that is not understood narrows nothing.

    A lower bound of the timestamp only: timestamps need not rise, so newer records may stand before older ones.
    """
    seen = _Seen()
    for one in filters:
        match one:
            case EqualTo(("topic",), str(topic)):
                seen.topics.append(frozenset({topic}))
            case In(("topic",), names):
                seen.topics.append(frozenset(names))
            case EqualTo(("partition",), int(index)):
                seen.partitions.append(frozenset({index}))
            case In(("partition",), indexes):
                seen.partitions.append(frozenset(indexes))
            case EqualTo(("offset",), int(offset)):
                seen.begin.append(offset)
                seen.end.append(offset + 1)
            case GreaterThan(("offset",), int(offset)):
                seen.begin.append(offset + 1)
            case GreaterThanOrEqual(("offset",), int(offset)):
                seen.begin.append(offset)
            case LessThan(("offset",), int(offset)):
                seen.end.append(offset)
            case LessThanOrEqual(("offset",), int(offset)):
                seen.end.append(offset + 1)
            case GreaterThan(("timestamp",), datetime() as time) | GreaterThanOrEqual(("timestamp",), datetime() as time):
                seen.since_ms.append(int(time.timestamp() * 1000))
            case EqualTo(("timestamp",), datetime() as time):
                seen.since_ms.append(int(time.timestamp() * 1000))
    return Narrowing(
        begin=max(0, *seen.begin, 0),
        end=max(0, min(2**63 - 1, *seen.end, 2**63 - 1)),
        since_ms=max(0, *seen.since_ms, 0),
        topics=_all_of(seen.topics),
        partitions=_all_of(seen.partitions),
    )


def _all_of(sets: Sequence[frozenset[Any]]) -> frozenset[Any] | None:
    return frozenset.intersection(*sets) if sets else None
