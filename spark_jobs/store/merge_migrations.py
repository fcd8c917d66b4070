"""The newest resets and repairs, by which operators moved the starts of migrated partitions."""

from __future__ import annotations

from records.model import DisklessLogRepaired, DisklessLogReset
from spark_jobs.migration import PENDING, MigrationStep
from spark_jobs.scan.summary import EventRow
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import upsert

STEPS_KEPT = 1000

_STEP = upsert(
    "migration_step", "kpart,entry_offset,topic_id,partition",
    "kpart", "entry_offset", "topic_id", "partition", "step", "base_before", "base_after", "leader_epoch", "append_ms",
)  # fmt: skip
_OLD = """select kpart, entry_offset, topic_id, partition from migration_step
    order by append_ms desc, kpart, entry_offset desc limit 1000000 offset ?"""


def note_step(db: StoreConnection, row: EventRow, step: MigrationStep, base_before: int | None) -> None:
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


def forget_old(db: StoreConnection) -> None:
    """Keep the newest steps only."""
    db.execute(f"delete from migration_step where (kpart, entry_offset, topic_id, partition) in ({_OLD})", (STEPS_KEPT,))
