"""Repetitions of commits whose batches were at one coordinator and are at several since a partition moved.

A file that was committed before a partition was released has its batches of that partition there, and nowhere else: they are never
committed a second time. They are answered as the first time while results are kept, whoever asks, and with whichever other batches.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.commands import CommitFile, CommitResult
from coordinator.core.files.answers import result_of, unknown_partition
from coordinator.core.files.requests import read_lines
from coordinator.core.moves import WHOLE
from coordinator.core.state.lookups import Lookups
from coordinator.core.tables.stored_rows import FileRow
from coordinator.kafka.batches import partition_key, split_partition_key
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted, table_of
from records.committed_files.lines import (
    BASE_SEQUENCE,
    BYTE_OFFSET,
    BYTE_SIZE,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC_HIGH,
    TOPIC_LOW,
)

_CONTENT = (
    TOPIC_HIGH, TOPIC_LOW, PARTITION, BYTE_OFFSET, BYTE_SIZE, RECORD_COUNT, TIMESTAMP, TIMESTAMP_TYPE, PRODUCER_ID, PRODUCER_EPOCH,
    BASE_SEQUENCE,
)  # fmt: skip
"""What a batch of a request and of the log have in common."""


def knows_release(state: Lookups, key: bytes) -> bool:
    """Whether a partition has gone on elsewhere, as far as this state goes."""
    return state.hot.stretches.get(key, WHOLE).released is not None


def released_before(state: Lookups, key: bytes, file: FileRow) -> bool:
    """Whether a partition had gone on elsewhere when a file was committed here, which then has none of its batches."""
    released = state.hot.stretches.get(key, WHOLE).released
    return released is not None and released.entry_id < file.file_id


def answer_committed_before(
    state: Lookups, command: CommitFile, key: bytes, places: Sequence[int], *, is_known_elsewhere: bool
) -> CommitResult | None:
    """Answer the batches of a partition that was released here, by their places in a commit; None when the file never had any here.

    Of a file that has ended here nobody knows which batches it had: they are refused, unless the owner of the partition has the file.
    """
    file = state.find_file(command.object_key)
    if file is not None:
        if released_before(state, key, file):
            return None
        result, found = _answers(state, file, command, places)
        return result if any(found) or not file.record or not _is_same(file, command) else None
    stone = None if is_known_elsewhere else state.find_tombstone(command.object_key)
    if stone is None or stone.reason == "fenced":
        return None  # of a fenced one nothing was committed
    message = f"file {command.object_key} was committed where its partition was before, and is {stone.reason}; its results are not kept"
    return CommitResult.refused(len(places), ErrorCode.DUPLICATE_RESOURCE, message)


def answers_by_batch(state: Lookups, file: FileRow, command: CommitFile) -> CommitResult:
    """Answer a commit of a known file that comes with other batches than it was committed with, since partitions moved meanwhile.

    A batch that it was committed with is answered as then. Another one has to come in another file if a partition of either came or went,
    or is refused because its topic was deleted.
    """
    places = range(len(command.batches))
    result, found = _answers(state, file, command, places)
    if all(found) or not _is_same(file, command):
        return result
    keys: list[bytes] = command.batches["topic_partition"].tolist()
    # A batch of one that moved may have come here before the others of its file: then these are not of it any more.
    has_moved = any(key in state.hot.stretches for key in _keys_of(file))
    for place in places:
        if found[place]:
            continue
        topic_id, partition = split_partition_key(keys[place])
        if has_moved or keys[place] in state.hot.stretches:
            result.errors[place] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            result.messages[place] = (
                f"file {command.object_key} was committed here without this batch: a partition of it has moved; send it in another file"
            )
        elif topic_id in state.hot.deleted_topics:
            # It may have moved here and been deleted since.
            unknown = unknown_partition(state.hot, topic_id, partition)
            result.errors[place], result.messages[place] = int(unknown.error), unknown.message
    return result


def _record_of(file: FileRow) -> FileCommitted:
    record = decode_entry(file.record)[0]
    if not isinstance(record, FileCommitted):
        raise AssertionError(f"the entry of file {file.file_id} keeps a {type(record).__name__}")
    return record


def _keys_of(file: FileRow) -> set[bytes]:
    """The partitions of the batches that a file was committed with, as far as they are kept."""
    return {partition_key(one.topic_id, one.partition) for one in _record_of(file).batches} if file.record else set()


def _is_same(file: FileRow, command: CommitFile) -> bool:
    return (file.file_size, file.object_format) == (command.file_size, command.object_format)


def _answers(state: Lookups, file: FileRow, command: CommitFile, places: Sequence[int]) -> tuple[CommitResult, list[bool]]:
    """The answers of a file's first commit to some batches, and which of them it had; one that it did not have is of other content."""
    if not file.record:
        message = f"file {command.object_key} was committed; its results are no longer kept (commit.results.retention.ms)"
        return CommitResult.refused(len(places), ErrorCode.DUPLICATE_RESOURCE, message), [False] * len(places)
    table = table_of([_record_of(file)])
    known = result_of(table, 0, state.hot)
    at_of = {tuple(line[column] for column in _CONTENT): at for at, line in enumerate(table.lines_of(0).tolist())}
    asked = read_lines(command.batches.tobytes(), [command]).lines.tolist()
    message = f"file {command.object_key} was committed with other content; upload the data under a new key"
    result = CommitResult.refused(len(places), ErrorCode.DUPLICATE_RESOURCE, message).changeable()
    found = [False] * len(places)
    for to, place in enumerate(places):
        at = at_of.get(tuple(asked[place][column] for column in _CONTENT))
        if at is not None and _is_same(file, command):
            found[to] = True
            result.errors[to], result.messages[to] = known.errors[at], known.messages[at]
            result.base_offsets[to], result.append_times[to] = known.base_offsets[at], known.append_times[at]
            result.log_starts[to], result.duplicates[to] = known.log_starts[at], known.duplicates[at]
    return result, found


def may_have_moved(state: Lookups, command: CommitFile) -> bool:
    """Whether a file may come with other batches than it was committed with because partitions moved, and not as other content.

    What was known of moves of a topic ends with it.
    """
    hot = state.hot
    return bool(hot.stretches) or any(key[:16] in hot.deleted_topics for key in command.batches["topic_partition"].tolist())
