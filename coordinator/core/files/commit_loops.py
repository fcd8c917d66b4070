"""The rules of a commit, batch by batch: the loops. Compiled when installed; the `.pxd` has the types.

Batches are lines (`records.lines`), file after file; `bounds` says where the lines of each file begin, and where those of the last
one end. The leader decides into the speculative tables (`decide_files`); every replica applies what the log holds to the committed
ones (`apply_files`). Both judge a batch by the same functions.
"""

from __future__ import annotations

from coordinator.core.files.outcomes import (
    DECIDED,
    FAR_BYTES,
    HAS_REFUSALS,
    NO_PARTITION,
    OLD_EPOCH,
    PENDING,
    UNKNOWN_PARTITION,
    WRONG_OFFSET,
    WRONG_SEQUENCE,
)
from coordinator.core.tables.cells import (
    FIRST_OFFSET,
    HIGH_WATERMARK,
    KNOWN_EPOCH,
    LAST_APPEND,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_OFFSET,
    RING,
    RING_COUNT,
    RING_HEAD,
    START_OFFSET,
)
from coordinator.core.tables.keyed_loops import KeyedRows
from records.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BYTE_OFFSET,
    DETAIL,
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
    BatchVerdict,
)

_ACCEPTED, _DUPLICATE, _GAP = int(BatchVerdict.ACCEPTED), int(BatchVerdict.DUPLICATE), int(BatchVerdict.SEQUENCE_GAP)
_NEW_EPOCH_GAP, _FENCED = int(BatchVerdict.NEW_EPOCH_GAP), int(BatchVerdict.FENCED)
_WRONG_SPAN, _NO_ROOM = int(BatchVerdict.WRONG_SPAN), int(BatchVerdict.NO_ROOM)


def _find_partitions(lines: memoryview[int], first: int, stop: int, partitions: KeyedRows) -> int:
    """Note the row of each batch's partition; returns the first batch whose partition is not here or takes none, or -1."""
    row = -1
    for line in range(first, stop):
        # Batches of a partition mostly stand together.
        if (
            line == first
            or lines[line, PARTITION] != lines[line - 1, PARTITION]
            or lines[line, TOPIC_LOW] != lines[line - 1, TOPIC_LOW]
            or lines[line, TOPIC_HIGH] != lines[line - 1, TOPIC_HIGH]
        ):
            row = partitions.find(lines[line, TOPIC_HIGH], lines[line, TOPIC_LOW], lines[line, PARTITION])
            if row < 0 or partitions.cells[row, FIRST_OFFSET] < 0:
                return line
        lines[line, ROW] = row
    return -1


def _judge_sequence(lines: memoryview[int], line: int, slot: int, producers: KeyedRows, is_retry_known: bool) -> int:
    """The verdict on an idempotent batch whose producer has the row `slot`, -1 when nothing is known of it (KIP-98).

    Of an unknown producer any first sequence is accepted. A batch is compared with the remembered ones if `is_retry_known`. What goes
    with a verdict that is not ACCEPTED is put into the line.
    """
    if slot < 0:
        return _ACCEPTED
    epoch, known = lines[line, PRODUCER_EPOCH], producers.cells[slot, KNOWN_EPOCH]
    first = lines[line, BASE_SEQUENCE]
    if epoch != known:
        if epoch > known and first == 0:
            return _ACCEPTED
        lines[line, DETAIL] = known
        return _FENCED if epoch < known else _NEW_EPOCH_GAP
    held, newest = producers.cells[slot, RING_COUNT], producers.cells[slot, RING_HEAD]
    if is_retry_known:
        last = (first + lines[line, RECORD_COUNT] - 1) & 0x7FFFFFFF
        place = newest
        for _ in range(held):
            place = place - 1 if place > 0 else 4
            cell = RING + place * 4
            if producers.cells[slot, cell] == first and producers.cells[slot, cell + 1] == last:
                lines[line, BASE_OFFSET], lines[line, DETAIL] = producers.cells[slot, cell + 2], producers.cells[slot, cell + 3]
                return _DUPLICATE
    newest = newest - 1 if newest > 0 else 4
    expected = (producers.cells[slot, RING + newest * 4 + 1] + 1) & 0x7FFFFFFF
    if first == expected:
        return _ACCEPTED
    lines[line, DETAIL] = expected
    return _GAP


