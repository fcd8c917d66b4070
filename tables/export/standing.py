"""How far an export is: by partition, in records and in the time that retention leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tables.export.source import PartitionBounds
from tables.export.target import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportStanding:
    """A partition: the next offset to export, and the bounds of the log. `seconds_left` is None when nothing is deleted by age."""

    partition: int
    next_offset: int
    log_start_offset: int
    log_end_offset: int
    seconds_left: float | None

    @property
    def lag(self) -> int:
        """The records that can still be exported."""
        return max(0, self.log_end_offset - max(self.next_offset, self.log_start_offset))

    @property
    def lost(self) -> int:
        """The records that were deleted before they were exported."""
        return max(0, self.log_start_offset - self.next_offset)


def standings(position: Position, bounds: Sequence[PartitionBounds], left_s: Mapping[int, float]) -> list[ExportStanding]:
    """Return where an export is, whose position has every partition."""
    return [
        ExportStanding(
            partition=one.partition,
            next_offset=position[one.partition],
            log_start_offset=one.start,
            log_end_offset=one.end,
            seconds_left=left_s.get(one.partition),
        )
        for one in bounds
    ]
