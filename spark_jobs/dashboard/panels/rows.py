"""Small helpers over the store that several panels need: rows, sums, names of topics, exact numbers."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from spark_jobs.store.engine import StoreConnection, StoreRow
from spark_jobs.store.statements import marks

Json: TypeAlias = dict[str, Any]
Value: TypeAlias = "int | float | str | bytes | None"

NEWEST_CLAIMS = """select c.kpart, c.node_id, c.append_ms from claim c
    where c.entry_offset = (select max(entry_offset) from claim where kpart = c.kpart)"""


def rows(db: StoreConnection, sql: str, *values: Value) -> list[StoreRow]:
    """Run a query."""
    found: list[StoreRow] = db.execute(sql, values).fetchall()
    return found


def dicts(db: StoreConnection, sql: str, *values: Value) -> list[Json]:
    """Run a query whose columns are JSON values already."""
    return [dict(row) for row in rows(db, sql, *values)]


def scalar(db: StoreConnection, sql: str, *values: Value) -> int:
    """Run a query of one number; 0 for none."""
    row = db.execute(sql, values).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def exact(value: int) -> Json:
    """A number that must arrive to the last digit: browsers keep 53 bits of `value`, and all of `digits`."""
    return {"value": value, "digits": str(value)}


def totals(db: StoreConnection) -> dict[str, int]:
    """Every total over all metadata partitions. Summed here: SQLite's own sum fails beyond 64 bits."""
    summed: dict[str, int] = {}
    for name, value in rows(db, "select name, value from total"):
        summed[name] = summed.get(name, 0) + int(value)
    return summed


def job(db: StoreConnection) -> dict[str, str]:
    """The status that the job reports."""
    return {row["name"]: row["value"] for row in rows(db, "select name, value from job")}


def job_json(db: StoreConnection, name: str) -> Json | None:
    """One JSON value of the job; None when there is none, and a text of what is wrong when it is not an object."""
    found = rows(db, "select value from job where name = ?", name)
    if not found or found[0]["value"] is None:
        return None
    try:
        value = json.loads(found[0]["value"])
    except ValueError as error:
        return {"unreadable": f"job.{name} is not JSON: {error}"}
    return value if isinstance(value, dict) else {"unreadable": f"job.{name} is not a JSON object"}


def topic_text(topic_id: bytes) -> str:
    """A topic id as Kafka prints it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def topic_names(db: StoreConnection, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
    """Names of topics; the id's text where the log (or what is left of it) does not name one."""
    wanted = sorted(set(topic_ids))
    names = {topic_id: topic_text(topic_id) for topic_id in wanted}
    for first in range(0, len(wanted), 500):
        some = wanted[first : first + 500]
        names.update(
            (row[0], row[1]) for row in rows(db, f"select topic_id, name from topic where topic_id in ({marks(some)})", *some) if row[1]
        )
    return names


def topic_ids(db: StoreConnection, topic: str) -> list[bytes]:
    """The ids a name (or an id's text) stands for: none, one, or more when a name was used again."""
    found = [bytes(row[0]) for row in rows(db, "select topic_id from topic where name = ?", topic)]
    try:
        raw = base64.urlsafe_b64decode(topic + "=" * (-len(topic) % 4))
    except (ValueError, binascii.Error):
        return found
    return found if len(raw) != 16 or raw in found else [*found, raw]


def matching_ids(db: StoreConnection, search: str, limit: int) -> list[bytes]:
    """Ids of topics whose name has `search` in it, upper and lower case alike."""
    # Databases differ in what they think of letters beyond ASCII.
    text = "".join(one.lower() if one.isascii() else one for one in search)
    text = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    sql = "select topic_id from topic where lower(name) like ? escape '\\' limit ?"
    return [bytes(row[0]) for row in rows(db, sql, f"%{text}%", limit)]
