"""The place of a reader in one metadata partition, and its knowledge of the entry before that place.

A log can lose its end, and other entries can take the offsets. So an entry is read again, and compared, wherever that may have happened.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.log_entry import entry_hash
from coordinator.runtime.ports import LogEntry


class Cursor:
    """The place of the reading in one partition; a new `follow` makes a new cursor.

    `last_hash` identifies the entry before `wanted`, and `last` is that entry once one was read. While `is_repeating`, the next entry is
    that one, and not for the listener.
    `floor` is a log start offset: before it there is nothing to repeat.
    `epoch` is the leader epoch of the last entry, and `next_epoch` the one that a later entry may have: `last` was looked for after it.
    `controls` are the entries of control records that were found since the last repetition. While it `is_asking` for some, nothing is read;
    the next assignment `is_resuming` where it was asked.
    """

    __slots__ = (
        "controls", "epoch", "floor", "generation", "is_asking", "is_repeating", "is_resuming", "last", "last_hash", "next_epoch",
        "next_offset", "partition",
    )  # fmt: skip

    def __init__(self, partition: int, generation: int, next_offset: int, last_hash: bytes | None) -> None:
        self.partition = partition
        self.generation = generation
        self.next_offset = next_offset
        self.last: LogEntry | None = None
        self.last_hash = last_hash
        self.is_repeating = False
        self.floor = 0
        self.epoch: int | None = None
        self.next_epoch: int | None = None
        self.controls: dict[int, LogEntry] = {}
        self.is_asking = self.is_resuming = False

    @property
    def wanted(self) -> int:
        """The offset of the next entry for the listener."""
        return self.next_offset + self.is_repeating

    def is_the_last(self, entry: LogEntry) -> bool:
        """Whether an entry is, as far as is known, the one before the wanted one."""
        if self.last is not None:
            return entry == self.last
        return self.last_hash is None or (
            entry.offset == self.next_offset and entry_hash(entry.key or b"", entry.value or b"") == self.last_hash
        )

    def is_epoch_proven(self, epoch: int | None) -> bool:
        """Whether an entry of this other leader epoch follows the last one for certain; if not, the last one is to be read again."""
        if self.epoch is None or epoch == self.next_epoch:
            self.epoch = epoch
            return True
        self.next_epoch = epoch
        return False

    @property
    def knows_the_last(self) -> bool:
        """Whether an entry can be distinguished from the one before the wanted one."""
        return self.last is not None or self.last_hash is not None

    def take_controls(self, stop: int) -> list[LogEntry] | None:
        """Hand over the entries from the next offset to before `stop`; None unless all of them are known to be control records."""
        offsets = range(self.next_offset, stop)
        if any(offset not in self.controls for offset in offsets):
            return None
        return [self.controls.pop(offset) for offset in offsets]

    def found_controls(self, entries: Iterable[LogEntry]) -> None:
        """Continue where control records were asked for; these are at that place and later, and were just read from the log."""
        self.controls = {entry.offset: entry for entry in entries}
        self.is_asking, self.is_resuming = False, True

    def repeat(self) -> None:
        """Go back to the entry before the wanted one, unless control records were just found."""
        if self.is_resuming:
            self.is_resuming = False
            return
        self.controls = {}
        wanted = self.wanted
        self.is_repeating = wanted > self.floor
        self.next_offset = wanted - self.is_repeating
