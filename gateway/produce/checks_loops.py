"""The record batches of a Produce request are checked and become rows of a commit (`kafka.batches.BATCH`) in one pass over their bytes.
Compiled when installed; the `.pxd` has the types.

Records of uncompressed batches are walked one by one, so that none that a reader would stumble over gets into a file. Of compressed
batches only the header is read: the gateway never decompresses.
"""

from __future__ import annotations

from crc32c import crc32c

from gateway.produce.faults import (
    APPEND_TIME_SET,
    BAD_CODEC,
    BAD_COUNT,
    BAD_CRC,
    BAD_EPOCH,
    BAD_LENGTH,
    BAD_MAGIC,
    BAD_RECORD,
    BAD_SEQUENCE,
    BAD_TIMES,
    BASE_OFFSET_SET,
    BATCH_TIMES,
    BYTES_AFTER,
    CONTROL,
    NO_BATCH,
    OLD_MAGIC,
    OLD_ZSTD,
    RECORD_ERRORS_MAX,
    TOO_LARGE,
    TRANSACTIONAL,
)

ROW_BYTES = 77
HEADER_BYTES = 61
_CRC_FROM = 21
_LENGTH_FROM = 12
_LEGACY_BYTES_MIN = 14
"""The least length that a batch of any magic may say it has."""
_UNTIMED = -1
_TIME_MAX = 1 << 62
"""Sums of two numbers up to this one fit 64 bits."""


def check_batches(
    data: bytes,
    spans: list[int],
    first: int,
    stop: int,
    version: int,
    topic_id: bytes,
    partitions: int,
    bytes_max: int,
    is_append_time: bool,
    oldest_ms: int,
    newest_ms: int,
    rows: memoryview[int],
    row: int,
    starts: memoryview[int],
    places: memoryview[int],
    faults: list[tuple[int, int, int, int]],
    bad_records: list[tuple[int, int, int]],
) -> int:
    """Check the partitions of one topic from place `first` to `stop`; `spans` has index, start and size of each partition's records.

    Lawful batches become rows from `row` on, with `starts` and `places` beside them; returns the row after the last. A partition with a
    fault gets an entry in `faults` (`faults.Fault`), and its records with bad times in `bad_records`: place, place in the batch, timestamp.
    Partitions that the topic does not have are left to the caller, who sees that they have neither.
    """
    found = [0, 0, 0]
    view = memoryview(data)
    for place in range(first, stop):
        index, start, size = spans[3 * place], spans[3 * place + 1], spans[3 * place + 2]
        if index < 0 or index >= partitions:
            continue
        fault = _check_batch(data, view, start, size, version, bytes_max, is_append_time, oldest_ms, newest_ms, place, found, bad_records)
        if fault:
            faults.append((place, fault, found[0], found[1]))
            continue
        _write_row(data, start, size, topic_id, index, is_append_time, found[2], rows, row * ROW_BYTES)
        starts[row] = start
        places[row] = place
        row += 1
    return row


def _check_batch(
    data: bytes,
    view: memoryview[int],
    start: int,
    size: int,
    version: int,
    bytes_max: int,
    is_append_time: bool,
    oldest_ms: int,
    newest_ms: int,
    place: int,
    found: list[int],
    bad_records: list[tuple[int, int, int]],
) -> int:
    """What is wrong with the batch that fills `size` bytes; 0 for nothing, and then `found[2]` is its largest timestamp."""
    fault = _check_frame(data, start, size, version, bytes_max, found)
    if fault:
        return fault
    crc = _int(data, start + 17, 4) & 0xFFFFFFFF
    computed = crc32c(view[start + _CRC_FROM : start + size])
    if crc != computed:
        found[0], found[1] = crc, computed
        return BAD_CRC
    fault = _check_header(data, start, found)
    if fault:
        return fault
    base_ms, max_ms = _int(data, start + 27, 8), _int(data, start + 35, 8)
    found[0], found[1] = base_ms, max_ms
    if base_ms < _UNTIMED or base_ms >= _TIME_MAX or max_ms < _UNTIMED:
        return BATCH_TIMES
    if data[start + 22] & 0x07 == 0:
        count = _int(data, start + 57, 4)
        return _walk(data, start, start + size, count, base_ms, is_append_time, oldest_ms, newest_ms, place, found, bad_records)
    if not is_append_time and max_ms != _UNTIMED and (base_ms < oldest_ms or max_ms < oldest_ms or max_ms > newest_ms):
        return BATCH_TIMES
    found[2] = max_ms
    return 0


