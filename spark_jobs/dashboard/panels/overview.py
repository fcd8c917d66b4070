"""The head of the page: facts for the verdict, rates of the last ten seconds, exact totals."""

from __future__ import annotations

from spark_jobs.dashboard.panels.activity import UNITS
from spark_jobs.dashboard.panels.rows import NEWEST_CLAIMS, Json, exact, job, job_json, rows, scalar, topic_names, totals
from spark_jobs.dashboard.panels.sight import Sight, known, known_json, watch
from spark_jobs.dashboard.verdict import Facts, FoundWrong, Watching
from spark_jobs.store.acknowledge import open_count
from spark_jobs.store.engine import StoreConnection

RATE_S = 10
FINDINGS_LOOKED_AT = 100
CONSEQUENCE = "void-carries-live-term"
"""The rule that a leader's own entries break when another entry has taken their place."""
TOTALS = ("files", "batches", "records", "bytes", "file_bytes", "entries", "findings", "quarantined")


def facts(db: StoreConnection, sight: Sight) -> Facts:
    """Collect what the verdict needs."""
    now_ms, life = sight.now_ms, sight.life
    summed, said, sought = totals(db), job(db), known(db, sight)
    heads = rows(db, "select * from head order by kpart")
    claimed = {row["kpart"]: (row["node_id"], row["append_ms"]) for row in rows(db, NEWEST_CLAIMS)}
    # The job knows the log's end at every sign of life; the store was told at the last merge.
    read = {row["kpart"]: row["next_offset"] for row in heads}
    ends = {**{row["kpart"]: row["log_end"] for row in heads}, **(life.ends if life is not None else {})}
    merged_ms = max((row["merged_ms"] for row in heads), default=0)
    newest = max(heads, key=lambda row: int(row["merged_ms"]), default=None)
    last_s = scalar(db, "select max(second) from activity_second where batches > 0")
    compared = job_json(db, "last_objects") or {}
    return Facts(
        entries=summed.get("entries", 0),
        commits_per_s=rates(db, sight)["files"],
        last_commit_ms=last_s * 1000 if last_s else None,
        heads=len(heads),
        # The claim of a pruned log may be gone; then the epoch of its entries shows that it has a leader.
        unclaimed=[row["kpart"] for row in heads if row["kpart"] not in claimed and not row["epoch"] and row["next_offset"] > 0],
        behind_entries=sum(max(0, end - read.get(kpart, 0)) for kpart, end in ends.items()),
        behind_ms=0 if sought is None else sought.behind_ms,
        freshness_ms=0 if newest is None else max(0, newest["merged_ms"] - newest["append_ms"]),
        claims=claimed,
        findings=open_count(db),
        named_finding=_named_finding(db),
        quarantined=max(summed.get("quarantined", 0), scalar(db, "select count(*) from quarantine")),
        watch=Watching(started_ms=merged_ms, alive_ms=merged_ms) if life is None else watch(life),
        trigger_ms=round(1000 * float(said.get("trigger_s") or 1)),
        disagreeing=_disagreeing(job_json(db, "last_verify")),
        missing_files=int(compared.get("missing_files") or 0),
        oldest_transaction_ms=_age(db, "select min(append_ms) from open_transaction", now_ms),
        oldest_hand_over_ms=_age(db, "select min(state_since_ms) from file where state = 'waiting'", now_ms),
    )


def overview(db: StoreConnection, sight: Sight) -> Json:
    """Answer the numbers of `/api/overview`; the server adds the verdict. They say what is known until `known_until_ms`."""
    summed = totals(db)
    heads = rows(db, "select kpart, from_offset from head")
    return {
        "totals": {name: exact(summed.get(name, 0)) for name in TOTALS},
        "open_findings": exact(open_count(db)),
        "void_entries": exact(sum(value for name, value in summed.items() if name.startswith("void."))),
        "other_batches": {name.removeprefix("other."): exact(value) for name, value in sorted(summed.items()) if name.startswith("other.")},
        "whole_log": all(row["from_offset"] == 0 for row in heads),
        **known_json(db, sight),
        "rates": rates(db, sight),
        "coordinators": len(heads),
        "topics": scalar(db, "select count(*) from topic where deleted_ms is null"),
    }


def rates(db: StoreConnection, sight: Sight) -> dict[str, float]:
    """Per second, over the last ten seconds that are known."""
    seen = known(db, sight)
    end_s = (sight.now_ms if seen is None else seen.until_ms) // 1000
    (row,) = rows(
        db,
        "select sum(files) as files, sum(batches) as batches, sum(records) as records, sum(bytes) as bytes from activity_second"
        " where second >= ? and second < ?",
        end_s - RATE_S,
        end_s,
    )
    return {unit: round((row[unit] or 0) / RATE_S, 3) for unit in UNITS}


def _named_finding(db: StoreConnection) -> FoundWrong | None:
    """Return the newest open finding that is a cause: what an entry out of order follows from says more than that entry."""
    order = f"case when rule = '{CONSEQUENCE}' then 1 else 0 end, id desc"
    newest = f"select * from finding where acknowledgement is null order by id desc limit {FINDINGS_LOOKED_AT}"
    row = db.execute(f"select * from ({newest}) as newest order by {order} limit 1").fetchone()
    if row is None:
        return None
    name = "" if row["topic_id"] is None else topic_names(db, [bytes(row["topic_id"])])[bytes(row["topic_id"])]
    topic = name if row["partition"] is None else f"{name}-{row['partition']}"
    is_newest = row["id"] == scalar(db, "select max(id) from finding where acknowledgement is null")
    return FoundWrong(
        id=row["id"], coordinator=row["kpart"], offset=row["entry_offset"], rule=row["rule"], topic=topic, is_newest=is_newest
    )


def _age(db: StoreConnection, sql: str, now_ms: int) -> int | None:
    since_ms = scalar(db, sql)
    return now_ms - since_ms if since_ms else None


def _disagreeing(verified: Json | None) -> list[int] | None:
    """Coordinators where the last `verify` found a difference; None when it found none, compared nothing, or never ran."""
    parts = (verified or {}).get("partitions")
    if not isinstance(parts, list):
        return None
    return sorted({part.get("kpart", -1) for part in parts if part.get("agree") is False}) or None
