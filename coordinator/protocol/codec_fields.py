"""Readers and writers of single fields and arrays, chosen by the field's declaration.

Owns the Kafka types. An array whose elements cannot fit in the remaining bytes is refused before anything is allocated,
and every array counts against the message's limit of elements.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass
from datetime import UTC, datetime, timedelta
from types import EllipsisType, NoneType, UnionType
from typing import Final, cast, get_args, get_origin

from kio.schema.errors import ErrorCode

from coordinator.protocol.wire import MalformedMessage, UnencodableMessage, read_text, read_varint, text_bytes, varint

FIXED: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "bool": "?", "uuid": "16s"}
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Source:
    """Bytes being decoded, and how many array elements they may still hold."""

    __slots__ = ("data", "elements_left", "end")

    def __init__(self, data: bytes, elements_max: int) -> None:
        self.data = data
        self.end = len(data)
        self.elements_left = elements_max


Read = Callable[[Source, int], tuple[object, int]]
Write = Callable[[bytearray, object], None]


@dataclass(frozen=True, slots=True)
class Codec:
    """How one field or entity is read and written; it takes at least `size_min` bytes."""

    read: Read
    write: Write
    size_min: int


def shape(item: Field[object]) -> tuple[bool, object, bool]:
    """Take a declaration apart: (is an array, its element's or its own type, is nullable)."""
    declared: object = item.type
    nullable = False
    if get_origin(declared) is UnionType:
        others = [part for part in get_args(declared) if part is not NoneType]
        nullable = len(others) < len(get_args(declared))
        if len(others) != 1:
            raise TypeError(f"{item.name}: only unions with None are known, not {declared}")
        declared = others[0]
    if get_origin(declared) is tuple:
        inner, dots = get_args(declared)
        if not isinstance(dots, EllipsisType):
            raise TypeError(f"{item.name}: an array is tuple[X, ...], not {declared}")
        return True, inner, nullable
    return False, declared, nullable


def single_codec(where: str, kind: str, inner: object, flexible: bool, nullable: bool) -> Codec:
    """Choose the codec of one value. Raises TypeError for a Kafka type that is not known."""
    if kind == "string":
        return _string_codec(where, flexible, nullable)
    if kind in ("bytes", "records"):
        return _bytes_codec(where, flexible, nullable)
    if kind == "uuid" and inner is uuid.UUID:
        # kio's convention: the zero uuid is None.
        return _converted(where, "16s", lambda raw: uuid.UUID(bytes=raw) if any(raw) else None, lambda one: one.bytes if one else bytes(16))
    if kind == "error_code":
        return _converted(where, "h", ErrorCode, lambda code: int(code.value))
    if kind in ("timedelta_i32", "timedelta_i64"):
        code = "i" if kind == "timedelta_i32" else "q"
        return _converted(where, code, lambda number: timedelta(milliseconds=number), lambda delta: delta // _MILLISECOND)
    if kind == "datetime_i64" and not nullable:
        return _converted(where, "q", lambda number: _EPOCH + timedelta(milliseconds=number), lambda one: (one - _EPOCH) // _MILLISECOND)
    if kind in FIXED and not nullable:
        return _converted(where, FIXED[kind], lambda one: one, lambda one: one)
    raise TypeError(f"{where}: Kafka type {kind} (nullable: {nullable}) is not known")


def _converted(where: str, code: str, to_python: Callable[..., object], to_wire: Callable[..., object]) -> Codec:
    layout = struct.Struct(">" + code)

    def read(source: Source, position: int) -> tuple[object, int]:
        if source.end - position < layout.size:
            raise MalformedMessage(f"{where}: the bytes end before it")
        (raw,) = layout.unpack_from(source.data, position)
        try:
            return to_python(raw), position + layout.size
        except (ValueError, OverflowError) as error:
            raise MalformedMessage(f"{where}: {error}") from error

    def write(out: bytearray, value: object) -> None:
        try:
            out += layout.pack(to_wire(value))
        except struct.error as error:
            raise UnencodableMessage(f"{where}: {value!r}: {error}") from error

    return Codec(read, write, layout.size)


def _read_length(source: Source, position: int, where: str, layout: struct.Struct | None, nullable: bool) -> tuple[int | None, int]:
    """Read a compact length (layout None) or a legacy one; None is null."""
    if layout is None:
        length, position = read_varint(source.data, position, source.end)
        length -= 1
    else:
        if source.end - position < layout.size:
            raise MalformedMessage(f"{where}: the bytes end inside its length")
        (length,) = layout.unpack_from(source.data, position)
        position += layout.size
    if length >= 0:
        return length, position
    if length < -1 or not nullable:
        raise MalformedMessage(f"{where}: " + ("null is not allowed" if length == -1 else f"negative length {length}"))
    return None, position


def _length_bytes(length: int | None, where: str, layout: struct.Struct | None, nullable: bool) -> bytes:
    if length is None:
        if not nullable:
            raise UnencodableMessage(f"{where}: None is not allowed")
        length = -1
    return varint(length + 1) if layout is None else layout.pack(length)


def _string_codec(where: str, flexible: bool, nullable: bool) -> Codec:
    layout = None if flexible else _INT16

    def read(source: Source, position: int) -> tuple[object, int]:
        length, position = _read_length(source, position, where, layout, nullable)
        return (None, position) if length is None else read_text(source.data, position, length, source.end, where)

    def write(out: bytearray, value: object) -> None:
        raw = None if value is None else text_bytes(cast(str, value), where)
        out += _length_bytes(None if raw is None else len(raw), where, layout, nullable)
        out += raw or b""

    return Codec(read, write, 1 if flexible else 2)


def _bytes_codec(where: str, flexible: bool, nullable: bool) -> Codec:
    layout = None if flexible else _INT32

    def read(source: Source, position: int) -> tuple[object, int]:
        length, position = _read_length(source, position, where, layout, nullable)
        if length is None:
            return None, position
        if length > source.end - position:
            raise MalformedMessage(f"{where}: the bytes end inside its {length} bytes")
        return bytes(source.data[position : position + length]), position + length

    def write(out: bytearray, value: object) -> None:
        raw = cast("bytes | None", value)
        out += _length_bytes(None if raw is None else len(raw), where, layout, nullable)
        out += raw or b""

    return Codec(read, write, 1 if flexible else 4)


def _read_count(source: Source, position: int, where: str, flexible: bool, nullable: bool, size_min: int) -> tuple[int | None, int]:
    count, position = _read_length(source, position, where, None if flexible else _INT32, nullable)
    if count is None:
        return None, position
    if count * size_min > source.end - position:
        raise MalformedMessage(f"{where}: {count} elements cannot fit in the remaining {source.end - position} bytes")
    source.elements_left -= count
    if source.elements_left < 0:
        raise MalformedMessage(f"{where}: the message has too many array elements; split it into smaller ones")
    return count, position


def array_codec(where: str, element: Codec, flexible: bool, nullable: bool) -> Codec:
    """Make the codec of an array of any elements."""
    layout = None if flexible else _INT32
    # An element without bytes would make the count unlimited.
    size_min = max(element.size_min, 1)

    def read(source: Source, position: int) -> tuple[object, int]:
        count, position = _read_count(source, position, where, flexible, nullable, size_min)
        if count is None:
            return None, position
        elements = []
        for _ in range(count):
            one, position = element.read(source, position)
            elements.append(one)
        return tuple(elements), position

    def write(out: bytearray, value: object) -> None:
        elements = cast("Sequence[object] | None", value)
        out += _length_bytes(None if elements is None else len(elements), where, layout, nullable)
        for one in elements or ():
            element.write(out, one)

    return Codec(read, write, 1 if flexible else 4)


def fixed_array_codec(where: str, code: str, flexible: bool, nullable: bool) -> Codec:
    """Make the codec of an array of numbers, read and written by one `struct` call."""
    layout = None if flexible else _INT32
    size = struct.calcsize(">" + code)

    def read(source: Source, position: int) -> tuple[object, int]:
        count, position = _read_count(source, position, where, flexible, nullable, size)
        if count is None:
            return None, position
        return struct.unpack_from(f">{count}{code}", source.data, position), position + count * size

    def write(out: bytearray, value: object) -> None:
        elements = cast("Sequence[object] | None", value)
        out += _length_bytes(None if elements is None else len(elements), where, layout, nullable)
        try:
            out += struct.pack(f">{len(elements or ())}{code}", *(elements or ()))
        except struct.error as error:
            raise UnencodableMessage(f"{where}: {error}") from error

    return Codec(read, write, 1 if flexible else 4)
