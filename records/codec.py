"""Entries as bytes: Avro single-object encoding of `MetadataEntry`, one Kafka message each.

Layout of a value: C3 01, the writer schema's CRC-64-AVRO fingerprint in 8 little-endian bytes, the body. A list of records has one
form at a schema level, and nothing else is an entry: `decode_entry` returns the records of exactly what `encode_entry` writes, and
raises `UnknownSchema` or `UndecodableEntry` for all other bytes, in memory bounded by a multiple of their size.

`FileCommitted` has a codec of its own (`records.committed_files.codec`); all other records go through fastavro.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import cast

from fastavro import schemaless_reader, schemaless_writer
from fastavro.types import AvroMessage

from records.committed_files.codec import FileCommitted, encode_files, files_of, read_files, table_of
from records.entry_key import decode_key, encode_key
from records.errors import InvalidRecord, UndecodableEntry, UnknownSchema, UnreadableEntry
from records.history import NAMESPACE, SINGLE_OBJECT_MARKER, EntrySchema, schema_of_header, schema_of_level
from records.levels import LEVEL_LATEST
from records.model import FilesFenced, FilesHandedOver, Record, TopicConfigured
from records.shapes import MODEL_CLASSES, Classes, from_plain, to_plain

__all__ = [
    "HEADER_SIZE_BYTES",
    "InvalidRecord",
    "UndecodableEntry",
    "UnknownSchema",
    "UnreadableEntry",
    "decode_entry",
    "decode_in",
    "decode_key",
    "encode_entry",
    "encode_in",
    "encode_key",
]

HEADER_SIZE_BYTES = 10


def encode_entry(records: Sequence[Record], level: int = LEVEL_LATEST) -> bytes:
    """Return the entry of these records in the schema of a level; the log says which is in force (`FeatureLevelSet`).

    Raises InvalidRecord when the level is unknown, lacks a record type or a field that is set, a value is out of its type's
    range, or the fields of a record contradict each other.
    """
    match records:
        case [FileCommitted() as file]:
            return encode_files(table_of([file]), level)[0]
    return encode_in(records, schema_of_level(level))


def decode_entry(value: bytes) -> list[Record]:
    """Return the records of an entry; a field that its schema lacks has its default. Raises UnknownSchema or UndecodableEntry."""
    taken, table = read_files([value])
    if taken:
        return [*files_of(table)]
    header = value[:HEADER_SIZE_BYTES]
    if len(header) < HEADER_SIZE_BYTES or not header.startswith(SINGLE_OBJECT_MARKER):
        raise UndecodableEntry(f"entry of {len(value)} bytes does not start with C3 01 and a schema fingerprint")
    return decode_in(value, schema_of_header(header))


def encode_in(records: Sequence[Record], schema: EntrySchema) -> bytes:
    """Encode any records in a schema. Raises InvalidRecord."""
    return _write([(type(record).__name__, _to_fields(record, schema)) for record in records], schema)


def decode_in(value: bytes, schema: EntrySchema, classes: Classes = MODEL_CLASSES) -> list[Record]:
    """Decode an entry of a schema as these classes. Raises UndecodableEntry."""
    try:
        records = [_from_fields(name, fields, schema, classes) for name, fields in _read(value, schema)]
        again = encode_in(records, schema)
    except UndecodableEntry:
        raise
    except Exception as error:  # fastavro meets bytes that are no Avro with whatever they make it run into
        raise UndecodableEntry(f"entry of {len(value)} bytes is not of schema level {schema.level}: {error!r:.200}") from error
    if again != value:
        raise UndecodableEntry(f"entry of {len(value)} bytes is not what schema level {schema.level} makes of its records")
    return records


def _to_fields(record: Record, schema: EntrySchema) -> AvroMessage:
    name = type(record).__name__
    record_type = schema.record_type(name)
    match record:
        case FileCommitted():
            ((_, fields),) = _read(encode_files(table_of([record]), schema.level)[0], schema)
            return fields
        case FilesFenced() if len(record.object_keys) != len(record.created_ms):
            raise InvalidRecord(f"{name}: {len(record.object_keys)} object_keys with {len(record.created_ms)} created_ms")
        case TopicConfigured() if len(record.names) != len(record.values):
            raise InvalidRecord(f"{name}: {len(record.names)} names with {len(record.values)} values")
        case FilesHandedOver() if len(record.object_keys) != len(record.next_owner_ids):
            raise InvalidRecord(f"{name}: {len(record.object_keys)} object_keys with {len(record.next_owner_ids)} next_owner_ids")
    return to_plain(record, record_type, name)


def _from_fields(name: str, fields: AvroMessage, schema: EntrySchema, classes: Classes) -> Record:
    if name != FileCommitted.__name__:
        return from_plain(fields, schema.record_type(name), classes)
    taken, table = read_files([_write([(name, fields)], schema)])
    if not taken:
        raise UndecodableEntry(f"a FileCommitted has not the form of schema level {schema.level}")
    return files_of(table)[0]


def _write(named: Sequence[tuple[str, AvroMessage]], schema: EntrySchema) -> bytes:
    out = BytesIO()
    out.write(schema.header)
    schemaless_writer(out, schema.parsed, {"records": [(f"{NAMESPACE}.{name}", fields) for name, fields in named]})
    return out.getvalue()


def _read(value: bytes, schema: EntrySchema) -> list[tuple[str, AvroMessage]]:
    body = BytesIO(value)
    body.seek(HEADER_SIZE_BYTES)
    entry = cast(dict[str, AvroMessage], schemaless_reader(body, schema.parsed, None, return_record_name=True))
    named = cast(list[tuple[str, AvroMessage]], entry["records"])
    return [(name.rpartition(".")[2], fields) for name, fields in named]
