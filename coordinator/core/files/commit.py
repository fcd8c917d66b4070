"""The rules of CommitFile for one coordinator's share of a file, batch by batch: the readable truth.

`decide` looks at the speculative tables and changes nothing; what it decides is a `FileCommitted` record, and only
applying that record changes state. What the record does not say, a retry could not be answered with: so results of
batches that were not accepted are in the record too (`other_*`), and `answer_of` turns a record back into the very
answer that was given first.
The vector path must give the same records and answers; a property test holds them equal.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from coordinator.core.commands import CommitFile, CommitResult
from coordinator.core.limits import OBJECT_FORMAT_WAL_MULTI_SEGMENT, OBJECT_KEY_BYTES_MAX, OWNERS_MAX, Limits
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.tables import REMEMBERED_BATCHES, RememberedBatch
from coordinator.core.wording import row_text
from coordinator.kafka.batches import LOG_APPEND_TIME, SEQUENCE_MASK, split_partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from records.model import FileCommitted

RECORDS_PER_BATCH_MAX = 1 << 31
OFFSETS_MAX = 1 << 62
"""A partition's offsets stay below: so those of a file, and their sums with its records, have 63 bits whatever brokers claim."""


class Batch(NamedTuple):
    """One batch of the request, in the order of the wire."""

    magic: int
    request_id: int
    topic_partition: bytes
    byte_offset: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    timestamp_type: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    tags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """The inputs of a decision besides the tables."""

    coordinator_id: int
    coordinator_count: int
    limits: Limits
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDecision:
    """The answer to the client and the record to append (None: none)."""

    result: CommitResult
    record: FileCommitted | None


def decide(hot: HotState, command: CommitFile, content_hash: bytes, context: CommitContext) -> CommitDecision:
    """Decide a commit of a key that is neither known nor fenced."""
    batches = [Batch._make(row) for row in command.batches.tolist()]
    refusal = check_request(command, batches, context)
    if refusal is not None:
        return CommitDecision(result=CommitResult.refused(len(batches), *refusal), record=None)
    if not batches:
        return CommitDecision(result=CommitResult.refused(0, ErrorCode.NONE, None), record=None)
    healing = _may_heal(hot, batches)
    if healing is not None:
        return CommitDecision(result=healing, record=None)
    append_time_ms = max(context.now_ms, hot.log_time_ms)
    share = _Share(hot, command, content_hash, append_time_ms)
    for index, batch in enumerate(batches):
        share.take(index, batch)
    return CommitDecision(result=share.result, record=share.record)


def check_request(command: CommitFile, batches: list[Batch], context: CommitContext) -> tuple[ErrorCode, str] | None:
    """The checks that refuse a whole request, or None; a share of a checked request is refused for what they found there."""
    problem = check_head(command, context)
    if problem is not None or command.checked is not None:
        return problem
    return check_batches(command, batches)


def check_batches(command: CommitFile, batches: list[Batch]) -> tuple[ErrorCode, str] | None:
    """The checks on each batch, and on their places in the file."""
    end_of_previous = 0
    in_order = True
    for index, batch in enumerate(batches):
        complaint = _check_batch(batch, command.file_size)
        if complaint is not None:
            topic_id, partition = split_partition_key(batch.topic_partition)
            where = f"batch {index} of file {command.object_key} (topic id {topic_id_text(topic_id)}, partition {partition})"
            return ErrorCode.INVALID_REQUEST, f"{where}: {complaint}"
        if batch.byte_offset < end_of_previous:
            in_order = False
        end_of_previous = batch.byte_offset + batch.size
    if not in_order:
        return _check_overlap(command, batches)
    return None


