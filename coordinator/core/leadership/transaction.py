"""Transactions of the log (KIP-868) as a leader writes them: records that do not fit one message, cut into entries.

How they are read is said in `records.log`. A reader applies the chunks, each at its own offset, once the end was read; the applied
offset stays before the beginning until then, so that a restart reads all of it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from records.codec import encode_entry
from records.model import Record, TransactionBegan, TransactionEnded

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
    """Describe a transaction with these records, for people."""
    kinds = dict.fromkeys(type(record).__name__ for record in records)
    return f"{len(records)} records: {', '.join(kinds)}"
