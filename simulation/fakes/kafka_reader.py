"""The log reader of the in-memory Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.core.log_entry import entry_hash, size_of
from coordinator.runtime.ports import LogBroken, LogListener
from simulation.fakes.kafka_log import FakeLog

if TYPE_CHECKING:
    from simulation.fakes.kafka import FakeNode

FETCH_ENTRIES_MAX = 500


@dataclass(slots=True)
class _Cursor:
    log: FakeLog | None
    cuts: int
    generation: int
    next_offset: int
    last_hash: bytes | None


class FakeLogReader:
    """`LogReader` over the in-memory logs."""

    def __init__(self, node: FakeNode, listener: LogListener) -> None:
        self._node = node
        self._kafka = node.kafka
        self._listener = listener
        self._cursors: dict[int, _Cursor] = {}
        self._due: set[int] = set()
        self._kafka.register(self)

    def start(self) -> None:
        """Do nothing; the pair of `close`."""

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Stop reading."""
        self._cursors.clear()
        self._kafka.forget(self)
        return True

    def follow(self, partition: int, next_offset: int, generation: int, last_hash: bytes | None = None) -> None:
        """(Re)start reading a partition at `next_offset`, behind the entry that `last_hash` identifies."""
        log = self._kafka.log(partition)
        self._cursors[partition] = _Cursor(log, 0 if log is None else len(log.cuts), generation, next_offset, last_hash)
        self._schedule(partition)

    def unfollow(self, partition: int) -> None:
        """Stop reading a partition."""
        self._cursors.pop(partition, None)

    def hurry(self, partition: int, is_urgent: bool) -> None:
        """Do nothing: entries are always delivered as they come."""

    def deliver(self) -> None:
        """Do nothing: no entries wait."""

    def wake(self) -> None:
        """Look again at every followed partition that has news."""
        for partition, cursor in self._cursors.items():
            log = self._kafka.log(partition)
            if log is None or cursor.next_offset != log.end_offset or len(log.cuts) != cursor.cuts:
                self._schedule(partition)

    def _schedule(self, partition: int) -> None:
        if partition not in self._due:
            self._due.add(partition)
            self._kafka.loop.call_later(self._kafka.network_delay_s(), self._fetch, partition)

    def _fetch(self, partition: int) -> None:
        self._due.discard(partition)
        cursor = self._cursors.get(partition)
        log = self._kafka.log(partition)
        if cursor is None or log is None or not self._node.is_up or not self._kafka.is_available or partition in self._kafka.unanswered:
            return
        where = f"offset {cursor.next_offset} is not in the log, which holds [{log.start_offset}, {log.end_offset})"
        if cursor.next_offset < log.start_offset:
            self._break(partition, cursor, LogBroken.BELOW_START, where)
            return
        if cursor.next_offset > log.end_offset:
            self._break(partition, cursor, LogBroken.PAST_END, where)
            return
        if log is cursor.log and any(end_offset < cursor.next_offset for end_offset in log.cuts[cursor.cuts :]):
            # A broker knows the reader's leader epoch, and where that ended.
            self._break(partition, cursor, LogBroken.CUT, f"the log was cut before offset {cursor.next_offset}")
            return
        last_hash, cursor.last_hash = cursor.last_hash, None
        if last_hash is not None and log.start_offset < cursor.next_offset:
            place = cursor.next_offset - 1
            hashes = [entry_hash(last.key or b"", last.value or b"") for last in log.read(place, 1) if last.offset == place]
            if hashes != [last_hash]:
                self._break(partition, cursor, LogBroken.CUT, f"entry {place} is not the one that was read")
                return
        cursor.log, cursor.cuts = log, len(log.cuts)
        entries = log.read(cursor.next_offset, FETCH_ENTRIES_MAX)
        good = [entry for place, entry in enumerate(entries, cursor.next_offset) if entry.offset == place]
        first_bad = entries[len(good)].offset if len(good) < len(entries) else None
        cursor.next_offset += len(good)
        expected = cursor.next_offset
        if good:
            self._listener.on_entries(partition, cursor.generation, good, size_of(good))
        if self._cursors.get(partition) is not cursor:
            return  # the listener followed anew or stopped
        if first_bad is not None:
            self._break(partition, cursor, LogBroken.GAP, f"expected offset {expected}, read {first_bad}")
        elif good and expected < log.end_offset:
            self._schedule(partition)

    def _break(self, partition: int, cursor: _Cursor, why: LogBroken, detail: str) -> None:
        del self._cursors[partition]
        self._listener.on_log_broken(partition, cursor.generation, why, f"{self._kafka.topic}-{partition}: {detail}")
