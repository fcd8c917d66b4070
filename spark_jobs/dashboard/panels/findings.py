"""The findings of the audit, each with its place, expectation, meaning, acknowledgement, and the command that shows
the entry.
"""

from __future__ import annotations

import shlex

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, dicts, rows, scalar, topic_names, totals
from spark_jobs.dashboard.panels.sight import Sight, known_json
from spark_jobs.store.acknowledge import open_count
from spark_jobs.store.engine import StoreConnection, StoreRow
from spark_jobs.store.rules import RULES

ENTRIES_BEFORE = 2
NOTES_MAX = 20
_PAGE = (
    "select f.*, a.who, a.reason, a.at_ms from (select * from finding where acknowledgement {state} order by id desc limit ? offset ?) f"
    " left join acknowledgement a on a.id = f.acknowledgement order by f.id desc"
)
UNKNOWN = "The entry breaks a rule that this version does not know. Look at it and the entries before it with the command below."


def findings(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/findings`: those that are open first, each the newest first."""
    kept_open = scalar(db, "select count(*) from finding where acknowledgement is null")
    found = rows(db, _PAGE.format(state="is null"), query.limit, query.offset)
    if len(found) < query.limit:
        found += rows(db, _PAGE.format(state="is not null"), query.limit - len(found), max(0, query.offset - kept_open))
    names = topic_names(db, {bytes(row["topic_id"]) for row in found if row["topic_id"] is not None})
    kept = scalar(db, "select count(*) from finding")
    logs = rows(db, "select topic from log")
    topic = str(logs[0]["topic"]) if logs else "__diskless_metadata"
    return {
        **known_json(db, sight),
        "count": max(kept, totals(db).get("findings", 0)),
        "kept": kept,
        "open": open_count(db),
        "offset": query.offset,
        "limit": query.limit,
        "notes": dicts(
            db, 'select kpart as coordinator, entry_offset as "offset", text, seen_ms from note order by id desc limit ?', NOTES_MAX
        ),
        "rules": dicts(db, "select rule, count(*) as count from finding group by rule order by 2 desc, 1"),
        "rows": [_row(row, names, topic) for row in found],
    }


def _row(row: StoreRow, names: dict[bytes, str], topic: str) -> Json:
    return {
        "id": row["id"],
        "coordinator": row["kpart"],
        "offset": row["entry_offset"],
        "rule": row["rule"],
        "message": row["message"],
        "meaning": RULES.get(row["rule"], UNKNOWN),
        "topic": None if row["topic_id"] is None else names[bytes(row["topic_id"])],
        "partition": row["partition"],
        "producer_id": row["producer_id"],
        "object_key": row["object_key"],
        "expected": None if row["expected"] is None else str(row["expected"]),
        "found": None if row["found"] is None else str(row["found"]),
        "seen_ms": row["seen_ms"],
        "acknowledged": None if row["who"] is None else {"who": row["who"], "reason": row["reason"], "at_ms": row["at_ms"]},
        "command": look_command(topic, row["kpart"], row["entry_offset"]),
    }


def look_command(topic: str, kpart: int, offset: int) -> str:
    """The command that prints the entry and the two before it."""
    named = "" if topic == "__diskless_metadata" else f" --metadata-topic {shlex.quote(topic)}"
    first = max(0, offset - ENTRIES_BEFORE)
    return f"diskless log dump{named} --partition {kpart} --from {first} --max {offset - first + 1} -o yaml"
