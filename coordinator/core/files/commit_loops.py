"""The rules of a commit, batch by batch: the loops. Compiled when installed; the `.pxd` has the types.

Batches are lines (`records.committed_files.lines`), file after file; `first_line`, or `bounds`, says where the lines of each file begin,
and where those of the last one end. The leader decides into the tables of its overlay (`decide_files`); every replica applies what the log
holds to the committed tables (`apply_files`). Both judge a batch by the same functions.
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
from records.committed_files.lines import (
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


class _Cells:
    """Rows of numbers, as an argument: a memoryview that is an argument itself is copied by every call."""

    def __init__(self, cells: memoryview[int]) -> None:
        self.cells = cells


def _find_partitions(lines: _Cells, first: int, stop: int, partitions: KeyedRows) -> int:
    """Note the row of each batch's partition; return the first batch whose partition is unknown here or takes no batches yet, or -1."""
    near = -1
    for line in range(first, stop):
        row = _row_of(lines, line, near, partitions)
        if row < 0 or partitions.cells[row, FIRST_OFFSET] < 0:
            return line
        lines.cells[line, ROW] = row
        near = line
    return -1


def _row_of(lines: _Cells, line: int, near: int, partitions: KeyedRows) -> int:
    """The row of a batch's partition, -1 when it is unknown here. `near` is a line whose row is known, or -1: batches of a partition are
    mostly adjacent.
    """
    if (
        near >= 0
        and lines.cells[line, PARTITION] == lines.cells[near, PARTITION]
        and lines.cells[line, TOPIC_LOW] == lines.cells[near, TOPIC_LOW]
        and lines.cells[line, TOPIC_HIGH] == lines.cells[near, TOPIC_HIGH]
    ):
        return lines.cells[near, ROW]
    return partitions.find(lines.cells[line, TOPIC_HIGH], lines.cells[line, TOPIC_LOW], lines.cells[line, PARTITION])


def _judge_sequence(lines: _Cells, line: int, slot: int, due: int, producers: KeyedRows, is_retry_known: bool) -> int:
    """The verdict on an idempotent batch at offset `due`, whose producer has the row `slot`, -1 when nothing is known of it (KIP-98).

    An unknown producer begins with sequence 0 in a partition that never had a record: otherwise the later of two files under way would make
    its state, and the earlier one be refused for ever (KAFKA-15591). In any other partition it begins with any sequence, since its state
    may have expired, there or in the classic log. The batch is compared with the ring only if `is_retry_known`. DETAIL of the line gets the
    sequence or epoch that was expected, or, with BASE_OFFSET, the append time and the offset of the batch that a duplicate repeats.
    """
    first = lines.cells[line, BASE_SEQUENCE]
    if slot < 0:
        if due > 0 or first == 0:
            return _ACCEPTED
        lines.cells[line, DETAIL] = 0
        return _GAP
    epoch, known = lines.cells[line, PRODUCER_EPOCH], producers.cells[slot, KNOWN_EPOCH]
    if epoch != known:
        if epoch > known and first == 0:
            return _ACCEPTED
        lines.cells[line, DETAIL] = known
        return _FENCED if epoch < known else _NEW_EPOCH_GAP
    held, newest = producers.cells[slot, RING_COUNT], producers.cells[slot, RING_HEAD]
    if is_retry_known:
        last = (first + lines.cells[line, RECORD_COUNT] - 1) & 0x7FFFFFFF
        place = newest
        for _ in range(held):
            place = place - 1 if place > 0 else 4
            cell = RING + place * 4
            if producers.cells[slot, cell] == first and producers.cells[slot, cell + 1] == last:
                lines.cells[line, BASE_OFFSET], lines.cells[line, DETAIL] = producers.cells[slot, cell + 2], producers.cells[slot, cell + 3]
                return _DUPLICATE
    newest = newest - 1 if newest > 0 else 4
    expected = (producers.cells[slot, RING + newest * 4 + 1] + 1) & 0x7FFFFFFF
    if first == expected:
        return _ACCEPTED
    lines.cells[line, DETAIL] = expected
    return _GAP


