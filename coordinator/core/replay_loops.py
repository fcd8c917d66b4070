"""Blocks from decoded files: the loops over runs, batches and producers. Compiled when installed; the `.pxd` has the types.

The files are those of `records.bulk_decode.RawFiles`, whose columns agree with each other; what the state says against one
of them ends the loop with its number, for the readable path to judge. Columns are rows of two-dimensional arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.core.events import ReadEntry


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
    index: dict[bytes, int],
    high_watermark: memoryview[int],
    keys: list[bytes],
    segments: memoryview[int],
    columns: memoryview[int],
) -> int:
    """Spell out the batches of the files from `first` to `stop`, and sort them by partition, partitions by first appearance.

    `columns` gets, a row each: the file, counted from `first`, base offset, records, byte offset, size, timestamp, its type,
    the order by partition, and the number of the partition.
    `keys` gets the partitions, `segments` a column for each: its row in the table, the offset behind its last batch, and
    where its batches begin and end in that order.
    Returns how many partitions there are, or -1 - file for the first one with an unknown partition or an offset not due.
    """
    run = batch = 0
    for file in range(first):
        run += heads[12, file]
        batch += heads[13, file]
    found = place = 0
    partitions_max = 0x80000000
    topic_numbers: dict[bytes, int] = {}
    segment_numbers: dict[int, int] = {}
    for file in range(first, stop):
        topic_at = heads[11, file]
        ordinals: list[int] = []
        for _ in range(heads[10, file]):
            ordinals.append(topic_numbers.setdefault(raw[topic_at : topic_at + 16], len(topic_numbers)))
            topic_at += 16
        appended, position = heads[8, file], 0
        for _ in range(heads[12, file]):
            topic_number = ordinals[decoded[0, run]]
            name = topic_number * partitions_max + decoded[1, run]
            segment = segment_numbers.setdefault(name, found)
            if segment == found:
                topic_at = heads[11, file] + decoded[0, run] * 16
                key = raw[topic_at : topic_at + 16] + decoded[1, run].to_bytes(4, "big")
                row = index.get(key, -1)
                if row < 0:
                    return first - file - 1
                keys.append(key)
                segments[0, found], segments[1, found], segments[3, found] = row, high_watermark[row], 0
                found += 1
            offset, length = decoded[3, run], decoded[2, run]
            if offset != segments[1, segment]:
                return first - file - 1
            for _at in range(length):
                count, size = decoded[7, batch] + 1, decoded[6, batch]
                position += decoded[5, batch]
                columns[0, place], columns[1, place], columns[2, place] = file - first, offset, count
                columns[3, place], columns[4, place] = position, size
                columns[5, place], columns[6, place] = appended - decoded[8, batch], decoded[9, batch]
                columns[8, place] = segment
                offset += count
                position += size
                batch += 1
                place += 1
            segments[1, segment] = offset
            segments[3, segment] += length
            run += 1
    end = 0
    for segment in range(found):
        length = segments[3, segment]
        segments[2, segment] = segments[3, segment] = end
        end += length
    for at in range(place):
        segment = columns[8, at]
        columns[7, segments[3, segment]] = at
        segments[3, segment] += 1
    return found


def place_producers(
    heads: memoryview[int],
    first: int,
    stop: int,
    decoded: memoryview[int],
    segments: memoryview[int],
    columns: memoryview[int],
    index: dict[int, dict[int, int]],
    table_epoch: memoryview[int],
    mark: memoryview[int],
    listed: memoryview[int],
    of_batch: memoryview[int],
    of_producer: memoryview[int],
) -> int:
    """Sort the idempotent batches of the files from `first` to `stop` by producer, producers by first appearance.

    `segments` and `columns` are those of `place_batches`. `of_batch` gets, a row each: the place, the first and the last
    sequence; `of_producer`: where its batches begin, its partition's number, its id, its row in the table, below 0 for a new
    one, and its epoch. `listed` has four rows as long as there are batches, `mark` a place for every row of the table: 0
    before and after.
    Returns how many producers there are, or -1 - file for the first file with another epoch than its producer's.
    """
    at = place = found = numbers = unusual = 0
    for file in range(first):
        at += heads[14, file]
    new: dict[tuple[int, int], int] = {}
    for file in range(first, stop):
        batch = place
        for _ in range(heads[14, file]):
            batch += decoded[10, at]
            segment, producer, epoch = columns[8, batch], decoded[11, at], decoded[12, at]
            row = segments[0, segment]
            of_partition = index.get(row)
            known = None if of_partition is None else of_partition.get(producer)
            if known is None:
                slot = -1
                number = new.setdefault((row, producer), numbers)
            else:
                slot = known
                number = mark[slot] - 1
                if number < 0:
                    number = numbers
                    mark[slot] = number + 1
            if number == numbers:
                numbers += 1
                of_producer[0, number] = 0  # how many batches, until all are known
                of_producer[1, number], of_producer[2, number], of_producer[3, number] = segment, producer, slot
                of_producer[4, number] = epoch if slot < 0 else table_epoch[slot]
            if epoch != of_producer[4, number]:
                unusual = first - file - 1
                break
            of_producer[0, number] += 1
            listed[0, found], listed[1, found], listed[2, found] = batch, number, decoded[13, at]
            found += 1
            at += 1
        if unusual:
            break
        place += heads[13, file]
    end = 0
    for number in range(numbers):
        if of_producer[3, number] >= 0:
            mark[of_producer[3, number]] = 0
        length = of_producer[0, number]
        of_producer[0, number] = listed[3, number] = end
        end += length
    if unusual:
        return unusual
    for place in range(found):
        batch, number, sequence = listed[0, place], listed[1, place], listed[2, place]
        to = listed[3, number]
        listed[3, number] = to + 1
        of_batch[0, to], of_batch[1, to], of_batch[2, to] = batch, sequence, (sequence + columns[2, batch] - 1) & 0x7FFFFFFF
    return numbers
