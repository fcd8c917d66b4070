"""Deciding plain commits: the loops over the batches of a group. Compiled when installed; the `.pxd` has the types.

Batches come as bytes of the wire, 77 each (`batches.BATCH`), file after file; results go to tables, one row per kind of number
(`scratch.py`) and one place per batch, run, partition or producer. Nothing here is a rule of its own: whatever is not plain ends
the loop with the number of its file, for `commit.py` to decide. Tables are memoryviews, so that the same lines see plain ints
when not compiled.
"""

from __future__ import annotations

from coordinator.core.tables.scratch import (
    AT,
    BASE,
    BYTE_OFFSET,
    COUNT,
    CURSOR,
    EPOCH,
    EXPECTED,
    FILE_OF,
    FILE_SIZE,
    FIRST_SEQUENCE,
    ITS_EPOCH,
    ITS_ID,
    ITS_SLOT,
    LAST_SEQUENCE,
    LOG_START,
    ORDER,
    PLACE,
    PRODUCER,
    PRODUCER_SEGMENT,
    PRODUCER_START,
    ROW,
    RUN_FIRST,
    SEGMENT,
    SEGMENT_ROW,
    SIZE,
    SLOT,
    START,
    STARTS,
    STOPS,
    TIMESTAMP,
    TYPE,
)
from records.file_tables import (
    BASE_SEQUENCE,
    BATCHES_OF_FILE,
    BYTE_GAP,
    BYTE_SIZE,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    PRODUCER_INDEX,
    PRODUCERS_OF_FILE,
    RECORD_COUNT_MINUS_ONE,
    RUN_BASE_OFFSET,
    RUN_LENGTH,
    RUN_LOG_START,
    RUN_PARTITION,
    RUN_TOPIC,
    RUNS_OF_FILE,
    TIMESTAMP_AGE,
    TIMESTAMP_TYPE,
)


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


def _is_equal(data: bytes, one: int, other: int, length: int) -> bool:
    """Whether two stretches are the same; neighbours differ in their last bytes, if they do."""
    back = length
    while back > 0 and data[one + back - 1] == data[other + back - 1]:
        back -= 1
    return back == 0


def read_batches(
    raw: bytes,
    file_count: int,
    append_time_ms: int,
    index: dict[bytes, int] | None,
    seen: memoryview[int],
    files: memoryview[int],
    columns: memoryview[int],
    batches: memoryview[int],
    runs: memoryview[int],
    topics: list[list[bytes]],
) -> int:
    """Check the batches by themselves, find their partitions' rows in `index`, and cut files into runs of one partition.

    `files` has batches and sizes, and gets runs, and no idempotent batches yet. `TIMESTAMP_AGE` is how long before
    `append_time_ms` a batch's timestamp is. `topics` gets the topic ids of each file in order of appearance, which `RUN_TOPIC`
    counts. Without an `index` every row is 0. `seen` has 256 places at least.
    Returns the number of runs, or -1 - file for the first file that is not plain.
    """
    places = len(raw) // 77
    if len(raw) != places * 77:
        raise IndexError(f"{len(raw)} bytes are not whole batches")
    for guess in range(256):
        seen[guess] = 0
    data = raw  # compiled: an address, which nobody checks; hence the looks at the length and at each file's number of batches
    at = place = run = 0
    ids_before: list[bytes] = []
    for file in range(file_count):
        of_file = files[BATCHES_OF_FILE, file]
        if of_file > places - place:
            raise IndexError(f"{of_file} batches of file {file}, {places - place} are left")
        file_size, end_of_previous = files[FILE_SIZE, file], 0
        first_run, first_place = run, place
        row_now = topic_at = ordinal = 0
        known: dict[bytes, int] = {}
        for _ in range(of_file):
            offset, length = _int32(data, at + 25), _int32(data, at + 29)
            first, last = _int64(data, at + 33), _int64(data, at + 41)
            time, kind = _int64(data, at + 49), data[at + 57]
            if data[at] != 2 or length <= 0 or offset < end_of_previous or offset + length > file_size:
                return -1 - file
            if first < 0 or last < first or last - first > 0x7FFFFFFF or kind > 1 or time < -1:
                return -1 - file
            if place == first_place or not _is_equal(data, at + 5, at - 72, 20):
                # Files of a group have many partitions in common: the last batch with the same few bytes is likely to know the row.
                guess = (data[at + 24] + 31 * data[at + 23] + 7 * data[at + 20] + 17 * data[at + 5]) & 0xFF
                before = seen[guess] - 1
                seen[guess] = place + 1
                if before >= 0 and _is_equal(data, at + 5, before * 77 + 5, 20):
                    row_now = batches[ROW, before]
                elif index is not None:
                    found = index.get(data[at + 5 : at + 25])
                    if found is None:
                        return -1 - file
                    row_now = found
                if place == first_place or not _is_equal(data, at + 5, topic_at, 16):
                    topic_at = at + 5
                    ordinal = known.setdefault(data[topic_at : topic_at + 16], len(known))
                runs[RUN_FIRST, run], runs[RUN_LENGTH, run], runs[RUN_TOPIC, run] = place, 0, ordinal
                runs[RUN_PARTITION, run] = _int32(data, at + 21)
                run += 1
            runs[RUN_LENGTH, run - 1] += 1
            columns[FILE_OF, place], batches[ROW, place] = file, row_now
            columns[BYTE_OFFSET, place], batches[BYTE_GAP, place] = offset, offset - end_of_previous
            columns[SIZE, place] = batches[BYTE_SIZE, place] = length
            columns[COUNT, place], batches[RECORD_COUNT_MINUS_ONE, place] = last - first + 1, last - first
            columns[TIMESTAMP, place], batches[TIMESTAMP_AGE, place] = time, append_time_ms - time
            columns[TYPE, place] = batches[TIMESTAMP_TYPE, place] = kind
            end_of_previous = offset + length
            at += 77
            place += 1
        files[RUNS_OF_FILE, file], files[PRODUCERS_OF_FILE, file] = run - first_run, 0
        ids = list(known)
        ids_before = ids_before if ids == ids_before else ids  # the same list: whoever encodes it does so once
        topics.append(ids_before)
    return run


