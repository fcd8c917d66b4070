"""The life of the WAL files: how many are in which state, what nearly empty ones hold, which hand-overs wait and how long.

A file with batches of several coordinators is one object, with a row and a state in the log of each. It is counted once, in
the state nearest to life that one of its coordinators gives it: it is there as long as one of them needs it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, dicts, rows
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection, StoreRow

STATES = ("live", "deletable", "waiting", "removed", "fenced")
"""From the most alive on. One that the last owner may delete is deletable, although the owners before it are done and wait."""

STORED = ("live", "deletable", "waiting")
"""States of objects that are in the object store."""

EMPTY = ("deletable", "waiting")
"""States of those of them that have no live batch: their bytes are freed when they are deleted."""

NEARLY_EMPTY_PERCENT = 10
LIST_MAX = 20
CANDIDATES = 10 * LIST_MAX


def files(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/files`."""
    by_state = {row["state"]: dict(row) for row in rows(db, _BY_STATE)}
    nothing = {"files": 0, "file_bytes": 0, "live_bytes": 0, "oldest_ms": None}
    states = [{"state": state, **{key: by_state.get(state, nothing)[key] for key in nothing}} for state in STATES]
    stored = [one for one in states if one["state"] in STORED]
    return {
        "states": states,
        "stored": _sum(stored),
        "empty": _sum([one for one in states if one["state"] in EMPTY]),
        "nearly_empty": nearly_empty(db),
        "hand_overs": [_hand_over(row, sight.now_ms) for row in rows(db, _WAITING, LIST_MAX)],
        "emptiest": dicts(db, _EMPTIEST, LIST_MAX),
    }


def _sum(states: Sequence[Json]) -> Json:
    oldest_ms = min((one["oldest_ms"] for one in states if one["oldest_ms"] is not None), default=None)
    return {**{key: sum(one[key] for one in states) for key in ("files", "file_bytes", "live_bytes")}, "oldest_ms": oldest_ms}


_RANKED = "case state " + " ".join(f"when '{state}' then {rank}" for rank, state in enumerate(STATES)) + " end"
_RANK_STATE = "case min(rank) " + " ".join(f"when {rank} then '{state}'" for rank, state in enumerate(STATES)) + " end"
# Only keys that may have rows in several partitions of the log are grouped; a fenced key may be a file elsewhere.
_IS_SHARED = "(owners like '%,%' or state = 'fenced')"
_BY_STATE = f"""select state, count(*) as files, coalesce(sum(file_bytes), 0) as file_bytes, coalesce(sum(live_bytes), 0) as live_bytes,
min(since_ms) as oldest_ms from (
select state, file_bytes, live_bytes, state_since_ms as since_ms from file where not {_IS_SHARED}
union all
select {_RANK_STATE} as state, max(file_bytes) as file_bytes, sum(live_bytes) as live_bytes, min(state_since_ms) as since_ms
from (select f.*, {_RANKED} as rank from file f where {_IS_SHARED}) as ranked group by object_key) as objects group by state"""
_WAITING = """select object_key, kpart, owners, next_owner, file_bytes, state_since_ms from file
where state = 'waiting' order by state_since_ms limit ?"""
# A coordinator knows only its own batches of a file: what still counts of it is the sum over its owners. In a cross join SQLite keeps the
# order of tables: it would look through all files for each.
_LIVE_OF_ALL = """case when f.owners like '%,%'
then (select sum(o.live_bytes) from head h cross join file o where o.kpart = h.kpart and o.object_key = f.object_key)
else f.live_bytes end"""
# Among the rows with the most bytes that are not live for their coordinator, which is never less than what is dead for all.
_EMPTIEST = f"""select object_key, min(kpart) as coordinator, max(file_bytes) as file_bytes, min(live) as live_bytes from
(select f.object_key, f.kpart, f.file_bytes, {_LIVE_OF_ALL} as live from
(select * from file where state = 'live' and live_bytes < file_bytes
order by file_bytes - live_bytes desc, file_number limit {CANDIDATES}) f) as candidates
group by object_key having min(live) < max(file_bytes) order by max(file_bytes) - min(live) desc, object_key limit ?"""
_NEARLY_EMPTY = f"""select count(*) as files, coalesce(sum(file_bytes), 0) as file_bytes, coalesce(sum(live), 0) as live_bytes from
(select f.object_key, max(f.file_bytes) as file_bytes, max({_LIVE_OF_ALL}) as live from file f
where f.state = 'live' and f.live_bytes * 100 <= f.file_bytes * {NEARLY_EMPTY_PERCENT} group by f.object_key) as objects
where live * 100 <= file_bytes * {NEARLY_EMPTY_PERCENT}"""


def nearly_empty(db: StoreConnection) -> Json:
    """Live files at most a tenth of whose bytes still count: what a rewrite of them would free."""
    (row,) = rows(db, _NEARLY_EMPTY)
    return {"percent": NEARLY_EMPTY_PERCENT, **dict(row)}


def _hand_over(row: StoreRow, now_ms: int) -> Json:
    return {
        "object_key": row["object_key"],
        "coordinator": row["kpart"],
        "next_owner": row["next_owner"],
        "owners": _owners(row["owners"]),
        "file_bytes": row["file_bytes"],
        "age_ms": now_ms - row["state_since_ms"],
    }


def _owners(text: str | None) -> list[int]:
    value = json.loads(text) if text else []
    return [int(one) for one in value] if isinstance(value, list) else []