def _accept(lines: _Cells, line: int, slot: int, append_time: int, partitions: KeyedRows, producers: KeyedRows) -> int:
    """Take an accepted batch into the tables: the next offset, the greatest timestamp, the producer's ring; returns the producer's row."""
    row, base = lines.cells[line, ROW], lines.cells[line, BASE_OFFSET]
    next_offset = base + lines.cells[line, RECORD_COUNT]
    partitions.cells[row, HIGH_WATERMARK] = next_offset
    is_append_time = lines.cells[line, TIMESTAMP_TYPE] == 1
    effective = append_time if is_append_time else lines.cells[line, TIMESTAMP]
    if effective > partitions.cells[row, MAX_TIMESTAMP]:
        partitions.cells[row, MAX_TIMESTAMP], partitions.cells[row, MAX_TIMESTAMP_OFFSET] = effective, next_offset - 1
    partitions.touch(row)
    if lines.cells[line, PRODUCER_ID] < 0:
        return -1
    epoch, first = lines.cells[line, PRODUCER_EPOCH], lines.cells[line, BASE_SEQUENCE]
    if slot < 0:
        slot = producers.take_row()
        producers.set_key(slot, row, lines.cells[line, PRODUCER_ID], 0)
        producers.cells[slot, KNOWN_EPOCH] = epoch
    elif epoch != producers.cells[slot, KNOWN_EPOCH]:
        producers.cells[slot, KNOWN_EPOCH], producers.cells[slot, RING_COUNT] = epoch, 0
    place = producers.cells[slot, RING_HEAD]
    cell = RING + place * 4
    producers.cells[slot, cell] = first
    producers.cells[slot, cell + 1] = (first + lines.cells[line, RECORD_COUNT] - 1) & 0x7FFFFFFF
    producers.cells[slot, cell + 2] = base
    producers.cells[slot, cell + 3] = append_time if is_append_time else -1
    producers.cells[slot, RING_HEAD] = place + 1 if place < 4 else 0
    if producers.cells[slot, RING_COUNT] < 5:
        producers.cells[slot, RING_COUNT] += 1
    producers.cells[slot, LAST_APPEND] = append_time
    producers.touch(slot)
    return slot


# ---- deciding


def decide_files(
    table: memoryview[int],
    first_line: list[int],
    append_time: int,
    offsets_max: int,
    partitions: KeyedRows,
    producers: KeyedRows,
) -> list[int]:
    """Give every batch of lawful files its verdict, in order, and take the accepted ones into the tables. Returns the outcome of each
    file (`outcomes`).

    `producers` has room for as many more rows as there are batches. A file with a partition that is unknown here, or takes no batches yet,
    changes nothing.
    """
    lines = _Cells(table)
    outcomes: list[int] = []
    for file in range(len(first_line) - 1):
        first, stop = first_line[file], first_line[file + 1]
        if _find_partitions(lines, first, stop, partitions) >= 0:
            outcomes.append(UNKNOWN_PARTITION)
            continue
        outcome = DECIDED
        for line in range(first, stop):
            verdict = _decide(lines, line, append_time, offsets_max, partitions, producers)
            lines.cells[line, VERDICT] = verdict
            if verdict > _DUPLICATE:
                outcome = HAS_REFUSALS
        outcomes.append(outcome)
    return outcomes


def _decide(lines: _Cells, line: int, append_time: int, offsets_max: int, partitions: KeyedRows, producers: KeyedRows) -> int:
    row, count, slot = lines.cells[line, ROW], lines.cells[line, RECORD_COUNT], -1
    due = partitions.cells[row, HIGH_WATERMARK]
    lines.cells[line, LOG_START] = partitions.cells[row, START_OFFSET]
    if count > offsets_max - due:
        lines.cells[line, DETAIL] = due
        return _NO_ROOM
    if lines.cells[line, PRODUCER_ID] >= 0:
        first = lines.cells[line, BASE_SEQUENCE]
        if first < 0 or lines.cells[line, DETAIL] != (first + count - 1) & 0x7FFFFFFF:
            return _WRONG_SPAN
        slot = producers.find(row, lines.cells[line, PRODUCER_ID], 0)
        verdict = _judge_sequence(lines, line, slot, due, producers, True)
        if verdict != _ACCEPTED:
            return verdict
    lines.cells[line, BASE_OFFSET], lines.cells[line, DETAIL] = due, 0
    _accept(lines, line, slot, append_time, partitions, producers)
    return _ACCEPTED


# ---- applying