def _accept(lines: memoryview[int], line: int, slot: int, append_time: int, partitions: KeyedRows, producers: KeyedRows) -> None:
    """Take an accepted batch into the tables: the next offset, the greatest timestamp, the producer's ring."""
    row, base, next_offset = lines[line, ROW], lines[line, BASE_OFFSET], lines[line, BASE_OFFSET] + lines[line, RECORD_COUNT]
    partitions.cells[row, HIGH_WATERMARK] = next_offset
    is_append_time = lines[line, TIMESTAMP_TYPE] == 1
    effective = append_time if is_append_time else lines[line, TIMESTAMP]
    if effective > partitions.cells[row, MAX_TIMESTAMP]:
        partitions.cells[row, MAX_TIMESTAMP], partitions.cells[row, MAX_TIMESTAMP_OFFSET] = effective, next_offset - 1
    partitions.touch(row)
    if lines[line, PRODUCER_ID] < 0:
        return
    epoch, first = lines[line, PRODUCER_EPOCH], lines[line, BASE_SEQUENCE]
    if slot < 0:
        slot = producers.take_row()
        producers.set_key(slot, row, lines[line, PRODUCER_ID], 0)
        producers.cells[slot, KNOWN_EPOCH] = epoch
    elif epoch != producers.cells[slot, KNOWN_EPOCH]:
        producers.cells[slot, KNOWN_EPOCH], producers.cells[slot, RING_COUNT] = epoch, 0
    place = producers.cells[slot, RING_HEAD]
    cell = RING + place * 4
    producers.cells[slot, cell] = first
    producers.cells[slot, cell + 1] = (first + lines[line, RECORD_COUNT] - 1) & 0x7FFFFFFF
    producers.cells[slot, cell + 2] = base
    producers.cells[slot, cell + 3] = append_time if is_append_time else -1
    producers.cells[slot, RING_HEAD] = place + 1 if place < 4 else 0
    if producers.cells[slot, RING_COUNT] < 5:
        producers.cells[slot, RING_COUNT] += 1
    producers.cells[slot, LAST_APPEND] = append_time
    producers.touch(slot)


# ---- deciding


def decide_files(
    lines: memoryview[int],
    bounds: memoryview[int],
    append_time: int,
    offsets_max: int,
    partitions: KeyedRows,
    producers: KeyedRows,
    outcomes: memoryview[int],
) -> None:
    """Give every batch of lawful files its verdict, in order, and take the accepted ones into the speculative tables.

    `producers` has room for as many more rows as there are batches. A file of which a partition is not here, or takes no
    batches yet, changes nothing.
    """
    for file in range(len(outcomes)):
        first, stop = bounds[file], bounds[file + 1]
        if _find_partitions(lines, first, stop, partitions) >= 0:
            outcomes[file] = UNKNOWN_PARTITION
            continue
        outcomes[file] = DECIDED
        for line in range(first, stop):
            verdict = _decide(lines, line, append_time, offsets_max, partitions, producers)
            lines[line, VERDICT] = verdict
            if verdict > _DUPLICATE:
                outcomes[file] = HAS_REFUSALS


def _decide(lines: memoryview[int], line: int, append_time: int, offsets_max: int, partitions: KeyedRows, producers: KeyedRows) -> int:
    row, count, slot = lines[line, ROW], lines[line, RECORD_COUNT], -1
    due = partitions.cells[row, HIGH_WATERMARK]
    lines[line, LOG_START] = partitions.cells[row, START_OFFSET]
    if count > offsets_max - due:
        lines[line, DETAIL] = due
        return _NO_ROOM
    if lines[line, PRODUCER_ID] >= 0:
        first = lines[line, BASE_SEQUENCE]
        if first < 0 or lines[line, DETAIL] != (first + count - 1) & 0x7FFFFFFF:
            return _WRONG_SPAN
        slot = producers.find(row, lines[line, PRODUCER_ID], 0)
        verdict = _judge_sequence(lines, line, slot, producers, True)
        if verdict != _ACCEPTED:
            return verdict
    lines[line, BASE_OFFSET], lines[line, DETAIL] = due, 0
    _accept(lines, line, slot, append_time, partitions, producers)
    return _ACCEPTED


# ---- applying


