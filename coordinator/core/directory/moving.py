"""Decisions of the directory on moves of partitions: which are ordered, and that one is done.

An order is carried out to its end by whoever leads the directory, or ends with its topic. Nothing takes it back: a partition is released
once, and a delayed request of an order that was taken back could release it when nobody lets it go on.
"""

from __future__ import annotations

from coordinator.core.commands import OK, EndMove, OrderMoves, Outcome, SettleMoves, WantedMove
from coordinator.core.directory.directory import Directory, why_unknown
from coordinator.core.moves import MOVES_LEVEL
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from records.model import MovesSettled, PartitionMoved, PartitionMoving, Record

MOVES_UNDER_WAY_MAX = 1_000
"""Orders that are not carried out; each is an item of the directory's stored content."""


def decide_moves(directory: Directory, command: OrderMoves) -> tuple[list[Record], list[Outcome]]:
    """Order moves; one to where the partition is, or is on its way to, is a success and logs nothing."""
    outcomes: list[Outcome] = []
    records: list[Record] = []
    named: set[bytes] = set()
    for wanted in command.moves:
        key = partition_key(wanted.topic_id, wanted.partition)
        placement = directory.placements.get(wanted.topic_id)
        owner = None if placement is None else placement.coordinator_of(wanted.partition)
        refusal = _refusal(directory, command, wanted, owner)
        if refusal is None and key in named:
            refusal = _invalid(directory, wanted, "it is in the request twice; name it once")
        named.add(key)
        under_way = directory.moves.get(key)
        if refusal is not None:
            outcomes.append(refusal)
        elif under_way is not None and under_way.to_coordinator != wanted.to_coordinator:
            outcomes.append(_invalid(directory, wanted, f"it is moving to coordinator {under_way.to_coordinator}; wait until it is there"))
        elif under_way is not None or owner is None or owner == wanted.to_coordinator:
            outcomes.append(OK)
        elif len(directory.moves) + len(records) >= MOVES_UNDER_WAY_MAX:
            text = f"{MOVES_UNDER_WAY_MAX} moves are under way, and more are not allowed; wait for some"
            outcomes.append(_invalid(directory, wanted, text))
        else:
            outcomes.append(OK)
            records.append(
                PartitionMoving(
                    topic_id=wanted.topic_id,
                    partition=wanted.partition,
                    from_coordinator=owner,
                    to_coordinator=wanted.to_coordinator,
                    move_id=directory.last_move_id + len(records) + 1,
                )
            )
    return [] if command.is_dry_run else records, outcomes


def _refusal(directory: Directory, command: OrderMoves, wanted: WantedMove, owner: int | None) -> Outcome | None:
    if directory.schema_level < MOVES_LEVEL:
        text = f"schema level {directory.schema_level} is in force, and partitions move from level {MOVES_LEVEL} on"
        return _invalid(directory, wanted, text)
    placement = directory.placements.get(wanted.topic_id)
    if placement is None:
        return Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=why_unknown(directory, wanted.topic_id))
    if owner is None:
        message = f"topic {placement.name} has no partition {wanted.partition}; it has {placement.num_partitions}"
        return Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message)
    if wanted.to_coordinator not in command.eligible:
        message = f"coordinator {wanted.to_coordinator} is not known, or was never led; those that are: {sorted(command.eligible)}"
        return _invalid(directory, wanted, message)
    if any(one.classic_pending and one.first_partition <= wanted.partition < one.first_partition + one.num_partitions
           for one in placement.ranges):  # fmt: skip
        return _invalid(directory, wanted, "it is, or was, a classic partition, and those do not move")
    key = partition_key(wanted.topic_id, wanted.partition)
    # It may have been there twice: what it had last is what is left longest.
    for one in () if key in command.returning else reversed(directory.earlier.get(key, ())):
        if one.coordinator_id == wanted.to_coordinator:
            text = f"it was there before, and its records up to offset {one.end_offset} still are; it can return once they are deleted"
            return _invalid(directory, wanted, text)
    return None


def _invalid(directory: Directory, wanted: WantedMove, message: str) -> Outcome:
    placement = directory.placements.get(wanted.topic_id)
    where = f"{topic_id_text(wanted.topic_id) if placement is None else placement.name}:{wanted.partition}"
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"{where} does not move to coordinator {wanted.to_coordinator}: {message}")


def decide_end_of_move(directory: Directory, command: EndMove) -> tuple[list[Record], Outcome]:
    """Log that a move is done, if that is still news."""
    move = directory.moves.get(partition_key(command.topic_id, command.partition))
    if move is None or move.move_id != command.move_id:
        return [], OK
    moved = PartitionMoved(
        topic_id=command.topic_id,
        partition=command.partition,
        move_id=command.move_id,
        earlier=list(command.earlier),
    )
    return [moved], OK


def decide_settle(directory: Directory, command: SettleMoves) -> tuple[list[Record], Outcome]:
    """After a restore, say where partitions that moved are; each is ordered again and done, for the directory may not know of the order."""
    if directory.are_moves_settled:
        return [], OK
    records: list[Record] = []
    for order, moved in command.moves:
        if order.topic_id in directory.placements:
            records += [order, moved]
    return [*records, MovesSettled(last_move_id=command.last_move_id)], OK
