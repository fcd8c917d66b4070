"""Deciding plain commits: the loops over the batches of a group. Compiled when installed; the `.pxd` has the types.

Batches come as bytes of the wire, 77 each (`batches.BATCH`), file after file; results go to columns, one place per batch
(or per run, partition, producer). Nothing here is a rule of its own: whatever is not plain ends the loop with the number
of its file, for `commit.py` to decide. Arrays are memoryviews, so that the same lines see plain ints when not compiled.
"""

from __future__ import annotations


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
    batches_of_file: memoryview[int],
    file_sizes: memoryview[int],
    append_time_ms: int,
    index: dict[bytes, int] | None,
    seen: memoryview[int],
    file_of: memoryview[int],
    row: memoryview[int],
    count: memoryview[int],
    byte_offset: memoryview[int],
    size: memoryview[int],
    gap: memoryview[int],
    timestamp: memoryview[int],
    timestamp_type: memoryview[int],
    age: memoryview[int],
    count_minus_one: memoryview[int],
    runs_of_file: memoryview[int],
    run_first: memoryview[int],
    run_length: memoryview[int],
    run_partition: memoryview[int],
    run_topic: memoryview[int],
    topics: list[list[bytes]],
) -> int:
    """Check the batches by themselves, find their partitions' rows in `index`, and cut files into runs of one partition.

    `run_first` is each run's first batch, `age` how long before `append_time_ms` a batch's timestamp is. `topics` gets the topic
    ids of each file in order of appearance, which `run_topic` counts. Without an `index` every row is 0. `seen` has
    256 places at least.
    Returns the number of runs, or -1 - file for the first file that is not plain.
    """
    if len(raw) != len(file_of) * 77:
        raise IndexError(f"{len(raw)} bytes are not {len(file_of)} batches")
    for guess in range(256):
        seen[guess] = 0
    data = raw  # compiled: an address, which nobody checks; hence the looks at the length and at each file's number of batches
    at = place = run = 0
    ids_before: list[bytes] = []
    for file in range(len(batches_of_file)):
        if batches_of_file[file] > len(file_of) - place:
            raise IndexError(f"{batches_of_file[file]} batches of file {file}, {len(file_of) - place} are left")
        file_size, end_of_previous = file_sizes[file], 0
        first_run, first_place = run, place
        row_now = topic_at = ordinal = 0
        known: dict[bytes, int] = {}
        for _ in range(batches_of_file[file]):
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
                    row_now = row[before]
                elif index is not None:
                    found = index.get(data[at + 5 : at + 25])
                    if found is None:
                        return -1 - file
                    row_now = found
                if place == first_place or not _is_equal(data, at + 5, topic_at, 16):
                    topic_at = at + 5
                    ordinal = known.setdefault(data[topic_at : topic_at + 16], len(known))
                run_first[run], run_length[run], run_topic[run] = place, 0, ordinal
                run_partition[run] = _int32(data, at + 21)
                run += 1
            run_length[run - 1] += 1
            file_of[place], row[place] = file, row_now
            byte_offset[place], size[place], gap[place] = offset, length, offset - end_of_previous
            count[place], count_minus_one[place] = last - first + 1, last - first
            timestamp[place], timestamp_type[place], age[place] = time, kind, append_time_ms - time
            end_of_previous = offset + length
            at += 77
            place += 1
        runs_of_file[file] = run - first_run
        ids = list(known)
        ids_before = ids_before if ids == ids_before else ids  # the same list: whoever encodes it does so once
        topics.append(ids_before)
    return run


def assign_offsets(
    runs: int,
    offsets_max: int,
    file_of: memoryview[int],
    row: memoryview[int],
    count: memoryview[int],
    high_watermark: memoryview[int],
    log_start: memoryview[int],
    mark: memoryview[int],
    run_first: memoryview[int],
    run_base: memoryview[int],
    run_log_start: memoryview[int],
    base: memoryview[int],
    log_start_of: memoryview[int],
    segment_of: memoryview[int],
    order: memoryview[int],
    segment_row: memoryview[int],
    starts: memoryview[int],
    stops: memoryview[int],
) -> int:
    """Give every batch its base offset, dense from its partition's high watermark on, in the order of the requests.

    Each run gets what its first batch has. Batches are sorted by partition into `order`, partitions by first appearance. `mark`
    has a place for every row of the partition table: 0 before and after.
    Returns how many partitions those are, or -1 - file for the first file with a batch that would end beyond `offsets_max`.
    """
    segments = unusual = 0
    for place in range(len(count)):
        at = row[place]
        segment = mark[at] - 1
        if segment < 0:
            segment = segments
            segments += 1
            mark[at] = segments
            segment_row[segment] = at
            starts[segment] = high_watermark[at]  # the next offset, until all have theirs
            stops[segment] = 0  # how many, until then
        if count[place] > offsets_max - starts[segment]:
            unusual = -1 - file_of[place]
            break
        segment_of[place] = segment
        base[place], log_start_of[place] = starts[segment], log_start[at]
        starts[segment] += count[place]
        stops[segment] += 1
    if unusual:
        for segment in range(segments):
            mark[segment_row[segment]] = 0
        return unusual
    for run in range(runs):
        run_base[run], run_log_start[run] = base[run_first[run]], log_start_of[run_first[run]]
    end = 0
    for segment in range(segments):
        mark[segment_row[segment]] = 0
        starts[segment], end = end, end + stops[segment]
        stops[segment] = starts[segment]
    for place in range(len(count)):
        segment = segment_of[place]
        order[stops[segment]] = place
        stops[segment] += 1
    return segments


