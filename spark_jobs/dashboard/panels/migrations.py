"""Classic topics that become diskless: those of which partitions still wait for their start, and what operators took back or lowered.

A partition waits since it was created, or since its start was taken back; of one that was taken over from a snapshot that is not known.
"""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, rows, topic_names
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection, StoreRow
from spark_jobs.store.statements import marks

TOPICS_MAX = 100
STEPS_SHOWN = 20
_WAITS = "diskless_base < 0"
_SINCE = "case when diskless_base < 0 and last_append_ms > 0 then last_append_ms end"


def migrations(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/migrations`: topics by how long they have waited, and a page of their partitions, those that wait first."""
    found = rows(
        db,
        f"select topic_id, count(*) as partitions, sum(case when {_WAITS} then 1 else 0 end) as pending, min({_SINCE}) as since_ms"
        " from partition where diskless_base is not null group by topic_id",
    )
    under_way = sorted((row for row in found if row["pending"]), key=lambda row: (row["since_ms"] or 0, row["topic_id"]))
    shown = under_way[:TOPICS_MAX]
    done = [row["partitions"] for row in found if not row["pending"]]
    partitions = _partitions(db, [bytes(row["topic_id"]) for row in shown], query)
    steps = rows(db, "select * from migration_step order by append_ms desc, kpart, entry_offset desc limit ?", STEPS_SHOWN)
    names = topic_names(db, {bytes(row["topic_id"]) for row in (*shown, *partitions, *steps)})
    return {
        "count": len(under_way),
        "migrated": {"topics": len(done), "partitions": sum(done)},
        "topics": [
            {
                "topic": names[bytes(row["topic_id"])],
                "partitions": row["partitions"],
                "pending": row["pending"],
                "initialised": row["partitions"] - row["pending"],
                "waiting_ms": _age(row["since_ms"], sight.now_ms),
            }
            for row in shown
        ],
        "partitions": {
            "count": sum(row["partitions"] for row in shown),
            "offset": query.offset,
            "limit": query.limit,
            "rows": [_partition(row, names, sight.now_ms) for row in partitions],
        },
        "steps": [_step(row, names, sight.now_ms) for row in steps],
    }


def _partitions(db: StoreConnection, topic_ids: list[bytes], query: PanelQuery) -> list[StoreRow]:
    return rows(
        db,
        f"select kpart, topic_id, partition, diskless_base, prefix_start, leader_epoch, {_SINCE} as since_ms from partition"
        f" where diskless_base is not null and topic_id in ({marks(topic_ids)})"
        f" order by {_WAITS} desc, since_ms nulls first, topic_id, partition limit ? offset ?",
        *topic_ids,
        query.limit,
        query.offset,
    )


def _partition(row: StoreRow, names: dict[bytes, str], now_ms: int) -> Json:
    is_pending = row["diskless_base"] < 0
    return {
        "topic": names[bytes(row["topic_id"])],
        "partition": row["partition"],
        "coordinator": row["kpart"],
        "state": "pending" if is_pending else "initialised",
        "was_reset": is_pending and row["leader_epoch"] >= 0,  # only steps record an epoch: a pending partition that has one was reset
        "start_offset": _known(row["diskless_base"]),
        "prefix_start": _known(row["prefix_start"]),
        "leader_epoch": _known(row["leader_epoch"]),
        "waiting_ms": _age(row["since_ms"], now_ms),
    }


def _step(row: StoreRow, names: dict[bytes, str], now_ms: int) -> Json:
    return {
        "topic": names[bytes(row["topic_id"])],
        "partition": row["partition"],
        "coordinator": row["kpart"],
        "offset": row["entry_offset"],
        "step": row["step"],
        "start_before": _known(row["base_before"]),
        "start_after": _known(row["base_after"]),
        "leader_epoch": row["leader_epoch"],
        "append_ms": row["append_ms"],
        "age_ms": _age(row["append_ms"], now_ms),
    }


def _known(value: int | None) -> int | None:
    return None if value is None or value < 0 else value


def _age(since_ms: int | None, now_ms: int) -> int | None:
    return None if since_ms is None else max(0, now_ms - since_ms)
