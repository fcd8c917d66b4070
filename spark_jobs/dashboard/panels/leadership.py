"""The leaders of each metadata partition over time, from the claims that came into force."""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, dicts, rows, scalar
from spark_jobs.dashboard.panels.sight import Sight, known, shown_s, unknown_json
from spark_jobs.store.engine import StoreConnection, StoreRow

CLAIMS_MAX = 5000


def leadership(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/leadership`: for each coordinator its terms in the range, the one that ran when it began included."""
    seen = known(db, sight)
    from_ms, to_ms = (1000 * second for second in shown_s(seen, query, sight.now_ms))
    before = "select c.* from head h join claim c on c.kpart = h.kpart and c.entry_offset ="
    before += " (select max(entry_offset) from claim b where b.kpart = h.kpart and b.append_ms <= ?)"
    inside = "select * from claim where append_ms > ? and append_ms <= ? order by append_ms desc limit ?"
    claims = [*rows(db, before, from_ms), *rows(db, inside, from_ms, to_ms, CLAIMS_MAX)]
    lanes: dict[int, list[StoreRow]] = {row[0]: [] for row in rows(db, "select kpart from head order by kpart")}
    for claim in claims:
        lanes.setdefault(claim["kpart"], []).append(claim)
    nodes = {row.pop("node_id"): row for row in dicts(db, "select node_id, rack, endpoints, schema_level_max, drain from node")}
    return {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "unknown": unknown_json([] if seen is None else seen.unknown(from_ms, to_ms)),
        "changes": scalar(db, "select count(*) from claim where append_ms > ? and append_ms <= ?", from_ms, to_ms),
        "changes_total": scalar(db, "select count(*) from claim"),
        "nodes": [
            {
                "node_id": node_id,
                "silent_ms": sight.silent_ms.get(node_id),
                **{key: value for key, value in nodes.get(node_id, {}).items() if key != "node_id"},
            }
            for node_id in sorted(nodes.keys() | {claim["node_id"] for claim in claims})
        ],
        "coordinators": [{"coordinator": kpart, "terms": _terms(lane)} for kpart, lane in sorted(lanes.items())],
    }


def _terms(claims: list[StoreRow]) -> list[Json]:
    ordered = sorted(claims, key=lambda claim: int(claim["entry_offset"]))
    ends = [*(claim["append_ms"] for claim in ordered[1:]), None]
    return [
        {"node_id": claim["node_id"], "epoch": claim["epoch"], "offset": claim["entry_offset"], "from_ms": claim["append_ms"], "to_ms": end}
        for claim, end in zip(ordered, ends, strict=True)
    ]
