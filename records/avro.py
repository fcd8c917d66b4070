"""The few kinds of Avro types that entry schemas use, as a typed tree.

`parse_type` refuses whatever is outside this subset (maps, enums, unions of anything but records), so the modules that
walk the tree are total over it. It never touches bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Primitive(Enum):
    """A primitive type; the value is its name in a schema."""

    INT = "int"
    LONG = "long"
    STRING = "string"
    BOOLEAN = "boolean"
    BYTES = "bytes"


INT_MIN = -(2**31)
INT_MAX = 2**31 - 1
LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1
"""Ranges of the types INT and LONG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Exactly `size` bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """A sequence of items of one type."""

    items: AvroType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a record."""

    name: str
    type: AvroType


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """A record; `name` has no namespace."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """One of several records, written as its place in `branches`."""

    branches: tuple[RecordType, ...]


AvroType = Primitive | Fixed | Array | RecordType | Union
Named = dict[str, Fixed | RecordType]


def parse_type(schema: object, named: Named) -> AvroType:
    """Return the type that a schema (as JSON gives it) describes; types it names are added to `named`.

    Raises ValueError for a kind of type that entries do not use.
    """
    if isinstance(schema, str):
        return named[schema] if schema in named else Primitive(schema)
    if isinstance(schema, list):
        branches = tuple(parse_record(branch, named) for branch in schema)
        return Union(branches=branches)
    if not isinstance(schema, Mapping):
        raise ValueError(f"not an Avro schema: {schema!r}")
    match schema["type"]:
        case "array":
            return Array(items=parse_type(schema["items"], named))
        case "fixed":
            fixed = Fixed(name=str(schema["name"]), size=int(schema["size"]))
            named[fixed.name] = fixed
            return fixed
        case "record":
            return parse_record(schema, named)
        case other:
            raise ValueError(f"entries do not use the Avro type {other!r}")


def parse_record(schema: object, named: Named) -> RecordType:
    """Return the record type that a schema describes. Raises ValueError when it is not a record."""
    if isinstance(schema, str):
        known = named.get(schema)
        if not isinstance(known, RecordType):
            raise ValueError(f"{schema} is not a record")
        return known
    if not isinstance(schema, Mapping) or schema["type"] != "record":
        raise ValueError(f"not the schema of a record: {schema!r}")
    fields = tuple(Field(name=field["name"], type=parse_type(field["type"], named)) for field in schema["fields"])
    record = RecordType(name=str(schema["name"]), fields=fields)
    named[record.name] = record
    return record
