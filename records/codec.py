"""Entries and their keys as bytes: Avro single-object encoding of `MetadataEntry`, one Kafka message each.

Layout of a value: C3 01, the writer schema's CRC-64-AVRO fingerprint in 8 little-endian bytes, the body. Whatever bytes
come in, `decode_entry` returns consistent records or raises `UnknownSchema` or `UndecodableEntry`, in memory bounded by
the size of the input. Whatever `encode_entry` writes, `decode_entry` reads back as equal records.
"""

from __future__ import annotations

from collections.abc import Sequence

from records.entry_key import decode_key, encode_key
from records.errors import InvalidRecord, UndecodableEntry, UnknownSchema, UnreadableEntry
from records.fast import decode_file_entry, encode_file_entry
from records.general import decode_generally, encode_generally
from records.history import schema_of_level
from records.levels import LEVEL_LATEST
from records.model import FileCommitted, Record

__all__ = [
    "InvalidRecord",
    "UndecodableEntry",
    "UnknownSchema",
    "UnreadableEntry",
    "decode_entry",
    "decode_key",
    "encode_entry",
    "encode_key",
]


def encode_entry(records: Sequence[Record], level: int = LEVEL_LATEST) -> bytes:
    """Return the entry of these records in the schema of a level; the log says which is in force (`FeatureLevelSet`).

    Raises InvalidRecord when the level is unknown, lacks a record type or a field that is set, a value is out of its type's
    range, or the columns of a record contradict each other.
    """
    if len(records) == 1 and isinstance(records[0], FileCommitted):
        entry = encode_file_entry(records[0], level)
        if entry is not None:
            return entry
    return encode_generally(records, schema_of_level(level))


def decode_entry(value: bytes) -> list[Record]:
    """Return the records of an entry, as of the newest schema. Raises UnknownSchema or UndecodableEntry."""
    record = decode_file_entry(value)
    return [record] if record is not None else decode_generally(value)
