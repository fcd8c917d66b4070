"""The two loops between `FileCommitted` entries and lines: one writes, one reads. Compiled when installed; the `.pxd` has the types.

They know kinds and forms of columns (`records.committed_files.layouts`), not the columns. Arrays are memoryviews, so that the same lines
see plain ints when not compiled. Nothing is read or written past an array: an index out of range is an IndexError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from records.committed_files.head import FileHead
from records.committed_files.layouts import BIT, FILE_BYTES_MAX, FORM, GREATEST, INT_BYTES_MAX, KIND, LEAST, LINE, Layout
from records.committed_files.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BYTE_OFFSET,
    BYTE_SIZE,
    DETAIL,
    FILE,
    LOG_START,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    ROW,
    TOPIC_HIGH,
    TOPIC_LOW,
    VERDICT,
)
from records.errors import InvalidRecord

_PREFIX_BYTES = 12
_ID_BYTES = 16
_SIZE_ROOM = 5
"""Bytes of the varint of a record's size."""
_HEAD_NUMBERS = 12
"""Counts and numbers of a head, without the owners."""


# ---- what both loops hold


class _Page:
    """The arrays of a loop, handed on together: a view by itself is copied by every call that it is given to.

    `numbers` has those of a head or a column between lines and bytes. Writing, `ends` has where the runs of a file end; reading,
    `defaults` has the values of columns that a file leaves out.
    """

    columns: memoryview[int]
    ends: memoryview[int]
    out: memoryview[int]
    defaults: memoryview[int]
    data: memoryview[int]

    def __init__(self, lines: memoryview[int], numbers: memoryview[int]) -> None:
        self.lines, self.numbers = lines, numbers


def _run_end(page: _Page, first: int, stop: int) -> int:
    """Where the run ends that begins with a line: lines of one partition with one log start, accepted ones without gaps in offsets."""
    due = -1
    for line in range(first, stop):
        if (
            page.lines[line, PARTITION] != page.lines[first, PARTITION]
            or page.lines[line, TOPIC_LOW] != page.lines[first, TOPIC_LOW]
            or page.lines[line, TOPIC_HIGH] != page.lines[first, TOPIC_HIGH]
            or page.lines[line, LOG_START] != page.lines[first, LOG_START]
        ):
            return line
        if page.lines[line, VERDICT] == 0:
            if due >= 0 and page.lines[line, BASE_OFFSET] != due:
                return line
            due = page.lines[line, BASE_OFFSET] + page.lines[line, RECORD_COUNT]
    return stop


def _first_offset(page: _Page, first: int, stop: int) -> int:
    """The offset of the first accepted line of a run, 0 when there is none."""
    for line in range(first, stop):
        if page.lines[line, VERDICT] == 0:
            return page.lines[line, BASE_OFFSET]
    return 0


def _find_fault(page: _Page, first: int, stop: int) -> str | None:
    """The rule that a file's lines break, other than the ranges of columns; None when they are lawful."""
    long_max = 0x7FFFFFFFFFFFFFFF
    for line in range(first, stop):
        count, base, verdict = page.lines[line, RECORD_COUNT], page.lines[line, BASE_OFFSET], page.lines[line, VERDICT]
        if count < 1 or page.lines[line, BYTE_SIZE] < 0:
            return "a batch has no records or a negative size"
        if verdict > 1:
            if base != -1:
                return "a refused batch has an offset"
        elif base < 0 or count > long_max - base:
            return "offsets are negative or exceed 64 bits"
        elif verdict == 0 and page.lines[line, DETAIL] != 0:
            return "an accepted batch has a detail"
        if page.lines[line, BYTE_OFFSET] < 0 or page.lines[line, BYTE_SIZE] > long_max - page.lines[line, BYTE_OFFSET]:
            return "byte positions are negative or exceed 64 bits"
        if (
            page.lines[line, PRODUCER_ID] < 0
            and (page.lines[line, PRODUCER_ID] & page.lines[line, PRODUCER_EPOCH] & page.lines[line, BASE_SEQUENCE]) != -1
        ):
            return "a batch without a producer has an epoch or a sequence"
        if page.lines[line, PRODUCER_ID] >= 0 and page.lines[line, BASE_SEQUENCE] < 0 and verdict < 2:
            return "a batch that was not refused has a negative sequence"
    return None


