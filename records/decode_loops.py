"""Reading plain `FileCommitted` entries from bytes, one pass over each message. Compiled when installed; the `.pxd` has the types.

What is read is checked in the same pass: the rules are those of `records.fast` (canonical numbers, one block per array) and
`records.file_checks`. A message that breaks one leaves nothing behind: the next file takes the places it was written to.
Nothing outside of a message is looked at, whatever its bytes are.
"""

from __future__ import annotations


def read_files(
    data: memoryview[int],
    prefixes: memoryview[int],
    starts: memoryview[int],
    ends: memoryview[int],
    owners_max: int,
    scratch: memoryview[int],
    heads: memoryview[int],
    owner_ids: memoryview[int],
    columns: memoryview[int],
) -> list[int]:
    """Read the messages `data[starts[i]:ends[i]]` that are plain files.

    `prefixes` are what they may begin with, 12 bytes each. `heads` has a column per file, its rows are
    `records.bulk_decode.HEAD_FIELDS`. The rows of `columns` are those of an entry, over all files together, the messages of
    batches not accepted being one more; there is room for a third of the bytes in each: a run, a batch, a producer or another
    batch takes three bytes at least. `scratch` is as long as the longest message.
    Returns how many files, owners, runs, batches, producers and batches not accepted there are, and how many files have
    batches and only accepted ones.
    """
    files = owners = runs = batches = producers = others = accepted = 0
    for message in range(len(starts)):
        at = _read_head(data, prefixes, starts[message], ends[message], owners_max, scratch, heads, owner_ids, owners, files)
        if at < 0:
            continue
        found = read_all_varints(data, at, ends[message], scratch)
        if found < 0 or not _read_columns(scratch, found, heads, files, columns, runs, batches, producers, others):
            continue
        heads[0, files] = message
        owners += heads[6, files]
        runs += heads[12, files]
        batches += heads[13, files]
        producers += heads[14, files]
        others += heads[15, files]
        if heads[13, files] > 0 and heads[15, files] == 0:
            accepted += 1
        files += 1
    return [files, owners, runs, batches, producers, others, accepted]


def read_varints(data: memoryview[int], at: int, end: int, count: int, numbers: memoryview[int]) -> int:
    """Read `count` numbers of 64 bits that end before `end`; returns the place after them.

    Returns -1 when there are not so many, or when one has more than 64 bits or more bytes than it needs.
    """
    for place in range(count):
        if at >= end:
            return -1
        byte = data[at]
        at += 1
        unsigned = byte & 0x7F
        shift = 0
        while byte > 0x7F:
            shift += 7
            if at >= end or shift > 63:
                return -1
            byte = data[at]
            at += 1
            # A last byte of 0 adds nothing; a tenth byte has one bit left to add.
            if byte == 0 or (shift == 63 and byte != 1):
                return -1
            high = byte & 0x7F
            unsigned |= high << shift
        half = unsigned >> 1
        numbers[place] = ~half if unsigned & 1 else half
    return at


def read_all_varints(data: memoryview[int], at: int, end: int, numbers: memoryview[int]) -> int:
    """Read the numbers up to `end` and return how many there are; -1 as `read_varints`."""
    place = 0
    while at < end:
        byte = data[at]
        at += 1
        if byte <= 0x7F:
            half = byte >> 1
            numbers[place] = ~half if byte & 1 else half
            place += 1
            continue
        unsigned = byte & 0x7F
        shift = 0
        while byte > 0x7F:
            shift += 7
            if at >= end or shift > 63:
                return -1
            byte = data[at]
            at += 1
            if byte == 0 or (shift == 63 and byte != 1):
                return -1
            high = byte & 0x7F
            unsigned |= high << shift
        half = unsigned >> 1
        numbers[place] = ~half if unsigned & 1 else half
        place += 1
    return place


