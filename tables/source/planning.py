"""Which offsets a batch has and how tasks share them, by the rules of Spark's Kafka source. Pure: nothing is asked for here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tables.reading.span import Span
from tables.source.offsets import TopicPlace

Task = tuple[Span, ...]
"""What one task reads."""


def by_partitions(spans: Iterable[Span], *, min_splits: int | None, records_max: int | None) -> list[Task]:
    """Give every span to a task of its own; cut those that have more than `records_max`, then large ones until there are `min_splits`.

    The number of tasks is about `min_splits`: small spans stay whole.
    """
    whole = [span for span in spans if size_of(span)]
    if records_max:
        whole = [part for span in whole for part in cut_evenly(span, -(-size_of(span) // records_max))]
    if min_splits and min_splits > len(whole):
        whole = _cut_large(whole, min_splits)
    return [(span,) for span in whole]


def _cut_large(spans: Sequence[Span], min_splits: int) -> list[Span]:
    total = sum(map(size_of, spans))
    small = [span for span in spans if _share(size_of(span), total, min_splits) == 1]
    left = total - sum(map(size_of, small))
    splits = max(min_splits - len(small), 1)
    kept = {id(span) for span in small}
    return [
        part
        for span in spans
        for part in cut_evenly(span, 1 if id(span) in kept else min(_share(size_of(span), left, splits), size_of(span)))
    ]


def _share(size: int, total: int, splits: int) -> int:
    return max(math.floor(size / total * splits + 0.5), 1)


def by_stretches(spans: Sequence[Span], cuts: Sequence[Mapping[TopicPlace, int]], *, records_max: int | None) -> list[Task]:
    """Cut all spans at the same moments: each task gets what lies between two of them, at most about `records_max`.

    A cut names an offset for each partition. Timestamps need not rise, so an offset before that of an earlier cut is raised to it: every
    offset is in one task, whatever the cuts are.
    """
    tasks: list[Task] = []
    begins = {place_of(span): span.from_offset for span in spans}
    for cut in [*cuts, {place_of(span): span.to_offset for span in spans}]:
        stretch = []
        for span in spans:
            place, begin = place_of(span), begins[place_of(span)]
            end = min(max(cut.get(place, span.to_offset), begin), span.to_offset)
            if end > begin:
                stretch.append(replace(span, from_offset=begin, to_offset=end))
            begins[place] = end
        size = sum(map(size_of, stretch))
        count = -(-size // records_max) if records_max else 1
        tasks += _slices(stretch, count)
    return tasks


def _slices(stretch: Sequence[Span], count: int) -> list[Task]:
    """Cut a stretch into so many, by its share of each span's offsets."""
    if count <= 1:
        return [tuple(stretch)] if stretch else []
    parts = [[_slice(span, number, count) for span in stretch] for number in range(count)]
    return [kept for part in parts if (kept := tuple(span for span in part if size_of(span)))]


def _slice(span: Span, number: int, count: int) -> Span:
    size = size_of(span)
    begin, end = (span.from_offset + size * one // count for one in (number, number + 1))
    return replace(span, from_offset=begin, to_offset=end)


def cut_evenly(span: Span, count: int) -> list[Span]:
    """Cut a span into so many of about the same size; the last ones are larger by what is left over."""
    parts, begin, left = [], span.from_offset, size_of(span)
    for number in range(count):
        size = left // (count - number)
        parts.append(replace(span, from_offset=begin, to_offset=begin + size))
        begin, left = begin + size, left - size
    return [part for part in parts if size_of(part)]


def limited(begins: Mapping[TopicPlace, int], ends: Mapping[TopicPlace, int], limit: int) -> dict[TopicPlace, int]:
    """Return the ends of a batch of about `limit` records, shared out by how many each partition has; each gets one at least."""
    sizes = {place: end - begins[place] for place, end in ends.items() if place in begins and end > begins[place]}
    total = sum(sizes.values())
    if total == 0:
        return dict(ends)
    chosen = dict(ends)
    for place, size in sizes.items():
        share = limit * (size / total)
        chosen[place] = min(ends[place], begins[place] + (math.ceil(share) if share < 1 else math.floor(share)))
    return chosen


def size_of(span: Span) -> int:
    """Return how many offsets a span has."""
    return span.to_offset - span.from_offset


def place_of(span: Span) -> TopicPlace:
    """Return the partition of a span."""
    return TopicPlace(span.topic, span.partition)
