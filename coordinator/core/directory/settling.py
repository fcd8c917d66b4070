"""Which moves of partitions were begun, from all that coordinators and the directory know of them after a restore. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.core.commands import KnownStretch
from coordinator.core.directory.directory import Directory
from coordinator.core.moves import NO_MOVE, Move
from coordinator.kafka.batches import partition_key, split_partition_key
from records.model import EarlierStretch


def known_moves(directory: Directory, known: Mapping[int, Sequence[KnownStretch]]) -> list[Move]:
    """Return the moves of which a step was taken, as far as anybody knows, by id; those of topics that the directory lacks are left out.

    An order of which no step is known is no move: the directory still has it, and it is carried out as any other.
    """
    found: dict[tuple[bytes, int], Move] = {}

    def note(topic_id: bytes, partition: int, move_id: int, from_coordinator: int, to_coordinator: int | None) -> None:
        if to_coordinator is not None and topic_id in directory.placements:
            found[partition_key(topic_id, partition), move_id] = Move(
                move_id=move_id,
                topic_id=topic_id,
                partition=partition,
                from_coordinator=from_coordinator,
                to_coordinator=to_coordinator,
            )

    def note_chain(topic_id: bytes, partition: int, earlier: Sequence[EarlierStretch], last: int | None) -> None:
        nexts = [*(one.coordinator_id for one in earlier[1:]), last]
        for one, to in zip(earlier, nexts, strict=False):
            note(topic_id, partition, one.move_id, one.coordinator_id, to)

    for key, earlier in directory.earlier.items():
        topic_id, partition = split_partition_key(key)
        placement = directory.placements.get(topic_id)
        note_chain(topic_id, partition, earlier, None if placement is None else placement.coordinator_of(partition))
    for coordinator_id, stretches in known.items():
        for topic_id, partition, stretch, _ in stretches:
            if stretch.move_id != NO_MOVE:
                note_chain(topic_id, partition, stretch.earlier, coordinator_id)
            if stretch.released is not None:
                note(topic_id, partition, stretch.released.move_id, coordinator_id, stretch.released.to_coordinator)
    return sorted(found.values(), key=lambda move: move.move_id)
