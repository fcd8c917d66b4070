"""An entry of the log field by field, each with its bytes: key, schema, and the records in the order in which they are written.

The bytes are walked by the schema, apart from the decoder that replicas use; what that makes of a file is shown behind its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple

from records.avro import Array, AvroType, Fixed, Primitive, RecordType, Union
from records.codec import HEADER_SIZE_BYTES, decode_entry, decode_key
from records.committed_files.codec import FileCommitted
from records.errors import UnreadableEntry
from records.history import SINGLE_OBJECT_MARKER, EntrySchema, schema_of_header

BYTES_SHOWN = 48
TEXT_MAX = 300
FIELDS_MAX = 500


class DecodedField(NamedTuple):
    """A field of an entry: its path, its value as text, and its bytes in hexadecimal, empty for one that has none of its own."""

    path: str
    value: str
    hex: str = ""


def decoded_fields(
    key: bytes | None, value: bytes | None, *, bytes_shown: int = BYTES_SHOWN, fields_max: int = FIELDS_MAX
) -> list[DecodedField]:
    """Return the fields of an entry, as far as they can be read; the last one says why it ends before the entry does.

    Of a field at most so many bytes are shown.
    """
    return [one._replace(hex=_shortened(one.hex, bytes_shown)) for one in _fields(key, value, fields_max)]


def _shortened(text: str, bytes_shown: int) -> str:
    size = (len(text) + 1) // 3
    return text if size <= bytes_shown else f"{text[: 3 * bytes_shown]}.. {size} bytes"


def _fields(key: bytes | None, value: bytes | None, fields_max: int) -> list[DecodedField]:
    found = [*_key(key)]
    if value is None:
        return [*found, DecodedField("value", "none: a tombstone")]
    walk = _Walk(value)
    try:
        records = decode_entry(value)
        schema = schema_of_header(value[:HEADER_SIZE_BYTES])
        for one in walk.entry(schema):
            found.append(one)
            if len(found) >= fields_max:
                return [*found, DecodedField("more", f"{len(value) - walk.at} bytes are not shown")]
        found += (one for record in records if isinstance(record, FileCommitted) for one in _file(record))
    except UnreadableEntry as error:
        found.append(DecodedField("not readable", str(error)[:TEXT_MAX], value.hex(" ")))
    return found[:fields_max]


def _key(key: bytes | None) -> Iterator[DecodedField]:
    parts = decode_key(key)
    if key is None or parts is None:
        yield DecodedField("key", "none" if key is None else "not that of an entry", (key or b"").hex(" "))
        return
    for name, number, (start, end) in zip(parts._fields, parts, ((0, 4), (4, 12), (12, 20)), strict=True):
        yield DecodedField(f"key.{name}", str(number), key[start:end].hex(" "))


class _Walk:
    """Reads the values of a schema one after the other; `data` was decoded before, so it has their form."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def entry(self, schema: EntrySchema) -> Iterator[DecodedField]:
        """Yield every field."""
        marker = len(SINGLE_OBJECT_MARKER)
        yield DecodedField("marker", "Avro, one object", self._data[:marker].hex(" "))
        yield DecodedField("schema", f"level {schema.level}", self._data[marker:HEADER_SIZE_BYTES].hex(" "))
        self.at = HEADER_SIZE_BYTES
        yield from self._any("records", Array(items=Union(branches=tuple(schema.record_types.values()))))

    def _any(self, path: str, kind: AvroType) -> Iterator[DecodedField]:
        start = self.at
        match kind:
            case Array():
                count = self._long()
                yield DecodedField(path, f"{count} in all", self._data[start : self.at].hex(" "))
                for number in range(count):
                    yield from self._any(f"{path}[{number}]", kind.items)
                if count:
                    self.at += 1  # a block of none ends it
            case Union():
                branch = kind.branches[self._long()]
                yield DecodedField(path, branch.name, self._data[start : self.at].hex(" "))
                yield from self._any(path, branch)
            case RecordType():
                for field in kind.fields:
                    yield from self._any(f"{path}.{field.name}", field.type)
            case _:
                value = self._plain(kind)
                yield DecodedField(path, value[:TEXT_MAX], self._data[start : self.at].hex(" "))

    def _plain(self, kind: Primitive | Fixed) -> str:
        match kind:
            case Fixed():
                return self._take(kind.size).hex()
            case Primitive.STRING:
                return self._take(self._long()).decode("utf-8", "replace")
            case Primitive.BYTES:
                return f"{len(self._take(self._long()))} bytes"
            case Primitive.BOOLEAN:
                return str(self._take(1) == b"\1")
            case _:
                return str(self._long())

    def _take(self, size: int) -> bytes:
        self.at += size
        return self._data[self.at - size : self.at]

    def _long(self) -> int:
        number = shift = 0
        while True:
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)


def _file(record: FileCommitted) -> Iterator[DecodedField]:
    """The fields of a file, which are packed into the bytes of one."""
    for one in fields(record):
        value = getattr(record, one.name)
        if one.name == "batches":
            for number, batch in enumerate(value):
                told = {"topic_id": batch.topic_id.hex(), **{name: part for name, part in batch._asdict().items() if name != "topic_id"}}
                yield DecodedField(f"file.batches[{number}]", ", ".join(f"{name} {part}" for name, part in told.items()))
        else:
            yield DecodedField(f"file.{one.name}", value.hex() if isinstance(value, bytes) else str(value)[:TEXT_MAX])
