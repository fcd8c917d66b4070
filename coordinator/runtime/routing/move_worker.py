"""Carries out moves of partitions that the directory has ordered, and finds out after a restore where partitions that moved go on.

A move has three steps, each of which may be repeated: the coordinator that has the partition releases it and says what the next one has
to know, that one adopts it, and the directory logs that it owns it. From the release on nobody takes batches of the partition until the
third step is known, and readers are served from where batches are. Who leads the directory next begins again at the first step; steps that
were taken already are answered as they were.

The coordinator that is to have the partition is asked before the release whether it has a leader that answers: a release is not taken back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Final, cast

from coordinator.core.commands import (
    AdoptPartition,
    EndMove,
    Outcome,
    ReleasedPartition,
    ReleasePartition,
    SettleMoves,
)
from coordinator.core.directory.directory import DIRECTORY_PARTITION, Directory
from coordinator.core.directory.settling import known_moves
from coordinator.core.moves import Move
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.operations.moves import adopt_request, release_request, released_of
from coordinator.protocol.messages import (
    AdoptPartitionResponse,
    ReleasePartitionResponse,
)
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.routing.leader_calls import NotYet, call_leader
from coordinator.runtime.routing.move_progress import MovesUnderWay
from coordinator.runtime.routing.stretch_questions import stretches_of
from records.model import EarlierStretch, PartitionMoved, PartitionMoving

LOG = logging.getLogger("coordinator.moves")

STEP_TIMEOUT_MS: Final = 5_000
RETRY_S: Final = (0.05, 0.5)
MOVES_AT_ONCE: Final = 4
"""A move whose coordinators have no leaders holds up no more than itself."""
NOT_HERE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class MoveWorker:
    """See the module's text; at work while replica 0 leads here."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._replicas = context.replicas
        self._view = context.view
        self._carrying: dict[bytes, asyncio.Task[None]] = {}
        self._settling: asyncio.Task[None] | None = None
        self.progress = MovesUnderWay(lambda: asyncio.get_running_loop().time(), on_moved=context.telemetry.partition_moved)
        self._said = ""

    async def close(self) -> None:
        """Stop all work; what is left is the next leader's."""
        tasks = [*self._carrying.values(), *([] if self._settling is None else [self._settling])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def look(self, directory: Directory) -> None:
        """See what there is to carry out; the directory is led here."""
        loop = asyncio.get_running_loop()
        if not directory.are_moves_settled:
            if self._settling is None:
                self._settling = loop.create_task(self._settle(), name="settle-moves")
                self._settling.add_done_callback(self._settled)
            return
        self.progress.look(directory.moves.values(), self._carrying)
        for key, move in sorted(directory.moves.items(), key=lambda item: item[1].move_id):
            if len(self._carrying) >= MOVES_AT_ONCE:
                break
            if key not in self._carrying:
                task = loop.create_task(self._carry_out(move), name=f"move-{move.move_id}")
                self._carrying[key] = task
                task.add_done_callback(partial(self._carried_out, key))

    def _look_again(self) -> None:
        directory = self._view.directory
        if directory is not None and self._replicas.is_leading(DIRECTORY_PARTITION):
            self.look(directory)

    def _carried_out(self, key: bytes, task: asyncio.Task[None]) -> None:
        del self._carrying[key]
        self._ended(task)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._settling = None
        self._ended(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            LOG.error("moving partitions failed error=%r", error, exc_info=error)
            asyncio.get_running_loop().call_later(RETRY_S[1], self._look_again)
            return
        self._look_again()

    def _is_open(self, move: Move) -> bool:
        directory = self._view.directory
        return self._replicas.is_leading(DIRECTORY_PARTITION) and directory is not None and directory.moves.get(move.key) == move

    def _older(self, move: Move) -> tuple[int, ...]:
        """The coordinators that will have older batches of the partition: the next leader has to know what was committed there."""
        return (*(one.coordinator_id for one in self._view.earlier_of(move.key)), move.from_coordinator)

    async def _pause(self) -> None:
        await asyncio.sleep(self._context.rng.uniform(*RETRY_S))

    def _say(self, text: str) -> None:
        """Tell once of a state that lasts."""
        if text != self._said:
            LOG.info("%s", text)
        self._said = text

    # ---- one move

    async def _carry_out(self, move: Move) -> None:
        """Take the steps until the move is done, its topic is deleted, or another node leads the directory."""
        while self._is_open(move):
            try:
                await self._take_steps(move)
                return
            except NotYet as not_yet:
                self.progress.delayed(move, str(not_yet))
                self._say(f"move {move.move_id} of {topic_id_text(move.topic_id)}:{move.partition} waits: {not_yet}")
                await self._pause()
        if self._replicas.is_leading(DIRECTORY_PARTITION):
            self.progress.dropped(move)

    async def _take_steps(self, move: Move) -> None:
        """Raises `NotYet`."""
        await stretches_of(self._context, move.to_coordinator, beside=self._older(move))
        self.progress.asks_for_release(move)
        released = await self._release(move.from_coordinator, _release_of(move))
        if released.outcome.error is not ErrorCode.NONE:
            raise NotYet(f"{released.outcome.error.name}: {released.outcome.message}")
        await self._adopt(move, released)
        command = EndMove(topic_id=move.topic_id, partition=move.partition, move_id=move.move_id, earlier=released.earlier)
        ended = cast(Outcome, await self._replicas[DIRECTORY_PARTITION].ask(command, STEP_TIMEOUT_MS))
        if ended.error is not ErrorCode.NONE:
            raise NotYet(f"{ended.error.name}: {ended.message}")
        LOG.info(
            "partition moved topic_id=%s partition=%d from=%d to=%d move=%d offset=%d producers=%d seconds=%.3f",
            topic_id_text(move.topic_id),
            move.partition,
            move.from_coordinator,
            move.to_coordinator,
            move.move_id,
            released.end_offset,
            len({one.producer_id for one in released.producers}),
            self.progress.moved(move),
        )

    async def _adopt(self, move: Move, released: ReleasedPartition) -> None:
        """Raises `NotYet`."""
        adopt = AdoptPartition(topic_id=move.topic_id, partition=move.partition, move_id=move.move_id, released=released)
        if self._replicas.is_leading(move.to_coordinator):
            adopted = cast(Outcome, await self._replicas[move.to_coordinator].ask(adopt, STEP_TIMEOUT_MS))
        else:
            request = adopt_request(adopt, move.to_coordinator, STEP_TIMEOUT_MS)
            response = await call_leader(self._context, move.to_coordinator, request, AdoptPartitionResponse)
            adopted = Outcome(error=ErrorCode(response.error_code), message=response.error_message)
        if adopted.error is not ErrorCode.NONE:
            raise NotYet(f"{adopted.error.name}: {adopted.message}")

    async def _release(self, coordinator_id: int, command: ReleasePartition) -> ReleasedPartition:
        """Raises `NotYet` when the coordinator did not answer."""
        if self._replicas.is_leading(coordinator_id):
            answer = await self._replicas[coordinator_id].ask(command, STEP_TIMEOUT_MS)
            return cast(list[ReleasedPartition], answer)[0]
        request = release_request(command, coordinator_id, STEP_TIMEOUT_MS)
        return released_of(await call_leader(self._context, coordinator_id, request, ReleasePartitionResponse))

    # ---- after a restore

    async def _settle(self) -> None:
        """Find out where partitions that moved go on, until the directory knows: snapshots of coordinators are of several moments."""
        while self._replicas.is_leading(DIRECTORY_PARTITION) and not self._view.are_moves_settled:
            try:
                await self._find_out()
            except NotYet as not_yet:
                self._say(f"where partitions that moved go on is not known yet: {not_yet}")
                await self._pause()

    async def _find_out(self) -> None:
        """Raises `NotYet`."""
        directory = self._view.directory
        if directory is None:
            raise NotYet("the directory is being loaded")
        known = {one: await stretches_of(self._context, one) for one in self._replicas.ids()}
        by_partition: defaultdict[bytes, list[Move]] = defaultdict(list)
        for move in known_moves(directory, known):
            by_partition[move.key].append(move)
        settled = [done for moves in by_partition.values() if (done := await self._end_again(moves)) is not None]
        # Ids of moves of topics that the directory lacks are not given again either.
        newest = [stretch.newest_move for stretches in known.values() for _, _, stretch, _ in stretches]
        command = SettleMoves(moves=tuple(settled), last_move_id=max([directory.last_move_id, *newest]))
        outcome = cast(Outcome, await self._replicas[DIRECTORY_PARTITION].ask(command, STEP_TIMEOUT_MS))
        if outcome.error is not ErrorCode.NONE:
            raise NotYet(f"{outcome.error.name}: {outcome.message}")
        LOG.info("the log was restored, and it is known where partitions that moved go on user_partitions=%d", len(settled))

    async def _end_again(self, moves: list[Move]) -> tuple[PartitionMoving, PartitionMoved] | None:
        """Take the steps of all moves of a partition once more, the oldest first, and say where it is.

        A coordinator whose snapshot is older than the end of its part releases the partition now, earlier than it did: what it took behind
        that is lost, and offsets are missing there. One that has nothing of the partition gets it from the one before, or is left out.
        Raises `NotYet`.
        """
        ends: list[EarlierStretch] = []
        last: tuple[Move, ReleasedPartition] | None = None
        for move in moves:
            released = await self._release(move.from_coordinator, _release_of(move))
            if released.outcome.error in NOT_HERE:
                if last is None or last[0].to_coordinator != move.from_coordinator:
                    continue
                # Its snapshot is older than its adoption: it gets the partition from the one before.
                await self._adopt(*last)
                released = await self._release(move.from_coordinator, _release_of(move))
            if released.outcome.error not in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST):
                raise NotYet(f"{released.outcome.error.name}: {released.outcome.message}")
            if released.outcome.error is ErrorCode.NONE:  # another one took part in a later move, with nothing left of this one
                ends.append(released.earlier[-1])
                last = move, replace(released, earlier=tuple(ends))
        if last is None:
            return None
        move, released = last
        await self._adopt(move, released)
        order = PartitionMoving(
            topic_id=move.topic_id,
            partition=move.partition,
            from_coordinator=move.from_coordinator,
            to_coordinator=move.to_coordinator,
            move_id=move.move_id,
        )
        return order, PartitionMoved(topic_id=move.topic_id, partition=move.partition, move_id=move.move_id, earlier=ends)


def _release_of(move: Move) -> ReleasePartition:
    return ReleasePartition(topic_id=move.topic_id, partition=move.partition, move_id=move.move_id, to_coordinator=move.to_coordinator)