def check_head(command: CommitFile, context: CommitContext) -> tuple[ErrorCode, str] | None:
    """The checks on what a request says of the file as a whole, and what was found in the request this is a share of."""
    checked = command.checked
    if checked is not None and checked.error is not ErrorCode.NONE:
        return checked.error, checked.message or ""
    problem = check_file(command, (context.coordinator_id,), context.coordinator_count)
    if problem is not None:
        return problem
    age_ms = context.now_ms - command.created_ms
    if command.created_ms >= 0 and age_ms > context.limits.file_commit_max_age_ms:
        limit_ms = context.limits.file_commit_max_age_ms
        message = f"file {command.object_key} is {age_ms} ms old; commits are accepted up to {limit_ms} ms (file.commit.max.age.ms)"
        return ErrorCode.INVALID_REQUEST, f"{message}: upload it under a new key"
    return None


def check_file(command: CommitFile, coordinator_ids: Collection[int], coordinator_count: int) -> tuple[ErrorCode, str] | None:
    """The checks on the file as a whole that all coordinators make alike: those of its age are left to each of them."""
    key_bytes = len(command.object_key.encode())
    if not 0 < key_bytes <= OBJECT_KEY_BYTES_MAX:
        return ErrorCode.INVALID_REQUEST, f"object key has {key_bytes} bytes; it must have 1 to {OBJECT_KEY_BYTES_MAX}"
    if command.object_format != OBJECT_FORMAT_WAL_MULTI_SEGMENT:
        return ErrorCode.INVALID_REQUEST, f"object format {command.object_format} is unknown; send {OBJECT_FORMAT_WAL_MULTI_SEGMENT}"
    if command.file_size < 0:
        return ErrorCode.INVALID_REQUEST, f"file size {command.file_size} is negative"
    if len(command.owner_ids) > OWNERS_MAX:
        return ErrorCode.INVALID_REQUEST, f"{len(command.owner_ids)} owners; at most {OWNERS_MAX} are allowed"
    return _check_owners(tuple(command.owner_ids), tuple(coordinator_ids), coordinator_count)


@lru_cache(maxsize=1024)
def _check_owners(owners: tuple[int, ...], coordinator_ids: tuple[int, ...], coordinator_count: int) -> tuple[ErrorCode, str] | None:
    """The checks on the owner list, which is that of many files."""
    if len(set(owners)) != len(owners):
        return ErrorCode.INVALID_REQUEST, f"owner list {list(owners)} names a coordinator twice"
    if any(owner < 0 for owner in owners):
        return ErrorCode.INVALID_REQUEST, f"owner list {list(owners)} has a negative coordinator id"
    unknown = [owner for owner in owners if owner >= coordinator_count]
    if unknown:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, f"coordinators {unknown} are not known here (yet); retry"
    missing = [coordinator_id for coordinator_id in coordinator_ids if coordinator_id not in owners]
    if missing:
        return ErrorCode.INVALID_REQUEST, f"owner list {list(owners)} lacks coordinator {missing[0]}, which owns partitions of the file"
    return None


def _check_batch(batch: Batch, file_size: int) -> str | None:
    if batch.magic != 2:
        return f"magic {batch.magic} is not supported; convert to magic 2"
    if batch.size <= 0 or batch.byte_offset < 0 or batch.byte_offset + batch.size > file_size:
        return f"bytes [{batch.byte_offset}, {batch.byte_offset + batch.size}) are not a range within the file's {file_size} bytes"
    if batch.base_offset < 0 or not 0 <= batch.last_offset - batch.base_offset < RECORDS_PER_BATCH_MAX:
        return f"offsets {batch.base_offset} to {batch.last_offset} are not a batch of 1 to {RECORDS_PER_BATCH_MAX} records"
    if batch.timestamp_type not in (0, 1):
        return f"timestamp type {batch.timestamp_type} is neither 0 (CreateTime) nor 1 (LogAppendTime)"
    if batch.max_timestamp < -1:
        return f"timestamp {batch.max_timestamp} is below -1"
    return None


def _check_overlap(command: CommitFile, batches: list[Batch]) -> tuple[ErrorCode, str] | None:
    end = 0
    for batch in sorted(batches, key=lambda b: b.byte_offset):
        if batch.byte_offset < end:
            return (
                ErrorCode.INVALID_REQUEST,
                f"batches of file {command.object_key} overlap at byte {batch.byte_offset}: the one before ends at {end}",
            )
        end = batch.byte_offset + batch.size
    return None


