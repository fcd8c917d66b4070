"""The hot entry, one `FileCommitted` alone, encoded and decoded without a general Avro library.

The bytes are those of `records.general`, and whatever `decode_file_entry` accepts it reads as the general decoder does.
Both answer None for anything unusual (several records, arrays in several blocks, very long varints, values out of
range, columns that contradict each other) and leave the verdict to the general codec. Only schema levels whose
`FileCommitted` has the fields of level 1 are served: a level that changes them must extend this module.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from records.file_checks import COLUMN_LOWS, NUMBER_COLUMNS, column_extremes, find_file_fault_in, number_columns
from records.history import NEWEST, levels, schema_of_level
from records.model import FileCommitted
from records.varints import (
    Int64s,
    find_number_ends,
    read_all_numbers,
    read_number,
    read_numbers,
    write_number,
    write_number_array,
    write_numbers,
)
from records.wire import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

NUMBERS_VECTOR_MIN = 40
"""From this many numbers in the columns on, an array and a compiled loop encode faster than tables (benchmarks/records_codec.py)."""

COLUMN_BYTES_VECTOR_MIN = 500
"""From this many bytes of columns on, numpy decodes faster than a plain loop (benchmarks/records_codec.py)."""

_NAME = "FileCommitted"
_ID_SIZE_BYTES = 16
_END = b"\0"


def _prefixes() -> dict[int, bytes]:
    """Header, "one record" and its branch, for each level that has the layout this module knows."""
    layout = schema_of_level(1).record_types[_NAME]
    prefixes = {}
    for level in levels() if NEWEST.record_types[_NAME] == layout else ():
        schema = schema_of_level(level)
        if schema.record_types.get(_NAME) == layout:
            branch = list(schema.record_types).index(_NAME)
            prefixes[level] = schema.header + write_number(1) + write_number(branch)
    return prefixes


PREFIX_OF_LEVEL = _prefixes()
PLAIN_COMMIT_PREFIXES = tuple(PREFIX_OF_LEVEL.values())
"""How entries begin that hold one FileCommitted and nothing else, at every schema level."""
_PREFIXES = frozenset(PLAIN_COMMIT_PREFIXES)
_PREFIX_SIZE_BYTES = 12
assert all(len(prefix) == _PREFIX_SIZE_BYTES for prefix in _PREFIXES), "branch of FileCommitted no longer takes one byte"


def encode_file_entry(record: FileCommitted, level: int) -> bytes | None:
    """Return the entry that holds just this record in the schema of a level; None leaves it to the general codec."""
    prefix = PREFIX_OF_LEVEL.get(level)
    try:
        head = _encode_head(record)
        messages = _encode_messages(record.other_message)
    except UnicodeEncodeError:
        return None
    if prefix is None or head is None:
        return None
    columns = number_columns(record)
    vectorised = sum(map(len, columns)) >= NUMBERS_VECTOR_MIN
    encoded = (_encode_columns_vectorised if vectorised else _encode_columns)(columns)
    if encoded is None or find_file_fault_in(record, encoded.least, encoded.greatest) is not None:
        return None
    return b"".join((prefix, *head, encoded.data, *messages, _END))


def _encode_head(record: FileCommitted) -> list[bytes] | None:
    ints = (record.object_format, record.uploader_broker_id, *record.owner_ids)
    longs = (record.file_size, record.created_ms, record.append_time_ms)
    if min(ints) < INT_MIN or max(ints) > INT_MAX or min(longs) < LONG_MIN or max(longs) > LONG_MAX:
        return None
    if len(record.content_hash) != _ID_SIZE_BYTES or any(len(topic_id) != _ID_SIZE_BYTES for topic_id in record.topic_ids):
        return None
    key = record.object_key.encode()
    head = [write_number(len(key)), key, *map(write_number, (record.object_format, record.file_size, record.uploader_broker_id))]
    if record.owner_ids:
        head += map(write_number, (len(record.owner_ids), *record.owner_ids))
    head += (_END, write_number(record.created_ms), write_number(record.append_time_ms), record.content_hash)
    if record.topic_ids:
        head += (write_number(len(record.topic_ids)), *record.topic_ids)
    head.append(_END)
    return head


class _Encoded(NamedTuple):
    """The bytes of all columns (count, numbers, end; a single end when empty) and the extremes of each."""

    data: bytes
    least: list[int]
    greatest: list[int]


def _encode_columns(columns: tuple[list[int], ...]) -> _Encoded:
    least, greatest = column_extremes(columns)
    out: list[bytes] = []
    for column, low, high in zip(columns, least, greatest, strict=True):
        if column:
            out += (write_number(len(column)), write_numbers(column, low, high))
        out.append(_END)
    return _Encoded(b"".join(out), least, greatest)


def _encode_columns_vectorised(columns: tuple[list[int], ...]) -> _Encoded | None:
    flat: list[int] = []
    bounds = []
    for column in columns:
        start = len(flat) + 1
        bounds.append((start, start + len(column)))
        if column:
            flat.append(len(column))
            flat += column
        flat.append(0)
    try:
        numbers = np.fromiter(flat, np.int64, len(flat))
    except OverflowError:  # a value beyond 64 bits, which the general codec names
        return None
    return _Encoded(write_number_array(numbers), *_vector_extremes(numbers, bounds))


def _encode_messages(messages: list[str]) -> list[bytes]:
    if not messages:
        return [_END]
    out = [write_number(len(messages))]
    for message in messages:
        text = message.encode()
        out += (write_number(len(text)), text)
    out.append(_END)
    return out


class _Unusual(Exception):
    """Only the general decoder can tell what these bytes are."""


def decode_file_entry(value: bytes) -> FileCommitted | None:
    """Return the record of an entry that holds one FileCommitted; None leaves it to the general codec."""
    if value[:_PREFIX_SIZE_BYTES] not in _PREFIXES:
        return None
    try:
        return _decode(value)
    except (_Unusual, IndexError, UnicodeDecodeError):  # IndexError: the bytes end too early
        return None


def _decode(value: bytes) -> FileCommitted:
    object_key, position = _read_string(value, _PREFIX_SIZE_BYTES)
    object_format, position = _read_int(value, position)
    file_size, position = _read_long(value, position)
    uploader_broker_id, position = _read_int(value, position)
    owner_ids, position = _read_owner_ids(value, position)
    created_ms, position = _read_long(value, position)
    append_time_ms, position = _read_long(value, position)
    content_hash = value[position : position + _ID_SIZE_BYTES]
    topic_ids, position = _read_topic_ids(value, position + _ID_SIZE_BYTES)
    read_columns = _read_columns_vectorised if len(value) - position >= COLUMN_BYTES_VECTOR_MIN else _read_columns
    columns, least, greatest, position = read_columns(value, position)
    other_message, position = _read_messages(value, position)
    if value[position:] != _END:
        raise _Unusual
    record = FileCommitted(
        object_key=object_key,
        object_format=object_format,
        file_size=file_size,
        uploader_broker_id=uploader_broker_id,
        owner_ids=owner_ids,
        created_ms=created_ms,
        append_time_ms=append_time_ms,
        content_hash=content_hash,
        topic_ids=topic_ids,
        other_message=other_message,
        **dict(zip(NUMBER_COLUMNS, columns, strict=True)),
    )
    if find_file_fault_in(record, least, greatest) is not None:
        raise _Unusual
    return record


def _read_long(value: bytes, position: int) -> tuple[int, int]:
    number, position = read_number(value, position)
    if not LONG_MIN <= number <= LONG_MAX:
        raise _Unusual
    return number, position


def _read_int(value: bytes, position: int) -> tuple[int, int]:
    number, position = read_number(value, position)
    if not INT_MIN <= number <= INT_MAX:
        raise _Unusual
    return number, position


def _read_count(value: bytes, position: int) -> tuple[int, int]:
    """Read the count of a block or the size of a string; both are bounded by the bytes that are left."""
    count, position = read_number(value, position)
    if not 0 <= count <= len(value) - position:
        raise _Unusual
    return count, position


def _read_end(value: bytes, position: int) -> int:
    """Step over the end of an array that had one block."""
    if value[position]:
        raise _Unusual
    return position + 1


def _read_string(value: bytes, position: int) -> tuple[str, int]:
    size, position = _read_count(value, position)
    return value[position : position + size].decode(), position + size


def _read_owner_ids(value: bytes, position: int) -> tuple[list[int], int]:
    count, position = _read_count(value, position)
    if not count:
        return [], position
    owner_ids, position = read_numbers(value, position, count)
    if min(owner_ids) < INT_MIN or max(owner_ids) > INT_MAX:
        raise _Unusual
    return owner_ids, _read_end(value, position)


def _read_topic_ids(value: bytes, position: int) -> tuple[list[bytes], int]:
    count, position = _read_count(value, position)
    if not count:
        return [], position
    end = position + count * _ID_SIZE_BYTES
    ids = [value[start : start + _ID_SIZE_BYTES] for start in range(position, min(end, len(value)), _ID_SIZE_BYTES)]
    return ids, _read_end(value, end)


def _read_messages(value: bytes, position: int) -> tuple[list[str], int]:
    count, position = _read_count(value, position)
    if not count:
        return [], position
    messages = []
    for _ in range(count):
        message, position = _read_string(value, position)
        messages.append(message)
    return messages, _read_end(value, position)


_Columns = tuple[list[list[int]], list[int], list[int], int]
"""The columns of numbers, the least and greatest of each, and the position after them."""


def _read_columns(value: bytes, position: int) -> _Columns:
    columns: list[list[int]] = []
    for _ in NUMBER_COLUMNS:
        column: list[int] = []
        if not value[position]:
            position += 1
        else:
            count, position = _read_count(value, position)
            if count:  # 0 may be written in more bytes than it needs, and is an end itself
                column, position = read_numbers(value, position, count)
                position = _read_end(value, position)
        columns.append(column)
    return columns, *column_extremes(columns), position


def _read_columns_vectorised(value: bytes, position: int) -> _Columns:
    encoded = np.frombuffer(value, np.uint8, offset=position)
    ends = find_number_ends(encoded)
    # The messages at the end are read as numbers, too, which are not used; text that cannot be is left to others.
    numbers = read_all_numbers(encoded, ends) if len(ends) else None
    if numbers is None:
        raise _Unusual
    plain = numbers.tolist()
    bounds = _find_columns(plain)
    least, greatest = _vector_extremes(numbers, bounds)
    columns = [plain[start:end] for start, end in bounds]
    start, end = bounds[-1]
    last = end if start < end else start - 1
    return columns, least, greatest, position + int(ends[last]) + 1


def _find_columns(numbers: list[int]) -> list[tuple[int, int]]:
    """Walk the counts and return each column as a range of the numbers; its end, if it is not empty, follows it."""
    bounds = []
    index = 0
    for _ in NUMBER_COLUMNS:
        count = numbers[index]
        start = index + 1
        index = start
        if count:
            index += count
            if count < 0 or numbers[index]:
                raise _Unusual
            index += 1
        bounds.append((start, start + count))
    return bounds


def _vector_extremes(numbers: Int64s, bounds: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    filled = [index for index, (start, end) in enumerate(bounds) if start < end]
    least, greatest = list(COLUMN_LOWS), list(COLUMN_LOWS)
    if filled:
        # Pairs (start, end) of the filled columns; what lies between two columns gives extremes that are not read.
        edges = [edge for index in filled for edge in bounds[index]]
        for extremes, found in ((least, np.minimum.reduceat(numbers, edges)), (greatest, np.maximum.reduceat(numbers, edges))):
            for index, value in zip(filled, found[::2].tolist(), strict=True):
                extremes[index] = value
    return least, greatest
