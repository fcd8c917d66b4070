"""The newest resets and repairs, by which operators moved the starts of migrated partitions."""

from __future__ import annotations

import sqlite3

from records.model import DisklessLogRepaired, DisklessLogReset
from spark_jobs.migration import PENDING, MigrationStep
from spark_jobs.scan.summary import EventRow

STEPS_KEPT = 1000

_STEP = """insert or replace into migration_step
    (kpart, offset, topic_id, partition, step, base_before, base_after, leader_epoch, append_ms) values (?,?,?,?,?,?,?,?,?)"""
_OLD = "select kpart, offset, topic_id, partition from migration_step order by append_ms desc, kpart, offset desc limit -1 offset ?"


def note_step(db: sqlite3.Connection, row: EventRow, step: MigrationStep, base_before: int | None) -> None:
    """Insert a step if it is a reset or a repair. `base_before` is B0 before it, None when that is not known."""
    match step:
        case DisklessLogReset():
            name, base_after = "reset", PENDING
        case DisklessLogRepaired():
            name, base_after = "repair", step.base_offset
        case _:
            return
    where = (row.kpart, row.offset, step.topic_id, step.partition)
    db.execute(_STEP, (*where, name, base_before, base_after, step.leader_epoch, row.append_ms))


def forget_old(db: sqlite3.Connection) -> None:
    """Keep the newest steps only."""
    db.execute(f"delete from migration_step where (kpart, offset, topic_id, partition) in ({_OLD})", (STEPS_KEPT,))
