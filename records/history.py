"""Every schema of `MetadataEntry` that was ever written, by level and by fingerprint.

A level is a number that metadata partition 0 finalises (`FeatureLevelSet`); writers use its schema, readers know all of
them; a field that an older schema lacks has its default. `records.levels` lists them. New fields need a default, new record types
go to the end of the union, whose order is part of the format.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form
from fastavro.types import Schema

from records.avro import Array, RecordType, Union, parse_record
from records.errors import InvalidRecord, UnknownSchema
from records.levels import FILE_OF_LEVEL, LEVEL_LATEST

NAMESPACE = "diskless.metadata"
SINGLE_OBJECT_MARKER = b"\xc3\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySchema:
    """One level's schema of `MetadataEntry`: what writing and reading an entry need of it."""

    level: int
    fingerprint: int
    header: bytes
    record_types: dict[str, RecordType]
    parsed: Schema

    def record_type(self, name: str) -> RecordType:
        """Return the type of a record by name. Raises InvalidRecord when this level has no such type."""
        record_type = self.record_types.get(name)
        if record_type is None:
            raise InvalidRecord(f"schema level {self.level} has no {name}; raise the level first (FeatureLevelSet)")
        return record_type


def read_schema_text(file_name: str) -> str:
    """Return the text of a file of `records/schemas`."""
    return resources.files("records").joinpath("schemas", file_name).read_text(encoding="utf-8")


def build_schema(level: int, text: str) -> EntrySchema:
    """Return the schema of a level from its JSON text. Raises ValueError when it is not an entry's schema."""
    source = json.loads(text)
    digest = bytes.fromhex(fingerprint(to_parsing_canonical_form(source), "CRC-64-AVRO"))
    entry = parse_record(source, {})
    (records_field,) = entry.fields
    if not isinstance(records_field.type, Array) or not isinstance(records_field.type.items, Union):
        raise ValueError(f"schema of level {level} is not an array of a union of records")
    return EntrySchema(
        level=level,
        # fastavro gives the digest as Java does, in little-endian order, which is also its order in the header.
        fingerprint=int.from_bytes(digest, "little"),
        header=SINGLE_OBJECT_MARKER + digest,
        record_types={branch.name: branch for branch in records_field.type.items.branches},
        parsed=parse_schema(source),
    )


_SCHEMA_OF_LEVEL = {level: build_schema(level, read_schema_text(name)) for level, name in FILE_OF_LEVEL.items()}
_SCHEMA_OF_HEADER = {schema.header: schema for schema in _SCHEMA_OF_LEVEL.values()}

NEWEST = _SCHEMA_OF_LEVEL[LEVEL_LATEST]


def levels() -> tuple[int, ...]:
    """Return every schema level there is, ascending."""
    return tuple(sorted(_SCHEMA_OF_LEVEL))


def schema_of_level(level: int) -> EntrySchema:
    """Return the schema writers use at a level. Raises InvalidRecord for a level this version does not have."""
    schema = _SCHEMA_OF_LEVEL.get(level)
    if schema is None:
        raise InvalidRecord(f"unknown schema level {level}; this version writes levels {levels()}")
    return schema


def schema_of_header(header: bytes) -> EntrySchema:
    """Return the schema that a 10-byte header names. Raises UnknownSchema."""
    schema = _SCHEMA_OF_HEADER.get(header)
    if schema is None:
        raise UnknownSchema(int.from_bytes(header[2:], "little"))
    return schema