def _read_head(
    data: memoryview[int],
    prefixes: memoryview[int],
    at: int,
    end: int,
    owners_max: int,
    scratch: memoryview[int],
    heads: memoryview[int],
    owner_ids: memoryview[int],
    first_owner: int,
    file: int,
) -> int:
    """Read everything before the columns of numbers; returns where those begin, -1 when this is not the head of a plain file."""
    if end - at <= 12 or not _has_prefix(data, at, prefixes):
        return -1
    at = read_varints(data, at + 12, end, 1, scratch)
    if at < 0 or scratch[0] < 0 or scratch[0] > end - at:
        return -1
    heads[1, file], heads[2, file] = at, scratch[0]
    if not _is_text(data, at, at + scratch[0]):
        return -1
    at = read_varints(data, at + scratch[0], end, 4, scratch)
    if at < 0 or not _are_ints(scratch, 0, 1) or not _are_ints(scratch, 2, 1):
        return -1
    owners = scratch[3]
    if owners < 0 or owners > owners_max:
        return -1
    heads[3, file], heads[4, file], heads[5, file], heads[6, file] = scratch[0], scratch[1], scratch[2], owners
    if owners > 0:
        if owners >= end - at:
            return -1
        at = read_varints(data, at, end, owners + 1, scratch)
        if at < 0 or scratch[owners] != 0 or not _are_ints(scratch, 0, owners):
            return -1
        for place in range(owners):
            owner_ids[first_owner + place] = scratch[place]
    at = read_varints(data, at, end, 2, scratch)
    if at < 0 or end - at <= 16:
        return -1
    heads[7, file], heads[8, file], heads[9, file] = scratch[0], scratch[1], at
    at = read_varints(data, at + 16, end, 1, scratch)
    if at < 0:
        return -1
    topics = scratch[0]
    if topics < 0 or topics > (end - at) // 16:
        return -1
    heads[10, file], heads[11, file] = topics, at
    at += topics * 16
    if topics > 0:
        if at >= end or data[at] != 0:
            return -1
        at += 1
    return at


def _has_prefix(data: memoryview[int], at: int, prefixes: memoryview[int]) -> bool:
    for prefix in range(0, len(prefixes), 12):
        place = 0
        while place < 12 and data[at + place] == prefixes[prefix + place]:
            place += 1
        if place == 12:
            return True
    return False


def _is_text(data: memoryview[int], start: int, end: int) -> bool:
    """Whether bytes are UTF-8."""
    bits = 0
    for at in range(start, end):
        bits |= data[at]
    if bits <= 0x7F:
        return True
    try:
        bytes(data[start:end]).decode()
    except UnicodeDecodeError:
        return False
    return True


def _are_ints(numbers: memoryview[int], first: int, count: int) -> bool:
    """Whether numbers have 32 bits."""
    least = greatest = 0
    for place in range(first, first + count):
        least = min(least, numbers[place])
        greatest = max(greatest, numbers[place])
    return least >= -0x7FFFFFFF - 1 and greatest <= 0x7FFFFFFF