def assign_offsets(
    places: int,
    found: int,
    offsets_max: int,
    columns: memoryview[int],
    batches: memoryview[int],
    runs: memoryview[int],
    high_watermark: memoryview[int],
    log_start: memoryview[int],
    mark: memoryview[int],
) -> int:
    """Give every batch its base offset, dense from its partition's high watermark on, in the order of the requests.

    Each of the runs that were `found` gets what its first batch has. Batches are sorted by partition into `ORDER`, partitions by
    first appearance. `mark` has a place for every row of the partition table: 0 before and after.
    Returns how many partitions those are, or -1 - file for the first file with a batch that would end beyond `offsets_max`.
    """
    segments = unusual = 0
    for place in range(places):
        at = batches[ROW, place]
        segment = mark[at] - 1
        if segment < 0:
            segment = segments
            segments += 1
            mark[at] = segments
            runs[SEGMENT_ROW, segment] = at
            columns[STARTS, segment] = high_watermark[at]  # the next offset, until all have theirs
            columns[STOPS, segment] = 0  # how many, until then
        length, base = columns[COUNT, place], columns[STARTS, segment]
        if length > offsets_max - base:
            unusual = -1 - columns[FILE_OF, place]
            break
        batches[SEGMENT, place] = segment
        columns[BASE, place], columns[LOG_START, place] = base, log_start[at]
        columns[STARTS, segment] = base + length
        columns[STOPS, segment] += 1
    if unusual:
        for segment in range(segments):
            mark[runs[SEGMENT_ROW, segment]] = 0
        return unusual
    for run in range(found):
        place = runs[RUN_FIRST, run]
        runs[RUN_BASE_OFFSET, run], runs[RUN_LOG_START, run] = columns[BASE, place], columns[LOG_START, place]
    end = 0
    for segment in range(segments):
        mark[runs[SEGMENT_ROW, segment]] = 0
        columns[STARTS, segment], end = end, end + columns[STOPS, segment]
        columns[STOPS, segment] = columns[STARTS, segment]
    for place in range(places):
        segment = batches[SEGMENT, place]
        columns[ORDER, columns[STOPS, segment]] = place
        columns[STOPS, segment] += 1
    return segments


