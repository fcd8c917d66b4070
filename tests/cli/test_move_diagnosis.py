"""What doctor says of moves of partitions between coordinators."""

from __future__ import annotations

from cli.doctor.diagnosis import CHECK_ORDER, Health
from cli.doctor.moves import MOVE_MS_MAX, MOVES, diagnose_moves
from coordinator.client.calls.moves import MoveUnderWay
from coordinator.client.model import PartitionId

TOPIC = bytes(range(16))


def move(partition: int, *, age_ms: int = MOVE_MS_MAX + 5_000, waits_for: str = "") -> MoveUnderWay:
    return MoveUnderWay(PartitionId(TOPIC, partition), partition, 2, 3, age_ms, waits_for)


def test_a_move_that_does_not_end_is_named_with_what_it_waits_for() -> None:
    assert MOVES in CHECK_ORDER
    [found] = diagnose_moves([move(7, waits_for="coordinator 3 has no leader now"), move(8, age_ms=10)], {TOPIC: "orders"})
    assert found.health is Health.WARNING
    assert found.finding == "the move of orders:7 from coordinator 2 to 3 does not end for 65 s: coordinator 3 has no leader now"
    assert "coordinators 2 and 3" in found.remedy
    # It has not been begun.
    [found] = diagnose_moves([move(7)], {})
    assert found.finding == "the move of AAECAwQFBgcICQoLDA0ODw:7 from coordinator 2 to 3 does not end for 65 s"
    assert "other moves are before it" in found.remedy


def test_of_many_the_first_are_named_and_those_that_get_on_are_fine() -> None:
    found = diagnose_moves([move(one) for one in range(9)], {TOPIC: "orders"})
    assert len(found) == 6
    assert found[-1].finding == "4 more moves do not end"
    assert [(one.health, one.finding) for one in diagnose_moves([move(1, age_ms=10)], {})] == [
        (Health.OK, "1 partitions are moving to other coordinators")
    ]
    assert diagnose_moves([], {})[0].finding == "no partition is moving"
