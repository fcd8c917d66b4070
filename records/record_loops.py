"""The records of a batch as columns of numbers and bytes, without the interpreter lock. Compiled when installed; the `.pxd` has the types.

A record's bytes come from strangers: each number and each length is checked against the end of the record, and each record against the
end of the batch, before anything is read there.

    size | attributes 1 | timestamp delta | offset delta | key size | key | value size | value | header count
    | (name size | name | value size | value) for each header

Numbers are zigzag varints; the size -1 stands for null, which no name is.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from records import interpreted_cython as cython

OFFSET, TIMESTAMP_MS, KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, HEADERS_AT, HEADER_COUNT = range(8)
"""The lines of the fields of records."""
NAME_AT, NAME_SIZE, DATA_AT, DATA_SIZE = range(4)
"""The lines of the fields of headers."""
NEXT_AT, DELTA_BEFORE, FAULT, FOUND, LIMIT = range(5)
"""The state of a scan: where the next record is, the last offset delta, and what is wrong with the next record."""
BAD_SIZE, CUT, BAD_HEADER_COUNT, NO_NAME, TOO_SHORT, BAD_OFFSET = range(1, 7)
"""What is wrong with a record; FOUND and LIMIT are the numbers of it."""


def scan_records(
    body: memoryview,
    state: memoryview[int],
    rows: int,
    delta_max: int,
    base_offset: int,
    base_ms: int,
    append_ms: int,
    is_appended: bool,
    fields: memoryview[int],
) -> int:
    """Find the next `rows` records of a batch, from the state on, and return how many are sound; fewer than `rows` is a fault in the state.

    Offset deltas rise and are at most `delta_max`. Sums are of 64 bits and wrap, as Kafka's do. With `is_appended` all times are
    `append_ms`. Raises `IndexError` when state and fields have no room.
    """
    with cython.nogil:
        row = _scan_records(body, state, rows, delta_max, base_offset, base_ms, append_ms, is_appended, fields)
    return row


def _scan_records(
    body: memoryview,
    state: memoryview[int],
    rows: int,
    delta_max: int,
    base_offset: int,
    base_ms: int,
    append_ms: int,
    is_appended: bool,
    fields: memoryview[int],
) -> int:
    end = len(body)
    if end == 0:
        return _fault(state, 0, 2, 0, 0)
    raw = cython.address(body[0]) if cython.compiled else body
    for row in range(rows):
        size, at = _varint(raw, state[0], end)
        if at < 0 or size < 0 or size > end - at:
            return _fault(state, row, 1, size, end - state[0])
        stop = at + size
        time_delta, at = _varint(raw, at + 1, stop)  # after the record's attributes, which are unused
        delta, at = _varint(raw, at, stop)
        key_size, key_at = _size(raw, at, stop)
        value_size, value_at = _size(raw, _after(key_size, key_at), stop)
        headers, headers_at = _varint(raw, _after(value_size, value_at), stop)
        if headers_at < 0:
            return _fault(state, row, 2, 0, 0)
        if headers < 0 or headers > stop - headers_at:
            return _fault(state, row, 3, headers, stop - headers_at)
        at = headers_at
        for _ in range(headers):
            size, at = _size(raw, at, stop)
            if size < 0:
                return _fault(state, row, 4, 0, 0)
            size, at = _size(raw, _after(size, at), stop)
            at = _after(size, at)
        if at != stop:
            return _fault(state, row, 2 if at < 0 else 5, stop - at, 0)
        if delta <= state[1] or delta > delta_max:
            return _fault(state, row, 6, delta, state[1])
        fields[0, row] = _wrapped(base_offset, delta)
        fields[1, row] = append_ms if is_appended else _wrapped(base_ms, time_delta)
        fields[2, row] = key_at
        fields[3, row] = key_size
        fields[4, row] = value_at
        fields[5, row] = value_size
        fields[6, row] = headers_at
        fields[7, row] = headers
        state[0], state[1] = stop, delta
    return rows


def scan_headers(body: memoryview, fields: memoryview[int], first: int, stop: int, spans: memoryview[int]) -> None:
    """Find the headers of the records from row `first` to before `stop`, which were scanned. Raises `IndexError` when they were not."""
    row = _scan_headers(body, fields, first, stop, spans)
    if row < stop:
        raise IndexError(f"record {row} of {len(body)} bytes has no {fields[7, row]} headers at {fields[6, row]}")


def _scan_headers(body: memoryview, fields: memoryview[int], first: int, stop: int, spans: memoryview[int]) -> int:
    found, end = 0, len(body)
    if end == 0:
        return stop if first >= stop else first
    raw = cython.address(body[0]) if cython.compiled else body
    for row in range(first, stop):
        at = fields[6, row]
        for _ in range(fields[7, row]):
            size, at = _size(raw, at, end)
            if at < 0:
                return row
            spans[0, found] = at
            spans[1, found] = size
            size, at = _size(raw, _after(size, at), end)
            if at < 0:
                return row
            spans[2, found] = at
            spans[3, found] = size
            at = _after(size, at)
            found += 1
    return stop


def gather(
    body: memoryview,
    starts: memoryview[int],
    sizes: memoryview[int],
    first: int,
    stop: int,
    out: memoryview,
    at: int,
    ends: memoryview[int],
    bits: memoryview,
    row: int,
) -> int:
    """Copy the stretches from `first` to before `stop` of a body, one after the other, to `out` from `at` on; return where they end there.

    The end of each goes to `ends`, and those that are not null (size -1) set their bit, lowest first, both from `row` on. Raises
    `IndexError` when a stretch is not within the body, or there is no room.
    """
    if at < 0 or len(out) > 0x7FFFFFFF or first < 0 or stop > len(starts) or stop > len(sizes):
        raise IndexError(
            f"no stretches {first} to {stop} of {len(starts)} and {len(sizes)}, or no room for them in {len(out)} bytes at {at}"
        )
    if row < 0 or row + stop - first > len(ends) or row + stop - first > 8 * len(bits):
        raise IndexError(f"no room for {stop - first} stretches from row {row} on of {len(ends)}")
    with cython.nogil:
        end = _gather(body, starts, sizes, first, stop, out, at, ends, bits, row)
    if end < 0:
        raise IndexError(f"a stretch is not within {len(body)} bytes, or there are more than {len(out)}")
    return end


def _gather(
    body: memoryview,
    starts: memoryview[int],
    sizes: memoryview[int],
    first: int,
    stop: int,
    out: memoryview,
    at: int,
    ends: memoryview[int],
    bits: memoryview,
    row: int,
) -> int:
    """Return the end, or -1."""
    held, room = len(body), len(out)
    for place in range(first, stop):
        size, start = sizes[place], starts[place]
        if size >= 0:
            if start < 0 or size > held or start > held - size or size > room - at:
                return -1
            bits[row // 8] |= 1 << row % 8
        if size > 0:
            if cython.compiled:
                source, target = cython.address(body[start]), cython.address(out[at])
                for byte in range(size):
                    target[byte] = source[byte]
            else:
                out[at : at + size] = body[start : start + size]
            at += size
        ends[row] = at
        row += 1
    return at


def cut(body: memoryview, starts: memoryview[int], sizes: memoryview[int]) -> list[bytes | None]:
    """Cut the stretches out of a body; None for null. Raises `IndexError` when one is not within the body."""
    found: list[bytes | None] = []
    held = len(body)
    for place in range(len(starts)):
        size, start = sizes[place], starts[place]
        if size < 0:
            found.append(None)
        elif size == 0:
            found.append(b"")
        elif start < 0 or size > held or start > held - size:
            raise IndexError(f"stretch {place} [{start}, +{size}) is not within {held} bytes")
        elif cython.compiled:
            source = cython.address(body[start])
            found.append(source[:size])
        else:
            found.append(bytes(body[start : start + size]))
    return found


def _varint(raw: memoryview, at: int, stop: int) -> tuple[int, int]:
    """A number, and where it ends; at -1 when it does not end before `stop`, does not fit 64 bits, or begins at -1."""
    bits = shift = 0
    while 0 <= at < stop:
        byte = raw[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return bits >> 1 ^ -(bits & 1), at
        shift += 7
        if shift == 63 and at < stop and raw[at] > 1:
            break
    return 0, -1


def _size(raw: memoryview, at: int, stop: int) -> tuple[int, int]:
    """The size of a field, and where its bytes begin; at -1 when they do not end before `stop`."""
    size, at = _varint(raw, at, stop)
    if size < -1 or size > stop - at:
        return 0, -1
    return size, at


def _after(size: int, at: int) -> int:
    """Where the next field begins."""
    return at + size if at >= 0 and size > 0 else at


def _wrapped(one: int, other: int) -> int:
    """The sum in 64 bits."""
    return one + other if cython.compiled else (one + other + (1 << 63)) % (1 << 64) - (1 << 63)


def _fault(state: memoryview[int], row: int, fault: int, found: int, limit: int) -> int:
    state[2], state[3], state[4] = fault, found, limit
    return row
