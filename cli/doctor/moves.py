"""The conclusions of `diskless doctor` about moves of partitions between coordinators: those that do not end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cli.doctor.diagnosis import Diagnosis, Health
from coordinator.kafka.names import topic_id_text

if TYPE_CHECKING:
    from coordinator.client.calls.moves import MoveUnderWay

MOVES = "moves"
MOVE_MS_MAX = 60_000
"""A move takes milliseconds when its coordinators have leaders, and waits for a fail-over otherwise."""
NAMED_MAX = 5


def diagnose_moves(moves: Sequence[MoveUnderWay], names: Mapping[bytes, str]) -> list[Diagnosis]:
    """Findings about the moves that are under way; `names` are those of topics by their ids."""
    late = [one for one in moves if one.age_ms > MOVE_MS_MAX]
    if not late:
        under_way = f"{len(moves)} partitions are moving to other coordinators" if moves else "no partition is moving"
        return [Diagnosis(health=Health.OK, check=MOVES, finding=under_way)]
    return [_late(one, names) for one in late[:NAMED_MAX]] + (
        []
        if len(late) <= NAMED_MAX
        else [_warning(f"{len(late) - NAMED_MAX} more moves do not end", "`diskless partitions moves` lists them")]
    )


def _late(one: MoveUnderWay, names: Mapping[bytes, str]) -> Diagnosis:
    topic_id, partition = one.partition
    where = f"{names.get(topic_id, topic_id_text(topic_id))}:{partition} from coordinator {one.from_coordinator} to {one.to_coordinator}"
    finding = f"the move of {where} does not end for {one.age_ms // 1000} s"
    if not one.waits_for:
        remedy = "other moves are before it: see those; the log of the node that leads coordinator 0 tells of each that is done"
        return _warning(finding, remedy)
    both = f"{one.from_coordinator} and {one.to_coordinator}"
    return _warning(
        f"{finding}: {one.waits_for}",
        f"see that coordinators {both} have leaders that answer (`diskless coordinator status`); it goes on by itself then, and commits to"
        " the partition may be refused until it ends. An order cannot be taken back",
    )


def _warning(finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.WARNING, check=MOVES, finding=finding, remedy=remedy)
