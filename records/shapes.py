"""Between record dataclasses and the plain values that Avro libraries take.

Writing checks every value against its type's range, so that nothing is written that a reader would refuse. Reading
trusts its input: the bytes were checked by `records.wire`. The record types of the newest schema are the dataclasses of
`records.model`, field by field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import assert_never, cast, get_args

from fastavro.types import AvroMessage

from records import model
from records.avro import Array, AvroType, Fixed, Primitive, RecordType, Union
from records.errors import InvalidRecord
from records.model import Record
from records.wire import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

RECORD_CLASSES: dict[str, type[Record]] = {cls.__name__: cls for cls in get_args(Record)}

_CLASSES: dict[str, Callable[..., object]] = {
    **RECORD_CLASSES,
    **{cls.__name__: cls for cls in (model.Endpoint, model.SeededProducerBatch, model.PlacedRange)},
}

_NUM_FIELDS = {cls: len(dataclasses.fields(cls)) for cls in _CLASSES.values()}  # type: ignore[arg-type]  # all are dataclasses


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
    known = dataclasses.fields(record) if len(plain) < _NUM_FIELDS[type(record)] else ()  # type: ignore[arg-type]  # see _CLASSES
    for field in known:
        if field.name not in plain and getattr(record, field.name) != field.default:
            value = getattr(record, field.name)
            raise InvalidRecord(f"{place}.{field.name} = {value!r:.60} cannot be written at this schema level; raise the level first")


def from_plain(value: AvroMessage, record_type: RecordType) -> Record:
    """Return the record of a decoded dictionary."""
    return cast(Record, _build(value, record_type))


def _build(value: AvroMessage, avro_type: AvroType) -> object:
    if isinstance(avro_type, RecordType):
        fields = cast(dict[str, AvroMessage], value)
        return _CLASSES[avro_type.name](**{field.name: _build(fields[field.name], field.type) for field in avro_type.fields})
    if isinstance(avro_type, Array) and isinstance(avro_type.items, RecordType):
        return [_build(item, avro_type.items) for item in cast(list[AvroMessage], value)]
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
