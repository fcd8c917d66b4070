"""The search of the page: topics by a part of their name, files by the beginning of their key, producers by id, nodes and coordinators."""

from __future__ import annotations

import re

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, matching_ids, rows, topic_names
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import marks

FOUND_MAX = 8


def search(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/search`: what `search` may name, each with the page that shows it."""
    text = query.search.strip()
    found: list[tuple[str, str]] = []
    if not text:
        return {"rows": []}
    if entry := re.fullmatch(r"(\d{1,5})@(\d{1,15})", text, re.ASCII):
        found.append((f"coordinator {int(entry[1])}, offset {int(entry[2])}", f"entry/{int(entry[1])}@{int(entry[2])}"))
    if place := re.fullmatch(r"(node|coordinator) ?(\d{1,9})", text, re.ASCII | re.IGNORECASE):
        found.append((f"{place[1].lower()} {int(place[2])}", f"{place[1].lower()}/{int(place[2])}"))
    if text.isascii() and text.isdigit() and len(text) < 16:
        if rows(db, "select 1 from producer where producer_id = ? limit 1", int(text)):
            found.append((f"producer {int(text)}", f"producer/{int(text)}"))
    name, _, number = text.rpartition("-")
    if name and number.isascii() and number.isdigit() and len(number) < 10:
        ids = rows(db, "select topic_id from topic where name = ?", name)
        held = f"select 1 from partition where topic_id in ({marks(ids)}) and partition = ? limit 1"
        if rows(db, held, *(bytes(row[0]) for row in ids), int(number)):
            found.append((f"partition {name}-{int(number)}", f"partition/{name}/{int(number)}"))
    names = topic_names(db, matching_ids(db, text, FOUND_MAX))
    found += [(f"topic {one}", f"topic/{one}") for one in sorted(set(names.values()), key=lambda one: (one != text, one))]
    begins = "select distinct f.object_key from head h cross join file f"
    begins += " where f.kpart = h.kpart and f.object_key >= ? and f.object_key < ? limit ?"
    keys = rows(db, begins, text, text + chr(0x10FFFF), FOUND_MAX)
    found += [(f"file {row['object_key']}", f"file/{row['object_key']}") for row in keys]
    return {"rows": [{"text": shown, "look": to} for shown, to in found]}
