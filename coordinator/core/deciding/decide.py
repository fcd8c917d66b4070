"""Decisions on writes other than commits: what to log, and what to answer once it is logged."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from coordinator.core.commands import (
    OK,
    AdoptPartition,
    Answer,
    CommitSnapshot,
    DeletedTo,
    DeletePoint,
    DeleteRecords,
    DirectoryWrite,
    FinishRestore,
    LogFacts,
    MarkSnapshot,
    MigratePartitions,
    Outcome,
    PartitionWrite,
    PlacePartitions,
    ReleasePartition,
    RemoveTopics,
    TopicShare,
)
from coordinator.core.deciding.decide_migration import decide_migration
from coordinator.core.deciding.decide_moves import decide_adoption, decide_release
from coordinator.core.directory.decisions import decide_directory_write
from coordinator.core.directory.directory import is_remembered
from coordinator.core.files.answers import released_row, served_row
from coordinator.core.limits import Limits
from coordinator.core.tables.diskless_log import facts_of
from coordinator.core.tables.in_memory import HotState
from coordinator.core.wording import row_text
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, illegal_topic_name, topic_id_text
from records.model import PartitionCreated, Record, RecordsDeleted, RestoreFinished, SnapshotMark, TopicDeleted

HIGH_WATERMARK = -1


class Decision(NamedTuple):
    """Records of one entry (none: nothing to log) and the answer to give once everything before is acknowledged."""

    records: list[Record]
    answer: Answer


def decide_write(
    hot: HotState, command: PartitionWrite | DirectoryWrite, limits: Limits, now_ms: int = 0, coordinator_id: int = 0
) -> Decision:
    """Decide any write but a commit, on the overlay; `now_ms` is the time of the log, for records that have a time."""
    if isinstance(command, DirectoryWrite):
        return Decision(*decide_directory_write(hot.directory, command, limits, hot.log_time_ms))
    match command:
        case PlacePartitions():
            return _place(hot, command, limits)
        case RemoveTopics():
            return _remove(hot, command)
        case DeleteRecords():
            return _delete_records(hot, command)
        case MigratePartitions():
            return Decision(*decide_migration(hot, command, now_ms))
        case ReleasePartition():
            return Decision(*decide_release(hot, command, coordinator_id, limits, now_ms))
        case AdoptPartition():
            return Decision(*decide_adoption(hot, command))
        case MarkSnapshot():
            return Decision([SnapshotMark(mark_id=command.mark_id)], OK)
        case CommitSnapshot():
            return _commit_snapshot(hot, command)
        case FinishRestore():
            return _finish_restore(hot, command)
        case _:
            assert_never(command)


def _commit_snapshot(hot: HotState, command: CommitSnapshot) -> Decision:
    """A snapshot that is no newer than a committed one (its mark was logged by an earlier leader) is of no use."""
    end_offset = command.snapshot.end_offset
    newest = hot.snapshots[-1].end_offset if hot.snapshots else -1
    if end_offset > newest:
        return Decision([command.snapshot], OK)
    message = f"a snapshot up to offset {end_offset} is not committed: the newest one reaches {newest}"
    return Decision([], Outcome(error=ErrorCode.INVALID_REQUEST, message=message))


def _finish_restore(hot: HotState, command: FinishRestore) -> Decision:
    """A restore that is finished already is a success; another one than the log begins with is none."""
    restoration = hot.restoration
    if restoration is None or restoration.begun.restore_id != command.restore_id:
        begun = "no restore" if restoration is None else f"the restore {restoration.begun.restore_id.hex()}"
        message = f"restore {command.restore_id.hex()} cannot be finished: the log begins with {begun}"
        return Decision([], Outcome(error=ErrorCode.INVALID_REQUEST, message=message))
    return Decision([] if restoration.is_finished else [RestoreFinished(restore_id=command.restore_id)], OK)


def _place(hot: HotState, command: PlacePartitions, limits: Limits) -> Decision:
    records: list[Record] = []
    outcomes: list[Outcome] = []
    for share in command.shares:
        unfit = _unfit_share(share, limits)
        if unfit is not None:
            outcomes.append(unfit)
            continue
        if is_gone(hot, share, limits):
            message = f"topic id {topic_id_text(share.topic_id)} was deleted here and does not come back"
            outcomes.append(Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=message))
            continue
        if not _has_all(hot, share):
            records.append(
                PartitionCreated(
                    topic_id=share.topic_id,
                    name=share.name,
                    first_partition=share.first_partition,
                    num_partitions=share.num_partitions,
                    order_offset=share.order_offset,
                    classic_pending=share.classic_pending,
                )
            )
        outcomes.append(OK)
    return Decision(records, outcomes)


def _unfit_share(share: TopicShare, limits: Limits) -> Outcome | None:
    """Why a range cannot be created: an absurd one would be logged, and every replica would build it, now and at each load."""
    end = share.first_partition + share.num_partitions
    if share.first_partition < 0 or share.num_partitions < 1 or end > limits.partitions_per_topic_max:
        message = (
            f"partitions {share.first_partition} to {end - 1} of topic {share.name}: outside 0 to {limits.partitions_per_topic_max - 1} "
            "(max.partitions.per.topic, which must be the same on all nodes)"
        )
        return Outcome(error=ErrorCode.INVALID_PARTITIONS, message=message)
    if share.topic_id == ZERO_TOPIC_ID or illegal_topic_name(share.name) is not None:
        message = f"topic id {topic_id_text(share.topic_id)}, name {share.name!r}: no directory places such a topic"
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    return None


def is_gone(hot: HotState, share: TopicShare, limits: Limits) -> bool:
    """Whether the topic was deleted here after the create was ordered, or too recently for its id to be used again."""
    gone = hot.deleted_topics.get(share.topic_id)
    if gone is None:
        return False
    return share.order_offset <= gone.order_offset or is_remembered(gone.time_ms, hot.log_time_ms, limits)


def _has_all(hot: HotState, share: TopicShare) -> bool:
    topic = hot.topics.get(share.topic_id)
    wanted = range(share.first_partition, share.first_partition + share.num_partitions)
    return topic is not None and topic.partitions.issuperset(wanted)


def _remove(hot: HotState, command: RemoveTopics) -> Decision:
    """Deletion is logged even for a topic that is not here: a create that was delayed must find it."""
    records: list[Record] = [
        TopicDeleted(topic_id=removal.topic_id, order_offset=removal.order_offset)
        for removal in command.removals
        if removal.topic_id not in hot.deleted_topics
    ]
    return Decision(records, [OK] * len(command.removals))


def _delete_records(hot: HotState, command: DeleteRecords) -> Decision:
    records: list[Record] = []
    answers: list[DeletedTo] = []
    moved: dict[int, int] = {}
    for point in command.points:
        served = released_row if command.of_released else served_row
        row = served(hot, point.topic_id, point.partition)
        if isinstance(row, Outcome):
            answers.append(DeletedTo(outcome=row))
            continue
        facts = facts_of(hot.partitions, row)
        if row in moved:
            facts = facts._replace(suffix_start=moved[row])
        answer, target = _delete_point(point, facts, row_text(hot, row))
        answers.append(answer)
        if target is not None:
            moved[row] = target
            records.append(RecordsDeleted(topic_id=point.topic_id, partition=point.partition, new_log_start_offset=target))
    return Decision(records, answers)


def _delete_point(point: DeletePoint, facts: LogFacts, where: str) -> tuple[DeletedTo, int | None]:
    """The answer, and the new log start if it moves. The low watermark is the first offset that a consumer can ask for, in either part."""
    target = facts.high_watermark if point.offset == HIGH_WATERMARK else point.offset
    if not 0 <= target <= facts.high_watermark:
        message = (
            f"{where}: offset {point.offset} is outside 0 to {facts.high_watermark}, the high watermark; -1 deletes everything up to it"
        )
        return DeletedTo(outcome=Outcome(error=ErrorCode.OFFSET_OUT_OF_RANGE, message=message)), None
    if facts.earliest < target <= facts.start_offset:
        message = (
            f"{where}: the records from offset {facts.earliest} to {facts.start_offset - 1} are in the classic topic, where Kafka deletes "
            f"them (kafka-delete-records.sh); here only those from {facts.start_offset} on can be deleted"
        )
        return DeletedTo(outcome=Outcome(error=ErrorCode.OFFSET_OUT_OF_RANGE, message=message)), None
    after = facts._replace(suffix_start=max(facts.suffix_start, target))
    return DeletedTo(outcome=OK, low_watermark=after.earliest), None if after == facts else target