def _read_columns(
    numbers: memoryview[int],
    found: int,
    heads: memoryview[int],
    file: int,
    columns: memoryview[int],
    first_run: int,
    first_batch: int,
    first_producer: int,
    first_other: int,
) -> bool:
    """Cut the numbers behind a head into columns, check what they agree on, and say in the head how many values there are of a kind."""
    int_max, long_max = 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF
    long_min = -long_max - 1
    run_count = numbers[0] if found > 0 else -1
    if run_count < 0 or run_count > found // 4:
        return False
    place = _read_column(numbers, 0, found, run_count, 0, heads[10, file] - 1, columns, 0, first_run)
    place = _read_column(numbers, place, found, run_count, 0, int_max, columns, 1, first_run)
    place = _read_column(numbers, place, found, run_count, 1, int_max, columns, 2, first_run)
    place = _read_column(numbers, place, found, run_count, 0, long_max, columns, 3, first_run)
    place = _read_sparse(numbers, place, found, run_count, 0, long_max, columns, 4, first_run)
    if place < 0:
        return False
    batch_count = base_max = 0
    for run in range(first_run, first_run + run_count):
        batch_count += columns[2, run]
        base_max = max(base_max, columns[3, run])
    if batch_count > found // 3:
        return False
    # The ages of which a timestamp has 64 bits.
    appended = heads[8, file]
    age_min = appended - long_max if appended >= 0 else long_min
    age_max = long_max if appended >= 0 else appended - long_min
    gaps_at = place
    place = _read_sparse(numbers, place, found, batch_count, long_min, long_max, columns, 5, first_batch)
    place = _read_column(numbers, place, found, batch_count, 0, int_max, columns, 6, first_batch)
    place = _read_column(numbers, place, found, batch_count, 0, int_max, columns, 7, first_batch)
    place = _read_column(numbers, place, found, batch_count, age_min, age_max, columns, 8, first_batch)
    place = _read_sparse(numbers, place, found, batch_count, 0, 1, columns, 9, first_batch)
    if place < 0:
        return False
    records = batch_count
    for batch in range(first_batch, first_batch + batch_count):
        records += columns[7, batch]
    if base_max > long_max - records:
        return False
    if numbers[gaps_at] != 0 and not _are_positions(columns, first_batch, batch_count):
        return False
    producer_count = numbers[place] if place < found else -1
    if producer_count < 0 or producer_count > found // 4:
        return False
    place = _read_column(numbers, place, found, producer_count, 0, int_max, columns, 10, first_producer)
    place = _read_column(numbers, place, found, producer_count, 0, long_max, columns, 11, first_producer)
    place = _read_column(numbers, place, found, producer_count, 0, int_max, columns, 12, first_producer)
    place = _read_column(numbers, place, found, producer_count, 0, int_max, columns, 13, first_producer)
    if place < 0 or not _are_distances(columns, 10, first_producer, producer_count, batch_count):
        return False
    other_count = numbers[place] if place < found else -1
    if other_count < 0 or other_count > found // 6:
        return False
    place = _read_column(numbers, place, found, other_count, 0, int_max, columns, 14, first_other)
    place = _read_column(numbers, place, found, other_count, -int_max - 1, int_max, columns, 15, first_other)
    place = _read_column(numbers, place, found, other_count, long_min, long_max, columns, 16, first_other)
    place = _read_column(numbers, place, found, other_count, long_min, long_max, columns, 17, first_other)
    place = _read_column(numbers, place, found, other_count, long_min, long_max, columns, 18, first_other)
    if place < 0 or not _are_distances(columns, 14, first_other, other_count, batch_count + other_count):
        return False
    # The messages: of each, the size, which is 0 as long as it is empty.
    place = _read_column(numbers, place, found, other_count, 0, 0, columns, 19, first_other)
    heads[12, file], heads[13, file], heads[14, file], heads[15, file] = run_count, batch_count, producer_count, other_count
    # The last number is the end of the entry's array of records.
    return place == found - 1 and numbers[place] == 0


def _read_column(
    numbers: memoryview[int], place: int, found: int, count: int, low: int, high: int, out: memoryview[int], row: int, first: int
) -> int:
    """Read a column that has `count` values within a range; returns the place after its end, -1 when it is another one."""
    if place < 0 or place >= found or numbers[place] != count:
        return -1
    place += 1
    if count == 0:
        return place
    if count >= found - place or numbers[place + count] != 0:
        return -1
    for at in range(count):
        value = numbers[place + at]
        if value < low or value > high:
            return -1
        out[row, first + at] = value
    return place + count + 1


def _read_sparse(
    numbers: memoryview[int], place: int, found: int, count: int, low: int, high: int, out: memoryview[int], row: int, first: int
) -> int:
    """Like `_read_column`, of a column that is left out when all its values are 0."""
    if place < 0 or place >= found or numbers[place] != 0:
        return _read_column(numbers, place, found, count, low, high, out, row, first)
    for at in range(first, first + count):
        out[row, at] = 0
    return place + 1


def _are_positions(columns: memoryview[int], first: int, count: int) -> bool:
    """Whether batches with gaps between them begin and end within [0, 2^63)."""
    long_max = 0x7FFFFFFFFFFFFFFF
    position = 0
    for batch in range(first, first + count):
        gap, size = columns[5, batch], columns[6, batch]
        if gap > long_max - position or position + gap < 0 or size > long_max - position - gap:
            return False
        position += gap + size
    return True


def _are_distances(columns: memoryview[int], row: int, first: int, count: int, limit: int) -> bool:
    """Whether the distances in a row lead to different places below a limit."""
    total = 0
    for at in range(first, first + count):
        # Only the first distance may be 0: another one names the same place twice.
        if columns[row, at] == 0 and at > first:
            return False
        total += columns[row, at]
    return count == 0 or total < limit