# ---- writing


def write_files(prefix: bytes, layout: Layout, heads: list[FileHead], first_line: list[int], table: npt.NDArray[np.int64]) -> list[bytes]:
    """The entry of each file. Raises InvalidRecord, OverflowError for a number of a head with more than 64 bits,
    UnicodeEncodeError for a key that is no text.
    """
    room, owners_max = layout.batch_bytes_max, 0
    room *= len(table)  # by itself: the product with an attribute would be Python's
    files: list[tuple[Any, ...]] = []
    for head in heads:
        fields: tuple[Any, ...] = tuple(head)  # compiled, items of a plain tuple are read without a call
        files.append(fields)
        owners = len(fields[4])
        owners_max = max(owners_max, owners)
        room += FILE_BYTES_MAX + 4 * len(fields[0]) + INT_BYTES_MAX * owners
    out, numbers, ends = (
        np.empty(room, np.uint8),
        np.empty(len(table) + owners_max + _HEAD_NUMBERS, np.int64),
        np.empty(len(table), np.int64),
    )
    page = _Page(table.data, numbers.data)
    page.columns, page.ends, page.out = layout.numbers, ends.data, out.data
    spans: list[int] = []
    at = 0
    for file in range(len(files)):
        first, stop = first_line[file], first_line[file + 1]
        fault = _find_fault(page, first, stop)
        if fault is not None:
            raise InvalidRecord(f"FileCommitted: {fault}")
        # The size of the record precedes it and is known last: its place is left open, and the entry begins close before it.
        start = at + _PREFIX_BYTES + _SIZE_ROOM
        end = _write_record(page, start, layout, files[file], first, stop)
        size_bytes = 1
        size = end - start
        while size > 0x3F:
            size_bytes += 1
            size >>= 7
        at = start - size_bytes - _PREFIX_BYTES
        spans.append(at)
        at = _put_bytes(page, at, prefix)
        page.numbers[0] = end - start
        _put_numbers(page, at, 1)
        page.out[end] = 0  # the end of the entry's array of records
        at = end + 1
        spans.append(at)
    data = out[:at].tobytes()
    entries: list[bytes] = []
    for file in range(len(files)):
        start, end = spans[2 * file], spans[2 * file + 1]
        entries.append(data[start:end])
    return entries


def _put_bytes(page: _Page, at: int, data: bytes) -> int:
    """Write bytes; returns where they end, as all of these do."""
    for place in range(len(data)):
        page.out[at + place] = data[place]
    return at + len(data)


def _put_long(page: _Page, at: int, number: int) -> int:
    """Write eight bytes, the most significant first."""
    for place in range(7, -1, -1):
        page.out[at + place] = number & 0xFF
        number >>= 8
    return at + 8


def _put_numbers(page: _Page, at: int, count: int) -> int:
    """Write the zigzag varints of the first numbers."""
    for place in range(count):
        number = page.numbers[place]
        unsigned = number if number >= 0 else ~number
        unsigned = unsigned << 1 if number >= 0 else unsigned << 1 | 1  # only now: a C number with a sign has no room for another bit
        while unsigned > 0x7F:
            page.out[at] = unsigned & 0x7F | 0x80
            unsigned >>= 7
            at += 1
        page.out[at] = unsigned
        at += 1
    return at


