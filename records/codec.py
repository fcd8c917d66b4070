"""Entries and their keys as bytes: Avro single-object encoding of `MetadataEntry`, one Kafka message each.

Layout of a value: C3 01, the writer schema's CRC-64-AVRO fingerprint in 8 little-endian bytes, the body. Whatever bytes
come in, `decode_entry` returns consistent records or raises `UnknownSchema` or `UndecodableEntry`, in memory bounded by
the size of the input. Whatever `encode_entry` writes, `decode_entry` reads back as equal records.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import cast

from fastavro import schemaless_reader, schemaless_writer
from fastavro.types import AvroMessage

from records.entry_key import decode_key, encode_key
from records.errors import InvalidRecord, UndecodableEntry, UnknownSchema, UnreadableEntry
from records.file_checks import find_file_fault
from records.history import LATEST, NAMESPACE, NEWEST, SINGLE_OBJECT_MARKER, EntrySchema, schema_of_header, schema_of_level
from records.model import FileCommitted, FilesFenced, Record
from records.shapes import from_plain, to_plain

__all__ = [
    "LATEST",
    "InvalidRecord",
    "UndecodableEntry",
    "UnknownSchema",
    "UnreadableEntry",
    "decode_entry",
    "decode_key",
    "encode_entry",
    "encode_key",
]

HEADER_SIZE_BYTES = 10


def encode_entry(records: Sequence[Record], level: int = LATEST) -> bytes:
    """Return the entry of these records in the schema of a level.

    Raises InvalidRecord when the level is unknown or lacks a record type, a value is out of its type's range, or the
    columns of a record contradict each other.
    """
    return encode_generally(records, schema_of_level(level))


def decode_entry(value: bytes) -> list[Record]:
    """Return the records of an entry, as of the newest schema. Raises UnknownSchema or UndecodableEntry."""
    return decode_generally(value)


def encode_generally(records: Sequence[Record], schema: EntrySchema) -> bytes:
    """Encode any records with fastavro. Raises InvalidRecord."""
    plain: list[tuple[str, AvroMessage]] = []
    for record in records:
        name = type(record).__name__
        fault = find_fault(record)
        if fault is not None:
            raise InvalidRecord(f"{name}: {fault}")
        plain.append((f"{NAMESPACE}.{name}", to_plain(record, schema.record_type(name), name)))
    out = BytesIO()
    out.write(schema.header)
    schemaless_writer(out, schema.parsed, {"records": plain})
    return out.getvalue()


def decode_generally(value: bytes) -> list[Record]:
    """Decode any entry with fastavro. Raises UnknownSchema or UndecodableEntry."""
    header = value[:HEADER_SIZE_BYTES]
    if len(header) < HEADER_SIZE_BYTES or not header.startswith(SINGLE_OBJECT_MARKER):
        raise UndecodableEntry(f"entry of {len(value)} bytes does not start with C3 01 and a schema fingerprint")
    records = decode_body(value, schema_of_header(header), NEWEST)
    for record in records:
        fault = find_fault(record)
        if fault is not None:
            raise UndecodableEntry(f"{type(record).__name__}: {fault}")
    return records


def decode_body(value: bytes, writer: EntrySchema, reader: EntrySchema) -> list[Record]:
    """Decode what follows the header, resolving writer -> reader. Raises UndecodableEntry."""
    end = writer.check(value, HEADER_SIZE_BYTES)
    if end != len(value):
        raise UndecodableEntry(f"{len(value) - end} bytes follow the entry that ends at byte {end}")
    body = BytesIO(value)
    body.seek(HEADER_SIZE_BYTES)
    resolve_to = None if writer is reader else reader.parsed
    entry = cast(dict[str, AvroMessage], schemaless_reader(body, writer.parsed, resolve_to, return_record_name=True))
    named = cast(list[tuple[str, AvroMessage]], entry["records"])
    return [from_plain(fields, reader.record_type(name.rpartition(".")[2])) for name, fields in named]


def find_fault(record: Record) -> str | None:
    """Return how the fields of a record contradict each other, or None."""
    match record:
        case FileCommitted():
            return find_file_fault(record)
        case FilesFenced():
            keys, times = len(record.object_keys), len(record.created_ms)
            return None if keys == times else f"{keys} object_keys with {times} created_ms"
        case _:
            return None
