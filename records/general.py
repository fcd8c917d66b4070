"""The general codec: any entry of any schema level, through fastavro.

`records.wire` checks every body before fastavro sees it, so fastavro only ever reads exactly one well-formed value.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import cast

from fastavro import schemaless_reader, schemaless_writer
from fastavro.types import AvroMessage

from records.errors import InvalidRecord, UndecodableEntry
from records.file_checks import find_file_fault
from records.history import NAMESPACE, NEWEST, SINGLE_OBJECT_MARKER, EntrySchema, schema_of_header
from records.model import FileCommitted, FilesFenced, Record
from records.shapes import from_plain, to_plain

HEADER_SIZE_BYTES = 10


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
    return [from_plain(fields, reader.record_type(name.rpartition(".")[2]), reader.classes) for name, fields in named]


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