def _write_record(page: _Page, at: int, layout: Layout, fields: tuple[Any, ...], first: int, stop: int) -> int:
    """Write a record without its size."""
    runs = topics = idempotent = others = 0
    line = first
    while line < stop:
        if line == first or _other_topic(page, line):
            topics += 1
        line = _run_end(page, line, stop)
        page.ends[runs] = line
        runs += 1
    for line in range(first, stop):
        if page.lines[line, PRODUCER_ID] >= 0:
            idempotent += 1
        if page.lines[line, VERDICT] >= 1:
            others += 1
    page.out[at] = layout.version
    mask, mask_at = 0, at + 1
    page.numbers[0], page.numbers[1], page.numbers[2], page.numbers[3], page.numbers[4] = stop - first, runs, topics, idempotent, others
    at = _write_head(page, at + 2, fields)
    line = first
    for run in range(runs):
        if line == first or _other_topic(page, line):
            at = _put_long(page, at, page.lines[line, TOPIC_HIGH])
            at = _put_long(page, at, page.lines[line, TOPIC_LOW])
        line = page.ends[run]
    append = fields[6]
    for column in range(len(page.columns)):
        kind, bit = page.columns[column, KIND], page.columns[column, BIT]
        if kind == 0:
            count = _take_of_runs(page, column, first, runs)
        elif kind == 1:
            count = _take_of_batches(page, column, first, stop, append)
        else:
            count = idempotent if kind == 2 else others
            if count == 0:
                continue
            _take_of_some(page, column, first, stop)
        least, greatest, bits = page.columns[column, LEAST], page.columns[column, GREATEST], 0
        for place in range(count):
            number = page.numbers[place]
            if number < least or number > greatest:
                raise InvalidRecord(f"FileCommitted: {layout.names[column]} holds {number}; it may hold {least} to {greatest}")
            bits |= number
        if bit == 0 or bits != 0:
            mask |= bit
            at = _put_numbers(page, at, count)
    page.out[mask_at] = mask
    return at


def _write_head(page: _Page, at: int, fields: tuple[Any, ...]) -> int:
    """Write the numbers of a head after the counts, and the other fields of the file as a whole."""
    key, owner_ids, content_hash = fields[0].encode(), fields[4], fields[7]
    page.numbers[5], page.numbers[6], page.numbers[7], page.numbers[8], page.numbers[9] = (
        fields[1],
        fields[2],
        fields[3],
        fields[5],
        fields[6],
    )
    _check_int(page.numbers[5], "object_format")
    _check_int(page.numbers[7], "uploader_broker_id")
    page.numbers[10], page.numbers[11] = len(key), len(owner_ids)
    place = _HEAD_NUMBERS
    for owner_id in owner_ids:
        page.numbers[place] = owner_id
        _check_int(page.numbers[place], "an owner")
        place += 1
    if len(content_hash) != _ID_BYTES:
        raise InvalidRecord(f"FileCommitted: content_hash has {len(content_hash)} bytes; it has {_ID_BYTES}")
    at = _put_numbers(page, at, place)
    return _put_bytes(page, _put_bytes(page, at, key), content_hash)


def _check_int(number: int, name: str) -> None:
    if number < -0x7FFFFFFF - 1 or number > 0x7FFFFFFF:
        raise InvalidRecord(f"FileCommitted: {name} is {number}; it has 32 bits")


def _take_of_runs(page: _Page, column: int, first: int, runs: int) -> int:
    """Take the numbers of a column of runs ; returns how many."""
    form, place = page.columns[column, FORM], page.columns[column, LINE]
    line = first
    for run in range(runs):
        after = page.ends[run]
        if form == 0:
            page.numbers[run] = page.lines[line, place]
        elif form == 1:
            page.numbers[run] = after - line
        elif form == 2:
            page.numbers[run] = 1 if line == first or _other_topic(page, line) else 0
        else:
            page.numbers[run] = _first_offset(page, line, after)
        line = after
    return runs


def _take_of_batches(page: _Page, column: int, first: int, stop: int, append: int) -> int:
    """Take the numbers of a column of batches; returns how many. Raises InvalidRecord for a timestamp too far from the append time."""
    long_max = 0x7FFFFFFFFFFFFFFF
    form, place = page.columns[column, FORM], page.columns[column, LINE]
    end = 0
    for line in range(first, stop):
        number = page.lines[line, place]
        if form == 5:
            number -= 1
        elif form == 6:
            if (append >= 0 and number < append - long_max) or (append < 0 and number > append + long_max):
                raise InvalidRecord(f"FileCommitted: timestamp {number} and append time {append} are more than 64 bits apart")
            number = append - number
        elif form == 4:
            number -= end
            end = page.lines[line, place] + page.lines[line, BYTE_SIZE]
        page.numbers[line - first] = number
    return stop - first


