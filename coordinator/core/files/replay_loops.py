"""Blocks from decoded files: the loops over runs, batches and producers. Compiled when installed; the `.pxd` has the types.

The files are those of `records.bulk_decode.RawFiles`, whose columns agree with each other; what the state says against one
of them ends the loop with its number, for the readable path to judge. Columns are rows of two-dimensional arrays, but the
batches of a block are lines (`cold.ROW`): what is written sorted is written far apart, and a line is one place.

Partitions and producers are found by numbers in open tables (`lookup`): a dictionary would make an object of every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator.core.tables.scratch import (
    AT,
    FIRST_SEQUENCE,
    ITS_EPOCH,
    ITS_ID,
    ITS_SLOT,
    LAST_SEQUENCE,
    PRODUCER_SEGMENT,
    PRODUCER_START,
)

if TYPE_CHECKING:
    from coordinator.core.log_entry import ReadEntry

_MASK = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15


def count_due(entries: Sequence[ReadEntry], head: bytes, seq: int, offset: int) -> int:
    """How many entries, from the first one on, stand where they are due and have the next key: `head`, 12 bytes, and the seq."""
    passed = 0
    for entry in entries:
        stands_at, key = entry[0], entry[2]
        if stands_at != offset or key is None or len(key) != 20:
            break
        same = 0
        while same < 12 and key[same] == head[same]:
            same += 1
        # Seven bytes of the seq are more than anybody counts to.
        found = 0
        for place in range(13, 20):
            found = found * 256 + key[place]
        if same < 12 or key[12] != 0 or found != seq:
            break
        passed += 1
        seq += 1
        offset += 1
    return passed


def place_batches(
    raw: bytes,
    heads: memoryview[int],
    first: int,
    stop: int,
    decoded: memoryview[int],
    file_ids: memoryview[int],
    index: dict[bytes, int],
    high_watermark: memoryview[int],
    max_timestamp: memoryview[int],
    max_timestamp_offset: memoryview[int],
    lookup: memoryview[int],
    topics: memoryview[int],
    segments: memoryview[int],
    runs: memoryview[int],
    rows: memoryview[int],
) -> int:
    """Write the batches of the files from `first` to `stop` as rows, sorted by partition, partitions by first appearance.

    `file_ids` are those of these files alone. `segments` gets a column for each partition: its row in the table, the offset
    behind its last batch, where its batches begin and end in `rows`, and the greatest effective timestamp it has then with that
    one's offset. `runs` gets, of every run of these files, the number of its partition and where its batches begin in `rows`.
    `lookup` has zeros, a power of two of them, twice as many as there can be partitions; `topics` is as long as the most
    topics of a file.
    Returns how many partitions there are, or -1 - file for one with an unknown partition, an offset not due, or a batch that
    begins beyond 2^31 bytes; the files before it are to be tried again.
    """
    found = _find_partitions(raw, heads, first, stop, decoded, index, high_watermark, lookup, topics, segments, runs)
    if found < 0:
        return found
    run, batch = _runs_before(heads, first, 12), _runs_before(heads, first, 13)
    end = ran = 0
    for segment in range(found):
        row, length = segments[0, segment], segments[3, segment]
        segments[2, segment] = segments[3, segment] = end
        segments[4, segment], segments[5, segment] = max_timestamp[row], max_timestamp_offset[row]
        end += length
    for file in range(first, stop):
        appended, file_id = heads[8, file], file_ids[file - first]
        position = place = 0
        for _ in range(heads[12, file]):
            segment, offset, length = runs[0, ran], decoded[3, run], decoded[2, run]
            if offset != segments[1, segment]:
                return first - file - 1
            to, greatest = segments[3, segment], segments[4, segment]
            runs[1, ran] = to
            for at in range(batch, batch + length):
                count, size, timestamp, kind = decoded[7, at] + 1, decoded[6, at], appended - decoded[8, at], decoded[9, at]
                position += decoded[5, at]
                if position > 0x7FFFFFFF:
                    return first - file - 1
                rows[to, 0], rows[to, 1], rows[to, 2], rows[to, 3] = offset, count, position, size
                rows[to, 4], rows[to, 5] = file_id, place
                rows[to, 6], rows[to, 7], rows[to, 8] = timestamp, appended, kind
                position += size
                offset += count
                effective = appended if kind == 1 else timestamp  # 1: LogAppendTime
                if effective > greatest:
                    greatest = effective
                    segments[4, segment], segments[5, segment] = effective, offset - 1
                place += 1
                to += 1
            segments[1, segment], segments[3, segment] = offset, to
            batch += length
            run += 1
            ran += 1
    return found


def _runs_before(heads: memoryview[int], file: int, kind: int) -> int:
    """How many values of a kind the files before one have."""
    count = 0
    for before in range(file):
        count += heads[kind, before]
    return count


def _find_partitions(
    raw: bytes,
    heads: memoryview[int],
    first: int,
    stop: int,
    decoded: memoryview[int],
    index: dict[bytes, int],
    high_watermark: memoryview[int],
    lookup: memoryview[int],
    topics: memoryview[int],
    segments: memoryview[int],
    runs: memoryview[int],
) -> int:
    """Number the partitions of runs: `runs[0]` gets the numbers, `segments` the row, high watermark, and batches of each."""
    run = _runs_before(heads, first, 12)
    found = ran = 0
    partitions_max = 0x80000000
    places = len(lookup)
    topic_numbers: dict[bytes, int] = {}
    for file in range(first, stop):
        topic_at = heads[11, file]
        for topic in range(heads[10, file]):
            topics[topic] = topic_numbers.setdefault(raw[topic_at : topic_at + 16], len(topic_numbers))
            topic_at += 16
        for _ in range(heads[12, file]):
            name = topics[decoded[0, run]] * partitions_max + decoded[1, run]
            slot = _spread(name) & (places - 1)
            while lookup[slot] > 0 and segments[2, lookup[slot] - 1] != name:
                slot = (slot + 1) & (places - 1)
            segment = lookup[slot] - 1
            if segment < 0:
                topic_at = heads[11, file] + decoded[0, run] * 16
                row = index.get(raw[topic_at : topic_at + 16] + decoded[1, run].to_bytes(4, "big"), -1)
                if row < 0:
                    return first - file - 1
                segment = found
                found += 1
                lookup[slot] = found
                segments[0, segment], segments[1, segment] = row, high_watermark[row]
                segments[2, segment], segments[3, segment] = name, 0
            segments[3, segment] += decoded[2, run]
            runs[0, ran] = segment
            run += 1
            ran += 1
    return found


def _spread(name: int) -> int:
    """Numbers that are near to each other, far from each other."""
    name = name * _ODD & _MASK
    return name >> 32


def place_producers(
    heads: memoryview[int],
    first: int,
    stop: int,
    decoded: memoryview[int],
    segments: memoryview[int],
    runs: memoryview[int],
    rows: memoryview[int],
    index: dict[int, dict[int, int]],
    table_epoch: memoryview[int],
    head: memoryview[int],
    ring_last: memoryview[int],
    lookup: memoryview[int],
    listed: memoryview[int],
    of_batch: memoryview[int],
    of_producer: memoryview[int],
) -> int:
    """Sort the idempotent batches of the files from `first` to `stop` by producer, producers by first appearance.

    `segments`, `runs` and `rows` are those of `place_batches`, `of_batch` and `of_producer` the tables of `ProducerColumns`;
    the place of a batch is that in `rows`. `listed` has four rows as long as there are batches, `lookup` zeros as in `place_batches`.
    `head` and `ring_last` are columns of the table of producers.
    Returns how many producers there are, or -1 - file for the first file with another epoch than its producer's, or with a sequence
    that is not its next one.
    """
    at, run = _runs_before(heads, first, 14), _runs_before(heads, first, 12)
    ran = found = numbers = 0
    places = len(lookup)
    for file in range(first, stop):
        batch = run_start = run_end = 0
        for _ in range(heads[14, file]):
            batch += decoded[10, at]
            while batch >= run_end:
                run_start = run_end
                run_end += decoded[2, run]
                run += 1
                ran += 1
            segment, row_at = runs[0, ran - 1], runs[1, ran - 1] + batch - run_start
            producer, epoch = decoded[11, at], decoded[12, at]
            slot = _spread(producer ^ segment << 40) & (places - 1)
            while lookup[slot] > 0 and (
                of_producer[ITS_ID, lookup[slot] - 1] != producer or of_producer[PRODUCER_SEGMENT, lookup[slot] - 1] != segment
            ):
                slot = (slot + 1) & (places - 1)
            number = lookup[slot] - 1
            if number < 0:
                of_partition = index.get(segments[0, segment])
                known = None if of_partition is None else of_partition.get(producer)
                row = -1 if known is None else known
                number = numbers
                numbers += 1
                lookup[slot] = numbers
                of_producer[PRODUCER_START, number] = 0  # how many batches, until all are known
                of_producer[PRODUCER_SEGMENT, number], of_producer[ITS_ID, number], of_producer[ITS_SLOT, number] = segment, producer, row
                of_producer[ITS_EPOCH, number] = epoch if row < 0 else table_epoch[row]
                # `listed[3]` has the producer's next sequence until all batches are known, -1: any.
                listed[3, number] = -1 if row < 0 else (ring_last[row * 5 + (head[row] + 4) % 5] + 1) & 0x7FFFFFFF
            sequence = decoded[13, at]
            if epoch != of_producer[ITS_EPOCH, number] or (sequence != listed[3, number] and listed[3, number] >= 0):
                return first - file - 1
            listed[3, number] = (sequence + rows[row_at, 1]) & 0x7FFFFFFF
            of_producer[PRODUCER_START, number] += 1
            listed[0, found], listed[1, found], listed[2, found] = row_at, number, sequence
            found += 1
            at += 1
        while run_end < heads[13, file]:
            run_end += decoded[2, run]
            run += 1
            ran += 1
    end = 0
    for number in range(numbers):
        length = of_producer[PRODUCER_START, number]
        of_producer[PRODUCER_START, number] = listed[3, number] = end
        end += length
    for place in range(found):
        row_at, number, sequence = listed[0, place], listed[1, place], listed[2, place]
        to = listed[3, number]
        listed[3, number] = to + 1
        of_batch[AT, to], of_batch[FIRST_SEQUENCE, to] = row_at, sequence
        of_batch[LAST_SEQUENCE, to] = (sequence + rows[row_at, 1] - 1) & 0x7FFFFFFF
    return numbers


def advance_partitions(
    count: int,
    rows: memoryview[int],
    segments: memoryview[int],
    high_watermark: memoryview[int],
    max_timestamp: memoryview[int],
    max_timestamp_offset: memoryview[int],
) -> int:
    """Take what `place_batches` found of so many partitions into the table.

    Changes nothing and returns the first partition whose batches do not begin at the high watermark; -1 is success.
    """
    for segment in range(count):
        if rows[segments[2, segment], 0] != high_watermark[segments[0, segment]]:
            return segment
    for segment in range(count):
        row = segments[0, segment]
        high_watermark[row] = segments[1, segment]
        max_timestamp[row], max_timestamp_offset[row] = segments[4, segment], segments[5, segment]
    return -1


def remember_rows(
    slots: list[int],
    of_producer: memoryview[int],
    of_batch: memoryview[int],
    found: int,
    rows: memoryview[int],
    table_epoch: memoryview[int],
    head: memoryview[int],
    remembered: memoryview[int],
    last_append: memoryview[int],
    ring_first: memoryview[int],
    ring_last: memoryview[int],
    ring_base: memoryview[int],
    ring_time: memoryview[int],
) -> None:
    """What `apply_loops.remember_batches` does, for rows."""
    for number in range(len(slots)):
        slot = slots[number]
        start = of_producer[PRODUCER_START, number]
        stop = of_producer[PRODUCER_START, number + 1] if number + 1 < len(slots) else found
        if table_epoch[slot] < 0:
            table_epoch[slot] = of_producer[ITS_EPOCH, number]
        place, held = head[slot], remembered[slot] + stop - start
        for at in range(start, stop):
            cell, row_at = slot * 5 + place, of_batch[AT, at]
            ring_first[cell], ring_last[cell] = of_batch[FIRST_SEQUENCE, at], of_batch[LAST_SEQUENCE, at]
            ring_base[cell] = rows[row_at, 0]
            ring_time[cell] = rows[row_at, 7] if rows[row_at, 8] == 1 else -1
            last_append[slot] = rows[row_at, 7]
            place = place + 1 if place < 4 else 0
        head[slot] = place
        remembered[slot] = held if held < 5 else 5


def copy_rows(
    rows: memoryview[int], starts: memoryview[int], stops: memoryview[int], targets: memoryview[int], to_rows: memoryview[int]
) -> None:
    """Copy stretches of rows, each to its target."""
    for stretch in range(len(starts)):
        to = targets[stretch]
        for at in range(starts[stretch], stops[stretch]):
            for column in range(9):
                to_rows[to, column] = rows[at, column]
            to += 1
