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
        key = entry[2]
        if entry[0] != offset or key is None or len(key) != 20:
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
    runs: memoryview[int],
    batches: memoryview[int],
    index: dict[bytes, int],
    high_watermark: memoryview[int],
    ordinals: memoryview[int],
    keys: list[bytes],
    segments: memoryview[int],
    columns: memoryview[int],
    segment_of: memoryview[int],
    order: memoryview[int],
) -> int:
    """Spell out the batches of the files from `first` to `stop`, and sort them by partition, partitions by first appearance.

    `columns` gets, a row each: the file, counted from `first`, base offset, records, byte offset, size, timestamp and its type.
    `keys` gets the partitions, `segments` a column for each: its row in the table, the offset behind its last batch, and
    where its batches begin and end in `order`. `ordinals` has a place for every topic id of a file.
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
        for topic in range(heads[10, file]):
            ordinals[topic] = topic_numbers.setdefault(raw[topic_at : topic_at + 16], len(topic_numbers))
            topic_at += 16
        appended, position = heads[8, file], 0
        for _ in range(heads[12, file]):
            name = ordinals[runs[0, run]] * partitions_max + runs[1, run]
            segment = segment_numbers.setdefault(name, found)
            if segment == found:
                topic_at = heads[11, file] + runs[0, run] * 16
                key = raw[topic_at : topic_at + 16] + runs[1, run].to_bytes(4, "big")
                row = index.get(key, -1)
                if row < 0:
                    return first - file - 1
                keys.append(key)
                segments[0, found], segments[1, found], segments[3, found] = row, high_watermark[row], 0
                found += 1
            offset, length = runs[3, run], runs[2, run]
            if offset != segments[1, segment]:
                return first - file - 1
            for _at in range(length):
                count, size = batches[2, batch] + 1, batches[1, batch]
                position += batches[0, batch]
                columns[0, place], columns[1, place], columns[2, place] = file - first, offset, count
                columns[3, place], columns[4, place] = position, size
                columns[5, place], columns[6, place] = appended - batches[3, batch], batches[4, batch]
                segment_of[place] = segment
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
        segment = segment_of[at]
        order[segments[3, segment]] = at
        segments[3, segment] += 1
    return found


def place_producers(
    heads: memoryview[int],
    first: int,
    stop: int,
    producers: memoryview[int],
    segments: memoryview[int],
    segment_of: memoryview[int],
    index: dict[int, dict[int, int]],
    table_epoch: memoryview[int],
    mark: memoryview[int],
    batch: memoryview[int],
    producer_id: memoryview[int],
    sequence: memoryview[int],
    producer_of: memoryview[int],
    slots: memoryview[int],
    epochs: memoryview[int],
    starts: memoryview[int],
) -> int:
    """List the idempotent batches of the files from `first` to `stop` and number their producers by first appearance.

    Of each batch: its place, producer id, first sequence and the number of its producer. `slots` are the rows of the
    producers, below 0 for new ones, `epochs` theirs; `starts` is where each one's batches begin once they are sorted by
    producer, with their number behind it. `mark` has a place for every row of the producer table: 0 before and after.
    Returns how many producers there are, or -1 - file for the first file with another epoch than its producer's.
    """
    at = place = found = numbers = unusual = 0
    for file in range(first):
        at += heads[14, file]
    new: dict[tuple[int, int], int] = {}
    for file in range(first, stop):
        before = place
        for _ in range(heads[14, file]):
            before += producers[0, at]
            row, producer, epoch = segments[0, segment_of[before]], producers[1, at], producers[2, at]
            of_partition = index.get(row)
            known = None if of_partition is None else of_partition.get(producer)
            if known is None:
                number = new.setdefault((row, producer), numbers)
                if number == numbers:
                    slots[number], epochs[number] = -len(new), epoch
            else:
                slot = known
                number = mark[slot] - 1
                if number < 0:
                    number = numbers
                    mark[slot] = number + 1
                    slots[number], epochs[number] = slot, table_epoch[slot]
            if number == numbers:
                numbers += 1
                starts[number] = 0  # how many batches, until all are known
            if epoch != epochs[number]:
                unusual = first - file - 1
                break
            starts[number] += 1
            batch[found], producer_id[found], sequence[found], producer_of[found] = before, producer, producers[3, at], number
            found += 1
            at += 1
        if unusual:
            break
        place += heads[13, file]
    for number in range(numbers):
        if slots[number] >= 0:
            mark[slots[number]] = 0
    if unusual:
        return unusual
    end = 0
    for number in range(numbers):
        length = starts[number]
        starts[number] = end
        end += length
    starts[numbers] = end
    return numbers