def _take_of_some(page: _Page, column: int, first: int, stop: int) -> None:
    """Take the numbers of a column of idempotent batches, or of those that were not accepted."""
    kind, form, place = page.columns[column, KIND], page.columns[column, FORM], page.columns[column, LINE]
    member = PRODUCER_ID if kind == 2 else VERDICT
    from_member = 0 if kind == 2 else 1
    found, before = 0, first
    for line in range(first, stop):
        if page.lines[line, member] >= from_member:
            page.numbers[found] = line - before if form == 7 else page.lines[line, place]
            found += 1
            before = line


def _other_topic(page: _Page, line: int) -> bool:
    """Whether a line has another topic than the one before it."""
    return (
        page.lines[line, TOPIC_LOW] != page.lines[line - 1, TOPIC_LOW] or page.lines[line, TOPIC_HIGH] != page.lines[line - 1, TOPIC_HIGH]
    )


# ---- reading


def read_files(
    values: Sequence[bytes],
    starts: list[int] | None,
    ends: list[int] | None,
    layouts: Mapping[bytes, Layout],
    defaults: npt.NDArray[np.int64],
) -> tuple[list[int], list[FileHead], list[int], npt.NDArray[np.int64]]:
    """Read the values that are entries of one file; `values[i][starts[i]:ends[i]]`, or all of each.

    `layouts` has what entries begin with, `defaults` the values of columns that a file leaves out. Returns which values were
    read, the heads of the files, where the lines of each begin (and the last end), and the lines. Whatever the bytes are, it raises
    nothing, and the lines take at most 50 times their size.
    """
    room = longest = 0
    for value in range(len(values)):
        raw = values[value]
        start, end = starts[value] if starts is not None else 0, ends[value] if ends is not None else len(raw)
        room += _claimed_batches(raw, start, end)
        longest = max(longest, end - start)
    table = np.empty((room, len(defaults)), np.int64)
    page = _Page(table.data, np.empty(longest + _HEAD_NUMBERS, np.int64).data)
    page.defaults = defaults.data
    taken: list[int] = []
    heads: list[FileHead] = []
    first_line = [0]
    first = 0
    known, opened = None, None
    for value in range(len(values)):
        raw = values[value]
        start, end = starts[value] if starts is not None else 0, ends[value] if ends is not None else len(raw)
        layout = layouts.get(raw[start : min(start + _PREFIX_BYTES, end)])
        if layout is None:
            continue
        if layout is not known:
            page.columns, version = layout.numbers, layout.version
            known = layout
        if raw is not opened:
            page.data = memoryview(raw)
            opened = raw
        stop = first + _claimed_batches(raw, start, end)
        head = _read_record(page, raw, start + _PREFIX_BYTES, end, version, first, stop, len(taken))
        if head is None:
            continue
        first = stop
        taken.append(value)
        heads.append(head)
        first_line.append(first)
    return taken, heads, first_line, table[:first] if first < room else table


def _claimed_batches(raw: bytes, at: int, end: int) -> int:
    """How many batches an entry of a file says it has; 0 when it says nonsense. A batch takes three bytes at least."""
    at += _PREFIX_BYTES
    while at < end and raw[at] > 0x7F:
        at += 1
    at += 3  # the last byte of the size, version, mask
    batches = shift = 0
    while at < end and shift < 56:
        digit = raw[at] & 0x7F
        batches |= digit << shift
        if raw[at] <= 0x7F:
            return batches >> 1 if batches >> 1 <= (end - at) // 3 else 0
        at += 1
        shift += 7
    return 0


def _read_numbers(page: _Page, at: int, end: int, count: int, least: int, greatest: int) -> int:
    """Read zigzag varints in their shortest form, within a range; returns the place after them, -1 when there are not so many."""
    for place in range(count):
        if at >= end:
            return -1
        byte = page.data[at]
        at += 1
        unsigned = byte & 0x7F
        shift = 0
        while byte > 0x7F:
            shift += 7
            if at >= end or shift > 63:
                return -1
            byte = page.data[at]
            at += 1
            # A last byte of 0 adds nothing; a tenth byte has one bit left to add.
            if byte == 0 or (shift == 63 and byte != 1):
                return -1
            high = byte & 0x7F
            unsigned |= high << shift
        half = unsigned >> 1
        number = ~half if unsigned & 1 else half
        if number < least or number > greatest:
            return -1
        page.numbers[place] = number
    return at


