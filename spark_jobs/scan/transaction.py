"""Metadata transactions (KIP-868) while a log is read: entries between began and ended take effect together or not at all.

Entries of an open transaction are held until it ends, across micro-batches too (`Head.transaction`). A claim ends an open
one, and so does TransactionAborted: nothing of it counts then. One that grows beyond `ENTRIES_MAX` or `BYTES_MAX` is not
held any longer: this is reported, and its entries count as they come.
"""

from __future__ import annotations

from dataclasses import replace

from records.log import OpenTransaction
from spark_jobs.scan.head import HeldEntry, HeldTransaction

ENTRIES_MAX = 10_000
BYTES_MAX = 64 << 20


class Transaction:
    """The open transaction of one partition of the metadata topic, if there is one."""

    def __init__(self, held: HeldTransaction | None) -> None:
        # The head that it comes from stays as it is: a task may be run again from it.
        self._held = None if held is None else replace(held, opened=replace(held.opened, chunks=list(held.opened.chunks)))
        self._bytes = 0 if held is None else sum(len(entry.value) for entry in held.opened.chunks)
        self.has_changed = False

    @property
    def held(self) -> HeldTransaction | None:
        """The open transaction with the entries held so far."""
        return self._held

    @property
    def opened(self) -> OpenTransaction[HeldEntry] | None:
        """The open transaction as the grammar of the log knows it."""
        return None if self._held is None else self._held.opened

    @property
    def holds(self) -> bool:
        """Whether entries wait for an end."""
        return self._held is not None and not self._held.is_applied

    @property
    def is_released(self) -> bool:
        """Whether a transaction is open whose entries count as they come."""
        return self._held is not None and self._held.is_applied

    def begin(self, opened: OpenTransaction[HeldEntry], append_ms: int) -> None:
        """Open a transaction; none is open."""
        self._held, self._bytes = HeldTransaction(opened, append_ms), 0
        self.has_changed = True

    def end(self) -> HeldTransaction | None:
        """Close the transaction; returns it with its entries."""
        before, self._held, self._bytes = self._held, None, 0
        self.has_changed = self.has_changed or before is not None
        return before

    def hold(self, entry: HeldEntry) -> bool:
        """Hold an entry of the open transaction; returns whether there was room. If not, `release` what is held."""
        assert self._held is not None
        self._held.opened.chunks.append(entry)
        self._bytes += len(entry.value)
        self.has_changed = True
        return len(self._held.opened.chunks) <= ENTRIES_MAX and self._bytes <= BYTES_MAX

    def release(self) -> list[HeldEntry]:
        """Hold nothing any longer: return what was held, and let the rest of the transaction count as it comes."""
        assert self._held is not None
        entries = self._held.opened.chunks
        self._held = replace(self._held, opened=replace(self._held.opened, chunks=[]), is_applied=True)
        self._bytes, self.has_changed = 0, True
        return entries