def read_producers(
    raw: bytes,
    index: dict[int, dict[int, int]],
    guesses: memoryview[int],
    owner: memoryview[int],
    producer_of_slot: memoryview[int],
    table_epoch: memoryview[int],
    head: memoryview[int],
    ring_last: memoryview[int],
    mark: memoryview[int],
    files: memoryview[int],
    columns: memoryview[int],
    batches: memoryview[int],
    idempotent: memoryview[int],
    producers: memoryview[int],
) -> int:
    """Prove that every idempotent batch follows on its producer's last one, in the same epoch, and list these batches.

    `idempotent` gets of each: its place, producer id, epoch, first sequence, the number of its producer by first appearance, and
    its distance from the one before in its file (the first: from the file's first batch); `files` how many there are. `SLOT` is
    the row of a producer, below 0 for a new one, `EPOCH` its epoch; `START` is where its batches begin once they are sorted by
    producer, with their number behind the last.
    `mark` has a place for every row of the producer table: 0 before and after. `guesses`, a power of two of them, are rows of the
    table where a producer was found before: looking there is cheaper than in `index`, and wrong guesses do no harm.
    Returns how many producers there are, or -1 - file for the first file that is not plain.
    """
    places = len(raw) // 77
    if len(raw) != places * 77:
        raise IndexError(f"{len(raw)} bytes are not whole batches")
    data = raw  # as above
    found = count = unusual = before = 0
    guess_mask = len(guesses) - 1
    new: dict[tuple[int, int], int] = {}
    for place in range(places):
        at = place * 77
        producer, its_epoch = _int64(data, at + 58), data[at + 66] * 256 + data[at + 67]
        if producer < 0 or its_epoch > 0x7FFF:
            continue
        row, file = batches[ROW, place], columns[FILE_OF, place]
        first, last = _int32(data, at + 68), _int32(data, at + 72)
        if first < 0 or last != (first + columns[COUNT, place] - 1) & 0x7FFFFFFF:
            unusual = -1 - file
            break
        guess = (producer & guess_mask) + row * 40503 & guess_mask  # ids go up to 2^63 - 1: nothing is added to a whole one
        slot = guesses[guess]
        if owner[slot] != row or producer_of_slot[slot] != producer:
            of_partition = index.get(row)
            known = None if of_partition is None else of_partition.get(producer)
            slot = -1 if known is None else known
            if slot >= 0:
                guesses[guess] = slot
        if slot < 0:
            number = new.setdefault((row, producer), count)
            if number == count:
                # Of a producer without state any first sequence and epoch is accepted.
                producers[SLOT, number], producers[EPOCH, number], producers[EXPECTED, number] = -len(new), its_epoch, first
        else:
            number = mark[slot] - 1
            if number < 0:
                number = count
                mark[slot] = number + 1
                newest = slot * 5 + (head[slot] + 4) % 5
                producers[SLOT, number], producers[EPOCH, number] = slot, table_epoch[slot]
                producers[EXPECTED, number] = (ring_last[newest] + 1) & 0x7FFFFFFF
        if number == count:
            count += 1
            producers[START, number] = 0  # how many batches, until all are known
        if first != producers[EXPECTED, number] or its_epoch != producers[EPOCH, number]:
            unusual = -1 - file
            break
        producers[EXPECTED, number] = (last + 1) & 0x7FFFFFFF
        producers[START, number] += 1
        if files[PRODUCERS_OF_FILE, file] == 0:
            # The file's first: count back to where it begins.
            before = place
            while before > 0 and columns[FILE_OF, before - 1] == file:
                before -= 1
        idempotent[PRODUCER_INDEX, found], before = place - before, place
        files[PRODUCERS_OF_FILE, file] += 1
        idempotent[PLACE, found], idempotent[PRODUCER_ID, found], idempotent[PRODUCER_EPOCH, found] = place, producer, its_epoch
        idempotent[BASE_SEQUENCE, found], idempotent[PRODUCER, found] = first, number
        found += 1
    for number in range(count):
        if producers[SLOT, number] >= 0:
            mark[producers[SLOT, number]] = 0
    if unusual:
        return unusual
    end = 0
    for number in range(count):
        producers[START, number], end = end, end + producers[START, number]
    producers[START, count] = end
    return count


def sort_by_producer(
    found: int,
    count: int,
    columns: memoryview[int],
    batches: memoryview[int],
    idempotent: memoryview[int],
    producers: memoryview[int],
    of_batch: memoryview[int],
    of_producer: memoryview[int],
) -> None:
    """Sort what `read_producers` listed by producer, stable: as many batches as it found, of as many producers.

    `of_batch` and `of_producer` are the tables of `ProducerColumns`.
    """
    for number in range(count):
        producers[CURSOR, number] = of_producer[PRODUCER_START, number] = producers[START, number]
        of_producer[ITS_SLOT, number], of_producer[ITS_EPOCH, number] = producers[SLOT, number], producers[EPOCH, number]
    for at in range(found):
        number, place, sequence = idempotent[PRODUCER, at], idempotent[PLACE, at], idempotent[BASE_SEQUENCE, at]
        to = producers[CURSOR, number]
        if to == producers[START, number]:
            of_producer[PRODUCER_SEGMENT, number], of_producer[ITS_ID, number] = batches[SEGMENT, place], idempotent[PRODUCER_ID, at]
        producers[CURSOR, number] = to + 1
        of_batch[AT, to], of_batch[FIRST_SEQUENCE, to] = place, sequence
        of_batch[LAST_SEQUENCE, to] = (sequence + columns[COUNT, place] - 1) & 0x7FFFFFFF
