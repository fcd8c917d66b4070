"""Answers to CommitFile, made from the lines of a file: what was decided is what is answered, the first time and to a retry."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.core.commands import CommitFile, CommitResult, Outcome
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.moves import WHOLE
from coordinator.core.tables.diskless_log import OFFSETS_MAX
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.stretches import is_released
from coordinator.core.wording import partition_text, row_text
from coordinator.kafka.batches import LOG_APPEND_TIME, SEQUENCE_MASK, split_partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from records.committed_files.codec import FileTable, topic_id_of
from records.committed_files.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    DETAIL,
    LOG_START,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    TIMESTAMP_TYPE,
    TOPIC_HIGH,
    TOPIC_LOW,
    VERDICT,
    BatchVerdict,
)

ERROR_OF = {
    BatchVerdict.SEQUENCE_GAP: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    BatchVerdict.NEW_EPOCH_GAP: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    BatchVerdict.FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    BatchVerdict.WRONG_SPAN: ErrorCode.INVALID_REQUEST,
    BatchVerdict.NO_ROOM: ErrorCode.INVALID_REQUEST,
}
"""The error that a refused batch is answered with."""


class FileAnswer(NamedTuple):
    """The answer of a file of a leader's group, none of whose batches was refused."""

    files: LoggedFiles
    file: int

    def result(self) -> CommitResult:
        """The answer batch by batch."""
        return result_of(self.files.table, self.file, None)


def result_of(table: FileTable, file: int, hot: HotState | None) -> CommitResult:
    """The answer that the commit of a file was and is given; without tables, without the texts of refusals.

    Texts name partitions by what their topics are called now.
    """
    result = CommitResult(errors=[], messages=[], base_offsets=[], append_times=[], log_starts=[], duplicates=[])
    append_time_ms = table.heads[file].append_time_ms
    for line in table.lines_of(file).tolist():
        verdict, error, message, append_time, log_start = line[VERDICT], 0, None, -1, line[LOG_START]
        if verdict == BatchVerdict.DUPLICATE:
            append_time = line[DETAIL]
        elif verdict != BatchVerdict.ACCEPTED:
            error, log_start = int(ERROR_OF[BatchVerdict(verdict)]), -1
            message = None if hot is None else _refusal(line, hot)
        elif line[TIMESTAMP_TYPE] == LOG_APPEND_TIME:
            append_time = append_time_ms
        result.errors.append(error)
        result.messages.append(message)
        result.base_offsets.append(line[BASE_OFFSET])
        result.append_times.append(append_time)
        result.log_starts.append(log_start)
        result.duplicates.append(verdict == BatchVerdict.DUPLICATE)
    return result


def _refusal(line: list[int], hot: HotState) -> str:
    """Why a batch was refused."""
    where = partition_text(hot, topic_id_of(line[TOPIC_HIGH], line[TOPIC_LOW]), line[PARTITION])
    count, first, detail = line[RECORD_COUNT], line[BASE_SEQUENCE], line[DETAIL]
    who = f"{where}: producer {line[PRODUCER_ID]} of epoch {line[PRODUCER_EPOCH]}"
    match line[VERDICT]:
        case BatchVerdict.NO_ROOM:
            return f"{where}: the next offset is {detail}, no room for {count} records below {OFFSETS_MAX}: use another partition"
        case BatchVerdict.WRONG_SPAN:
            due = (first + count - 1) & SEQUENCE_MASK
            return f"{who}: sequences {first} to {detail} do not span the batch's {count} records; {due} would be the last"
        case BatchVerdict.FENCED:
            return f"{who} is fenced: epoch {detail} is in use; begin a new epoch"
        case BatchVerdict.NEW_EPOCH_GAP:
            return f"{who}: sequence 0 is expected, the epoch being new (last was {detail}); {first} was found"
        case _:
            return f"{who}: sequence {detail} is expected; {first} was found"


def unknown_partition(hot: HotState, topic_id: bytes, partition: int) -> Outcome:
    """The outcome for a partition that is not here."""
    topic = hot.topics.get(topic_id)
    if topic is None:
        why = "was deleted" if topic_id in hot.deleted_topics else "is not known"
        return Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=f"topic id {topic_id_text(topic_id)} {why}")
    return Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"topic {topic.name} has no partition {partition} here")


def served_row(hot: HotState, topic_id: bytes, partition: int) -> int | Outcome:
    """The row of a partition; the outcome for one that is not here, whose log is not initialised, or that has gone on elsewhere."""
    row = hot.partitions.find(topic_id, partition)
    if row is None:
        return unknown_partition(hot, topic_id, partition)
    if hot.partitions.first_offset.cells[row] >= 0:
        return row
    if is_released(hot.partitions, row):
        return _moved(hot, topic_id, partition)
    message = f"{row_text(hot, row)} is a classic partition that is being migrated; retry when its log is initialised"
    return Outcome(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=message)


def _moved(hot: HotState, topic_id: bytes, partition: int) -> Outcome:
    released = hot.stretch_of(topic_id, partition).released
    where = "elsewhere" if released is None else f"to coordinator {released.to_coordinator}"
    text = f"{partition_text(hot, topic_id, partition)} has moved {where}; look where it is, and send new files there"
    return Outcome(error=ErrorCode.NOT_COORDINATOR, message=text)


def released_row(hot: HotState, topic_id: bytes, partition: int) -> int | Outcome:
    """The row of a partition that has gone on elsewhere; the outcome for any other."""
    row = hot.partitions.find(topic_id, partition)
    if row is not None and is_released(hot.partitions, row):
        return row
    message = f"{partition_text(hot, topic_id, partition)} has not gone on elsewhere"
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)


def not_taken(hot: HotState, command: CommitFile, coordinator_id: int) -> CommitResult:
    """The answer to a file that this coordinator takes no batch of: some partition is not here, or it is no owner of the file.

    Nothing is logged, so a retry is not stuck with it. Refusals that are final are true when this coordinator is led here for certain.
    """
    is_named, is_only_owner = coordinator_id in command.owner_ids, list(command.owner_ids) == [coordinator_id]
    answers = []
    for key in command.batches["topic_partition"].tolist():
        served = served_row(hot, *split_partition_key(key))
        if isinstance(served, Outcome):
            # Which of the owners of a file may have taken it since the partition has moved is not known here.
            moved = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_only_owner else ErrorCode.FENCED_LEADER_EPOCH
            answers.append((moved if served.error is ErrorCode.NOT_COORDINATOR else served.error, served.message))
        elif is_named:
            answers.append(
                (ErrorCode.COORDINATOR_NOT_AVAILABLE, "another batch of the file names a partition that is unknown or pending; retry")
            )
        elif hot.stretches.get(key, WHOLE).earlier:
            text = "its partition came here by a move, and it is not known yet whether the file was taken before; retry"
            answers.append((ErrorCode.COORDINATOR_NOT_AVAILABLE, text))
        else:
            text = f"owner list {list(command.owner_ids)} lacks coordinator {coordinator_id}, which owns the partition"
            answers.append((ErrorCode.INVALID_REQUEST, text))
    result = CommitResult.refused(len(answers), ErrorCode.NONE, None)
    result.errors[:], result.messages[:] = [int(error) for error, _ in answers], [message for _, message in answers]
    return result
