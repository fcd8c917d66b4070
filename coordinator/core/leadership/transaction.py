"""Transactions of the log (KIP-868): entries that take effect together, because their records do not fit one message.

`TransactionBegan` alone in its entry, the chunks, `TransactionEnded` alone in its entry: entries of one term, one at a time
and nothing of others in between but void entries. A chunk's records take effect at their own offset, but only once the end
was read; the applied offset stays before the beginning until then, so that whoever starts again reads all of it again. A
claim in force ends an open transaction: nothing of it counts. So does an entry inside it that contradicts it (another beginning,
an end that counts other chunks, markers among other records, bytes that cannot be decoded): that entry and the transaction are
void, and the next entry stands for itself again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.core.leadership.fence import Fence
from coordinator.core.tables.in_memory import Contradiction
from records.codec import encode_entry
from records.entry_key import EntryKey
from records.model import Record, TransactionAborted, TransactionBegan, TransactionEnded

TRANSACTIONS_LEVEL = 2
"""From this schema level on transactions are written: replicas of earlier versions cannot apply them."""

ENTRY_RECORDS_MAX = 16_384
"""More records are not encoded together to see whether they fit one entry: nearly always they do not."""


class Chunk(NamedTuple):
    """Some records of a transaction, and the entry that holds them."""

    records: Sequence[Record]
    encoded: bytes


class AppliedChunk(NamedTuple):
    """A chunk at its place in the log."""

    records: Sequence[Record]
    offset: int
    encoded: bytes


class RecordTooLarge(Exception):
    """One record alone does not fit an entry."""

    def __init__(self, record: Record, size_bytes: int) -> None:
        super().__init__(f"a {type(record).__name__} of {size_bytes} bytes")


def cut(records: Sequence[Record], level: int, entry_bytes_max: int) -> list[Chunk]:
    """Encode records in as few entries as their number and their mean size allow. Raises `RecordTooLarge`, `InvalidRecord`."""
    if len(records) > ENTRY_RECORDS_MAX:
        step = ENTRY_RECORDS_MAX
    else:
        encoded = encode_entry(records, level)
        if len(encoded) <= entry_bytes_max:
            return [Chunk(records, encoded)]
        if len(records) == 1:
            raise RecordTooLarge(records[0], len(encoded))
        step = -(-len(records) // max(2, -(-len(encoded) // entry_bytes_max)))
    parts = [records[start : start + step] for start in range(0, len(records), step)]
    return [chunk for part in parts for chunk in cut(part, level, entry_bytes_max)]


def enclose(chunks: Sequence[Chunk], name: str, level: int) -> list[bytes]:
    """The entries of a transaction: its beginning, its chunks, its end. `name` tells people what it does."""
    count = len(chunks)
    began = encode_entry([TransactionBegan(name=name, num_chunks=count)], level)
    return [began, *(chunk.encoded for chunk in chunks), encode_entry([TransactionEnded(num_chunks=count)], level)]


def name_of(records: Sequence[Record]) -> str:
    """What a transaction with these records does, for people."""
    kinds = dict.fromkeys(type(record).__name__ for record in records)
    return f"{len(records)} records: {', '.join(kinds)}"


@dataclass(slots=True)
class OpenTransaction:
    """What was read of a transaction that has not ended yet. `fence` is the one before it."""

    name: str
    fence: Fence
    chunks: list[AppliedChunk] = field(default_factory=list)

    @staticmethod
    def begun_by(records: Sequence[Record], offset: int, key: EntryKey) -> OpenTransaction | None:
        """The transaction that an entry begins, None when it begins none. Raises `Contradiction` for an end without a beginning."""
        match records:
            case [TransactionBegan(name=name)]:
                return OpenTransaction(name, Fence(key.epoch, key.term, key.seq - 1))
            case [TransactionEnded()]:
                raise Contradiction(f"entry {offset} ends a transaction that never began")
        _refuse_mixed(records, offset)
        return None

    def take(self, records: Sequence[Record], offset: int, encoded: bytes) -> list[AppliedChunk] | None:
        """Take the next entry; returns the chunks that take effect once the transaction is over, None while it goes on.

        Raises `Contradiction` when another one begins or the end counts other chunks than were read.
        """
        match records:
            case [TransactionEnded(num_chunks=count)]:
                if count != len(self.chunks):
                    text = f"transaction {self.name!r} ends at {offset} with {count} chunks, {len(self.chunks)} were read"
                    raise Contradiction(text)
                return self.chunks
            case [TransactionAborted()]:
                return []
            case [TransactionBegan()]:
                raise Contradiction(f"a transaction begins at {offset} inside transaction {self.name!r}")
        _refuse_mixed(records, offset)
        self.chunks.append(AppliedChunk(records, offset, encoded))
        return None


def _refuse_mixed(records: Sequence[Record], offset: int) -> None:
    if any(isinstance(record, TransactionBegan | TransactionEnded) for record in records):
        raise Contradiction(f"entry {offset} begins or ends a transaction among other records; it must be alone in its entry")