def apply_files(
    table: memoryview[int],
    bounds: memoryview[int],
    first_file: int,
    stop_file: int,
    append_times: memoryview[int],
    partitions: KeyedRows,
    producers: KeyedRows,
    accepted: memoryview[int],
    journal: memoryview[int],
    fault: memoryview[int],
) -> int:
    """Take the accepted batches of logged files into the committed tables; returns the first file that contradicts them, or `stop_file`.

    Nothing of that file is taken, and `fault` says why: the batch, the reason, and the number that was expected. `accepted` gets how many
    accepted batches each file has. `journal` has `UNDO_WIDTH` cells for each batch of the longest file; `producers` has room as for
    `decide_files`.
    """
    lines, undo = _Cells(table), _Cells(journal)
    for file in range(first_file, stop_file):
        used, near = 0, -1
        for line in range(bounds[file], bounds[file + 1]):
            if lines.cells[line, VERDICT] != _ACCEPTED:
                continue
            row = _row_of(lines, line, near, partitions)
            slot, reason, expected = -1, 0, 0
            if row < 0:
                reason = NO_PARTITION
            elif partitions.cells[row, FIRST_OFFSET] < 0:
                reason = PENDING
            elif lines.cells[line, BASE_OFFSET] != partitions.cells[row, HIGH_WATERMARK]:
                reason, expected = WRONG_OFFSET, partitions.cells[row, HIGH_WATERMARK]
            elif lines.cells[line, BYTE_OFFSET] > 0x7FFFFFFF:
                reason, expected = FAR_BYTES, 0x7FFFFFFF
            elif lines.cells[line, PRODUCER_ID] >= 0:
                slot = producers.find(row, lines.cells[line, PRODUCER_ID], 0)
                verdict = _judge_sequence(lines, line, slot, lines.cells[line, BASE_OFFSET], producers, False)
                if verdict != _ACCEPTED:
                    reason = OLD_EPOCH if verdict == _FENCED else WRONG_SEQUENCE
                    expected = 0 if verdict == _NEW_EPOCH_GAP else lines.cells[line, DETAIL]
            if reason:
                fault[0], fault[1], fault[2] = line, reason, expected
                _take_back(undo, used, partitions, producers)
                return file
            lines.cells[line, ROW], near = row, line
            _note(undo, used, row, slot, partitions, producers)
            new = _accept(lines, line, slot, append_times[file], partitions, producers)
            if slot < 0:
                undo.cells[used, 5] = new
            used += 1
        accepted[file] = used
    return stop_file


def _note(undo: _Cells, at: int, row: int, slot: int, partitions: KeyedRows, producers: KeyedRows) -> None:
    """Note what a batch is about to change: six cells of its partition and producer, and eight of the state of a known producer."""
    undo.cells[at, 0], undo.cells[at, 1] = row, partitions.cells[row, HIGH_WATERMARK]
    undo.cells[at, 2], undo.cells[at, 3] = partitions.cells[row, MAX_TIMESTAMP], partitions.cells[row, MAX_TIMESTAMP_OFFSET]
    undo.cells[at, 4], undo.cells[at, 5] = slot, -1
    if slot >= 0:
        cell = RING + producers.cells[slot, RING_HEAD] * 4
        undo.cells[at, 6], undo.cells[at, 7] = producers.cells[slot, KNOWN_EPOCH], producers.cells[slot, RING_HEAD]
        undo.cells[at, 8], undo.cells[at, 9] = producers.cells[slot, RING_COUNT], producers.cells[slot, LAST_APPEND]
        for place in range(4):
            undo.cells[at, 10 + place] = producers.cells[slot, cell + place]


def _take_back(undo: _Cells, used: int, partitions: KeyedRows, producers: KeyedRows) -> None:
    """Take the `used` noted batches back, the newest first, so that the tables are as before the file."""
    for at in range(used - 1, -1, -1):
        row, slot, new = undo.cells[at, 0], undo.cells[at, 4], undo.cells[at, 5]
        partitions.cells[row, HIGH_WATERMARK] = undo.cells[at, 1]
        partitions.cells[row, MAX_TIMESTAMP], partitions.cells[row, MAX_TIMESTAMP_OFFSET] = undo.cells[at, 2], undo.cells[at, 3]
        if new >= 0:
            producers.unlink(new)
            producers.untouch(new)
            producers.release(new)
        elif slot >= 0:
            cell = RING + undo.cells[at, 7] * 4
            for place in range(4):
                producers.cells[slot, cell + place] = undo.cells[at, 10 + place]
            producers.cells[slot, KNOWN_EPOCH], producers.cells[slot, RING_HEAD] = undo.cells[at, 6], undo.cells[at, 7]
            producers.cells[slot, RING_COUNT], producers.cells[slot, LAST_APPEND] = undo.cells[at, 8], undo.cells[at, 9]
