"""Metadata transactions (KIP-868) while a log is read: entries between began and ended take effect together or not at all.

Entries of an open transaction are held until it ends, across micro-batches too (`Head.transaction`). A claim ends an open
one, and so does TransactionAborted: nothing of it counts then. One that grows beyond `ENTRIES_MAX` or `BYTES_MAX` is not
held any longer: an operator is told, and its entries count as they come.
"""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.scan.head import HeldEntry, OpenTransaction

ENTRIES_MAX = 10_000
BYTES_MAX = 64 << 20


class Transaction:
    """The open transaction of one partition of the metadata topic, if there is one."""

    def __init__(self, opened: OpenTransaction | None) -> None:
        self._opened = opened
        self._entries = list(opened.entries) if opened is not None else []
        self._bytes = sum(len(entry.value) for entry in self._entries)
        self.has_changed = False

    @property
    def opened(self) -> OpenTransaction | None:
        """The open transaction with the entries held so far."""
        return None if self._opened is None else replace(self._opened, entries=tuple(self._entries))

    @property
    def is_open(self) -> bool:
        """Whether a transaction waits for its end."""
        return self._opened is not None

    @property
    def holds(self) -> bool:
        """Whether entries wait for an end."""
        return self._opened is not None and not self._opened.is_applied

    def begin(self, name: str, num_chunks: int, offset: int, append_ms: int) -> None:
        """Open a transaction; none is open."""
        self._opened = OpenTransaction(name, offset, append_ms, num_chunks=num_chunks)
        self.has_changed = True

    def end(self) -> OpenTransaction | None:
        """Close the transaction; returns it with its entries."""
        before = self.opened
        self._opened, self._entries, self._bytes = None, [], 0
        self.has_changed = self.has_changed or before is not None
        return before

    def hold(self, entry: HeldEntry) -> bool:
        """Hold an entry; returns whether there was room. If not, `release` what is held."""
        self._entries.append(entry)
        self._bytes += len(entry.value)
        self.has_changed = True
        return len(self._entries) <= ENTRIES_MAX and self._bytes <= BYTES_MAX

    def release(self) -> list[HeldEntry]:
        """Hold nothing any longer: return what was held, and let the rest of the transaction count as it comes."""
        held, self._entries, self._bytes = self._entries, [], 0
        if self._opened is not None:
            self._opened = replace(self._opened, is_applied=True)
        self.has_changed = True
        return held