def _check_frame(data: bytes, start: int, size: int, version: int, bytes_max: int, found: list[int]) -> int:
    """The checks of a batch's length and version: what comes before its checksum."""
    found[0], found[1] = 0, size
    if size < _CRC_FROM - 4:
        return NO_BATCH
    length, magic = _int(data, start + 8, 4), _int(data, start + 16, 1)
    found[0] = length
    if length < _LEGACY_BYTES_MIN:
        return BAD_LENGTH
    if magic < 0 or magic > 2:
        found[0] = magic
        return BAD_MAGIC
    if length + _LENGTH_FROM > size:
        return NO_BATCH
    if magic < 2:
        found[0] = magic
        return OLD_MAGIC
    if length + _LENGTH_FROM < HEADER_BYTES:
        return BAD_LENGTH
    if version < 7 and data[start + 22] & 0x07 == 4:
        found[0] = version
        return OLD_ZSTD
    if length + _LENGTH_FROM < size:
        found[0] = size - length - _LENGTH_FROM
        return BYTES_AFTER
    base_offset = _int(data, start, 8)
    if base_offset:
        found[0] = base_offset
        return BASE_OFFSET_SET
    if size > bytes_max:
        found[0], found[1] = size, bytes_max
        return TOO_LARGE
    return 0


def _check_header(data: bytes, start: int, found: list[int]) -> int:
    """The checks of the fields of a header whose checksum is right."""
    found[0] = found[1] = 0
    attributes = data[start + 22]
    if attributes & 0x07 > 4:
        found[0] = attributes & 0x07
        return BAD_CODEC
    last, count = _int(data, start + 23, 4), _int(data, start + 57, 4)
    if last < 0 or count != last + 1:
        found[0], found[1] = count, last
        return BAD_COUNT
    if attributes & 0x20:
        return CONTROL
    if attributes & 0x10:
        return TRANSACTIONAL
    producer_id = _int(data, start + 43, 8)
    if producer_id >= 0:
        found[1] = producer_id
        sequence, epoch = _int(data, start + 53, 4), _int(data, start + 51, 2)
        if sequence < 0:
            found[0] = sequence
            return BAD_SEQUENCE
        if epoch < 0:
            found[0] = epoch
            return BAD_EPOCH
    # A reader would take the time from the header, which no producer knows.
    if attributes & 0x08:
        return APPEND_TIME_SET
    return 0


def _walk(
    data: bytes,
    start: int,
    end: int,
    count: int,
    base_ms: int,
    is_append_time: bool,
    oldest_ms: int,
    newest_ms: int,
    place: int,
    found: list[int],
    bad_records: list[tuple[int, int, int]],
) -> int:
    """Read the records of a batch without compression; `found[2]` becomes the largest timestamp."""
    at = start + HEADER_BYTES
    largest, bad = _UNTIMED, 0
    for record in range(count):
        head = begin = at
        at = _after_varint(data, at, end)
        size = _varint(data, begin, at) if at >= 0 else -1
        # Attributes, two deltas, two lengths and the number of headers have a byte each at least.
        if size < 6 or size > end - at:
            found[0], found[1] = record, head - start
            return BAD_RECORD
        begin = at + 1
        stop = at + size
        at = _after_varint(data, begin, stop)
        delta = _varint(data, begin, at) if at >= 0 else _TIME_MAX
        begin = at
        at = _after_varint(data, begin, stop) if begin >= 0 else -1
        if at < 0 or delta >= _TIME_MAX or delta <= -_TIME_MAX or _varint(data, begin, at) != record:
            found[0], found[1] = record, head - start
            return BAD_RECORD
        at = _after_fields(data, at, stop)
        if at != stop:
            found[0], found[1] = record, head - start
            return BAD_RECORD
        time = base_ms + delta
        if time > largest:
            largest = time
        if not is_append_time and time != _UNTIMED and (time < oldest_ms or time > newest_ms):
            bad += 1
            if bad <= RECORD_ERRORS_MAX:
                bad_records.append((place, record, time))
    if at != end:
        found[0], found[1] = count, at - start
        return BAD_RECORD
    found[2] = largest
    return BAD_TIMES if bad else 0


