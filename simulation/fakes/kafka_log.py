"""The in-memory metadata topic of the fakes: logs with a start, an end and, on demand, holes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from coordinator.runtime.ports import LogEntry


class Fate(Enum):
    """The fate of one produced entry."""

    DELIVER = "it lands and is reported"
    LOSE_REPORT = "it lands; the report never comes"
    FAIL_AFTER_LANDING = "it lands; the report says it failed"
    DROP = "it does not land; the report says so; later entries land all the same"
    DROP_SILENTLY = "it does not land and nobody hears of it; later entries land all the same"
    DOUBLE = "it lands twice; the first landing is reported"
    LATE_REPORT = "it lands; its report, and with it those of later entries, comes late"
    NO_OFFSET = "it lands; its report does not say where"
    FURTHER_ON = "it lands; its report names an offset further on"
    LATE = "it lands after later ones of the same producer, reported where it landed"


FateOf = Callable[[str, int, int, bytes], Fate]
"""(node, partition, seq, value) -> fate."""


@dataclass(slots=True, kw_only=True)
class Faults:
    """The injected faults and delays, in milliseconds (least, most). Tests change it while running."""

    network_ms: tuple[float, float] = (0.1, 1.0)
    rebalance_ms: tuple[float, float] = (2.0, 10.0)
    late_ms: float = 50.0
    fate_of: FateOf = field(default=lambda _node, _partition, _seq, _value: Fate.DELIVER)
    refuse_produce: Callable[[str, int, int], str | None] = field(default=lambda _node, _partition, _seq: None)
    """A text refuses the entry with `ProduceRefused`."""


class FakeLog:
    """One partition's log; a hole is an offset that readers never see, like an entry that a broker lost."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.cuts: list[int] = []
        """Where the log ended after each cut: a broker tells a reader that comes from behind such an end that its place is gone."""
        self._slots: list[LogEntry | None] = []

    @property
    def end_offset(self) -> int:
        """The offset the next entry gets."""
        return len(self._slots)

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> int:
        """Append an entry and return its offset."""
        offset = len(self._slots)
        self._slots.append(LogEntry(offset, timestamp_ms, key, value))
        return offset

    def append_hole(self) -> int:
        """Use up one offset without an entry."""
        self._slots.append(None)
        return len(self._slots) - 1

    def delete_before(self, offset: int) -> None:
        """Kafka's DeleteRecords; the offset must lie within the log."""
        if not 0 <= offset <= self.end_offset:
            raise ValueError(f"offset {offset} is outside of the log [{self.start_offset}, {self.end_offset})")
        self.start_offset = max(self.start_offset, offset)

    def cut(self, end_offset: int) -> None:
        """Lose the tail, as when a replica that had not got it becomes the leader of the partition."""
        if end_offset < self.start_offset:
            raise ValueError(f"a log cannot end at {end_offset}, before its start {self.start_offset}: only what is committed is deleted")
        self.cuts.append(end_offset)
        del self._slots[end_offset:]

    def read(self, offset: int, entries_max: int) -> list[LogEntry]:
        """Return up to `entries_max` entries from `offset` on, holes and deleted ones left out."""
        found = []
        for slot in self._slots[max(offset, self.start_offset) :]:
            if slot is not None:
                found.append(slot)
                if len(found) == entries_max:
                    break
        return found

    def entries(self) -> list[LogEntry]:
        """Return every entry still in the log."""
        return [slot for slot in self._slots[self.start_offset :] if slot is not None]
