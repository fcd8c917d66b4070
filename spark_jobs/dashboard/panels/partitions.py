"""The table of user partitions, searched, sorted and cut here: a page of it is all that travels. Skew comes with it.

A partition that moved is one row, at the coordinator in which it goes on; its numbers are of all that it has, wherever that is.
The rate is that of the last whole minute, and None while it is not known what happens. Sorting by rate reads that minute alone; the
other orders read the partitions.
"""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, Value, matching_ids, rows, scalar, topic_ids, topic_names
from spark_jobs.dashboard.panels.sight import Sight, known
from spark_jobs.dashboard.panels.stretches import OWNED, sum_of
from spark_jobs.store.engine import StoreConnection, StoreRow
from spark_jobs.store.statements import marks

TOPICS_MAX = 900  # SQLite's own limit of parameters is larger, a search that finds more is none
ORDERS = {
    "rate": "m.batches desc nulls last, p.topic_id, p.partition, p.kpart",
    "batches": "all_batches desc nulls last, p.topic_id, p.partition, p.kpart",
    "records": "all_records desc nulls last, p.topic_id, p.partition, p.kpart",
    "bytes": "all_bytes desc nulls last, p.topic_id, p.partition, p.kpart",
    "offset": "p.next_offset desc nulls last, p.topic_id, p.partition, p.kpart",
    "last": "p.last_append_ms desc nulls last, p.topic_id, p.partition, p.kpart",
    "name": "t.name nulls first, p.topic_id, p.partition, p.kpart",
}
COLUMNS = f"""p.kpart, p.topic_id, p.partition, p.start_offset, p.next_offset, p.since_offset, p.newest_move, p.released_to, p.moved_ms,
{sum_of("batches")} as all_batches, {sum_of("records")} as all_records, {sum_of("bytes")} as all_bytes,
p.last_append_ms, p.diskless_base, m.batches as minute_batches, m.records as minute_records, m.bytes as minute_bytes"""


def partitions(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/partitions`."""
    seen = known(db, sight)
    is_current = seen is not None and seen.is_current
    minute = (sight.now_ms if seen is None else seen.until_ms) // 60_000 - 1
    condition, values = _condition(db, query)
    found = _hottest(db, query, minute) if query.sort == "rate" and not query.topic and not query.search else []
    # The hottest page is short where the idle partitions begin; those are found by reading all.
    if len(found) < query.limit:
        found = _page(db, query, minute, condition, values)
    names = topic_names(db, {bytes(row["topic_id"]) for row in found})
    return {
        "count": scalar(db, f"select count(*) from partition p where {condition}", *values),
        "offset": query.offset,
        "limit": query.limit,
        "sort": query.sort,
        "rows": [_row(row, names, is_current) for row in found],
        "skew": {"is_current": is_current, **skew(db, minute, scalar(db, f"select count(*) from partition p where {OWNED}"))},
    }


def _hottest(db: StoreConnection, query: PanelQuery, minute: int) -> list[StoreRow]:
    hottest = "select * from activity_partition where minute = ? order by batches desc, topic_id, partition limit ? offset ?"
    return rows(
        db,
        f"select {COLUMNS} from ({hottest}) m cross join head h"
        " join partition p on p.kpart = h.kpart and p.topic_id = m.topic_id and p.partition = m.partition"
        f" where {OWNED} order by {ORDERS['rate']}",
        minute,
        query.limit,
        query.offset,
    )


def _page(db: StoreConnection, query: PanelQuery, minute: int, condition: str, values: list[Value]) -> list[StoreRow]:
    return rows(
        db,
        f"select {COLUMNS} from partition p"
        " left join activity_partition m on m.minute = ? and m.topic_id = p.topic_id and m.partition = p.partition"
        + (" left join topic t on t.topic_id = p.topic_id" if query.sort == "name" else "")
        + f" where {condition} order by {ORDERS[query.sort]} limit ? offset ?",
        minute,
        *values,
        query.limit,
        query.offset,
    )


def _condition(db: StoreConnection, query: PanelQuery) -> tuple[str, list[Value]]:
    """The topics that are wanted: the filter's, or those whose name has the searched text; `name-7` is partition 7 of it."""
    condition, values = OWNED, list[Value]()
    if query.topic:
        ids = topic_ids(db, query.topic)
        condition, values = f"p.topic_id in ({marks(ids)}) and {OWNED}", list[Value](ids)
    if query.search:
        name, dash, number = query.search.rpartition("-")
        ids = matching_ids(db, query.search, TOPICS_MAX)
        parts, more = [f"p.topic_id in ({marks(ids)})"], list[Value](ids)
        if dash and number.isascii() and number.isdigit() and len(number) < 10:
            exact_ids = matching_ids(db, name, TOPICS_MAX)
            parts.append(f"(p.partition = ? and p.topic_id in ({marks(exact_ids)}))")
            more += [int(number), *exact_ids]
        condition, values = f"{condition} and ({' or '.join(parts)})", [*values, *more]
    return condition, values


def _row(row: StoreRow, names: dict[bytes, str], is_current: bool) -> Json:
    return {
        "topic": names[bytes(row["topic_id"])],
        "partition": row["partition"],
        "coordinator": row["kpart"],
        "start_offset": row["start_offset"],
        "next_offset": row["next_offset"],
        "since_offset": row["since_offset"],
        "diskless_base": row["diskless_base"],
        "moved_ms": row["moved_ms"] if row["newest_move"] >= 0 else None,
        "moving_to": row["released_to"],
        "batches": str(row["all_batches"] or 0),
        "records": str(row["all_records"] or 0),
        "bytes": str(row["all_bytes"] or 0),
        "last_append_ms": row["last_append_ms"],
        "batches_per_s": round((row["minute_batches"] or 0) / 60, 3) if is_current else None,
        "bytes_per_s": round((row["minute_bytes"] or 0) / 60, 3) if is_current else None,
    }


def skew(db: StoreConnection, minute: int, partition_count: int) -> Json:
    """How unequal the last whole minute was: shares of the hottest partitions, and how many of all took part."""
    counts = [row[0] for row in rows(db, "select batches from activity_partition where minute = ? order by batches desc", minute)]
    whole = sum(counts)
    if not whole:
        return {"minute": minute, "active": 0, "partitions": partition_count, "top1": None, "top10": None, "half": None}
    half, seen = 0, 0
    while 2 * seen < whole:
        seen += counts[half]
        half += 1
    return {
        "minute": minute,
        "active": len(counts),
        "partitions": partition_count,
        "top1": counts[0] / whole,
        "top10": sum(counts[:10]) / whole,
        "half": half,  # this many partitions make half of the load
    }