def _may_heal(hot: HotState, batches: list[Batch]) -> CommitResult | None:
    """If any batch names an unknown partition nothing is logged, so that a retry of the key is not stuck with it."""
    index = hot.partitions.index
    if all(batch.topic_partition in index for batch in batches):
        return None
    result = CommitResult.refused(
        len(batches), ErrorCode.COORDINATOR_NOT_AVAILABLE, "another batch of the file names an unknown partition; retry"
    )
    for place, batch in enumerate(batches):
        if batch.topic_partition not in index:
            topic_id, partition = split_partition_key(batch.topic_partition)
            result.errors[place], result.messages[place] = unknown_partition(hot, topic_id, partition)
    return result


def unknown_partition(hot: HotState, topic_id: bytes, partition: int) -> tuple[int, str]:
    """The error for a partition that is not here."""
    topic = hot.topics.get(topic_id)
    if topic is None:
        why = "was deleted" if topic_id in hot.deleted_topics else "is not known"
        return int(ErrorCode.UNKNOWN_TOPIC_ID), f"topic id {topic_id_text(topic_id)} {why}"
    return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), f"topic {topic.name} has no partition {partition} here"


@dataclass(slots=True)
class _Producer:
    """The state of a producer while one file is decided."""

    epoch: int
    remembered: list[RememberedBatch]


