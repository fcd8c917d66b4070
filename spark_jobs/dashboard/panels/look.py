"""The page of one thing: a topic, a partition, a coordinator, a node, a file, a producer, or an entry of the log.

Every answer has the same form, so that one piece of the page draws them all: facts and tables, whose cells say how they are
shown and which other page they lead to. A thing is named as in the address: `partition/orders/7`, `entry/1@1234`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spark_jobs.dashboard.entries import RawEntry
from spark_jobs.dashboard.panels.decoded import decoded_fields
from spark_jobs.dashboard.panels.quarantine import hex_dump
from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.panels.retention import (
    UNLIMITED,
    LiveShare,
    RetentionInForce,
    kept_of,
    live_batches,
    live_shares,
    share_of_partition,
    stored_share,
)
from spark_jobs.dashboard.panels.rows import NEWEST_CLAIMS, Json, rows, topic_ids, topic_names, topic_text
from spark_jobs.dashboard.panels.sight import Sight, known
from spark_jobs.dashboard.panels.stretches import WholePartition, whole_partitions
from spark_jobs.dashboard.verdict import duration, grouped
from spark_jobs.scan.blocks import file_number, unpack
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import marks

ROWS_MAX = 50
BATCHES_SHOWN = 10
NEIGHBOURS = 2
MINUTE_MS = 60_000
MINUTES_SHOWN = 60
LISTED_MAX = 20
NUMBER_MAX = 2**53

Cell = Any
Database = StoreConnection


DRAINS = {1: "until it is restarted", 2: "until undrained"}
"""How long a node gives up what it leads, as its registration says it."""


def look(db: Database, query: PanelQuery, sight: Sight) -> Json:
    """Answer `/api/look`: facts and tables of the thing that `look` names; `missing` says why there are none."""
    kind, _, name = query.look.partition("/")
    described = _KINDS[kind](db, name, sight) if kind in _KINDS else None
    if described is None:
        kinds = ", ".join(_KINDS)
        why = "The monitor has not seen it" if kind in _KINDS else f"A page is one of {kinds}"
        return {"look": query.look, "kind": kind, "name": name, "missing": why, "facts": [], "tables": []}
    facts, tables = described
    shown = [
        {"name": title, **cell} for title, cell in ((title, _cell(value)) for title, value in facts) if cell["value"] not in (None, "")
    ]
    return {"look": query.look, "kind": kind, "name": name, "missing": "", "facts": shown, "tables": tables}


Described = tuple[Sequence[tuple[str, Cell]], Sequence[Json]]


def _cell(value: Cell) -> Json:
    return value if isinstance(value, dict) else {"value": value, "unit": "text"}


def _number(value: int | None) -> Json:
    return {"value": None if value is None else str(value), "unit": "number"}


def _bytes(value: int | None) -> Json:
    return {"value": value, "unit": "bytes"}


def _time(value: int | None) -> Json:
    return {"value": value or None, "unit": "time"}


def _link(text: str, to: str) -> Json:
    return {"value": text, "unit": "text", "look": to}


def _coordinator_link(kpart: int) -> Json:
    return _link(f"coordinator {kpart}", f"coordinator/{kpart}")


def _node_link(node_id: int, sight: Sight) -> Json:
    return _link(f"node {node_id}{' (does not answer)' if node_id in sight.silent_ms else ''}", f"node/{node_id}")


def _partition_link(name: str, partition: int) -> Json:
    return _link(f"{name}-{partition}", f"partition/{name}/{partition}")


def _entry_link(kpart: int, offset: int) -> Json:
    return _link(f"coordinator {kpart}, offset {offset}", f"entry/{kpart}@{offset}")


def _table(title: str, columns: Sequence[str], found: Iterable[Sequence[Cell]], total: int | None = None) -> Json:
    cells = [[_cell(value) for value in row] for row in found]
    return {"title": title, "columns": list(columns), "rows": cells, "total": len(cells) if total is None else total}


def _integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) < NUMBER_MAX else None


def _findings(db: Database, condition: str, *values: object) -> Json:
    sql = f"select id, kpart, entry_offset, rule, message, seen_ms from finding where {condition} order by id desc limit {ROWS_MAX}"
    found = rows(db, sql, *values)  # type: ignore[arg-type]
    cells = [
        (row["rule"].replace("-", " "), _time(row["seen_ms"]), _entry_link(row["kpart"], row["entry_offset"]), row["message"])
        for row in found
    ]
    return _table("Findings", ("Rule", "Found", "Entry", "What"), cells)


def _count(db: Database, sql: str, *values: object) -> int:
    return int(db.execute(sql, values).fetchone()[0] or 0)


# ---- topics and partitions


def _topic(db: Database, name: str, sight: Sight) -> Described | None:
    ids = topic_ids(db, name)
    sql = f"select * from topic where topic_id in ({marks(ids)}) order by deleted_ms is not null, deleted_ms desc, topic_id"
    named = rows(db, sql, *ids)
    if not named:
        return None
    topic = named[0]
    topic_id = bytes(topic["topic_id"])
    partitions = whole_partitions(rows(db, "select * from partition where topic_id = ?", topic_id))
    facts = [
        ("Topic id", topic_text(topic_id)),
        ("Partitions", _number(len(partitions))),
        *((title, _number(sum(one.sum(of) for one in partitions))) for title, of in (("Batches", "batches"), ("Records", "records"))),
        ("Data committed", _bytes(sum(one.sum("bytes") for one in partitions))),
        ("Last batch", _time(max((one.last_append_ms or 0 for one in partitions), default=None))),
        ("Deleted", _time(topic["deleted_ms"])),
        ("Earlier topics of this name", _number(len(named) - 1 or None)),
    ]
    kept = kept_of(db, topic_id, sight.retention)
    shares = live_shares(db, partitions, kept.limits, sight.now_ms)
    whole = LiveShare()
    for share in shares.values():
        whole.add(share)
    facts += _retention(kept, whole if len(shares) == len(partitions) else None, name)
    cells = [
        (
            _partition_link(name, one.number),
            *(_number(one.owner[of]) for of in ("start_offset", "next_offset")),
            *(_number(one.sum("batches")), _number(one.sum("records")), _bytes(one.sum("bytes")), _time(one.last_append_ms)),
            _coordinator_link(one.owner["kpart"]),
            *_going(shares.get(one.number)),
        )
        for one in partitions[:ROWS_MAX]
    ]
    counted = ("Partition", "Log start", "High watermark", "Batches", "Records", "Data", "Last batch", "Coordinator")
    columns = (*counted, "Live data", "Past retention", "Next goes")
    return facts, [
        _table("Partitions", columns, cells, len(partitions)),
        _producers(db, "topic_id = ?", topic_id),
        _findings(db, "topic_id = ?", topic_id),
    ]


def _going(share: LiveShare | None) -> Sequence[Cell]:
    return (None, None, None) if share is None else (_bytes(share.size_bytes), _bytes(share.due_bytes), _time(share.next_ms))


def _limit(value: int | None, text: Callable[[int], str], *, is_own: bool) -> str:
    if value is None:
        return "not known: no node that tells the service's was asked (--coordinators)"
    return f"{'no limit' if value == UNLIMITED else text(value)}, {'set for the topic' if is_own else 'as the service has it'}"


def _retention(kept: RetentionInForce, share: LiveShare | None, name: str) -> list[tuple[str, Cell]]:
    """Return what retention removes next; without a share, which is too large to be counted here, the command that counts."""
    limits, own = kept.limits, kept.own
    facts: list[tuple[str, Cell]] = [
        ("Retention by time", _limit(limits.ms, duration, is_own="retention.ms" in own)),
        (
            "Retention by size",
            _limit(limits.size_bytes, lambda size: f"{grouped(size)} bytes a partition", is_own="retention.bytes" in own),
        ),
    ]
    if share is None:
        command = f"diskless topics usage {shlex.quote(name)} --by-partition"
        return [*facts, ("Live data, and when it goes", {"value": command, "unit": "command"})]
    return [
        *facts,
        ("Live batches", _number(share.batches)),
        ("Live data", _bytes(share.size_bytes)),
        ("Past retention, goes at the leader's next look", _bytes(share.due_bytes)),
        ("Next goes by time", _time(share.next_ms)),
        ("Goes by time within a day", _bytes(share.in_a_day_bytes)),
        ("Last goes by time", _time(share.last_ms)),
        ("Next goes by size after so much more", None if share.room_bytes is None else _bytes(share.room_bytes)),
    ]


_REMEMBERED = """ and not exists (select 1 from partition p where p.kpart = producer.kpart and p.topic_id = producer.topic_id
    and p.partition = producer.partition and p.released_to is not null)"""
"""Where a partition goes on, its producers are known too."""


def _producers(db: Database, condition: str, *values: object) -> Json:
    condition += _REMEMBERED
    sql = f"select * from producer where {condition} order by last_append_ms desc nulls last limit {ROWS_MAX}"
    found = rows(db, sql, *values)  # type: ignore[arg-type]
    names = topic_names(db, {bytes(row["topic_id"]) for row in found})
    cells = [
        (
            _link(str(row["producer_id"]), f"producer/{row['producer_id']}"),
            _partition_link(names[bytes(row["topic_id"])], row["partition"]),
            *(_number(row["epoch"]), _number(row["next_sequence"]), _time(row["last_append_ms"])),
        )
        for row in found
    ]
    total = _count(db, f"select count(*) from producer where {condition}", *values)
    return _table("Producers", ("Producer", "Partition", "Epoch", "Next sequence", "Last batch"), cells, total)


def _partition(db: Database, name: str, sight: Sight) -> Described | None:
    topic, _, text = name.rpartition("/")
    number, ids = _integer(text), topic_ids(db, topic)
    sql = f"select * from partition where topic_id in ({marks(ids)}) and partition = ? order by last_append_ms desc nulls last"
    found = rows(db, sql, *ids, -1 if number is None else number)
    if not found:
        return None
    topic_id = bytes(found[0]["topic_id"])
    (whole,) = whole_partitions(row for row in found if bytes(row["topic_id"]) == topic_id)
    row = whole.owner
    key = (row["kpart"], topic_id, row["partition"])
    where = "kpart = ? and topic_id = ? and partition = ?"
    batches, oldest = _live_batches(db, _end_blocks(db, whole, topic_id))
    minutes = rows(
        db,
        "select minute, batches, records, bytes from activity_partition where minute > ? and topic_id = ? and partition = ?"
        " order by minute desc",
        *(sight.now_ms // MINUTE_MS - MINUTES_SHOWN, *key[1:]),
    )
    facts = [
        ("Topic", _link(topic, f"topic/{topic}")),
        ("Coordinator", _coordinator_link(row["kpart"])),
        ("There since it moved", _time(row["moved_ms"]) if whole.has_moved and row["released_to"] is None else None),
        ("Leaves for", None if row["released_to"] is None else _coordinator_link(row["released_to"])),
        ("Leader", _leader(db, row["kpart"], sight)),
        ("Log start", _number(row["start_offset"])),
        ("High watermark", _number(row["next_offset"])),
        ("Diskless from (B0)", None if row["diskless_base"] is None else _number(row["diskless_base"])),
        ("Batches", _number(whole.sum("batches"))),
        ("Records", _number(whole.sum("records"))),
        ("Data committed", _bytes(whole.sum("bytes"))),
        ("Last batch", _time(whole.last_append_ms)),
        ("Oldest live batch", _time(oldest)),
        *_partition_retention(db, whole, topic, sight, sum(one["bytes"] for one in minutes)),
    ]
    by_minute, end = [], row["next_offset"] or 0
    for one in minutes:
        by_minute.append(
            (_time(one["minute"] * MINUTE_MS), _number(one["batches"]), _number(one["records"]), _bytes(one["bytes"]), _number(end))
        )
        end -= one["records"]
    tables = [
        _table("Last hour, by minute", ("Minute", "Batches", "Records", "Data", "High watermark after it"), by_minute),
        *([_stretches(whole)] if whole.has_moved else []),
        batches,
        _producers(db, where, *key),
        _findings(db, "topic_id = ? and partition = ?", *key[1:]),
    ]
    return facts, tables


def _stretches(whole: WholePartition) -> Json:
    """Return what each coordinator has of a partition that moved, and when it left there."""
    cells = [
        (
            _coordinator_link(row["kpart"]),
            *(_number(row["stretch_base"]), _number(row["next_offset"])),
            *(_number(row["batches"]), _bytes(row["bytes"]), _number(row["newest_move"] if row["newest_move"] >= 0 else None)),
            _time(None if row["released_to"] is None else row["moved_ms"]),
            None if row["released_to"] is None else _coordinator_link(row["released_to"]),
        )
        for row in whole.stretches
    ]
    return _table("Stretches", ("Coordinator", "First offset", "End", "Batches", "Data", "Newest move", "Left", "For"), cells)


def _end_blocks(db: Database, whole: WholePartition, topic_id: bytes) -> list[tuple[int, bytes]]:
    """Return the coordinators of the first and the last block of live batches, and the blocks; one, if that is all."""
    found: list[tuple[int, int, bytes]] = []
    where = "kpart = ? and topic_id = ? and partition = ?"
    ends = [
        f"select * from (select first_offset, runs from run_block where {where} order by first_offset {way} limit 1) as {end}"
        for end, way in (("oldest", ""), ("newest", "desc"))
    ]
    for row in whole.stretches:
        key = (row["kpart"], topic_id, row["partition"])
        blocks = {one["first_offset"]: bytes(one["runs"]) for one in rows(db, " union all ".join(ends), *key, *key)}
        found += [(row["kpart"], first, blocks[first]) for first in sorted(blocks)]
    return [(kpart, block) for kpart, _, block in (found if len(found) < 2 else [found[0], found[-1]])]


def _partition_retention(db: Database, whole: WholePartition, topic: str, sight: Sight, hour_bytes: int) -> list[tuple[str, Cell]]:
    """Return what retention removes next of a partition, when by the rate of the last hour, and what deletions have left to be freed."""
    kept = kept_of(db, bytes(whole.owner["topic_id"]), sight.retention)
    alive, _ = live_batches(db, whole)
    if alive is None:
        return _retention(kept, None, topic)
    share, stored = share_of_partition(alive, kept.limits, sight.now_ms), stored_share(db, alive)
    facts = _retention(kept, share, topic)
    if share.room_bytes is not None and hour_bytes:
        facts.append(("So much is written, as in the last hour, in", duration(share.room_bytes * MINUTES_SHOWN * MINUTE_MS // hour_bytes)))
    facts.append(("Deleted", _bytes(whole.sum("bytes") - share.size_bytes)))
    if stored is not None:
        facts.append(("Objects of its live batches", _number(stored.objects)))
        facts.append(("Dead bytes in these objects, freed with their last batch", _bytes(stored.dead_bytes)))
    return facts


def _live_batches(db: Database, blocks: Sequence[tuple[int, bytes]]) -> tuple[Json, int | None]:
    """Return a table of the oldest and newest live batches, of the first and the last block, and when the oldest was committed."""
    columns = ("First offset", "Records", "Size", "File", "Committed")
    if not blocks:
        return _table("Live batches", columns, []), None
    few = [(kpart, unpack(block)) for kpart, block in blocks]
    listed = [
        (int(a), int(b), int(c), kpart, int(d))
        for kpart, one in few
        for a, b, c, d in zip(one.base_offset, one.records, one.size_bytes, one.file, strict=True)
    ]
    listed.sort()
    shown = listed if len(listed) <= 2 * BATCHES_SHOWN else [*listed[:BATCHES_SHOWN], *listed[-BATCHES_SHOWN:]]
    cells, times = [], []
    for base, records, size, kpart, file in shown:
        of_file = rows(db, "select object_key, append_ms from file where file_number = ?", file_number(kpart, file >> 8, file & 255))
        times.append(of_file[0]["append_ms"] if of_file else None)
        where = _link(of_file[0]["object_key"], f"file/{of_file[0]['object_key']}") if of_file else "unknown"
        cells.append((_number(base), _number(records), _bytes(size), where, _time(times[-1])))
    title = "Live batches" if len(blocks) == 1 and shown == listed else "Live batches: the oldest and the newest"
    return _table(title, columns, cells), times[0]


# ---- coordinators and nodes


def _leader(db: Database, kpart: int, sight: Sight) -> Cell:
    found = rows(db, "select node_id from claim where kpart = ? order by entry_offset desc limit 1", kpart)
    return _node_link(found[0]["node_id"], sight) if found else None


_OF_COORDINATOR = "select count(*) from partition where kpart = ?"


def _coordinator(db: Database, name: str, sight: Sight) -> Described | None:
    kpart = _integer(name)
    heads = rows(db, "select * from head where kpart = ?", -1 if kpart is None else kpart)
    if not heads:
        return None
    head = heads[0]
    snapshot = rows(db, "select end_offset, size_bytes, append_ms from snapshot where kpart = ? order by entry_offset desc limit 1", kpart)
    facts = [
        ("Leader", _leader(db, head["kpart"], sight)),
        ("Epoch", _number(head["epoch"])),
        ("Read up to", _entry_link(head["kpart"], max(0, head["next_offset"] - 1))),
        ("Log end when last asked", _number(head["log_end"])),
        ("Last entry", _time(head["append_ms"])),
        ("Totals since offset", _number(head["from_offset"])),
        ("Partitions of users", _number(_count(db, "select count(*) from partition where kpart = ? and released_to is null", kpart))),
        (
            "Partitions that moved away",
            _number(_count(db, "select count(*) from partition where kpart = ? and released_to >= 0", kpart) or None),
        ),
        ("Producers", _number(_count(db, "select count(*) from producer where kpart = ?", kpart))),
        ("Snapshot up to", _number(snapshot[0]["end_offset"]) if snapshot else None),
        ("Snapshot taken", _time(snapshot[0]["append_ms"]) if snapshot else None),
    ]
    sql = "select state, count(*) n, sum(file_bytes) s, sum(live_bytes) l from file where kpart = ? group by state"
    states = [(row["state"], _number(row["n"]), _bytes(row["s"]), _bytes(row["l"])) for row in rows(db, sql, kpart)]
    tables = [
        _terms(db, sight, "kpart = ?", kpart),
        _table("Files with batches of it", ("State", "Files", "Size", "Still live"), states),
        _findings(db, "kpart = ?", kpart),
    ]
    return facts, tables


def _terms(db: Database, sight: Sight, condition: str, value: object) -> Json:
    sql = f"select * from claim where {condition} order by append_ms desc limit {ROWS_MAX}"
    cells = [
        (
            _time(row["append_ms"]),
            _coordinator_link(row["kpart"]),
            _node_link(row["node_id"], sight),
            _number(row["epoch"]),
            _entry_link(row["kpart"], row["entry_offset"]),
        )
        for row in rows(db, sql, value)  # type: ignore[arg-type]
    ]
    total = _count(db, f"select count(*) from claim where {condition}", value)
    return _table("Terms", ("Since", "Coordinator", "Leader", "Epoch", "Entry"), cells, total)


def _node(db: Database, name: str, sight: Sight) -> Described | None:
    node_id = _integer(name)
    registered = rows(db, "select * from node where node_id = ?", -1 if node_id is None else node_id)
    if not registered or node_id is None:
        return None
    silent_ms, seen = sight.silent_ms.get(node_id), known(db, sight)
    leads = rows(db, f"{NEWEST_CLAIMS} order by kpart")
    starts = rows(db, f"select * from happening where node_id = ? order by append_ms desc limit {ROWS_MAX}", node_id)
    facts = [
        ("State", None if silent_ms is None else "does not answer"),
        ("Answered last", _time(silent_ms)),
        ("The object store failed it", sight.store_failures.get(node_id)),
        ("Rack", registered[0]["rack"]),
        ("Listens at", registered[0]["endpoints"]),
        ("Drains", DRAINS.get(registered[0]["drain"])),
        ("Reads schema levels up to", _number(registered[0]["schema_level_max"])),
        (
            "Leads" if silent_ms is None and seen is not None and seen.is_current else "Led last",
            ", ".join(f"coordinator {row['kpart']}" for row in leads if row["node_id"] == node_id) or "no coordinator",
        ),
        ("Started", _time(starts[0]["append_ms"]) if starts else None),
    ]
    cells = [
        (_time(row["append_ms"]), row["kind"], _number(row["level"]), _entry_link(row["kpart"], row["entry_offset"])) for row in starts
    ]
    tables = [
        _deletable(db, [row["kpart"] for row in leads if row["node_id"] == node_id]),
        _terms(db, sight, "node_id = ?", node_id),
        _table("Starts", ("Time", "What", "Schema level", "Entry"), cells),
    ]
    return facts, tables


def _deletable(db: Database, coordinators: Sequence[int]) -> Json:
    """Return the objects that the leader of some coordinators is to delete, those that wait longest first."""
    condition = f"state = 'deletable' and kpart in ({marks(coordinators)})"
    sql = f"select object_key, kpart, state_since_ms, file_bytes from file where {condition} order by state_since_ms limit {LISTED_MAX}"
    cells = [
        (
            _link(row["object_key"], f"file/{row['object_key']}"),
            *(_coordinator_link(row["kpart"]), _time(row["state_since_ms"]), _bytes(row["file_bytes"])),
        )
        for row in rows(db, sql, *coordinators)
    ]
    total = _count(db, f"select count(*) from file where {condition}", *coordinators)
    return _table("Objects that it is to delete", ("Object", "Coordinator", "Without batches since", "Size"), cells, total)


# ---- files, producers, entries


def _file(db: Database, key: str, sight: Sight) -> Described | None:
    found = rows(db, "select f.* from head h cross join file f where f.kpart = h.kpart and f.object_key = ?", key)
    if not found:
        return None
    row = found[0]
    owners = json.loads(row["owners"] or "[]")
    facts = [
        ("Size", _bytes(row["file_bytes"])),
        ("Committed", _time(row["append_ms"])),
        ("Uploader", "not named by who committed it" if row["uploader"] in (None, -1) else _number(row["uploader"])),
        ("Owners", ", ".join(f"coordinator {one}" for one in owners)),
    ]
    cells = [
        (
            *(_coordinator_link(one["kpart"]), one["state"], _time(one["state_since_ms"]), _number(one["batches"])),
            *(_number(one["live_batches"]), _bytes(one["live_bytes"]), _entry_link(one["kpart"], one["entry_offset"])),
        )
        for one in found
    ]
    columns = ("Coordinator", "State", "Since", "Batches", "Live batches", "Live data", "Entry")
    return facts, [_table("By coordinator", columns, cells), _findings(db, "object_key = ?", key)]


def _producer(db: Database, name: str, sight: Sight) -> Described | None:
    producer_id = _integer(name)
    listed = _producers(db, "producer_id = ?", -1 if producer_id is None else producer_id)
    found = _findings(db, "producer_id = ?", -1 if producer_id is None else producer_id)
    if not listed["rows"] and not found["rows"]:
        return None
    return [("Partitions that remember it", _number(listed["total"]))], [listed, found]


_EVENTS = """select * from (
select entry_offset, append_ms, 'node ' || node_id || ' leads, epoch ' || epoch as text from claim where kpart = ?
union all select entry_offset, append_ms, 'snapshot up to offset ' || end_offset from snapshot where kpart = ?
union all select entry_offset, append_ms, coalesce('node ' || node_id || ' registered', 'schema level ' || level)
    from happening where kpart = ?
union all select entry_offset, append_ms, step || ' of a migrated partition' from migration_step where kpart = ?
union all select entry_offset, coalesce(moved_ms, ordered_ms), 'partition ' || partition || ' of a topic moves from coordinator '
    || from_coordinator || ' to ' || to_coordinator from move where 0 = ?
union all select entry_offset, seen_ms, 'cannot be read: ' || error from quarantine where kpart = ?
union all select entry_offset, seen_ms, text from note where kpart = ?
) as happened where entry_offset between ? and ?"""


def _entry(db: Database, name: str, sight: Sight) -> Described | None:
    left, _, right = name.partition("@")
    kpart, offset = _integer(left), _integer(right)
    if kpart is None or offset is None or not rows(db, "select 1 from head where kpart = ?", kpart):
        return None
    first, last = max(0, offset - NEIGHBOURS), offset + NEIGHBOURS
    said = [(row["entry_offset"], row["append_ms"], row["text"]) for row in rows(db, _EVENTS, *[kpart] * 7, first, last)]
    numbers = (file_number(kpart, first, 0), file_number(kpart, last + 1, 0))
    for row in rows(
        db, "select * from file where file_number >= ? and file_number < ? and kpart = ? order by file_number", *numbers, kpart
    ):
        text = f"file {row['object_key']} with {row['batches']} batches"
        said.append((row["entry_offset"], row["append_ms"], _link(text, f"file/{row['object_key']}")))
    claims = rows(db, "select node_id from claim where kpart = ? and entry_offset <= ? order by entry_offset desc limit 1", kpart, offset)
    raw = rows(db, "select first_bytes from quarantine where kpart = ? and entry_offset = ?", kpart, offset)
    logs = rows(db, "select topic from log")
    topic = str(logs[0]["topic"]) if logs else ""
    named = "" if topic in ("", "__diskless_metadata") else f" --metadata-topic {shlex.quote(topic)}"
    facts = [
        ("Coordinator", _coordinator_link(kpart)),
        ("Leader then", _node_link(claims[0]["node_id"], sight) if claims else None),
        ("Entry before", _entry_link(kpart, offset - 1) if offset else None),
        ("Entry after", _entry_link(kpart, offset + 1)),
        ("Decoded, with the replica's view", {"value": f"diskless log explain{named} {kpart}@{offset}", "unit": "command"}),
        ("First bytes", {"value": hex_dump(bytes(raw[0]["first_bytes"] or b"")[:256]), "unit": "hex"} if raw else None),
    ]
    cells = [
        (_entry_link(kpart, at) if at != offset else f"coordinator {kpart}, offset {at} (this one)", _time(ms), what)
        for at, ms, what in sorted(said, key=lambda one: one[0])
    ]
    tables = [
        _table("What these entries did", ("Entry", "Time", "What"), cells),
        _findings(db, "kpart = ? and entry_offset between ? and ?", kpart, first, last),
    ]
    return facts, tables


def entry_place(db: Database, query: PanelQuery) -> tuple[str, int, int] | None:
    """Return topic, partition and offset of the entry that a question is about; None when it is about none."""
    kind, _, name = query.look.partition("/")
    left, _, right = name.partition("@")
    kpart, offset = _integer(left), _integer(right)
    logs = rows(db, "select topic from log")
    if kind != "entry" or kpart is None or offset is None or not logs:
        return None
    return str(logs[0]["topic"]), kpart, offset


def add_entry(answer: Json, raw: RawEntry) -> None:
    """Add the entry, field by field, to the answer for its page."""
    if raw.why:
        answer["facts"].append({"name": "Its bytes", **_cell(raw.why)})
        return
    cells = [(one.path, one.value, {"value": one.hex or None, "unit": "code"}) for one in decoded_fields(raw.key, raw.value)]
    answer["tables"].insert(0, _table("Field by field", ("Field", "Value", "Bytes"), cells))


_KINDS: dict[str, Callable[[Database, str, Sight], Described | None]] = {
    "topic": _topic,
    "partition": _partition,
    "coordinator": _coordinator,
    "node": _node,
    "file": _file,
    "producer": _producer,
    "entry": _entry,
}