def _long_at(page: _Page, at: int) -> int:
    """Eight bytes, the most significant first, as a signed number."""
    number = page.data[at]
    if number > 127:
        number -= 256
    for place in range(at + 1, at + 8):
        number = number * 256 + page.data[place]
    return number


def _read_record(
    page: _Page,
    raw: bytes,
    at: int,
    end: int,
    version: int,
    first: int,
    stop: int,
    file: int,
) -> FileHead | None:
    """Read what follows the prefix into lines; returns the head, None when it is not what `write_files` writes."""
    long_max = 0x7FFFFFFFFFFFFFFF
    at = _read_numbers(page, at, end, 1, 2, end - at)
    if at < 0 or page.numbers[0] != end - at - 1 or page.data[end - 1] != 0 or page.data[at] != version:
        return None
    end -= 1
    mask = page.data[at + 1]
    at = _read_numbers(page, at + 2, end, _HEAD_NUMBERS, -long_max - 1, long_max)
    if at < 0 or page.numbers[0] != stop - first or not _is_head(page, end - at):
        return None
    runs, topics, idempotent, others, append = page.numbers[1], page.numbers[2], page.numbers[3], page.numbers[4], page.numbers[9]
    file_size, key_bytes, owners = page.numbers[6], page.numbers[10], page.numbers[11]
    object_format, uploader, created = page.numbers[5], page.numbers[7], page.numbers[8]
    at = _read_numbers(page, at, end, owners, -0x7FFFFFFF - 1, 0x7FFFFFFF)
    if at < 0 or key_bytes > end - at - _ID_BYTES or topics > (end - at - _ID_BYTES - key_bytes) // _ID_BYTES:
        return None
    owner_ids: list[int] = []
    for place in range(owners):
        owner_ids.append(page.numbers[place])  # noqa: PERF401  # compiled, a comprehension would index by Python numbers
    hash_at = at + key_bytes
    topics_at = hash_at + _ID_BYTES
    try:
        key = raw[at:hash_at].decode()
    except UnicodeDecodeError:
        return None
    at = topics_at + topics * _ID_BYTES
    for line in range(first, stop):
        for place in range(len(page.defaults)):
            page.lines[line, place] = page.defaults[place]
    bits = 0
    for column in range(len(page.columns)):
        kind, form, bit = page.columns[column, KIND], page.columns[column, FORM], page.columns[column, BIT]
        least, greatest = page.columns[column, LEAST], page.columns[column, GREATEST]
        bits |= bit
        if bit != 0 and mask & bit == 0:
            continue
        if form == 6 and append >= 0:  # the ages of which a timestamp has 64 bits
            least = append - long_max
        elif form == 6:
            greatest = append + long_max + 1
        count = runs if kind == 0 else stop - first if kind == 1 else idempotent if kind == 2 else others
        at = _read_numbers(page, at, end, count, least, greatest)
        if at < 0 or (bit != 0 and _are_zero(page, count)):
            return None
        if kind == 0:
            is_lawful = _give_to_runs(page, column, first, stop, runs, topics_at, topics)
        elif kind == 1:
            is_lawful = _give_to_batches(page, column, first, stop, append)
        else:
            is_lawful = count == 0 or _give_to_some(page, column, first, stop, count)
        if not is_lawful:
            return None
    if at != end or mask | bits != bits or not _derive(page, first, stop, file):
        return None
    return FileHead(key, object_format, file_size, uploader, owner_ids, created, append, raw[hash_at:topics_at])


def _is_head(page: _Page, left: int) -> bool:
    """Whether the numbers of a head are possible, given how many bytes follow them."""
    for place in range(5):
        if page.numbers[place] < 0 or page.numbers[place] > left:
            return False
    for place in range(5, 8, 2):
        if page.numbers[place] < -0x7FFFFFFF - 1 or page.numbers[place] > 0x7FFFFFFF:
            return False
    return 0 <= page.numbers[10] <= left and 0 <= page.numbers[11] <= left


