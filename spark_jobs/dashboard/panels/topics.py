"""The topics: exact sums over their partitions, and the names the filter offers."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, matching_ids, rows, scalar, topic_names
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import marks

SEARCHED_MAX = 900


def topics(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/topics`: the largest first. Sums are exact since the offsets the monitor started from."""
    condition, ids = "true", list[bytes]()
    if query.search:
        ids = matching_ids(db, query.search, SEARCHED_MAX)
        condition = f"topic_id in ({marks(ids)})"
    found = rows(
        db,
        "select topic_id, count(distinct partition) as partitions, sum(batches) as batches, sum(records) as records, sum(bytes) as bytes,"
        " max(last_append_ms) as last_append_ms from partition"
        f" where {condition} group by topic_id order by 3 desc nulls last, 1 limit ? offset ?",
        *ids,
        query.limit,
        query.offset,
    )
    names = topic_names(db, [bytes(row["topic_id"]) for row in found])
    deleted = {row[0]: row[1] for row in rows(db, "select topic_id, deleted_ms from topic where deleted_ms is not null")}
    return {
        "count": scalar(db, f"select count(*) from topic where {condition}", *ids),
        "rows": [
            {
                "topic": names[bytes(row["topic_id"])],
                "partitions": row["partitions"],
                "batches": str(row["batches"] or 0),
                "records": str(row["records"] or 0),
                "bytes": str(row["bytes"] or 0),
                "last_append_ms": row["last_append_ms"],
                "deleted_ms": deleted.get(row["topic_id"]),
            }
            for row in found
        ],
    }
