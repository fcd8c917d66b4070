"""Which moves of partitions the directory refuses, and what it says."""

from __future__ import annotations

from coordinator.core.commands import OrderMoves, WantedMove
from coordinator.core.directory.directory import Directory, Placement
from coordinator.core.directory.moving import decide_moves
from coordinator.core.moves import MOVES_LEVEL
from coordinator.kafka.batches import partition_key
from records.model import EarlierStretch, PlacedRange

TOPIC = bytes([7]) * 16


def test_of_a_partition_that_was_somewhere_twice_the_end_of_what_it_had_last_is_told() -> None:
    """What it had first may be deleted for long: its end would say that nothing is in the way any more."""
    key = partition_key(TOPIC, 0)
    ranges = (PlacedRange(first_partition=0, num_partitions=1, coordinator_id=1),)
    placed = Placement(topic_id=TOPIC, name="orders", ranges=ranges, confirmed=True, order_offset=1)
    ends = [EarlierStretch(coordinator_id=one, end_offset=end, move_id=end, time_ms=1) for one, end in ((5, 330), (2, 900), (5, 1779))]
    directory = Directory(schema_level=MOVES_LEVEL, placements={TOPIC: placed}, earlier={key: tuple(ends)})
    order = OrderMoves(moves=[WantedMove(topic_id=TOPIC, partition=0, to_coordinator=5)], eligible=frozenset({1, 2, 5}))
    records, [refused] = decide_moves(directory, order)
    assert records == []
    assert "its records up to offset 1779 still are" in str(refused.message)