def _are_zero(page: _Page, count: int) -> bool:
    bits = 0
    for place in range(count):
        bits |= page.numbers[place]
    return bits == 0


def _give_to_runs(page: _Page, column: int, first: int, stop: int, runs: int, topics_at: int, topics: int) -> bool:
    """Give a column of runs to their lines. Until `_derive`, the first line of a run has its length as ROW and its offset as FILE."""
    form, place = page.columns[column, FORM], page.columns[column, LINE]
    line, topic = first, -1
    for run in range(runs):
        number = page.numbers[run]
        if form == 1:
            if number > stop - line:
                return False
            page.lines[line, ROW] = number
            line += number
            continue
        after = line + page.lines[line, ROW]
        if form == 3:
            page.lines[line, FILE] = number
        elif form == 2:
            topic += number
            if topic < 0 or topic >= topics:
                return False
            high = _long_at(page, topics_at + topic * _ID_BYTES)
            low = _long_at(page, topics_at + topic * _ID_BYTES + 8)
            for same in range(line, after):
                page.lines[same, TOPIC_HIGH] = high
                page.lines[same, TOPIC_LOW] = low
            if run > 0 and number == 1 and not _other_topic(page, line):
                return False
        else:
            for same in range(line, after):
                page.lines[same, place] = number
        line = after
    return line == stop and (form != 2 or topic == topics - 1)


def _give_to_batches(page: _Page, column: int, first: int, stop: int, append: int) -> bool:
    """Give a column of batches to their lines. Until `_derive`, the place of a batch in the file is the gap before it."""
    form, place = page.columns[column, FORM], page.columns[column, LINE]
    for line in range(first, stop):
        number = page.numbers[line - first]
        if form == 5:
            number += 1
        elif form == 6:
            number = append - number
        page.lines[line, place] = number
    return True


def _give_to_some(page: _Page, column: int, first: int, stop: int, count: int) -> bool:
    """Give a column of idempotent batches, or of those that were not accepted, to their lines. The distances mark them as such."""
    kind, form, place = page.columns[column, KIND], page.columns[column, FORM], page.columns[column, LINE]
    member = PRODUCER_ID if kind == 2 else VERDICT
    from_member = 0 if kind == 2 else 1
    found, line = 0, first
    if form == 7:
        for found in range(count):
            if page.numbers[found] >= stop - line or (found > 0 and page.numbers[found] == 0):
                return False
            line += page.numbers[found]
            page.lines[line, member] = from_member
        return True
    for line in range(first, stop):
        if page.lines[line, member] >= from_member:
            page.lines[line, place] = page.numbers[found]
            found += 1
    return True


def _derive(page: _Page, first: int, stop: int, file: int) -> bool:
    """Set offsets, positions and the file of lines whose columns were read; returns whether they are lawful."""
    long_max = 0x7FFFFFFFFFFFFFFF
    position = 0
    line = first
    while line < stop:
        after, offset = line + page.lines[line, ROW], page.lines[line, FILE]
        accepted = 0
        for one in range(line, after):
            page.lines[one, FILE] = file
            gap = page.lines[one, BYTE_OFFSET]
            if gap > long_max - position:
                return False
            page.lines[one, BYTE_OFFSET] = position + gap
            if page.lines[one, BYTE_OFFSET] < 0 or page.lines[one, BYTE_SIZE] > long_max - page.lines[one, BYTE_OFFSET]:
                return False
            position += gap + page.lines[one, BYTE_SIZE]
            if page.lines[one, VERDICT] == 0:
                accepted += 1
                page.lines[one, BASE_OFFSET] = offset
                if page.lines[one, RECORD_COUNT] > long_max - offset:
                    return False
                offset += page.lines[one, RECORD_COUNT]
        if accepted == 0 and offset != 0:
            return False
        line = after
    if _find_fault(page, first, stop) is not None:
        return False
    line = first
    while line < stop:
        after = line + page.lines[line, ROW]
        page.lines[line, ROW] = -1
        if _run_end(page, line, stop) != after:
            return False
        line = after
    return True