def read_producers(
    raw: bytes,
    file_of: memoryview[int],
    row: memoryview[int],
    count: memoryview[int],
    index: dict[int, dict[int, int]],
    guesses: memoryview[int],
    owner: memoryview[int],
    producer_of_slot: memoryview[int],
    table_epoch: memoryview[int],
    head: memoryview[int],
    ring_last: memoryview[int],
    mark: memoryview[int],
    batch: memoryview[int],
    producer_id: memoryview[int],
    epoch: memoryview[int],
    sequence: memoryview[int],
    producer_of: memoryview[int],
    distance: memoryview[int],
    producers_of_file: memoryview[int],
    slots: memoryview[int],
    epochs: memoryview[int],
    expected: memoryview[int],
    starts: memoryview[int],
) -> int:
    """Prove that every idempotent batch follows on its producer's last one, in the same epoch, and list these batches.

    Of each: its place, producer id, epoch, first sequence, the number of its producer by first appearance, and its distance from
    the one before in its file (the first: from the file's first batch). `slots` are the rows of the producers, below 0 for new
    ones, `epochs` theirs; `starts` is where each one's batches begin once they are sorted by producer, with their number behind.
    `mark` has a place for every row of the producer table: 0 before and after. `guesses`, a power of two of them, are rows of the
    table where a producer was found before: looking there is cheaper than in `index`, and wrong guesses do no harm.
    Returns how many producers there are, or -1 - file for the first file that is not plain.
    """
    if len(raw) != len(file_of) * 77:
        raise IndexError(f"{len(raw)} bytes are not {len(file_of)} batches")
    data = raw  # as above
    found = producers = unusual = before = 0
    guess_mask = len(guesses) - 1
    new: dict[tuple[int, int], int] = {}
    for place in range(len(file_of)):
        at = place * 77
        producer, its_epoch = _int64(data, at + 58), data[at + 66] * 256 + data[at + 67]
        if producer < 0 or its_epoch > 0x7FFF:
            continue
        first, last = _int32(data, at + 68), _int32(data, at + 72)
        if first < 0 or last != (first + count[place] - 1) & 0x7FFFFFFF:
            unusual = -1 - file_of[place]
            break
        guess = (producer & guess_mask) + row[place] * 40503 & guess_mask  # ids go up to 2^63 - 1: nothing is added to a whole one
        slot = guesses[guess]
        if owner[slot] != row[place] or producer_of_slot[slot] != producer:
            of_partition = index.get(row[place])
            known = None if of_partition is None else of_partition.get(producer)
            slot = -1 if known is None else known
            if slot >= 0:
                guesses[guess] = slot
        if slot < 0:
            number = new.setdefault((row[place], producer), producers)
            if number == producers:
                # Of a producer without state any first sequence and epoch is accepted.
                slots[number], epochs[number], expected[number] = -len(new), its_epoch, first
        else:
            number = mark[slot] - 1
            if number < 0:
                number = producers
                mark[slot] = number + 1
                newest = slot * 5 + (head[slot] + 4) % 5
                slots[number], epochs[number], expected[number] = slot, table_epoch[slot], (ring_last[newest] + 1) & 0x7FFFFFFF
        if number == producers:
            producers += 1
            starts[number] = 0  # how many batches, until all are known
        if first != expected[number] or its_epoch != epochs[number]:
            unusual = -1 - file_of[place]
            break
        expected[number] = (last + 1) & 0x7FFFFFFF
        starts[number] += 1
        if producers_of_file[file_of[place]] == 0:
            # The file's first: count back to where it begins.
            before = place
            while before > 0 and file_of[before - 1] == file_of[place]:
                before -= 1
        distance[found], before = place - before, place
        producers_of_file[file_of[place]] += 1
        batch[found], producer_id[found], epoch[found] = place, producer, its_epoch
        sequence[found], producer_of[found] = first, number
        found += 1
    for number in range(producers):
        if slots[number] >= 0:
            mark[slots[number]] = 0
    if unusual:
        return unusual
    end = 0
    for number in range(producers):
        starts[number], end = end, end + starts[number]
    starts[producers] = end
    return producers


def sort_by_producer(
    batch: memoryview[int],
    sequence_of: memoryview[int],
    producer_of: memoryview[int],
    producer_id: memoryview[int],
    segment_of: memoryview[int],
    count: memoryview[int],
    starts: memoryview[int],
    cursor: memoryview[int],
    at: memoryview[int],
    first_sequences: memoryview[int],
    last_sequences: memoryview[int],
    segments: memoryview[int],
    producer_ids: memoryview[int],
) -> None:
    """Sort what `read_producers` listed by producer, stable."""
    for number in range(len(segments)):
        cursor[number] = starts[number]
    for found in range(len(at)):
        number, place, sequence = producer_of[found], batch[found], sequence_of[found]
        to = cursor[number]
        if to == starts[number]:
            segments[number], producer_ids[number] = segment_of[place], producer_id[found]
        cursor[number] = to + 1
        at[to], first_sequences[to] = place, sequence
        last_sequences[to] = (sequence + count[place] - 1) & 0x7FFFFFFF
