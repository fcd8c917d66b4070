"""Where the micro-batches of a stream begin and end, with admission control as in Spark's Kafka source.

After a restart Spark asks for the tasks of the last batch again: they have the same rows unless records were deleted meanwhile; merging of
files changes nothing.
Invariant: an end names its topics by id. Where a topic was deleted and created anew, the query ends, or, where data loss is allowed, goes
on at the beginning of the new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tables.source.lookup import Lookup, Topics, warn_of_classic_parts
from tables.source.loss import report_loss
from tables.source.offsets import Positions, TopicPlace, places_text
from tables.source.options import SourceOptions
from tables.source.planning import Task, limited
from tables.source.stretches import tasks_of


class StreamProgress:
    """See the module's text. Used on one event loop."""

    def __init__(self, options: SourceOptions, lookup: Lookup, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._lookup = lookup
        self._now_s = now_s
        self._initial: Positions | None = None
        self._topics: Topics | None = None
        self._fixed: Positions | None = None
        self._triggered_s = -float("inf")
        self.latest: Positions | None = None
        """The ends of the logs when a batch was last planned."""

    async def begin(self) -> Positions:
        """Look up where a new query begins. Raises SourceOptionError, ServiceError, StoreError."""
        topics = await self._find_topics()
        logs = await self._lookup.logs(topics)
        begins = await self._lookup.offsets(topics, logs, self._options.starting, no_match=self._options.no_match)
        warn_of_classic_parts(logs, begins)
        self._initial = Positions(offsets=begins, topic_ids=topics.ids)
        return self._initial

    async def fix_ends(self) -> None:
        """Take the ends of now for those of the whole run."""
        self._fixed = await self._ends()

    async def end_of_batch(self, start: Positions, *, is_limited: bool) -> Positions:
        """Choose where the next batch ends; where it begins when there is nothing, or not yet enough. Raises DataLoss, ServiceError.

        The first batch of a query always is another text: Spark makes one even when there is nothing, and may repeat it.
        """
        latest = self.latest = self._fixed or await self._ends()
        self._check_topics(start, latest)
        begins = await self._begins(start, latest)
        if is_limited and self._waits(sum(max(0, end - begins[place]) for place, end in latest.offsets.items())):
            return start
        ends: Mapping[TopicPlace, int] = latest.offsets
        if is_limited and self._options.max_per_trigger:
            ends = limited(begins, ends, self._options.max_per_trigger)
        if start == self._initial:
            return Positions(offsets=ends, topic_ids=latest.topic_ids, begins=begins)
        chosen = Positions(offsets=ends, topic_ids=latest.topic_ids)
        return start if chosen == Positions(offsets=start.offsets, topic_ids=start.topic_ids) else chosen

    async def tasks(self, start: Positions, end: Positions) -> list[Task]:
        """Plan the tasks of a batch. Raises DataLoss, ServiceError."""
        if end.begins:
            start = Positions(offsets=end.begins, topic_ids=end.topic_ids)
        topics = self._topics or await self._find_topics()
        fails = self._options.fail_on_data_loss
        begins = await self._begins(start, end)
        if gone := start.offsets.keys() - end.offsets.keys():
            report_loss(f"{places_text(gone)} are gone", fails=fails)
        spans = []
        for place, stop in end.offsets.items():
            topic_id = end.topic_ids.get(place.topic, topics.ids.get(place.topic))
            if topic_id is None or topics.ids.get(place.topic) != topic_id:
                text = f"{place}: its topic was deleted, or is not read any longer, before offsets up to {stop} were read"
                report_loss(text, fails=fails)
                continue
            begin = begins.get(place)
            if begin is None:
                report_loss(f"Cannot find the earliest offset of {place}: it is not among the partitions that are read", fails=fails)
                continue
            if stop < begin:
                report_loss(f"The offset of {place} was changed from {begin} to {stop}", fails=fails)
                continue
            spans.append(topics.span(place, begin, stop))
        return await tasks_of(self._lookup, spans, topics, self._options)

    # ---- parts

    async def _find_topics(self) -> Topics:
        self._topics = await self._lookup.topics(self._options.choice)
        return self._topics

    async def _ends(self) -> Positions:
        topics = await self._find_topics()
        return Positions(offsets=await self._lookup.ends(topics), topic_ids=topics.ids)

    def _check_topics(self, start: Positions, latest: Positions) -> None:
        """Look whether a topic was deleted and created anew. Raises DataLoss."""
        for topic in sorted(_replaced(start, latest)):
            text = f"Topic {topic} was deleted and created anew: the offsets of this query are those of the deleted one"
            report_loss(f"{text}; the records of the new one are read from their beginning", fails=self._options.fail_on_data_loss)

    async def _begins(self, start: Positions, end: Positions) -> dict[TopicPlace, int]:
        """Return where a batch begins in each partition of its end; new partitions begin at their beginning. Raises DataLoss.

        A new partition that is not read any longer, deleted or not assigned since a restart, has no beginning.
        """
        replaced = _replaced(start, end)
        known = {place: offset for place, offset in start.offsets.items() if place in end.offsets and place.topic not in replaced}
        new = [place for place in end.offsets if place not in known]
        if not new:
            return known
        topics = self._topics or await self._find_topics()
        logs = await self._lookup.logs(topics, [place for place in new if place in topics.places])
        for place, log in logs.items():
            if log.start:
                report_loss(f"Added partition {place} starts from {log.start} instead of 0", fails=self._options.fail_on_data_loss)
        return known | {place: log.start for place, log in logs.items()}

    def _waits(self, count: int) -> bool:
        """Whether a batch of so many records is to wait for more, by `minOffsetsPerTrigger` and `maxTriggerDelay`."""
        now_s = self._now_s()
        is_due = now_s - self._triggered_s >= self._options.trigger_delay_ms / 1000
        enough = count >= (self._options.min_per_trigger or 0)
        if self._fixed is None and not is_due and not enough:
            return True
        self._triggered_s = now_s
        return False


def _replaced(start: Positions, end: Positions) -> set[str]:
    """The topics that have another id at the end than at the start."""
    return {topic for topic, topic_id in start.topic_ids.items() if end.topic_ids.get(topic, topic_id) != topic_id}
