"""Strict check of Avro bytes before any decoder sees them.

A general Avro decoder trusts what it reads: fastavro takes negative union branches, varints of any length, ints beyond
32 bits, and raises half a dozen unrelated exceptions on cut input. A body that passes `compile_checker`'s check is exactly
one value of its schema, its counts fit the bytes that are there, and decoding it cannot fail. The check allocates nothing
that grows with a count in the input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from records.avro import Array, AvroType, Fixed, Primitive, RecordType, Union
from records.errors import UndecodableEntry

Checker = Callable[[bytes, int], int]
"""Checks the value that starts at a position and returns the position after it. Raises UndecodableEntry."""

INT_MIN = -(2**31)
INT_MAX = 2**31 - 1
LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1

_VARINT_BYTES_MAX = 10


def read_long(data: bytes, position: int) -> tuple[int, int]:
    """Return the zigzag varint at a position and the position after it. Raises UndecodableEntry."""
    unsigned = 0
    for index, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
        unsigned |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if unsigned >> 64:
                raise UndecodableEntry(f"number at byte {position} has more than 64 bits")
            return (unsigned >> 1) ^ -(unsigned & 1), position + index + 1
    if len(data) - position < _VARINT_BYTES_MAX:
        raise UndecodableEntry(f"entry of {len(data)} bytes is cut in the number at byte {position}")
    raise UndecodableEntry(f"number at byte {position} is longer than {_VARINT_BYTES_MAX} bytes")


def write_long(value: int) -> bytes:
    """Return the zigzag varint of a 64-bit integer."""
    unsigned = (value << 1) if value >= 0 else ((-value << 1) - 1)
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    out.append(unsigned)
    return bytes(out)


def skip_string(data: bytes, position: int) -> int:
    """Check the string at a position and return the position after it. Raises UndecodableEntry."""
    size, start = read_long(data, position)
    if size < 0 or size > len(data) - start:
        raise UndecodableEntry(f"string of {size} bytes at byte {position} of an entry of {len(data)} bytes")
    try:
        data[start : start + size].decode()
    except UnicodeDecodeError as error:
        raise UndecodableEntry(f"string at byte {position} is not UTF-8: {error.reason}") from error
    return start + size


def compile_checker(avro_type: AvroType) -> Checker:
    """Return the check of one type."""
    match avro_type:
        case Primitive():
            return _PRIMITIVE_CHECKERS[avro_type]
        case Fixed():
            return _fixed_checker(avro_type)
        case Array():
            return _array_checker(compile_checker(avro_type.items))
        case RecordType():
            return _record_checker(avro_type)
        case Union():
            return _union_checker(avro_type)
        case _:
            assert_never(avro_type)


def _skip_long(data: bytes, position: int) -> int:
    return read_long(data, position)[1]


def _skip_int(data: bytes, position: int) -> int:
    value, end = read_long(data, position)
    if not INT_MIN <= value <= INT_MAX:
        raise UndecodableEntry(f"int at byte {position} has more than 32 bits: {value}")
    return end


def _skip_boolean(data: bytes, position: int) -> int:
    if data[position : position + 1] not in (b"\0", b"\1"):
        raise UndecodableEntry(f"entry of {len(data)} bytes has no boolean at byte {position}")
    return position + 1


_PRIMITIVE_CHECKERS: dict[Primitive, Checker] = {
    Primitive.INT: _skip_int,
    Primitive.LONG: _skip_long,
    Primitive.STRING: skip_string,
    Primitive.BOOLEAN: _skip_boolean,
}


def _fixed_checker(fixed: Fixed) -> Checker:
    def check(data: bytes, position: int) -> int:
        if fixed.size > len(data) - position:
            raise UndecodableEntry(f"entry of {len(data)} bytes is cut in the {fixed.name} at byte {position}")
        return position + fixed.size

    return check


def _array_checker(check_item: Checker) -> Checker:
    def check(data: bytes, position: int) -> int:
        while True:
            start = position
            count, position = read_long(data, position)
            block_end = None
            if count < 0:  # a block with its size in bytes, which Avro allows for skipping
                size, position = read_long(data, position)
                count, block_end = -count, position + size
            # Every item of an entry takes at least one byte, so a count beyond the bytes left is a lie.
            if count > len(data) - position:
                raise UndecodableEntry(f"array at byte {start} promises {count} items, {len(data) - position} bytes are left")
            for _ in range(count):
                position = check_item(data, position)
            if block_end is not None and position != block_end:
                raise UndecodableEntry(f"array block at byte {start} ends at byte {position}, its size says {block_end}")
            if not count:
                return position

    return check


def _record_checker(record: RecordType) -> Checker:
    checkers = tuple(compile_checker(field.type) for field in record.fields)

    def check(data: bytes, position: int) -> int:
        for check_field in checkers:
            position = check_field(data, position)
        return position

    return check


def _union_checker(union: Union) -> Checker:
    checkers = tuple(_record_checker(branch) for branch in union.branches)

    def check(data: bytes, position: int) -> int:
        branch, start = read_long(data, position)
        if not 0 <= branch < len(checkers):
            raise UndecodableEntry(f"record type {branch} at byte {position}; the schema has {len(checkers)}")
        return checkers[branch](data, start)

    return check
