"""Deletes batches that are past the retention of their topic, of the coordinators that this node leads.

Every `log.retention.check.interval.ms`, and when an operator asks, all partitions with a limit are looked at (`core.reads.retention`),
and records before the first batch that stays are deleted as by any client: through the log. What a look learned is kept, so that the
next one reads only what came since. Looking takes at most a small share of the event loop, whatever the interval says (`PERIODIC`).

Deleting too much cannot be mended, so before each deletion the directory of topics is brought up to date, and what was found by
settings that have changed is dropped. Nothing is deleted while a restore is unfinished.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from coordinator.core.commands import DeletedTo, DeletePoint, DeleteRecords, Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.directory.topic_settings import settings_of
from coordinator.core.reads.retention import Bound, Known, LookedAt
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import AFTER_MAX_MS
from coordinator.kafka.topic_configs import UNLIMITED_RETENTION, Retention, retention_of
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.retention.rules import RetentionRules
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.retention")

FIRST_LOOK_S: Final = 30.0
"""A node that has just started looks after so long at most, like Kafka."""
SLICE_S: Final = 0.001
"""How long the event loop is held at a time."""
POINTS_MAX: Final = 100
"""Partitions whose records are deleted by one entry of the log, which holds the event loop for some milliseconds."""
DELETE_TIMEOUT_MS: Final = 10_000
DIRECTORY_TIMEOUT_MS: Final = 5_000

PERIODIC: Final = 99.0
ON_DEMAND: Final = 4.0
"""The pauses of a look at all partitions, as a multiple of its work: one percent of the event loop, a fifth when an operator waits."""

Key = tuple[bytes, int]


class Expired(NamedTuple):
    """Batches of a partition that were deleted, or would be; the records in `[log_start, new_log_start)`."""

    topic_id: bytes
    partition: int
    log_start: int
    new_log_start: int
    batches: int
    size_bytes: int

    def joined(self, later: Expired) -> Expired:
        """This and what follows it."""
        return later._replace(log_start=self.log_start, batches=self.batches + later.batches, size_bytes=self.size_bytes + later.size_bytes)


class HeldByTime(NamedTuple):
    """A partition whose first batch, which ends before `next_offset`, has a timestamp in the future: retention by time deletes nothing."""

    topic_id: bytes
    partition: int
    timestamp_ms: int
    next_offset: int


class Enforced(NamedTuple):
    """The result for the partitions of a coordinator; `outcome` says why not all were done. `held` is only known of a run that was not."""

    outcome: Outcome
    expired: list[Expired]
    held: Sequence[HeldByTime] = ()


class _NotNow(Exception):
    """Retention cannot be enforced now."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class RetentionEnforcer:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext, *, rules: RetentionRules) -> None:
        self.deleted_batches: Counter[int] = Counter()
        """Batches that were deleted here, by metadata partition."""
        self.last_run_s: dict[int, float] = {}
        """How long the last look at everything took, its pauses included, by metadata partition."""
        self.held_partitions: dict[int, int] = {}
        """How many partitions timestamps in the future kept from retention at the last look at everything, by metadata partition."""
        self._replicas = context.replicas
        self._view = context.view
        self._router = context.router
        self._rules = rules
        self._clock_ms = context.clock_ms
        self._known: dict[int, dict[Key, Known]] = {}
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[int] = Counter()
        """How many looks at all partitions an operator waits for, by metadata partition: they make haste."""

    async def keep(self) -> None:
        """Go on enforcing; never returns."""
        interval_s = self._rules.check_interval_ms / 1000
        await asyncio.sleep(min(interval_s, FIRST_LOOK_S))
        while True:
            led = self._replicas.led()
            self._known = {one: known for one, known in self._known.items() if one in led}
            self.held_partitions = {one: count for one, count in self.held_partitions.items() if one in led}
            for coordinator_id in led:
                try:
                    outcome, expired, _ = await self._enforced(coordinator_id, (), is_dry_run=False)
                except Exception:
                    LOG.exception("retention was not enforced; it is tried again partition=%d", coordinator_id)
                    continue
                if outcome.error is not ErrorCode.NONE:
                    LOG.info("retention was not enforced partition=%d reason=%r", coordinator_id, outcome.message)
                if expired:
                    batches, size_bytes = sum(one.batches for one in expired), sum(one.size_bytes for one in expired)
                    LOG.info(
                        "retention deleted partition=%d user_partitions=%d batches=%d bytes=%d",
                        coordinator_id,
                        len(expired),
                        batches,
                        size_bytes,
                    )
            await asyncio.sleep(interval_s)

    async def enforce(self, coordinator_id: int, topic_ids: Collection[bytes] = (), *, is_dry_run: bool = False) -> Enforced:
        """Delete what is past retention in the partitions of a coordinator, of all topics or of those that are named."""
        self._waiting[coordinator_id] += 1
        try:
            return await self._enforced(coordinator_id, topic_ids, is_dry_run=is_dry_run)
        finally:
            self._waiting[coordinator_id] -= 1

    async def _enforced(self, coordinator_id: int, topic_ids: Collection[bytes], *, is_dry_run: bool) -> Enforced:
        loop = asyncio.get_running_loop()
        async with self._locks[coordinator_id]:
            started_s = loop.time()
            known = self._known.get(coordinator_id, {})
            run = _Run(
                {} if is_dry_run else known,
                is_dry_run=is_dry_run,
                pace=_Pace(loop, lambda: ON_DEMAND if self._waiting[coordinator_id] else PERIODIC),
            )
            outcome = Outcome()
            try:
                await self._look_at_all(coordinator_id, topic_ids, run)
            except _NotNow as not_now:
                outcome = not_now.outcome
            except NotReadable:
                outcome = self._router.not_led(coordinator_id)
            if not is_dry_run:
                # A look at everything knows the partitions that have a limit; one that was broken off, or at some topics, adds to them.
                is_whole = not topic_ids and outcome.error is ErrorCode.NONE
                self._known[coordinator_id] = run.known if is_whole else known | run.known
                if not topic_ids:
                    self.last_run_s[coordinator_id] = loop.time() - started_s
                if is_whole:
                    self._tell_held(coordinator_id, run.held)
            return Enforced(outcome, [run.expired[key] for key in sorted(run.expired)], run.held)

    def _tell_held(self, coordinator_id: int, held: Sequence[HeldByTime]) -> None:
        if held and not self.held_partitions.get(coordinator_id):
            LOG.warning(
                "timestamps in the future keep records from retention, `diskless retention enforce --dry-run` names the partitions "
                "partition=%d user_partitions=%d",
                coordinator_id,
                len(held),
            )
        self.held_partitions[coordinator_id] = len(held)

    async def _look_at_all(self, coordinator_id: int, topic_ids: Collection[bytes], run: _Run) -> None:
        """Look at every partition until nothing is left that was past retention at its first look. Raises `_NotNow`, `NotReadable`."""
        self.check_ready(coordinator_id)
        keys: Iterable[tuple[Key, Bound | None]] = ((key, None) for key in self._partitions(coordinator_id, topic_ids))
        while True:
            again: list[tuple[Key, Bound | None]] = []
            found: dict[Key, _Found] = {}
            for key, bound in keys:
                self._check_leading(coordinator_id)
                retention = self._retention(key[0])
                look = self._look(coordinator_id, key, retention, bound, run)
                if look is not None:
                    run.known[key] = look.known if not look.batches else Known(look.log_start, look.log_start)
                    if look.batches:
                        found[key] = _Found(retention, look)
                    if look.has_more:
                        again.append((key, look.bound))
                if len(found) == POINTS_MAX:
                    await self._delete(coordinator_id, found, run)
                    found = {}
                await run.pace.pause()
            if found:
                await self._delete(coordinator_id, found, run)
            if not again:
                break
            keys = again
        limit_ms = self._replicas[coordinator_id].look(ShardView.log_clock_ms, self._clock_ms()) + AFTER_MAX_MS
        run.held = held_by_time(run.known, limit_ms, lambda topic_id: self._retention(topic_id).ms >= 0)

    def _partitions(self, coordinator_id: int, topic_ids: Collection[bytes]) -> Iterator[Key]:
        """The partitions of topics that have a limit when their turn comes. Raises `NotReadable`."""
        replica = self._replicas[coordinator_id]
        for topic_id in replica.look(ShardView.topic_ids):
            if (not topic_ids or topic_id in topic_ids) and not self._retention(topic_id).is_unlimited:
                for partition in replica.look(ShardView.partitions_of, topic_id):
                    yield topic_id, partition

    def check_ready(self, coordinator_id: int) -> None:
        """Raises `_NotNow`."""
        self._check_leading(coordinator_id)
        directory = self._replicas.shard(DIRECTORY_PARTITION)
        if directory is not None and directory.is_restore_open:
            message = "retention deletes nothing until the restore is called finished (diskless restore finish)"
            raise _NotNow(Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message))
        if directory is None or directory.may_restore_be_open:
            message = "the directory of topics is loading; retry"
            raise _NotNow(Outcome(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=message))

    def retention_now(self, coordinator_id: int, topic_id: bytes) -> Retention | None:
        """The retention of a topic, None while nothing may be deleted."""
        try:
            self.check_ready(coordinator_id)
        except _NotNow:
            return None
        return self._retention(topic_id)

    def _retention(self, topic_id: bytes) -> Retention:
        """The retention of a topic now; without limit for one that the directory does not place, which is going."""
        directory = self._view.directory
        if directory is None or topic_id not in directory.placements:
            return UNLIMITED_RETENTION
        return retention_of(settings_of(directory, topic_id), self._rules.default)

    def _check_leading(self, coordinator_id: int) -> None:
        if not self._replicas.is_leading(coordinator_id):
            raise _NotNow(self._router.not_led(coordinator_id))

    def _look(self, coordinator_id: int, key: Key, retention: Retention, bound: Bound | None, run: _Run) -> LookedAt | None:
        """Look at a partition; None when it was deleted, or has no limit any more. Raises `NotReadable`."""
        if retention.is_unlimited:
            return None
        known = run.known.get(key) or run.known_before.get(key)
        return self._replicas[coordinator_id].look(_past_retention, key, retention, bound, self._clock_ms(), known)

    async def check_settings(self) -> None:
        """See to it that this node knows the settings that are in the log. Raises `_NotNow`."""
        if not await self._router.directory_is_current(DIRECTORY_TIMEOUT_MS):
            message = "the directory of topics cannot be read to its end now, so settings may have changed; retry"
            raise _NotNow(Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message))

    async def _delete(self, coordinator_id: int, found: Mapping[Key, _Found], run: _Run) -> None:
        """Delete what was found, as far as the settings by which it was found are still those of the topic. Raises `_NotNow`."""
        if run.is_dry_run:
            for key, (_, look) in found.items():
                run.note(key, look)
            return
        await self.check_settings()
        self._check_leading(coordinator_id)
        kept = [(key, look) for key, (retention, look) in found.items() if self._retention(key[0]) == retention]
        points = [DeletePoint(topic_id=topic_id, partition=partition, offset=look.delete_to) for (topic_id, partition), look in kept]
        answers = await self._replicas[coordinator_id].ask(DeleteRecords(points=points), DELETE_TIMEOUT_MS)
        run.pace.begin()
        for (key, look), answer in zip(kept, cast(list[DeletedTo], answers), strict=True):
            if answer.outcome.error is ErrorCode.NONE:
                run.note(key, look)
                self.deleted_batches[coordinator_id] += look.batches
            elif answer.outcome.error not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):  # deleted meanwhile
                raise _NotNow(answer.outcome)


