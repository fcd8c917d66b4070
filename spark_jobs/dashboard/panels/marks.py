"""What happened in a range, for marks on every chart: changes of leaders, starts of nodes, schema levels, snapshots, moves of partitions,
findings.

Times are those of the log's entries; a finding has the time at which it was found. Moves that were done in one minute are one mark.
"""

from __future__ import annotations

from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.rows import Json, rows
from spark_jobs.dashboard.panels.sight import Sight, known, shown_s
from spark_jobs.store.engine import StoreConnection, StoreRow

MARKS_MAX = 400
_MARKS = """select * from (
select 'leader' as kind, append_ms as at_ms, kpart, entry_offset, node_id, epoch as number, null as text from claim
union all select 'snapshot', append_ms, kpart, entry_offset, null, end_offset, null from snapshot
union all select happening.kind, append_ms, kpart, entry_offset, node_id, level, null from happening
union all select 'move', max(moved_ms), 0, max(entry_offset), null, count(*), null from move where moved_ms is not null
    group by moved_ms / 60000
union all select 'finding', seen_ms, kpart, entry_offset, null, id, rule from
    (select * from finding where acknowledgement is null order by id desc limit 400) as newest
) as marked where at_ms >= ? and at_ms < ? order by at_ms desc, kpart, entry_offset limit ?"""


def marks(db: StoreConnection, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/marks`, the newest first."""
    first_s, end_s = shown_s(known(db, sight), query, sight.now_ms)
    # What was found now is not in the seconds that are known yet.
    end_ms = end_s * 1000 if query.to_s is not None else sight.now_ms + 1
    found = rows(db, _MARKS, first_s * 1000, end_ms, MARKS_MAX + 1)
    return {"first_s": first_s, "end_s": end_s, "is_cut": len(found) > MARKS_MAX, "rows": [_mark(row) for row in found[:MARKS_MAX]]}


def _mark(row: StoreRow) -> Json:
    number, node = row["number"], f"node {row['node_id']}"
    texts = {
        "leader": f"{node} leads coordinator {row['kpart']}, epoch {number}",
        "snapshot": f"snapshot of coordinator {row['kpart']} up to offset {number}",
        "start": f"{node} started",
        "deployment": f"{node} started and reads schema level {number}, as it did not before",
        "level": f"schema level {number} is in force",
        "move": f"{number} partition{'' if number == 1 else 's'} moved to another coordinator",
        "finding": f"{str(row['text']).replace('-', ' ')} found at coordinator {row['kpart']}, offset {row['entry_offset']}",
    }
    return {
        "kind": row["kind"],
        "at_ms": row["at_ms"],
        "text": texts[row["kind"]],
        "coordinator": row["kpart"],
        "offset": row["entry_offset"],
        "node_id": row["node_id"],
        "finding": number if row["kind"] == "finding" else None,
    }