def _after_fields(data: bytes, at: int, stop: int) -> int:
    """The end of a record whose key begins at a place, or -1: key, value, headers."""
    for _ in range(2):
        at = _after_bytes(data, at, stop, True)
        if at < 0:
            return -1
    begin = at
    at = _after_varint(data, begin, stop)
    if at < 0:
        return -1
    headers = _varint(data, begin, at)
    if headers < 0 or headers > stop - at:
        return -1
    for _ in range(headers):
        at = _after_bytes(data, at, stop, False)
        if at >= 0:
            at = _after_bytes(data, at, stop, True)
        if at < 0:
            return -1
    return at


def _after_bytes(data: bytes, at: int, stop: int, may_be_null: bool) -> int:
    """The end of a field with a length before it, or -1."""
    begin = at
    at = _after_varint(data, begin, stop)
    if at < 0:
        return -1
    size = _varint(data, begin, at)
    if size == -1 and may_be_null:
        return at
    if size < 0 or size > stop - at:
        return -1
    return at + size


def _after_varint(data: bytes, at: int, end: int) -> int:
    """Where a varint of at most nine bytes ends, or -1. Nine have 62 bits and the sign; a tenth would only be needed beyond."""
    stop = at
    while stop < end and stop < at + 9:
        if data[stop] < 0x80:
            return stop + 1
        stop += 1
    return -1


def _varint(data: bytes, at: int, stop: int) -> int:
    """A number in zigzag."""
    rest = 0
    while stop > at:
        stop -= 1
        rest = rest << 7 | data[stop] & 0x7F
    return rest >> 1 ^ -(rest & 1)


def _write_row(
    data: bytes,
    start: int,
    size: int,
    topic_id: bytes,
    index: int,
    is_append_time: bool,
    max_ms: int,
    rows: memoryview[int],
    at: int,
) -> None:
    """Write a row of zeros full, but for the place in a file, which is not known yet."""
    rows[at] = 2
    for byte in range(16):
        rows[at + 5 + byte] = topic_id[byte]
    _put(index, rows, at + 21, 4)
    _put(size, rows, at + 29, 4)
    last = _int(data, start + 23, 4)
    _put(last, rows, at + 41, 8)
    _put(max_ms, rows, at + 49, 8)
    rows[at + 57] = 1 if is_append_time else 0
    producer_id = _int(data, start + 43, 8)
    sequence = _int(data, start + 53, 4)
    if producer_id < 0:
        _put(-1, rows, at + 58, 8)
        _put(-1, rows, at + 66, 2)
        _put(-1, rows, at + 68, 4)
        _put(-1, rows, at + 72, 4)
        return
    _put(producer_id, rows, at + 58, 8)
    _put(_int(data, start + 51, 2), rows, at + 66, 2)
    _put(sequence, rows, at + 68, 4)
    _put((sequence + last) & 0x7FFFFFFF, rows, at + 72, 4)


def gather(
    views: list[memoryview[int]], of_view: memoryview[int], starts: memoryview[int], sizes: memoryview[int]
) -> list[memoryview[int]]:
    """The batches of a file in order, each as a piece of the request it came with."""
    pieces = []
    for row in range(len(starts)):
        at = starts[row]
        pieces.append(views[of_view[row]][at : at + sizes[row]])
    return pieces


def _int(data: bytes, at: int, size: int) -> int:
    """A signed integer, most significant byte first."""
    value = -1 if data[at] & 0x80 else 0
    for place in range(at, at + size):
        value = value * 256 + data[place]
    return value


def _put(value: int, out: memoryview[int], at: int, size: int) -> None:
    """The bytes of an integer, most significant byte first."""
    for place in range(at + size - 1, at - 1, -1):
        out[place] = value & 0xFF
        value >>= 8
