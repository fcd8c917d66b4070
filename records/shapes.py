"""Between record dataclasses and the plain values that Avro libraries take.

Writing checks every value against its type's range, so that nothing is written that a reader would refuse. Reading trusts its
input: `records.codec` encodes the records again and compares the bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import assert_never, cast

from fastavro.types import AvroMessage

from records import model
from records.avro import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, Array, AvroType, Fixed, Primitive, RecordType, Union
from records.errors import InvalidRecord
from records.model import Record

Classes = Mapping[str, Callable[..., object]]
"""The dataclasses of a schema by name: of its records, and of the parts they hold."""

MODEL_CLASSES: Classes = {name: cls for name, cls in vars(model).items() if dataclasses.is_dataclass(cls) and isinstance(cls, type)}


def to_plain(value: object, avro_type: AvroType, place: str) -> AvroMessage:
    """Return a value as Avro libraries take it; `place` names it in errors. Raises InvalidRecord."""
    match avro_type:
        case Primitive():
            return _primitive(value, avro_type, place)
        case Fixed(size=size):
            if not isinstance(value, bytes) or len(value) != size:
                raise InvalidRecord(f"{place} must be {size} bytes, not {value!r:.60}")
            return value
        case Array(items=items):
            if not isinstance(value, list):
                raise InvalidRecord(f"{place} must be a list, not {value!r:.60}")
            return [to_plain(item, items, place) for item in value]
        case RecordType(name=name, fields=fields):
            if type(value).__name__ != name:
                raise InvalidRecord(f"{place} must be a {name}, not {value!r:.60}")
            plain = {field.name: to_plain(getattr(value, field.name), field.type, f"{place}.{field.name}") for field in fields}
            _check_lacking(value, plain, place)
            return plain
        case Union():
            raise InvalidRecord(f"{place}: a record cannot hold another by choice")
        case _:
            assert_never(avro_type)


def _check_lacking(record: object, plain: Mapping[str, AvroMessage], place: str) -> None:
    """A field that a level lacks is read back as its default, so nothing else can be written at that level. Raises InvalidRecord."""
    if len(plain) == len(type(record).__slots__):  # type: ignore[attr-defined]  # records and their parts are dataclasses with slots
        return
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        if field.name not in plain and getattr(record, field.name) != field.default:
            value = getattr(record, field.name)
            raise InvalidRecord(f"{place}.{field.name} = {value!r:.60} cannot be written at this schema level; raise the level first")


def from_plain(value: AvroMessage, record_type: RecordType, classes: Classes) -> Record:
    """Return the record of a decoded dictionary, as an instance of one of these classes; fields that its type lacks have their default."""
    return cast(Record, _build(value, record_type, classes))


def _build(value: AvroMessage, avro_type: AvroType, classes: Classes) -> object:
    if isinstance(avro_type, RecordType):
        fields = cast(dict[str, AvroMessage], value)
        return classes[avro_type.name](**{field.name: _build(fields[field.name], field.type, classes) for field in avro_type.fields})
    if isinstance(avro_type, Array) and isinstance(avro_type.items, RecordType):
        return [_build(item, avro_type.items, classes) for item in cast(list[AvroMessage], value)]
    return value


_RANGES = {Primitive.INT: (INT_MIN, INT_MAX), Primitive.LONG: (LONG_MIN, LONG_MAX)}


def _primitive(value: object, primitive: Primitive, place: str) -> AvroMessage:
    match primitive:
        case Primitive.BOOLEAN:
            if isinstance(value, bool):
                return value
        case Primitive.STRING:
            if isinstance(value, str):
                return _encodable(value, place)
        case Primitive.BYTES:
            if isinstance(value, bytes):
                return value
        case Primitive.INT | Primitive.LONG:
            low, high = _RANGES[primitive]
            if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
                return value
        case _:
            assert_never(primitive)
    raise InvalidRecord(f"{place} must be {primitive.value}, not {value!r:.60}")


def _encodable(text: str, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"{place} is not valid text: {error.reason}") from error
    return text
