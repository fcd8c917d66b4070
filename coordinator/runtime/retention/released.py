"""Deletes the older batches of partitions that moved: those that are in a coordinator that released the partition.

The owner of such a partition says where it starts. The leader of a coordinator that has an earlier stretch asks it at intervals, and logs
what is deleted there. It also looks for batches that are past their time (`core.reads.retention`), because they are here, and has the owner
delete them. So records are gone for readers before their batches are counted out of files, as for any other partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, cast

from coordinator.core.commands import DeletedTo, DeletePoint, DeleteRecords
from coordinator.core.moves import Stretch
from coordinator.core.reads.retention import Bound, LookedAt
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key, split_partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import Retention
from coordinator.operations.nesting import nested_request
from coordinator.protocol.messages import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.routing.leader_calls import NotYet, call_leader
from coordinator.runtime.routing.stretch_questions import stretches_of

LOG = logging.getLogger("coordinator.retention")

FIRST_LOOK_S: Final = 30.0
AT_ONCE: Final = 100
"""Partitions in one entry of deletions, or one question to an owner."""
TIMEOUT_MS: Final = 5_000


class _Stretch(NamedTuple):
    """The rest of a stretch that was released."""

    topic_id: bytes
    partition: int
    start: int
    end: int


class ReleasedStretches:
    """See the module's text; one per node. `retention_of` tells the retention of a topic, None while nothing may be deleted by it."""

    def __init__(self, context: NodeContext, *, interval_ms: int, retention_of: Callable[[int, bytes], Retention | None]) -> None:
        self._context = context
        self._replicas = context.replicas
        self._view = context.view
        self._interval_s = interval_ms / 1000
        self._retention_of = retention_of

    async def keep(self) -> None:
        """Go on looking; never returns."""
        await asyncio.sleep(min(self._interval_s, FIRST_LOOK_S))
        while True:
            try:
                await self.look()
            except Exception:
                LOG.exception("batches of partitions that moved were not looked at; it is tried again")
            await asyncio.sleep(self._interval_s)

    async def look(self) -> None:
        """Look at all stretches of the coordinators that are led here, again as long as something went: the next stretch may follow it.

        All by the same time, or looks would never end at a stretch whose batches expire all the time.
        """
        now_ms = self._context.clock_ms()
        while await self._look_once(now_ms):
            pass

    async def _look_once(self, now_ms: int) -> bool:
        """Returns whether anything went that was past its time."""
        has_deleted = False
        for coordinator_id in self._replicas.led():
            try:
                found = iter(self._stretches(coordinator_id))
                while some := list(islice(found, AT_ONCE)):
                    # What is past its time is only looked for in a stretch that is known to be the first one left.
                    some = await self._trimmed(coordinator_id, some)
                    if await self._expire(coordinator_id, some, now_ms):
                        has_deleted = await self._trimmed(coordinator_id, some) != some or has_deleted
            except NotReadable:
                continue  # it leads no more, or is being rebuilt
        return has_deleted

    def _stretches(self, coordinator_id: int) -> list[_Stretch]:
        """Raises `NotReadable`."""
        replica = self._replicas[coordinator_id]
        found = []
        for key, stretch in replica.look(_stretches).items():
            topic_id, partition = split_partition_key(key)
            bounds = replica.look(ShardView.bounds, topic_id, partition)
            if stretch.released is not None and bounds is not None and bounds[0] < bounds[1]:
                found.append(_Stretch(topic_id, partition, *bounds))
        return found

    async def _trimmed(self, coordinator_id: int, stretches: Sequence[_Stretch]) -> list[_Stretch]:
        """Log as deleted what the owners say is; returns what is left. Raises `NotReadable`."""
        await self._trim(coordinator_id, stretches)
        left = {(one.topic_id, one.partition): one for one in self._stretches(coordinator_id)}
        return [left[place] for one in stretches if (place := (one.topic_id, one.partition)) in left]

    async def _trim(self, coordinator_id: int, stretches: Sequence[_Stretch]) -> None:
        starts = await self._starts(stretches)
        points = [
            DeletePoint(topic_id=one.topic_id, partition=one.partition, offset=min(start, one.end))
            for one in stretches
            if (start := starts.get((one.topic_id, one.partition), -1)) > one.start
        ]
        if points and self._replicas.is_leading(coordinator_id):
            command = DeleteRecords(points=points, of_released=True)
            answers = cast(list[DeletedTo], await self._replicas[coordinator_id].ask(command, TIMEOUT_MS))
            for point, answer in zip(points, answers, strict=True):
                if answer.outcome.error is not ErrorCode.NONE:
                    LOG.info("records before %d of a partition that moved stay: %s", point.offset, answer.outcome.message)

    async def _starts(self, stretches: Sequence[_Stretch]) -> dict[tuple[bytes, int], int]:
        """Where partitions start, of those whose owner answers."""
        starts: dict[tuple[bytes, int], int] = {}
        for owner in self._by_owner(stretches):
            try:
                known = await stretches_of(self._context, owner)
            except NotYet as not_yet:
                LOG.info("an owner of partitions that moved does not tell where they start coordinator=%d reason=%r", owner, str(not_yet))
                continue
            starts |= {(one.topic_id, one.partition): one.start_offset for one in known if one.stretch.released is None}
        return starts

    async def _expire(self, coordinator_id: int, stretches: Sequence[_Stretch], now_ms: int) -> bool:
        """Have owners delete what is past its time; returns whether there was something. Raises `NotReadable`."""
        points: dict[_Stretch, int] = {}
        for one in stretches:
            retention = self._retention_of(coordinator_id, one.topic_id)
            if retention is None or retention.ms < 0:
                continue
            looked = self._replicas[coordinator_id].look(_past_time, one, retention, now_ms)
            if looked is not None and looked.delete_to > one.start:
                points[one] = looked.delete_to
        for owner, mine in self._by_owner(list(points)).items():
            if self._replicas.is_leading(owner):
                deletions = [DeletePoint(topic_id=one.topic_id, partition=one.partition, offset=points[one]) for one in mine]
                await self._replicas[owner].ask(DeleteRecords(points=deletions), TIMEOUT_MS)
            else:
                parts = [(one.topic_id, DeleteRecordsPartition(partition_index=one.partition, offset=points[one])) for one in mine]
                try:
                    request = nested_request(DeleteRecordsRequest, parts, timeout_ms=TIMEOUT_MS)
                    await call_leader(self._context, owner, request, DeleteRecordsResponse)
                except NotYet as not_yet:
                    LOG.info("an owner of partitions that moved deletes nothing now coordinator=%d reason=%r", owner, str(not_yet))
        return bool(points)

    def _by_owner(self, stretches: Sequence[_Stretch]) -> Mapping[int, list[_Stretch]]:
        found: defaultdict[int, list[_Stretch]] = defaultdict(list)
        for one in stretches:
            owner = self._view.owner_of(partition_key(one.topic_id, one.partition))
            if owner is not None:
                found[owner].append(one)
        return found


def _stretches(view: ShardView) -> Mapping[bytes, Stretch]:
    return dict(view.stretches)


def _past_time(view: ShardView, one: _Stretch, retention: Retention, now_ms: int) -> LookedAt | None:
    return view.past_retention_released(one.topic_id, one.partition, retention, Bound(view.log_clock_ms(now_ms)))
