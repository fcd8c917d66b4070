"""One partition of a classic topic becomes diskless, in an order that loses no record and rejects no producer wrongly.

    refuse writes -> no open transaction, high watermark == log end, nothing moves -> last batches of producers -> settle -> B0 = log end
    -> init -> the log end is still B0

State is only in Kafka and in the coordinator, so a driver that was killed is repeated from the first step: as long as B0 is unset nothing
but the refusal of writes has happened, and once it is set it is what the log says. Rival drivers see one log, and the coordinator takes
one B0. Invariant: B0 is proposed only when it was the log end at two looks in one leadership, with the batches read in between.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.errors import InvalidRequest, ServiceError
from coordinator.kafka.errors import ErrorCode
from migration.calls import MigrationCalls
from migration.classic import (
    ClassicPartition,
    ClassicState,
    MigrationRefused,
    ProducerBatches,
    WrittenPastBoundary,
)

INITS_AT_ONCE: Final = 4
"""Requests to the coordinators under way together: 24 take as long as 3, and raise the p99 of other commits to 4.4 times (decision 030)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedPartition:
    """A partition that is diskless from `start_offset` (B0) on. The counts are those of this driver's init, 0 when B0 was set before."""

    name: str
    partition: int
    start_offset: int
    prefix_start: int
    leader_epoch: int
    was_initialised: bool
    producers: int = 0
    batches: int = 0
    producers_unread: tuple[int, ...] = ()


class MigrationDriver:
    """Migrates partitions, any number at a time, of which `INITS_AT_ONCE` are initialised at a time."""

    def __init__(
        self,
        coordinator: MigrationCalls,
        *,
        still_s: float = 3.0,
        drain_timeout_s: float = 60.0,
        look_every_s: float = 0.1,
    ) -> None:
        """`still_s` is how long a log must not move before its end counts, `drain_timeout_s` how long that is waited for."""
        self._coordinator = coordinator
        self._still_s = still_s
        self._drain_timeout_s = drain_timeout_s
        self._look_every_s = look_every_s
        self._init_slots = asyncio.Semaphore(INITS_AT_ONCE)

    async def migrate(self, partition: ClassicPartition, *, planned_epoch: int | None = None) -> MigratedPartition:
        """Take all steps; a repetition takes those that are missing.

        An operator's reset records an epoch above Kafka's. With a `planned_epoch`, the one that was recorded when an operator decided to
        migrate, B0 is proposed with the recorded epoch, and a reset since then is the end. Without, it is waited until Kafka has
        reached the recorded epoch, as a leader must.

        Raises `MigrationRefused`, `WrittenPastBoundary` when records stand at or above B0, `ServiceError` of the coordinator, and what the
        port raises.
        """
        known = await self._describe(partition, planned_epoch)
        await partition.refuse_writes()
        while known.state == "pending":
            known = await self._describe(partition, planned_epoch)
            if known.state != "pending":
                break  # a rival was quicker
            drained = await self._drained(partition, known.leader_epoch if planned_epoch is None else 0)
            read = await partition.last_batches(drained)
            settled = await partition.settle(drained)
            if _is_same(settled, drained) and (set_ := await self._initialise(partition, known, settled, read)) is not None:
                await check_end(partition, set_.start_offset)
                return set_
        await check_end(partition, known.start_offset)
        return MigratedPartition(
            name=partition.name,
            partition=partition.partition,
            start_offset=known.start_offset,
            prefix_start=known.prefix_start,
            leader_epoch=known.leader_epoch,
            was_initialised=True,
        )

    async def _describe(self, partition: ClassicPartition, planned_epoch: int | None = None) -> DisklessLogState:
        found = await self._coordinator.describe_diskless_log(partition.topic_id, partition.partition)
        if found.state == "born":
            raise MigrationRefused(f"{partition.name} was created as a diskless partition: there is nothing to migrate")
        if found.state == "pending" and planned_epoch is not None and found.leader_epoch > planned_epoch:
            raise MigrationRefused(
                f"{partition.name} was reset since this migration was planned (epoch {found.leader_epoch} is recorded, it was "
                f"{planned_epoch}): somebody takes the migration back, or did a reset by hand"
            )
        return found

    async def _drained(self, partition: ClassicPartition, epoch_min: int) -> ClassicState:
        """Wait until the log has come to rest, in a leadership from `epoch_min` on. Raises `MigrationRefused` when it does not in time."""
        now_s = asyncio.get_running_loop().time
        end_s = now_s() + self._drain_timeout_s
        state, moves = await partition.look(), 0
        still_since_s = now_s()
        while (obstacle := obstacle_to(state, epoch_min)) is not None or now_s() - still_since_s < self._still_s:
            if now_s() >= end_s:
                raise MigrationRefused(
                    f"{partition.name} did not come to rest within {self._drain_timeout_s:g} s: {obstacle or _moving(state, moves)}"
                )
            await asyncio.sleep(self._look_every_s)
            seen = await partition.look()
            if not _is_same(seen, state):
                moves += seen.log_end_offset != state.log_end_offset
                still_since_s = now_s()
            state = seen
        return state

    async def _initialise(
        self, partition: ClassicPartition, known: DisklessLogState, state: ClassicState, read: ProducerBatches
    ) -> MigratedPartition | None:
        """Propose B0; None when another leadership or another B0 was quicker. Raises `ServiceError`."""
        # The recorded epoch was read before the log was looked at, so a reset since then fences this proposal.
        epoch = max(state.leader_epoch, known.leader_epoch)
        try:
            async with self._init_slots:
                await self._coordinator.init_diskless_log(
                    partition.topic_id,
                    partition.partition,
                    start_offset=state.log_end_offset,
                    prefix_start=state.log_start_offset,
                    leader_epoch=epoch,
                    producers=read.producers,
                )
        except InvalidRequest:
            if (await self._describe(partition)).state == "pending":
                raise
            return None
        except ServiceError as error:
            if error.code is not ErrorCode.FENCED_LEADER_EPOCH:
                raise
            await asyncio.sleep(self._look_every_s)
            return None
        return MigratedPartition(
            name=partition.name,
            partition=partition.partition,
            start_offset=state.log_end_offset,
            prefix_start=state.log_start_offset,
            leader_epoch=epoch,
            was_initialised=False,
            producers=len(read.producers),
            batches=sum(len(one.batches) for one in read.producers),
            producers_unread=read.unread,
        )


