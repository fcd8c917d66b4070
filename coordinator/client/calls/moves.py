"""MovePartitions, to the leader of the directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from coordinator.client.calls.declared import OneByOne, by_directory, read_as
from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import PartitionId, Result
from coordinator.client.routing.routed_call import HEALING
from coordinator.operations.moves import MOVE_PARTITIONS
from coordinator.protocol.messages import MovePartitionsPartition, MovePartitionsRequest, MovePartitionsResponse


class PartitionMove(NamedTuple):
    """A partition, and the coordinator in which it is to go on."""

    partition: PartitionId
    to_coordinator: int


class MoveUnderWay(NamedTuple):
    """A move that was ordered and is not done. `waits_for` says why the last attempt at its next step failed; empty if none has."""

    partition: PartitionId
    move_id: int
    from_coordinator: int
    to_coordinator: int
    age_ms: int
    waits_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedMoves(Result):
    """The refusal of each move that was asked for, in order, and the moves that are under way."""

    refusals: tuple[Refusal, ...] = ()
    under_way: tuple[MoveUnderWay, ...] = ()


def move_partitions(moves: Sequence[PartitionMove], *, only_check: bool) -> OneByOne[OrderedMoves]:
    """Order moves, or only check them; without any ask which are under way.

    Repeating it is harmless, and done while the leader of the directory has not decided: it says so of each move.
    """
    parts = tuple(MovePartitionsPartition(topic_id=one.topic_id, partition_index=one.partition, to_coordinator_id=to) for one, to in moves)

    def read(response: MovePartitionsResponse) -> OrderedMoves:
        ordered = read_as(
            OrderedMoves,
            response,
            refusals=tuple(refusal_of(one.error_code, one.error_message) for one in response.partitions),
            under_way=tuple(
                MoveUnderWay(
                    PartitionId(one.topic_id, one.partition_index),
                    one.move_id,
                    one.from_coordinator_id,
                    one.to_coordinator_id,
                    one.age_ms,
                    one.waits_for or "",
                )
                for one in response.under_way
            ),
        )
        undecided = next((one for one in ordered.refusals if one.code in HEALING), None)
        return ordered if undecided is None else replace(ordered, refusal=undecided)

    return by_directory(
        MOVE_PARTITIONS,
        lambda timeout_ms: MovePartitionsRequest(partitions=parts, only_check=only_check, timeout_ms=timeout_ms),
        OrderedMoves,
        read,
    )
