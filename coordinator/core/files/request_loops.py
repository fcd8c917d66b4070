"""The batches of CommitFile requests as lines, with the checks of their form: one pass over the bytes. Compiled when installed; the
`.pxd` has the types.
"""

from __future__ import annotations

from coordinator.core.files.outcomes import BAD_MAGIC, BAD_OFFSETS, BAD_RANGE, BAD_TIME, BAD_TYPE, OUT_OF_ORDER
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
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC_HIGH,
    TOPIC_LOW,
    VERDICT,
)
from records.state_digest import HASH_MULTIPLIERS

_MASK = 0xFFFFFFFFFFFFFFFF
_ODD_1 = 0x9E3779B97F4A7C15
_ODD_2 = 0xC2B2AE3D27D4EB4F
_MULTIPLY_1, _MULTIPLY_2 = HASH_MULTIPLIERS
_LAWFUL = (0, 0)


def _int32(data: bytes, at: int) -> int:
    """A big-endian number of 4 bytes; the sign is that of its first."""
    top = data[at]
    if top > 127:
        top -= 256
    return ((top * 256 + data[at + 1]) * 256 + data[at + 2]) * 256 + data[at + 3]


def _int64(data: bytes, at: int) -> int:
    """A big-endian number of 8 bytes."""
    low = data[at + 4]  # by itself first: a product of bytes alone would be a C int
    low = ((low * 256 + data[at + 5]) * 256 + data[at + 6]) * 256 + data[at + 7]
    high = _int32(data, at)  # by itself too, and the factor in two parts: larger ones would be Python's ints when compiled
    return high * 65536 * 65536 + low


def _mixed(lane: int, word: int, odd: int) -> int:
    """Take a word into half of a hash: a product and a shift, each of which loses nothing."""
    lane = (lane ^ (word & _MASK)) * odd & _MASK
    return lane ^ lane >> 32


def _scattered(word: int) -> int:
    """The finaliser of splitmix64, so that the halves of a hash do not lose the same differences."""
    word &= _MASK
    word = (word ^ word >> 30) * _MULTIPLY_1 & _MASK
    word = (word ^ word >> 27) * _MULTIPLY_2 & _MASK
    return word ^ word >> 31


def _put_word(out: memoryview[int], at: int, word: int) -> None:
    """Write the eight bytes of half of a hash, the most significant first."""
    for place in range(7, -1, -1):
        out[at + place] = word & 0xFF
        word >>= 8


def _flaw_of(magic: int, offset: int, size: int, file_size: int, first: int, last: int, time: int, kind: int) -> int:
    """Return what is unlawful in one batch by itself (`outcomes`), 0 for nothing."""
    if magic != 2:
        return BAD_MAGIC
    if size <= 0 or offset < 0 or offset + size > file_size:
        return BAD_RANGE
    if first < 0 or last < first or last - first > 0x7FFFFFFF:
        return BAD_OFFSETS
    if kind > 1:
        return BAD_TYPE
    return BAD_TIME if time < -1 else 0


def read_requests(
    raw: bytes,
    first_line: list[int],
    heads: list[tuple[int, int]],
    owner_ids: list[list[int]],
    lines: memoryview[int],
    hashes: memoryview[int],
) -> list[tuple[int, int]]:
    """Fill lines from batches in the form of requests (`kafka.batches.BATCH`, 77 bytes each), undecided.

    Returns of each file the place in it of the first unlawful batch, and what is wrong with it (`outcomes`), 0 for nothing. DETAIL is the
    last sequence. The lines of a file with a fault are not all filled. `heads` has format and size of each file, `hashes` gets the 16 bytes
    of its content hash: everything that a commit says but the key, the request ids of batches, and times of the file, all of which a retry
    may change. Numbers by file come and go as lists: an array of few numbers costs more to make than it saves.
    """
    files = len(first_line) - 1
    batches = first_line[files]
    faults: list[tuple[int, int]] = []
    data = raw  # compiled: an unchecked address; hence the check of the length
    if len(raw) != batches * 77:
        raise IndexError(f"{len(raw)} bytes are not {batches} batches")
    for file in range(files):
        start, stop = first_line[file], first_line[file + 1]
        if not 0 <= start <= stop <= batches:
            raise IndexError(f"the batches of file {file} are not within those of all")
        object_format, file_size = heads[file]
        owners = owner_ids[file]
        end_of_previous = fault_place = fault = 0
        low, high = _mixed(_ODD_1, object_format, _ODD_2), _mixed(_ODD_2, file_size, _ODD_1)
        low, high = _mixed(low, stop - start, _ODD_1), _mixed(high, len(owners), _ODD_2)
        for owner in owners:
            low, high = _mixed(low, owner, _ODD_1), _mixed(high, _scattered(owner), _ODD_2)
        for line in range(start, stop):
            at = line * 77
            offset, size = _int32(data, at + 25), _int32(data, at + 29)
            first, last = _int64(data, at + 33), _int64(data, at + 41)
            time, kind = _int64(data, at + 49), data[at + 57]
            reason = _flaw_of(data[at], offset, size, file_size, first, last, time, kind)
            if reason:
                fault_place, fault = line - start, reason
                break
            if offset < end_of_previous:
                fault = OUT_OF_ORDER
            end_of_previous = offset + size
            lines[line, FILE], lines[line, ROW], lines[line, VERDICT] = file, -1, 0
            lines[line, TOPIC_HIGH], lines[line, TOPIC_LOW] = _int64(data, at + 5), _int64(data, at + 13)
            lines[line, PARTITION] = _int32(data, at + 21)
            lines[line, BASE_OFFSET], lines[line, LOG_START], lines[line, RECORD_COUNT] = -1, -1, last - first + 1
            lines[line, BYTE_OFFSET], lines[line, BYTE_SIZE] = offset, size
            lines[line, TIMESTAMP], lines[line, TIMESTAMP_TYPE] = time, kind
            producer, epoch = _int64(data, at + 58), data[at + 66] * 256 + data[at + 67]
            if producer < 0 or epoch > 0x7FFF:
                lines[line, PRODUCER_ID] = lines[line, PRODUCER_EPOCH] = lines[line, BASE_SEQUENCE] = -1
                lines[line, DETAIL] = 0
            else:
                lines[line, PRODUCER_ID], lines[line, PRODUCER_EPOCH] = producer, epoch
                lines[line, BASE_SEQUENCE], lines[line, DETAIL] = _int32(data, at + 68), _int32(data, at + 72)
            for word in range(8):
                number = lines[line, TOPIC_HIGH]
                if word == 1:
                    number = lines[line, TOPIC_LOW]
                elif word == 2:
                    number = lines[line, PARTITION] * 65536 * 65536 + lines[line, RECORD_COUNT] - 1
                elif word == 3:
                    number = offset * 65536 * 65536 + size
                elif word == 4:
                    number = time
                elif word == 5:
                    number = lines[line, PRODUCER_ID]
                elif word == 6:
                    number = lines[line, PRODUCER_EPOCH] * 2 + kind
                elif word == 7:
                    number = lines[line, BASE_SEQUENCE] * 65536 * 65536 + lines[line, DETAIL]
                low, high = _mixed(low, number, _ODD_1), _mixed(high, _scattered(number), _ODD_2)
        _put_word(hashes, file * 16, _mixed(low, 0, _ODD_2))
        _put_word(hashes, file * 16 + 8, _mixed(high, 0, _ODD_1))
        faults.append((fault_place, fault) if fault else _LAWFUL)
    return faults
