"""The uploaders: brokers or gateways with their racks, and how many files belong to more than one coordinator."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, rows
from spark_jobs.dashboard.panels.sight import Sight, known, shown_minutes
from spark_jobs.store.engine import StoreConnection

LIST_MAX = 100


def uploaders(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/uploaders`, for whole minutes."""
    first, end = shown_minutes(known(db, sight), query, sight.now_ms)
    found = rows(
        db,
        "select a.uploader, b.rack, b.host, sum(a.files) as files, sum(a.batches) as batches, sum(a.bytes) as bytes,"
        " sum(a.file_bytes) as file_bytes from activity_uploader a left join broker b on b.broker_id = a.uploader"
        " where a.minute >= ? and a.minute < ? group by a.uploader, b.rack, b.host order by bytes desc, a.uploader",
        first,
        end,
    )
    racks: dict[str, Json] = {}
    for row in found:
        rack = racks.setdefault(
            row["rack"] or "", {"rack": row["rack"] or "", "uploaders": 0, "files": 0, "batches": 0, "bytes": 0, "file_bytes": 0}
        )
        rack["uploaders"] += 1
        for unit in ("files", "batches", "bytes", "file_bytes"):
            rack[unit] += row[unit]
    (owned,) = rows(
        db,
        "select coalesce(sum(files), 0) as files, coalesce(sum(multi_owner_files), 0) as multi_owner_files"
        " from activity_second where second >= ? and second < ?",
        first * 60,
        end * 60,
    )
    return {
        "uploaders": [dict(row) for row in found[:LIST_MAX]],
        "uploader_count": len(found),
        "racks": sorted(racks.values(), key=lambda rack: (-int(rack["bytes"]), str(rack["rack"]))),
        "files": owned["files"],
        "multi_owner_files": owned["multi_owner_files"],
    }
