"""Packs rows of batches into runs and sums their hashes. Compiled when installed; the `.pxd` has the types.

Rows are the lines of a two-dimensional array of int64 with the columns of `stored_rows.ROW`, packed batches lines of six numbers
of 32 bits (`stored_rows.PACKED`). The hash of a batch is that of `records.state_digest.hash_batches`, in which numbers are taken
modulo 2^64. Arrays are memoryviews, so that the same lines see plain ints when they are not compiled.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from records import interpreted_cython as cython

from coordinator.core.tables.cells import RING, RING_COUNT, RING_HEAD
from coordinator.core.tables.keyed_loops import KeyedRows
from records.state_digest import HASH_MULTIPLIERS, HASH_SEEDS, UINT64_MASK

_MASK = UINT64_MASK
_SEED_LOW, _SEED_HIGH = HASH_SEEDS
_MULTIPLY_1, _MULTIPLY_2 = HASH_MULTIPLIERS


def _mixed(x: int) -> int:
    """The finaliser of splitmix64."""
    x ^= x >> 30
    x = x * _MULTIPLY_1 & _MASK
    x ^= x >> 27
    x = x * _MULTIPLY_2 & _MASK
    return x ^ x >> 31


def _low(lane: int, word: int) -> int:
    """Take a word into the low half of a hash."""
    return _mixed(lane ^ word) + _SEED_LOW & _MASK


def _high(lane: int, word: int) -> int:
    """Take a word into the high half of a hash."""
    return _mixed(lane + word & _MASK) ^ _SEED_HIGH


def add_hashes(rows: memoryview[int], start: int, stop: int, low_key: int, high_key: int, sums: memoryview[int], to: int) -> None:
    """Add the hashes of `rows[start:stop]`, all of the partition with these lanes, to the pair `sums[to]`: high, low."""
    _add_hashes(rows, start, stop, low_key, high_key, sums, to)


def _add_hashes(rows: memoryview[int], start: int, stop: int, low_key: int, high_key: int, sums: memoryview[int], to: int) -> None:
    """Do the work of `add_hashes`."""
    low_start, high_start = low_key & _MASK, high_key & _MASK
    low_start ^= _SEED_LOW
    high_start ^= _SEED_HIGH
    high_sum, low_sum = sums[to, 0], sums[to, 1]
    for at in range(start, stop):
        word_0 = rows[at, 0] & _MASK
        word_1 = (rows[at, 1] & _MASK | (rows[at, 2] & _MASK) << 32) & _MASK
        word_2 = (rows[at, 3] & _MASK | (rows[at, 8] & _MASK) << 31 | (rows[at, 5] & _MASK) << 32) & _MASK
        word_3, word_4 = rows[at, 4] & _MASK, rows[at, 6] & _MASK
        low_sum = low_sum + _low(_low(_low(_low(_low(low_start, word_0), word_1), word_2), word_3), word_4) & _MASK
        high_sum = high_sum + _high(_high(_high(_high(_high(high_start, word_0), word_1), word_2), word_3), word_4) & _MASK
    sums[to, 0], sums[to, 1] = high_sum, low_sum


def _pack_run(rows: memoryview[int], start: int, stop: int, packed: memoryview[int], run: memoryview[int], to: int) -> bool:
    """Pack `rows[start:stop]` as one run and describe it in `run[to]`, unless distances do not fit: then False."""
    file_base = file_last = rows[start, 4]
    time_base = time_last = rows[start, 6]
    for at in range(start + 1, stop):
        file, timestamp = rows[at, 4], rows[at, 6]
        file_base, file_last = min(file_base, file), max(file_last, file)
        time_base, time_last = min(time_base, timestamp), max(time_last, timestamp)
    # Distances of 32 and 31 bits fit. Clients choose timestamps, so one may pass 2^63.
    newest, oldest = time_last & _MASK, time_base & _MASK
    if (newest - oldest & _MASK) >> 31 or file_last - file_base >> 32:
        return False
    log_append = 0x80000000  # beyond 31 bits: written in the loop it would be a Python number when compiled
    max_timestamp = rows[start, 7] if rows[start, 8] == 1 else rows[start, 6]
    for at in range(start, stop):
        count, timestamp, effective = rows[at, 1] - 1, rows[at, 6], rows[at, 6]
        if rows[at, 8] == 1:
            count, effective = count | log_append, rows[at, 7]
        packed[at, 0] = count
        packed[at, 1] = rows[at, 2]
        packed[at, 2] = rows[at, 3]
        packed[at, 3] = rows[at, 4] - file_base
        packed[at, 4] = timestamp - time_base
        packed[at, 5] = rows[at, 5]
        max_timestamp = max(max_timestamp, effective)
    last = stop - 1
    run[to, 1], run[to, 2] = rows[start, 0], rows[last, 0] + rows[last, 1] - 1
    run[to, 3], run[to, 4], run[to, 5] = max_timestamp, file_base, time_base
    run[to, 6], run[to, 7] = start, stop
    return True


def pack_stretches(
    rows: memoryview[int],
    starts: memoryview[int],
    stops: memoryview[int],
    partition: memoryview[int],
    lanes: memoryview[int],
    packed: memoryview[int],
    runs: memoryview[int],
    sums: memoryview[int],
) -> int:
    """Pack stretches of one partition each as runs, batch by batch where one does not fit the packed form; returns how many.

    `partition` numbers each stretch's partition: `lanes` and `sums` have a pair for each. Of every run `runs` gets that number,
    base, last, greatest timestamp, file base, timestamp base, and where it is in `packed`. Compiled, it runs without the interpreter lock.
    """
    with cython.nogil:
        return _pack_stretches(rows, starts, stops, partition, lanes, packed, runs, sums)


def _pack_stretches(
    rows: memoryview[int],
    starts: memoryview[int],
    stops: memoryview[int],
    partition: memoryview[int],
    lanes: memoryview[int],
    packed: memoryview[int],
    runs: memoryview[int],
    sums: memoryview[int],
) -> int:
    """Do the work of `pack_stretches`."""
    found = 0
    for stretch in range(len(starts)):
        start, stop, owner = starts[stretch], stops[stretch], partition[stretch]
        _add_hashes(rows, start, stop, lanes[owner, 0], lanes[owner, 1], sums, owner)
        if _pack_run(rows, start, stop, packed, runs, found):
            runs[found, 0] = owner
            found += 1
            continue
        for at in range(start, stop):
            _pack_run(rows, at, at + 1, packed, runs, found)
            runs[found, 0] = owner
            found += 1
    return found


def add_run(
    cells: memoryview[int],
    base: int,
    file_base: int,
    timestamp_base: int,
    from_offset: int,
    live_from: int,
    low_key: int,
    high_key: int,
    sums: memoryview[int],
    to: int,
    files: memoryview[int],
    counts: memoryview[int],
) -> int:
    """Add the hashes of a packed run's batches that end behind `from_offset` to the pair `sums[to]`, as `add_hashes` does.

    `cells` are six numbers of 32 bits a batch. Each batch is counted in `counts` at the place of its file in `files`, which are in
    order. Returns the offset behind the last batch, or -2 when the file of a batch that ends behind `live_from` is not there.
    """
    low_start, high_start = low_key & _MASK, high_key & _MASK
    low_start ^= _SEED_LOW
    high_start ^= _SEED_HIGH
    high_sum, low_sum = sums[to, 0], sums[to, 1]
    next_offset = base
    count_bits = 0x7FFFFFFF
    known = len(files)
    place = 0
    for batch in range(len(cells) // 6):
        at = batch * 6
        first = next_offset
        count = (cells[at] & count_bits) + 1
        next_offset = first + count
        if next_offset <= from_offset:
            continue
        file = cells[at + 3] + file_base
        if place >= known or files[place] != file:
            # Batches of one file stand together.
            place, stop = 0, known
            while place < stop:
                middle = (place + stop) // 2
                if files[middle] < file:
                    place = middle + 1
                else:
                    stop = middle
        if place < known and files[place] == file:
            counts[place] += 1
        elif next_offset > live_from:
            return -2
        kind, byte_offset, size, index = cells[at] >> 31, cells[at + 1], cells[at + 2], cells[at + 5]
        word_0 = first & _MASK
        word_1 = (count | byte_offset << 32) & _MASK
        word_2 = (size | kind << 31 | index << 32) & _MASK
        word_3 = file & _MASK
        word_4 = cells[at + 4] + timestamp_base & _MASK
        low_sum = low_sum + _low(_low(_low(_low(_low(low_start, word_0), word_1), word_2), word_3), word_4) & _MASK
        high_sum = high_sum + _high(_high(_high(_high(_high(high_start, word_0), word_1), word_2), word_3), word_4) & _MASK
    sums[to, 0], sums[to, 1] = high_sum, low_sum
    return next_offset


def take_out_run(
    cells: memoryview[int],
    base: int,
    file_base: int,
    timestamp_base: int,
    first_offset: int,
    target: int,
    end: int,
    low_key: int,
    high_key: int,
    sums: memoryview[int],
    files: memoryview[int],
    behind: memoryview[int],
) -> int:
    """Write the files of a packed run's batches that end in `[first_offset, target)` to `files`, and add their hashes to `sums[0]`.

    Batches that begin at `end` or later are not those of this run. Returns how many there are; `behind` gets the offset behind the
    last batch that was looked at.
    """
    low_start, high_start = low_key & _MASK, high_key & _MASK
    low_start ^= _SEED_LOW
    high_start ^= _SEED_HIGH
    high_sum, low_sum = sums[0, 0], sums[0, 1]
    next_offset = base
    count_bits = 0x7FFFFFFF
    gone = 0
    for batch in range(len(cells) // 6):
        if next_offset >= end:
            break
        at = batch * 6
        first = next_offset
        count = (cells[at] & count_bits) + 1
        next_offset = first + count
        if next_offset <= first_offset:
            continue
        if next_offset > target:
            break
        file = cells[at + 3] + file_base
        files[gone] = file
        gone += 1
        kind, byte_offset, size, index = cells[at] >> 31, cells[at + 1], cells[at + 2], cells[at + 5]
        word_0 = first & _MASK
        word_1 = (count | byte_offset << 32) & _MASK
        word_2 = (size | kind << 31 | index << 32) & _MASK
        word_3 = file & _MASK
        word_4 = cells[at + 4] + timestamp_base & _MASK
        low_sum = low_sum + _low(_low(_low(_low(_low(low_start, word_0), word_1), word_2), word_3), word_4) & _MASK
        high_sum = high_sum + _high(_high(_high(_high(_high(high_start, word_0), word_1), word_2), word_3), word_4) & _MASK
    sums[0, 0], sums[0, 1] = high_sum, low_sum
    behind[0] = next_offset
    return gone


def count_losses(files: memoryview[int], others: dict[int, Any], lost: dict[int, int]) -> list[int]:
    """Count a batch as lost for each of these files, which stand in `lost` then; returns those that stand in `others` instead."""
    found: list[int] = []
    for at in range(len(files)):
        file = files[at]
        if file in others:
            found.append(file)
        elif file in lost:
            count = lost[file]
            lost[file] = count + 1
        else:
            lost[file] = 1
    return found


def hash_lines(lines: memoryview[int], hashes: memoryview[int]) -> None:
    """A hash of 64 bits of each line of numbers. Compiled, it runs without the interpreter lock."""
    with cython.nogil:
        _hash_lines(lines, hashes)


def _hash_lines(lines: memoryview[int], hashes: memoryview[int]) -> None:
    """Do the work of `hash_lines`."""
    for at in range(lines.shape[0]):  # type: ignore[index]  # a view has a shape
        lane = _SEED_LOW
        for column in range(lines.shape[1]):  # type: ignore[index]
            word = lines[at, column] & _MASK
            lane = _low(lane, word)
        hashes[at] = lane


def count_from_lower_bases(cells: memoryview[int], start: int, stop: int, files: int, time: int) -> bool:
    """Rewrite packed batches `[start, stop)`, six cells each, for bases that are lower by so much; False when one does not fit."""
    for batch in range(start, stop):
        at = batch * 6
        file, timestamp = cells[at + 3] + files, cells[at + 4] + time
        if file >> 32 or timestamp >> 31:
            return False
        cells[at + 3], cells[at + 4] = file, timestamp
    return True


def copy_rings(
    which: memoryview[int], producers: KeyedRows, sequences: memoryview[int], others: memoryview[int], ends: memoryview[int]
) -> int:
    """Copy what is remembered of some producers, oldest first, and where each one's ends; returns the end.

    The two arrays are of the same bytes, 24 per batch as in `records.state_digest.PRODUCER_RING`: its sequences are the first
    two of six numbers of 32 bits, base offset and time the last two of three of 64.
    """
    to = 0
    for place in range(len(which)):
        row = which[place]
        remembered = producers.cells[row, RING_COUNT]
        batch = producers.cells[row, RING_HEAD] - remembered
        if batch < 0:
            batch += 5
        for _ in range(remembered):
            cell = RING + 4 * batch
            sequences[to, 0], sequences[to, 1] = producers.cells[row, cell], producers.cells[row, cell + 1]
            others[to, 1], others[to, 2] = producers.cells[row, cell + 2], producers.cells[row, cell + 3]
            batch = batch + 1 if batch < 4 else 0
            to += 1
        ends[place] = to
    return to