async def check_end(partition: ClassicPartition, start_offset: int) -> None:
    """Look whether a classic log has no record at or above B0, and reaches up to it.

    A transaction that had not written yet when its writer was stopped ends with a marker, which may stand there. Of records that Kafka has
    deleted meanwhile nothing is known.
    Raises `WrittenPastBoundary`; `MigrationRefused` when the log ends before B0; what the port raises.
    """
    name, state = partition.name, await partition.look()
    end, first = state.log_end_offset, max(start_offset, state.log_start_offset)
    if end > first and await partition.count_records(first, state):
        raise WrittenPastBoundary(
            f"{name}: the classic log ends at {end}, the diskless log begins at {start_offset}: a writer was not stopped, or the start was "
            f"set by hand, and offsets {first} to {end - 1} of the classic log are read by nobody; stop the writer, and write these "
            "records again to the diskless topic"
        )
    if end < start_offset:
        raise MigrationRefused(
            f"{name}: the classic log ends at {end}, before the diskless log begins, at {start_offset}: the log has lost its end, or "
            "another log was migrated; look at `diskless migration state` and `diskless migration repair`"
        )


def _is_same(one: ClassicState, other: ClassicState) -> bool:
    return (one.leader_epoch, one.log_end_offset) == (other.leader_epoch, other.log_end_offset) and obstacle_to(one) is None


def obstacle_to(state: ClassicState, epoch_min: int = 0) -> str | None:
    """Return why the end of a log cannot be a boundary yet."""
    if state.leader_epoch < epoch_min:
        return (
            f"the leader of epoch {state.leader_epoch} answers, the coordinator knows of epoch {epoch_min}; wait until the brokers agree "
            "on the leader"
        )
    if state.open_transactions:
        return open_text(state)
    if state.high_watermark != state.log_end_offset:
        return (
            f"records {state.high_watermark} to {state.log_end_offset - 1} are not replicated yet; look at the replicas of the partition "
            "that are not in sync"
        )
    return None


def open_text(state: ClassicState) -> str:
    """Return what stands in the way when transactions are open, and what to do."""
    first = state.open_transactions[0]
    more = f" and {len(state.open_transactions) - 1} more" if len(state.open_transactions) > 1 else ""
    return (
        f"the transaction of producer {first.producer_id}, open since offset {first.first_offset}{more}; let its application end it, wait "
        "for its transaction.timeout.ms, or abort it (kafka-transactions.sh abort)"
    )


def _moving(state: ClassicState, moves: int) -> str:
    return f"its end moved {moves} times, to {state.log_end_offset}; stop its writers (super users of Kafka are not stopped by ACLs)"
