"""The newest snapshot of every metadata partition, and transactions that are open."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, rows
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection


def snapshots(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/snapshots`."""
    newest = rows(
        db,
        "select h.kpart, h.next_offset, s.end_offset, s.size_bytes, s.location, s.digest, s.append_ms,"
        " (select count(*) from snapshot c where c.kpart = h.kpart) as snapshots"
        " from head h left join snapshot s on s.kpart = h.kpart"
        " and s.entry_offset = (select max(entry_offset) from snapshot m where m.kpart = h.kpart)"
        " order by h.kpart",
    )
    return {
        "coordinators": [
            {
                "coordinator": row["kpart"],
                "snapshots": row["snapshots"],
                "end_offset": row["end_offset"],
                "entries_since": None if row["end_offset"] is None else max(0, row["next_offset"] - row["end_offset"]),
                "size_bytes": row["size_bytes"],
                "location": row["location"],
                "digest": (row["digest"] or b"").hex(),
                "age_ms": None if row["append_ms"] is None else sight.now_ms - row["append_ms"],
            }
            for row in newest
        ],
        "open_transactions": [
            {"coordinator": row["kpart"], "name": row["name"], "offset": row["entry_offset"], "age_ms": sight.now_ms - row["append_ms"]}
            for row in rows(db, "select kpart, name, entry_offset, append_ms from open_transaction order by append_ms")
        ],
    }
