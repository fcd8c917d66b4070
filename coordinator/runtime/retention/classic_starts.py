"""Follows where the classic parts of migrated partitions begin, which Kafka's retention and DeleteRecords move, so that EARLIEST is true.

A node asks Kafka about the partitions that it leads, all of them together, every `log.retention.check.interval.ms`, and logs what has
moved. A classic part that is gone is not asked about any more. A start that is unknown stays as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, cast

from coordinator.core.commands import LogFacts, MigratedLog, MigratePartitions, PrefixReport
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.ports import ClassicLogs, ClassicPlace, KafkaUnavailable
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.migration")

FIRST_LOOK_S: Final = 30.0
"""A node that has just started looks after so long at most."""
PLACES_AT_ONCE: Final = 1_000
"""Partitions that Kafka is asked about together."""
REPORTS_AT_ONCE: Final = 100
"""Partitions whose starts are logged together, which holds the event loop for some milliseconds."""
LOG_TIMEOUT_MS: Final = 10_000


class ClassicStarts:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext, *, logs: ClassicLogs, interval_ms: int) -> None:
        self._replicas = context.replicas
        self._view = context.view
        self._logs = logs
        self._interval_s = interval_ms / 1000
        self._told = ""

    async def keep(self) -> None:
        """Go on following; never returns."""
        await asyncio.sleep(min(self._interval_s, FIRST_LOOK_S))
        while True:
            try:
                problems = await self._follow()
            except KafkaUnavailable as error:
                problems = {"all": str(error)}
            except Exception:
                LOG.exception("where classic logs begin was not followed; it is tried again")
                problems = {}
            self._tell(problems)
            await asyncio.sleep(self._interval_s)

    async def _follow(self) -> dict[str, str]:
        """Ask about all partitions that are led here, and log what has moved. Returns why some starts are unknown, by partition.

        Raises `KafkaUnavailable`.
        """
        known = iter(sorted(self._prefixes()))
        problems: dict[str, str] = {}
        while chunk := list(islice(known, PLACES_AT_ONCE)):
            found = await self._logs.log_starts([place for place, _, _ in chunk])
            moved: defaultdict[int, list[PrefixReport]] = defaultdict(list)
            for place, coordinator_id, facts in chunk:
                start = found.get(place, "the brokers do not tell")
                if isinstance(start, str):
                    problems[self._name(place)] = start
                elif start > facts.prefix_start:
                    moved[coordinator_id].append(_report(place, start, facts))
            for coordinator_id, reports in moved.items():
                for first in range(0, len(reports), REPORTS_AT_ONCE):
                    problems |= await self._report(coordinator_id, reports[first : first + REPORTS_AT_ONCE])
        return problems

    def _prefixes(self) -> Iterator[tuple[ClassicPlace, int, LogFacts]]:
        """The classic parts of the partitions that are led here, with their coordinators."""
        for coordinator_id in self._replicas.led():
            with suppress(NotReadable):  # it leads no more, or is being rebuilt
                for topic_id, partition, facts in self._replicas[coordinator_id].look(ShardView.classic_prefixes):
                    yield ClassicPlace(topic_id, partition), coordinator_id, facts

    async def _report(self, coordinator_id: int, reports: Sequence[PrefixReport]) -> dict[str, str]:
        """Log starts. Returns why some were not, by partition; nothing when another node leads now."""
        if not self._replicas.is_leading(coordinator_id):
            return {}
        answers = cast(list[MigratedLog], await self._replicas[coordinator_id].ask(MigratePartitions(steps=reports), LOG_TIMEOUT_MS))
        if logged := sum(one.outcome.error is ErrorCode.NONE for one in answers):
            LOG.info("classic logs begin later partition=%d user_partitions=%d", coordinator_id, logged)
        if not self._replicas.is_leading(coordinator_id):
            return {}
        return {
            self._name(ClassicPlace(report.topic_id, report.partition)): answer.outcome.message or answer.outcome.error.name
            for report, answer in zip(reports, answers, strict=True)
            if answer.outcome.error is not ErrorCode.NONE
        }

    def _name(self, place: ClassicPlace) -> str:
        placement = self._view.placement(place.topic_id)
        return f"{place.topic_id.hex() if placement is None else placement.name}-{place.partition}"

    def _tell(self, problems: Mapping[str, str]) -> None:
        """Warn of partitions whose start is unknown, once until that changes."""
        text = "; ".join(f"{name}: {why}" for name, why in islice(problems.items(), 3))
        if len(problems) > 3:
            text += f"; and {len(problems) - 3} more"
        if text != self._told:
            self._told = text
            if text:
                LOG.warning("the start of classic logs is unknown, so EARLIEST may name offsets that are gone: %s", text)


def _report(place: ClassicPlace, start: int, facts: LogFacts) -> PrefixReport:
    # A log that begins after B0 has nothing left of the classic part. The epoch is the recorded one, so asking fences no leader.
    return PrefixReport(place.topic_id, place.partition, min(start, facts.start_offset), facts.leader_epoch)
