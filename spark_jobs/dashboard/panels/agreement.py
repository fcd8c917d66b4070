"""The last results of the batch jobs: whether log and service agree, and unknown objects."""

from __future__ import annotations

import sqlite3

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, job_json


def agreement(db: sqlite3.Connection, query: PanelQuery, now_ms: int) -> Json:
    """Answer `/api/agreement`: the result of the last `verify`, None before the first."""
    return {"last_verify": job_json(db, "last_verify")}


def orphans(db: sqlite3.Connection, query: PanelQuery, now_ms: int) -> Json:
    """Answer `/api/orphans`: the result of the last `orphans`, None before the first."""
    return {"last_orphans": job_json(db, "last_orphans")}
