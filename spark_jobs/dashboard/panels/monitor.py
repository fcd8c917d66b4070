"""The monitor's own health: is it running, how far behind is it, how long do its micro-batches take."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, dicts, exact, job, rows, totals
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection

MICRO_BATCHES = 1000
SIGNS = ("alive_ms", "kafka_ms", "kafka_error", "ended_ms", "failure")
STATED = ("started_ms", "pid", "trigger_s", "version")


def monitor(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/monitor`."""
    summed = totals(db)
    first_s, end_s = query.span_s(sight.now_ms // 1000 + 1)
    logs = dicts(db, "select topic, topic_id, partitions, schema_version from log")
    said = job(db)
    return {
        "first_s": first_s,
        "end_s": end_s,
        "life": None if sight.life is None else {name: getattr(sight.life, name) for name in SIGNS},
        "log": logs[0] if logs else None,
        "job": {name: said[name] for name in STATED if name in said},
        "heads": [
            {
                "coordinator": row["kpart"],
                "next_offset": row["next_offset"],
                "log_end": row["log_end"],
                "lag_entries": max(0, row["log_end"] - row["next_offset"]),
                "from_offset": row["from_offset"],
                "epoch": row["epoch"],
                "append_ms": row["append_ms"],
                "merged_ms": row["merged_ms"],
                "freshness_ms": max(0, row["merged_ms"] - row["append_ms"]),
            }
            for row in rows(db, "select * from head order by kpart")
        ],
        "micro_batches": dicts(
            db,
            "select merged_ms, entries, batches, scan_ms, merge_ms, lag_entries from"
            " (select * from micro_batch order by id desc limit ?) as newest where merged_ms >= ? and merged_ms < ? order by id",
            MICRO_BATCHES,
            first_s * 1000,
            end_s * 1000,
        ),
        "totals": {name: exact(summed[name]) for name in sorted(summed)},
    }