@dataclass(slots=True)
class _Share:
    """Collects the columns of the record and of the answer, batch by batch."""

    hot: HotState
    command: CommitFile
    content_hash: bytes
    append_time_ms: int
    result: CommitResult = field(init=False)
    record: FileCommitted = field(init=False)
    _next_offset: dict[int, int] = field(default_factory=dict)
    _producers: dict[tuple[int, int], _Producer | None] = field(default_factory=dict)
    _topics: dict[bytes, int] = field(default_factory=dict)
    _run_partition: bytes = b""
    _end_of_previous: int = 0
    _accepted: int = 0
    _last_producer_place: int = 0
    _last_other_place: int = 0

    def __post_init__(self) -> None:
        command = self.command
        self.result = CommitResult(errors=[], messages=[], base_offsets=[], append_times=[], log_starts=[], duplicates=[])
        self.record = FileCommitted(
            object_key=command.object_key,
            object_format=command.object_format,
            file_size=command.file_size,
            uploader_broker_id=command.uploader_broker_id,
            owner_ids=list(command.owner_ids),
            created_ms=command.created_ms,
            append_time_ms=self.append_time_ms,
            content_hash=self.content_hash,
            topic_ids=[],
            run_topic=[],
            run_partition=[],
            run_length=[],
            run_base_offset=[],
            run_log_start=[],
            byte_gap=[],
            byte_size=[],
            record_count_minus_one=[],
            timestamp_age=[],
            timestamp_type=[],
            producer_index=[],
            producer_id=[],
            producer_epoch=[],
            base_sequence=[],
        )

    def take(self, place: int, batch: Batch) -> None:
        """Accept or reject the next batch of the request."""
        row = self.hot.partitions.index[batch.topic_partition]
        count = batch.last_offset - batch.base_offset + 1
        due = self._next_offset.get(row, self.hot.partitions.high_watermark.cells[row])
        if count > OFFSETS_MAX - due:
            where = row_text(self.hot, row)
            message = f"{where}: the next offset is {due}, no room for {count} records below {OFFSETS_MAX}: use another partition"
            self._reject(place, ErrorCode.INVALID_REQUEST, message)
            return
        if batch.producer_id < 0 or batch.producer_epoch < 0:
            self._accept(row, batch, count)
            return
        last_sequence = (batch.base_sequence + count - 1) & SEQUENCE_MASK
        if batch.base_sequence < 0 or batch.last_sequence != last_sequence:
            message = (
                f"{_producer_text(self.hot, row, batch)}: sequences {batch.base_sequence} to {batch.last_sequence} do not span the batch's"
                f" {count} records; {last_sequence} would be the last"
            )
            self._reject(place, ErrorCode.INVALID_REQUEST, message)
            return
        self._take_idempotent(place, row, batch, count)

    def _take_idempotent(self, place: int, row: int, batch: Batch, count: int) -> None:
        producer = self._producer(row, batch.producer_id)
        if producer is not None:
            if batch.producer_epoch < producer.epoch:
                message = f"{_producer_text(self.hot, row, batch)} is fenced: epoch {producer.epoch} is in use; begin a new epoch"
                self._reject(place, ErrorCode.INVALID_PRODUCER_EPOCH, message)
                return
            if batch.producer_epoch > producer.epoch:
                if batch.base_sequence != 0:
                    message = (
                        f"{_producer_text(self.hot, row, batch)}: sequence 0 is expected, the epoch being new (last was {producer.epoch});"
                        f" {batch.base_sequence} was found"
                    )
                    self._reject(place, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
                    return
                producer.remembered.clear()
            elif self._is_duplicate(place, row, batch, producer):
                return
            elif batch.base_sequence != (expected := (producer.remembered[-1].last_sequence + 1) & SEQUENCE_MASK):
                message = f"{_producer_text(self.hot, row, batch)}: sequence {expected} is expected; {batch.base_sequence} was found"
                self._reject(place, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
                return
        else:
            producer = self._producers[(row, batch.producer_id)] = _Producer(batch.producer_epoch, [])
        base_offset = self._accept(row, batch, count)
        producer.epoch = batch.producer_epoch
        append_time = self.append_time_ms if batch.timestamp_type == LOG_APPEND_TIME else -1
        producer.remembered.append(RememberedBatch(batch.base_sequence, batch.last_sequence, base_offset, append_time))
        del producer.remembered[:-REMEMBERED_BATCHES]
        record = self.record
        record.producer_index.append(self._accepted - 1 - self._last_producer_place)
        self._last_producer_place = self._accepted - 1
        record.producer_id.append(batch.producer_id)
        record.producer_epoch.append(batch.producer_epoch)
        record.base_sequence.append(batch.base_sequence)

    def _producer(self, row: int, producer_id: int) -> _Producer | None:
        """The producer as earlier batches of this file left it."""
        key = (row, producer_id)
        if key not in self._producers:
            table = self.hot.producers
            slot = table.find(row, producer_id)
            self._producers[key] = None if slot is None else _Producer(table.epoch.cells[slot], list(table.remembered(slot))[::-1])
        return self._producers[key]

    def _is_duplicate(self, place: int, row: int, batch: Batch, producer: _Producer) -> bool:
        for known in producer.remembered:
            if known.base_sequence == batch.base_sequence and known.last_sequence == batch.last_sequence:
                self._other(place, 0, known.base_offset, known.timestamp_ms, self.hot.partitions.log_start.cells[row], None)
                self.result.duplicates[-1] = True
                return True
        return False

    def _accept(self, row: int, batch: Batch, count: int) -> int:
        """Give the batch its offsets and describe it in the record; returns the base offset."""
        record, partitions = self.record, self.hot.partitions
        base_offset = self._next_offset.get(row)
        if base_offset is None:
            base_offset = partitions.high_watermark.cells[row]
        self._next_offset[row] = base_offset + count
        log_start = partitions.log_start.cells[row]
        if batch.topic_partition == self._run_partition:
            record.run_length[-1] += 1
        else:
            self._open_run(batch.topic_partition, base_offset, log_start)
        record.byte_size.append(batch.size)
        record.record_count_minus_one.append(count - 1)
        record.timestamp_age.append(self.append_time_ms - batch.max_timestamp)
        _append_sparse(record.byte_gap, batch.byte_offset - self._end_of_previous, self._accepted)
        _append_sparse(record.timestamp_type, batch.timestamp_type, self._accepted)
        self._end_of_previous = batch.byte_offset + batch.size
        self._accepted += 1
        append_time = self.append_time_ms if batch.timestamp_type == LOG_APPEND_TIME else -1
        self._answer(0, base_offset, append_time, log_start, None)
        return base_offset

    def _open_run(self, topic_partition: bytes, base_offset: int, log_start: int) -> None:
        record = self.record
        self._run_partition = topic_partition
        topic_id, partition = split_partition_key(topic_partition)
        topic = self._topics.setdefault(topic_id, len(self._topics))
        if topic == len(record.topic_ids):
            record.topic_ids.append(topic_id)
        _append_sparse(record.run_log_start, log_start, len(record.run_topic))
        record.run_topic.append(topic)
        record.run_partition.append(partition)
        record.run_length.append(1)
        record.run_base_offset.append(base_offset)

    def _reject(self, place: int, error: ErrorCode, message: str) -> None:
        self._other(place, int(error), -1, -1, -1, message)

    def _other(self, place: int, error: int, base_offset: int, append_time: int, log_start: int, message: str | None) -> None:
        record = self.record
        record.other_index.append(place - self._last_other_place)
        self._last_other_place = place
        record.other_code.append(error)
        record.other_base_offset.append(base_offset)
        record.other_time.append(append_time)
        record.other_log_start.append(log_start)
        record.other_message.append(message or "")
        self._answer(error, base_offset, append_time, log_start, message)

    def _answer(self, error: int, base_offset: int, append_time: int, log_start: int, message: str | None) -> None:
        result = self.result
        result.errors.append(error)
        result.messages.append(message)
        result.base_offsets.append(base_offset)
        result.append_times.append(append_time)
        result.log_starts.append(log_start)
        result.duplicates.append(False)


def _producer_text(hot: HotState, row: int, batch: Batch) -> str:
    return f"{row_text(hot, row)}: producer {batch.producer_id} of epoch {batch.producer_epoch}"


def _append_sparse(column: list[int], value: int, rows_before: int) -> None:
    """Append to a column that stays empty as long as every value is 0."""
    if value or column:
        if not column:
            column.extend([0] * rows_before)
        column.append(value)


def answer_of(record: FileCommitted) -> CommitResult:
    """The answer that the first commit of this file was given, from its record alone."""
    accepted = iter(_accepted_answers(record))
    others: dict[int, int] = {}
    place = 0
    for ordinal, distance in enumerate(record.other_index):
        place += distance
        others[place] = ordinal
    result = CommitResult(errors=[], messages=[], base_offsets=[], append_times=[], log_starts=[], duplicates=[])
    for place in range(len(record.byte_size) + len(others)):
        other = others.get(place)
        if other is None:
            error, message = 0, None
            base_offset, append_time, log_start = next(accepted)
        else:
            error, message = record.other_code[other], record.other_message[other] or None
            base_offset, append_time = record.other_base_offset[other], record.other_time[other]
            log_start = record.other_log_start[other]
        result.errors.append(error)
        result.messages.append(message)
        result.base_offsets.append(base_offset)
        result.append_times.append(append_time)
        result.log_starts.append(log_start)
        result.duplicates.append(other is not None and error == 0)
    return result


def _accepted_answers(record: FileCommitted) -> list[tuple[int, int, int]]:
    """(base offset, append time, log start) of each accepted batch, in request order."""
    answers: list[tuple[int, int, int]] = []
    at = 0
    for run, length in enumerate(record.run_length):
        offset = record.run_base_offset[run]
        log_start = record.run_log_start[run] if record.run_log_start else 0
        for _ in range(length):
            is_append_time = bool(record.timestamp_type) and record.timestamp_type[at] == LOG_APPEND_TIME
            answers.append((offset, record.append_time_ms if is_append_time else -1, log_start))
            offset += record.record_count_minus_one[at] + 1
            at += 1
    return answers
