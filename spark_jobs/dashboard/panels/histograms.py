"""Distributions over the range: batches and partitions per file, file size, fill ratio, freshness."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, rows
from spark_jobs.dashboard.panels.sight import Sight, known, shown_minutes
from spark_jobs.store.engine import StoreConnection

NAMES = {
    "batches_per_file": ("Batches per file and coordinator", "count"),
    "partitions_per_file": ("Partitions per file and coordinator", "count"),
    "file_bytes": ("File size", "bytes"),
    "fill_percent": ("Fill ratio: share of a file that the accepted batches of one coordinator take", "percent"),
    "freshness_ms": ("Freshness: from the append to the merge", "ms"),
}


def histograms(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/histograms`. A bucket holds values up to its `upper`, above that of the bucket before."""
    span = shown_minutes(known(db, sight), query, sight.now_ms)
    sql = "select upper, sum(count) from histogram where name = ? and minute >= ? and minute < ? group by upper order by upper"
    return {"histograms": [_one(name, [(row[0], row[1]) for row in rows(db, sql, name, *span)]) for name in NAMES]}


def _one(name: str, buckets: list[tuple[int, int]]) -> Json:
    title, unit = NAMES[name]
    return {
        "name": name,
        "title": title,
        "unit": unit,
        "count": sum(count for _, count in buckets),
        "buckets": [{"upper": upper, "count": count} for upper, count in buckets],
        "quantiles": {f"p{percent}": quantile(buckets, percent / 100) for percent in (50, 95, 99)},
    }


def quantile(buckets: list[tuple[int, int]], share: float) -> int | None:
    """The upper end of the bucket that holds the quantile: at most that; None without values."""
    whole = sum(count for _, count in buckets)
    seen = 0
    for upper, count in buckets:
        seen += count
        if count and seen >= share * whole:
            return upper
    return None