def _past_retention(
    view: ShardView, key: Key, retention: Retention, bound: Bound | None, now_ms: int, known: Known | None
) -> LookedAt | None:
    return view.past_retention(*key, retention, bound or Bound(view.log_clock_ms(now_ms)), known)


class _Found(NamedTuple):
    """Batches of a partition that are past a retention."""

    retention: Retention
    look: LookedAt


class _Pace:
    """Holds the event loop for a slice at a time, and leaves it to others `rest()` times as long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rest: Callable[[], float]) -> None:
        self._loop = loop
        self._rest = rest
        self._since_s = loop.time()

    def begin(self) -> None:
        """Work begins now; what was before was waiting."""
        self._since_s = self._loop.time()

    async def pause(self) -> None:
        """Rest, when a slice is over."""
        worked_s = self._loop.time() - self._since_s
        if worked_s >= SLICE_S:
            await asyncio.sleep(worked_s * self._rest())
            self.begin()


class _Run:
    """One look at the partitions of a coordinator. What a dry run learns is true only if its deletions were made."""

    def __init__(self, known_before: Mapping[Key, Known], *, is_dry_run: bool, pace: _Pace) -> None:
        self.known_before = known_before
        self.known: dict[Key, Known] = {}
        """The knowledge of the partitions that this run has looked at."""
        self.expired: dict[Key, Expired] = {}
        self.held: Sequence[HeldByTime] = ()
        self.is_dry_run = is_dry_run
        self.pace = pace

    def note(self, key: Key, look: LookedAt) -> None:
        """Count the findings of a look, which were deleted or would be."""
        self.known[key] = look.known
        before = self.expired.get(key)
        expired = Expired(*key, look.log_start, look.delete_to, look.batches, look.size_bytes)
        self.expired[key] = expired if before is None else before.joined(expired)


def held_by_time(known: Mapping[Key, Known], limit_ms: int, has_time_limit: Callable[[bytes], bool]) -> list[HeldByTime]:
    """Return the partitions whose oldest batch has a timestamp after `limit_ms`, so that retention by time deletes nothing of them."""
    # Only those are sorted: all that are known may be a hundred thousand, and this holds the event loop.
    return sorted(
        HeldByTime(*key, one.oldest_ms, one.oldest_end)
        for key, one in known.items()
        if one.oldest_ms is not None and one.oldest_ms > limit_ms and has_time_limit(key[0])
    )
