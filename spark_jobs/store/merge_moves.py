"""Moves of user partitions: what metadata partition 0 orders and says is done, compared with the steps that coordinators log.

A step carries the id of its move. Partitions of the metadata topic are read at different speeds, so a step that no order is known for
waits until partition 0 was read as far as it went a while later; what partition 0 says is done waits for its adoption in the same way.
After a restore orders are logged behind their steps, so nothing is judged until the directory has settled where partitions are.
Nothing is said where the log of partition 0 was not seen from its beginning, or from a snapshot on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from records.model import (
    MovesSettled,
    PartitionAdopted,
    PartitionMoved,
    PartitionMoving,
    PartitionReleased,
    PlacedRange,
    Record,
    Restored,
    TopicDeleting,
)
from spark_jobs.moves import cut_ranges
from spark_jobs.scan.levels import DIRECTORY
from spark_jobs.scan.summary import EventRow, FindingRow
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.findings import Findings
from spark_jobs.store.reader import knows_all
from spark_jobs.store.statements import upsert

MOVES_KEPT = 10_000
"""Moves that are remembered; of older ones nothing is compared any more."""

_PLACED_RANGE = upsert("placed_range", "topic_id,first_partition", "topic_id", "first_partition", "num_partitions", "coordinator_id")
_MOVE = upsert(
    "move", "move_id",
    "move_id", "topic_id", "partition", "from_coordinator", "to_coordinator", "entry_offset", "ordered_ms", "moved_ms", keep="moved_ms",
)  # fmt: skip
_STEP = upsert(
    "move_step", "kpart,entry_offset,topic_id,partition",
    "kpart", "entry_offset", "topic_id", "partition", "step", "move_id", "to_coordinator", "seen_ms",
)  # fmt: skip
_FEATURE = upsert("feature", "name", "name", "level")
_UNSETTLED = "moves not settled"
_BEFORE = "moves before"
"""The newest move that was ordered before partition 0 was read: what belongs to it and older ones is not judged."""


def place_ranges(db: StoreConnection, topic_id: bytes, ranges: Sequence[PlacedRange]) -> None:
    """Take over where a topic is placed."""
    db.execute("delete from placed_range where topic_id = ?", (topic_id,))
    db.executemany(_PLACED_RANGE, [(topic_id, one.first_partition, one.num_partitions, one.coordinator_id) for one in ranges])


def placed_ranges(db: StoreConnection, topic_id: bytes) -> list[PlacedRange]:
    """Where a topic is placed; nothing for one that is not, or is placed no longer."""
    query = "select first_partition, num_partitions, coordinator_id from placed_range where topic_id = ? order by first_partition"
    found = db.execute(query, (topic_id,)).fetchall()
    return [PlacedRange(first_partition=first, num_partitions=count, coordinator_id=owner) for first, count, owner in found]


def left_by_moves(db: StoreConnection, topic_id: bytes, kpart: int) -> set[int]:
    """The partitions of a topic that a coordinator had before they moved."""
    query = "select partition from move where topic_id = ? and from_coordinator = ?"
    return {partition for (partition,) in db.execute(query, (topic_id, kpart)).fetchall()}


def note_move_record(db: StoreConnection, row: EventRow, record: Record, now_ms: int) -> None:
    """Take over what an entry says of moves, if it does."""
    where = (row.kpart, row.offset)
    match record:
        case PartitionMoving():
            _order(db, row, record)
        case PartitionMoved():
            query = "select from_coordinator, to_coordinator from move where move_id = ? and topic_id = ? and partition = ?"
            found = db.execute(query, (record.move_id, record.topic_id, record.partition)).fetchone()
            if found is not None:
                _place(db, record, found[1])
                db.execute("update move set moved_ms = ?, entry_offset = ? where move_id = ?", (row.append_ms, row.offset, record.move_id))
                step = (*where, record.topic_id, record.partition, "moved", record.move_id, found[1], now_ms)
                db.execute(_STEP, step)
        case PartitionReleased():
            step = (*where, record.topic_id, record.partition, "released", record.move_id, record.to_coordinator, now_ms)
            db.execute(_STEP, step)
        case PartitionAdopted():
            db.execute(_STEP, (*where, record.topic_id, record.partition, "adopted", record.move_id, row.kpart, now_ms))
        case TopicDeleting():
            db.execute("delete from move where topic_id = ?", (record.topic_id,))
        case Restored() if row.kpart == DIRECTORY:
            db.execute(_FEATURE, (_UNSETTLED, 1))
        case MovesSettled():
            db.execute("delete from feature where name = ?", (_UNSETTLED,))
        case _:
            pass


def _order(db: StoreConnection, row: EventRow, record: PartitionMoving) -> None:
    places = (record.from_coordinator, record.to_coordinator)
    db.execute(_MOVE, (record.move_id, record.topic_id, record.partition, *places, row.offset, row.append_ms, None))
    _place(db, record, record.from_coordinator)


def _place(db: StoreConnection, record: PartitionMoving | PartitionMoved, owner: int) -> None:
    ranges = placed_ranges(db, record.topic_id)
    cut = cut_ranges(ranges, record.partition, owner)
    if cut != ranges:
        place_ranges(db, record.topic_id, cut)


def seed_moves(db: StoreConnection, row: EventRow, content: Mapping[str, Any]) -> None:
    """Take over the moves that a snapshot of the directory knows; the ranges of its topics must be placed."""
    db.execute("delete from move")
    db.execute(_FEATURE, (_BEFORE, content["last_move_id"]))
    if not content["are_moves_settled"]:
        db.execute(_FEATURE, (_UNSETTLED, 1))
    for one in content["earlier"]:
        key = bytes.fromhex(one["partition"])
        topic_id, partition = key[:16], int.from_bytes(key[16:])
        owners = [
            place.coordinator_id
            for place in placed_ranges(db, topic_id)
            if place.first_partition <= partition < place.first_partition + place.num_partitions
        ]
        had = [ended["coordinator_id"] for ended in one["stretches"]]
        for ended, to in zip(one["stretches"], [*had[1:], *owners], strict=False):
            places = (ended["coordinator_id"], to)
            db.execute(_MOVE, (ended["move_id"], topic_id, partition, *places, row.offset, ended["time_ms"], ended["time_ms"]))
    for order in content["moves"]:
        places = (order["from_coordinator"], order["to_coordinator"])
        where = (bytes.fromhex(order["topic_id"]), order["partition"])
        db.execute(_MOVE, (order["move_id"], *where, *places, row.offset, row.append_ms, None))


# ---- comparing


def compare_moves(db: StoreConnection, findings: Findings, settled_before_ms: int) -> None:
    """Compare the waiting steps with the present state of partition 0; one that was seen before a time waits no longer.

    The caller knows that all of partition 0 is known, and read to its end if a time is given that is not 0.
    """
    if db.execute("select 1 from feature where name = ?", (_UNSETTLED,)).fetchone() is not None:
        return
    before = db.execute("select level from feature where name = ?", (_BEFORE,)).fetchone()
    query = """select s.kpart, s.entry_offset, s.topic_id, s.partition, s.step, s.move_id, s.to_coordinator, s.seen_ms,
        m.topic_id, m.partition, m.from_coordinator, m.to_coordinator from move_step s left join move m on m.move_id = s.move_id
        order by s.kpart, s.entry_offset, s.topic_id, s.partition"""
    for kpart, offset, topic_id, partition, step, move_id, to, seen_ms, *order in db.execute(query).fetchall():
        is_due = seen_ms < settled_before_ms
        if move_id <= (0 if before is None else before[0]) or not placed_ranges(db, topic_id):
            wrong = None
        elif step == "moved":
            wrong = _not_adopted(db, topic_id, partition, move_id, to)
            if wrong is not None and not (is_due and _is_at_end(db, to)):
                continue
        elif order[0] is None:
            if not is_due:
                continue
            wrong = f"move {move_id} was not ordered"
        else:
            wrong = _unlike_order(kpart, topic_id, partition, step, to, order)
        db.execute("delete from move_step where kpart = ? and entry_offset = ? and topic_id = ? and partition = ?",
                   (kpart, offset, topic_id, partition))  # fmt: skip
        if wrong is not None:
            message = f"partition {partition} is {step}: {wrong}"
            findings.add(FindingRow(kpart, offset, "move-not-ordered", message, topic_id, partition))


def _unlike_order(kpart: int, topic_id: bytes, partition: int, step: str, to: int, order: Sequence[Any]) -> str | None:
    """Tell how a step differs from the order of its move."""
    of_topic, of_partition, leaves, reaches = order
    if (of_topic, of_partition) != (topic_id, partition):
        return f"its move was ordered for partition {of_partition} of topic {bytes(of_topic).hex()}"
    if to != reaches or (step == "released" and kpart != leaves):
        return f"its move was ordered from coordinator {leaves} to {reaches}"
    return None


def _not_adopted(db: StoreConnection, topic_id: bytes, partition: int, move_id: int, to: int) -> str | None:
    """Tell that a partition is not where partition 0 says; None also where not all is known."""
    query = "select newest_move from partition where kpart = ? and topic_id = ? and partition = ?"
    found = db.execute(query, (to, topic_id, partition)).fetchone()
    if (found is not None and found[0] >= move_id) or knows_all(db, to) is False:
        return None
    return f"coordinator {to} has not adopted it in move {move_id}"


def _is_at_end(db: StoreConnection, kpart: int) -> bool:
    found = db.execute("select next_offset, log_end from head where kpart = ?", (kpart,)).fetchone()
    return found is not None and found[0] >= found[1]


def forget_old(db: StoreConnection) -> None:
    """Keep the newest moves only."""
    found = db.execute(f"select move_id from move order by move_id desc limit 1 offset {MOVES_KEPT}").fetchone()
    if found is not None:
        db.execute("delete from move where move_id <= ?", found)
        db.execute(_FEATURE, (_BEFORE, found[0]))
