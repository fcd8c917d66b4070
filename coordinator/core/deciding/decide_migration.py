"""Steps of migrations decided: what to log, and what to answer once it is logged."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from coordinator.core.commands import (
    OK,
    LogFacts,
    LogInit,
    LogOrigin,
    LogRepair,
    LogReset,
    MigratedLog,
    MigratePartitions,
    MigrationStep,
    Outcome,
    PrefixReport,
)
from coordinator.core.files.answers import unknown_partition
from coordinator.core.tables.diskless_log import MigrationFault, MigrationRecord, facts_of, fault_of, moved
from coordinator.core.tables.in_memory import HotState
from coordinator.core.wording import row_text
from coordinator.kafka.errors import ErrorCode
from records.model import DisklessLogInitialized, DisklessLogRepaired, DisklessLogReset, PrefixStartReported, Record


def decide_migration(hot: HotState, command: MigratePartitions, now_ms: int) -> tuple[list[Record], list[MigratedLog]]:
    """Decide on the overlay: return the records to log, and an answer for each step; a repeated step logs nothing."""
    records: list[Record] = []
    answers: list[MigratedLog] = []
    named: set[tuple[bytes, int]] = set()
    for step in command.steps:
        where = (step.topic_id, step.partition)
        row = hot.partitions.find(*where)
        if row is None:
            answers.append(MigratedLog(unknown_partition(hot, *where)))
            continue
        if where in named:
            answers.append(MigratedLog(_refused(f"{row_text(hot, row)} is in the request twice; name it once")))
            continue
        named.add(where)
        facts, record = facts_of(hot.partitions, row), _record_of(step, now_ms)
        fault = fault_of(facts, record) or _fault_of_end(facts, step)
        if fault is not None:
            answers.append(MigratedLog(Outcome(error=fault.error, message=f"{row_text(hot, row)}: {fault.message}"), facts, facts))
            continue
        after = moved(facts, record)
        answers.append(MigratedLog(OK, facts, after))
        if after != facts and not (isinstance(step, LogRepair) and step.is_dry_run):
            records.append(_without_seeds(record, facts))
    return records, answers


def _fault_of_end(facts: LogFacts, step: MigrationStep) -> MigrationFault | None:
    """Where batches end is not logged: a retry is answered with where they begin."""
    if not isinstance(step, LogInit) or step.last_offset < step.start_offset or facts.origin is not LogOrigin.PENDING:
        return None
    message = f"a producer has a batch that ends at offset {step.last_offset}, not below the start offset {step.start_offset}"
    return MigrationFault(ErrorCode.INVALID_REQUEST, message)


def _refused(message: str) -> Outcome:
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)


def _record_of(step: MigrationStep, now_ms: int) -> MigrationRecord:
    match step:
        case LogInit():
            return DisklessLogInitialized(
                topic_id=step.topic_id,
                partition=step.partition,
                base_offset=step.start_offset,
                prefix_start_offset=step.prefix_start,
                leader_epoch=step.leader_epoch,
                producers=step.producers,
                time_ms=now_ms,
            )
        case LogReset():
            return DisklessLogReset(topic_id=step.topic_id, partition=step.partition, leader_epoch=step.leader_epoch)
        case LogRepair():
            return DisklessLogRepaired(
                topic_id=step.topic_id, partition=step.partition, base_offset=step.start_offset, leader_epoch=step.leader_epoch
            )
        case PrefixReport():
            return PrefixStartReported(
                topic_id=step.topic_id,
                partition=step.partition,
                prefix_start_offset=step.prefix_start,
                leader_epoch=step.leader_epoch,
            )
        case _:
            assert_never(step)


def _without_seeds(record: MigrationRecord, facts: LogFacts) -> MigrationRecord:
    """A log that is begun has its producers already: of a repetition only the epoch is logged."""
    if isinstance(record, DisklessLogInitialized) and facts.origin is LogOrigin.INITIALISED:
        return replace(record, producers=[])
    return record
