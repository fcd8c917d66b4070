"""The last results of the batch jobs: whether log and service agree, and whether every live file has its object."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, job_json
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection


def agreement(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/agreement`: the result of the last `verify`, None before the first."""
    return {"last_verify": job_json(db, "last_verify")}


def objects(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/objects`: the result of the last `restore report`, None before the first."""
    return {"last_objects": job_json(db, "last_objects")}
