"""Tasks of a query, by partitions or by stretches of time.

Files that were not merged hold batches of many partitions, those of a topic side by side. A task that reads one partition fetches a small
part of each file, and every other task fetches the next; a task that reads all partitions of a topic for a stretch of time fetches each
file once. `auto` looks at a page of batches of every 16th partition: short runs in their files ask for stretches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from coordinator.client.records.wal_objects import newest_ms_of
from tables.reading.span import Span
from tables.source.lookup import Lookup, Topics
from tables.source.offsets import TopicPlace
from tables.source.options import SourceOptions, SplitBy
from tables.source.planning import Task, by_partitions, by_stretches, cut_evenly, place_of, size_of

if TYPE_CHECKING:
    from coordinator.protocol.find_batches import BatchLocation

SAMPLE_EVERY: Final = 16
SAMPLE_BATCHES: Final = 256
SHORT_RUN_BYTES: Final = 1 << 20
"""Runs of a partition in a file that are shorter on average are read by stretches."""


async def tasks_of(lookup: Lookup, spans: Sequence[Span], topics: Topics, options: SourceOptions) -> list[Task]:
    """Share out spans. Raises ServiceError."""
    tasks: list[Task] = []
    apart: list[Span] = []
    together: list[list[Span]] = []
    for _, group in groupby(sorted(filter(size_of, spans), key=place_of), key=lambda span: span.topic):
        of_topic = list(group)
        if await _reads_stretches(lookup, of_topic, topics, options.split):
            together.append(of_topic)
        else:
            apart += of_topic
    for of_topic in together:
        tasks += await _stretches(lookup, of_topic, topics, options)
    min_splits = max(1, options.min_splits - len(tasks)) if options.min_splits else None
    return tasks + by_partitions(apart, min_splits=min_splits, records_max=options.records_per_split_max)


async def _reads_stretches(lookup: Lookup, spans: Sequence[Span], topics: Topics, split: SplitBy) -> bool:
    if len(spans) == 1 or split is SplitBy.PARTITION:
        return False
    if split is SplitBy.OBJECTS:
        return True
    sampled = [(place_of(span), span.from_offset) for span in spans[::SAMPLE_EVERY]]
    runs = [size for page in await lookup.pages(topics, sampled, SAMPLE_BATCHES) for size in run_sizes(page)]
    return bool(runs) and sum(runs) < SHORT_RUN_BYTES * len(runs)


def run_sizes(batches: Sequence[BatchLocation]) -> list[int]:
    """Return the bytes of each run of batches that lie one behind the other in an object."""
    sizes: list[int] = []
    last: BatchLocation | None = None
    for batch in batches:
        if last is not None and batch.object_key == last.object_key and batch.byte_offset == last.byte_offset + last.byte_size:
            sizes[-1] += batch.byte_size
        else:
            sizes.append(batch.byte_size)
        last = batch
    return sizes


async def _stretches(lookup: Lookup, spans: Sequence[Span], topics: Topics, options: SourceOptions) -> list[Task]:
    """Cut all partitions of a topic at the moments at which the largest one has its next equal part.

    There are as many stretches as `minPartitions` says, else as there are partitions.
    """
    largest = max(spans, key=size_of)
    guide = cut_evenly(largest, options.min_splits or len(spans))[1:]
    firsts = await lookup.first_batches(topics, [(place_of(largest), part.from_offset) for part in guide])
    others = [place_of(span) for span in spans if span is not largest]
    cuts: list[dict[TopicPlace, int]] = []
    for part, first in zip(guide, firsts, strict=True):
        if first is not None:
            found = await lookup.reaching(topics, dict.fromkeys(others, max(0, newest_ms_of(first))))
            reached = {place: offset for place, offset in found.items() if offset is not None}
            cuts.append({**reached, place_of(largest): part.from_offset})
    return by_stretches(spans, cuts, records_max=options.records_per_split_max)
