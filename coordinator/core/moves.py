"""Moves of user partitions as values: the order of one, and what a coordinator has of a partition that moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from coordinator.kafka.batches import partition_key
from records.model import EarlierStretch

NO_MOVE = -1
MOVES_LEVEL = 2
"""From this schema level on partitions move: replicas of earlier versions cannot apply the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition that is to go on in another coordinator; the order is the id of the move."""

    move_id: int
    topic_id: bytes
    partition: int
    from_coordinator: int
    to_coordinator: int

    @property
    def key(self) -> bytes:
        """The partition's key."""
        return partition_key(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The end of a stretch: in which move, where the partition goes on, and when, by the log and by the id of the entry."""

    move_id: int
    to_coordinator: int
    time_ms: int
    entry_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What a coordinator has of a partition that came here, or went, by a move.

    `base_offset` is where it begins and `move_id` how it came, NO_MOVE for one that was created here. `earlier` are the stretches before
    it, the oldest first.
    """

    base_offset: int = 0
    move_id: int = NO_MOVE
    earlier: tuple[EarlierStretch, ...] = ()
    released: Released | None = None

    @property
    def newest_move(self) -> int:
        """The newest move that it took part in."""
        return self.move_id if self.released is None else self.released.move_id


WHOLE = Stretch()
"""A partition that never moved."""


def row_of_stretch(key: bytes, stretch: Stretch) -> dict[str, Any]:
    """A stretch as plain values."""
    return {"partition": key.hex(), **asdict(stretch)}


def stretch_of_row(row: dict[str, Any]) -> tuple[bytes, Stretch]:
    """The partition's key and the stretch of plain values."""
    given = dict(row)
    key, released, earlier = bytes.fromhex(given.pop("partition")), given.pop("released"), given.pop("earlier")
    return key, Stretch(
        **given,
        released=None if released is None else Released(**released),
        earlier=tuple(EarlierStretch(**one) for one in earlier),
    )