def apply_files(
    lines: memoryview[int],
    bounds: memoryview[int],
    first_file: int,
    stop_file: int,
    append_times: memoryview[int],
    partitions: KeyedRows,
    producers: KeyedRows,
    accepted: memoryview[int],
    undo: memoryview[int],
    fault: memoryview[int],
) -> int:
    """Take the accepted batches of logged files into the committed tables; returns the first file that cannot be, or `stop_file`.

    Nothing of that file is taken, and `fault` says why: the batch, the reason, and the number that was expected. `accepted` gets
    how many accepted batches each file has. `undo` has
    `UNDO_WIDTH` cells for each batch of the longest file; `producers` has room as for `decide_files`.
    """
    for file in range(first_file, stop_file):
        used = 0
        for line in range(bounds[file], bounds[file + 1]):
            if lines[line, VERDICT] != _ACCEPTED:
                continue
            row = partitions.find(lines[line, TOPIC_HIGH], lines[line, TOPIC_LOW], lines[line, PARTITION])
            slot, reason, expected = -1, 0, 0
            if row < 0:
                reason = NO_PARTITION
            elif partitions.cells[row, FIRST_OFFSET] < 0:
                reason = PENDING
            elif lines[line, BASE_OFFSET] != partitions.cells[row, HIGH_WATERMARK]:
                reason, expected = WRONG_OFFSET, partitions.cells[row, HIGH_WATERMARK]
            elif lines[line, BYTE_OFFSET] > 0x7FFFFFFF:
                reason, expected = FAR_BYTES, 0x7FFFFFFF
            elif lines[line, PRODUCER_ID] >= 0:
                slot = producers.find(row, lines[line, PRODUCER_ID], 0)
                verdict = _judge_sequence(lines, line, slot, producers, False)
                if verdict != _ACCEPTED:
                    reason = OLD_EPOCH if verdict == _FENCED else WRONG_SEQUENCE
                    expected = 0 if verdict == _NEW_EPOCH_GAP else lines[line, DETAIL]
            if reason:
                fault[0], fault[1], fault[2] = line, reason, expected
                _take_back(undo, used, partitions, producers)
                return file
            lines[line, ROW] = row
            _note(undo, used, row, slot, partitions, producers)
            used += 1
            _accept(lines, line, slot, append_times[file], partitions, producers)
            if slot < 0 and lines[line, PRODUCER_ID] >= 0:
                undo[used - 1, 5] = producers.find(row, lines[line, PRODUCER_ID], 0)
        accepted[file] = used
    return stop_file


def _note(undo: memoryview[int], at: int, row: int, slot: int, partitions: KeyedRows, producers: KeyedRows) -> None:
    """Note what a batch is about to change."""
    undo[at, 0], undo[at, 1] = row, partitions.cells[row, HIGH_WATERMARK]
    undo[at, 2], undo[at, 3] = partitions.cells[row, MAX_TIMESTAMP], partitions.cells[row, MAX_TIMESTAMP_OFFSET]
    undo[at, 4], undo[at, 5] = slot, -1
    if slot >= 0:
        cell = RING + producers.cells[slot, RING_HEAD] * 4
        undo[at, 6], undo[at, 7] = producers.cells[slot, KNOWN_EPOCH], producers.cells[slot, RING_HEAD]
        undo[at, 8], undo[at, 9] = producers.cells[slot, RING_COUNT], producers.cells[slot, LAST_APPEND]
        for place in range(4):
            undo[at, 10 + place] = producers.cells[slot, cell + place]


def _take_back(undo: memoryview[int], used: int, partitions: KeyedRows, producers: KeyedRows) -> None:
    """Take the last batches back, the newest first."""
    for at in range(used - 1, -1, -1):
        row, slot, new = undo[at, 0], undo[at, 4], undo[at, 5]
        partitions.cells[row, HIGH_WATERMARK] = undo[at, 1]
        partitions.cells[row, MAX_TIMESTAMP], partitions.cells[row, MAX_TIMESTAMP_OFFSET] = undo[at, 2], undo[at, 3]
        if new >= 0:
            producers.unlink(new)
            producers.untouch(new)
            producers.release(new)
        elif slot >= 0:
            cell = RING + undo[at, 7] * 4
            for place in range(4):
                producers.cells[slot, cell + place] = undo[at, 10 + place]
            producers.cells[slot, KNOWN_EPOCH], producers.cells[slot, RING_HEAD] = undo[at, 6], undo[at, 7]
            producers.cells[slot, RING_COUNT], producers.cells[slot, LAST_APPEND] = undo[at, 8], undo[at, 9]
