"""The orders of metadata partition 0 compared with the deeds of the others: the schema level in force, and where partitions are placed.

Partitions of the metadata topic are read at different speeds, so an order and what obeys it are compared when both were read:
a creation names the offset of its order; a level that is used waits until partition 0 was read as far as it went a while later.
Nothing is said where the log of partition 0 was not seen from its beginning, or from a snapshot on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from records.model import PartitionCreated, PlacedRange, TopicDeleting, TopicPlaced
from spark_jobs.scan.levels import DIRECTORY
from spark_jobs.scan.summary import EventRow, FindingRow, LevelRow
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.findings import Findings
from spark_jobs.store.merge_moves import compare_moves, left_by_moves, place_ranges, placed_ranges
from spark_jobs.store.reader import knows_all
from spark_jobs.store.statements import insert_new, upsert

_CREATED_RANGE = upsert(
    "created_range", "kpart,entry_offset,topic_id,first_partition",
    "kpart", "entry_offset", "topic_id", "first_partition", "num_partitions", "order_offset",
)  # fmt: skip
_LEVEL_USE = insert_new("level_use", "kpart", "entry_offset", "level", "seen_ms")

SETTLED_MS = 60_000
"""After this time partition 0 has been read up to whatever an entry elsewhere was based on, if it was read to its end."""


def note_placement(db: StoreConnection, row: EventRow, record: TopicPlaced, findings: Findings) -> None:
    """Take over where a topic lives; what was placed has no holes and nothing twice."""
    place_ranges(db, record.topic_id, record.ranges)
    wrong = _break_of(record.ranges)
    if wrong is not None:
        expected, found = wrong
        what = f"partition {expected} is placed nowhere" if found > expected else f"partition {found} is placed twice"
        findings.add(FindingRow(row.kpart, row.offset, "placement-broken", what, record.topic_id, expected=expected, found=found))


def _break_of(ranges: Iterable[PlacedRange]) -> tuple[int, int] | None:
    """The first partition that was due, and the one that comes instead."""
    due = 0
    for one in sorted(ranges, key=lambda one: one.first_partition):
        if one.first_partition != due:
            return due, one.first_partition
        due += one.num_partitions
    return None


def forget_placement(db: StoreConnection, record: TopicDeleting) -> None:
    """A topic goes: nothing of it is placed any more."""
    db.execute("delete from placed_range where topic_id = ?", (record.topic_id,))


def note_creation(db: StoreConnection, row: EventRow, record: PartitionCreated, known: Collection[int], findings: Findings) -> None:
    """Compare partitions that were created with the order for them, now in partition 0, elsewhere when that was read.

    `known` are the partitions that the topic has here already.
    """
    first, end = record.first_partition, record.first_partition + record.num_partitions
    if row.kpart == DIRECTORY:
        missing = _not_placed(db, record.topic_id, row.kpart, first, end)
        if missing is not None:
            findings.add(_misplaced(row.kpart, row.offset, record.topic_id, missing))
        elif not placed_ranges(db, record.topic_id):
            hole = next((partition for partition in range(first) if partition not in known), None)
            if hole is not None:
                message = f"partitions from {first} on are created, and partition {hole} is not"
                finding = FindingRow(row.kpart, row.offset, "partition-hole", message, record.topic_id, expected=hole, found=first)
                findings.add(finding)
        return
    what = (record.topic_id, record.first_partition, record.num_partitions, record.order_offset)
    db.execute(_CREATED_RANGE, (row.kpart, row.offset, *what))


def note_levels(db: StoreConnection, rows: Iterable[LevelRow], now_ms: int) -> None:
    """Remember levels that are used, until partition 0 was read."""
    db.executemany(_LEVEL_USE, [(*row, now_ms) for row in rows])


def compare_orders(db: StoreConnection, findings: Findings, now_ms: int) -> None:
    """Compare the waiting orders with the present state of partition 0."""
    head = db.execute("select next_offset, log_end from head where kpart = ?", (DIRECTORY,)).fetchone()
    if head is None:
        return
    next_offset, log_end = head
    if not knows_all(db, DIRECTORY):
        for table in ("level_use", "created_range", "move_step"):
            db.execute(f"delete from {table}")
        return
    _compare_creations(db, findings, next_offset)
    is_at_end = next_offset >= log_end
    compare_moves(db, findings, now_ms - SETTLED_MS if is_at_end else 0)
    if is_at_end:
        _compare_levels(db, findings, now_ms)


def _compare_creations(db: StoreConnection, findings: Findings, next_offset: int) -> None:
    query = """select kpart, entry_offset, topic_id, first_partition, num_partitions from created_range
        where order_offset < ? order by kpart, entry_offset, first_partition"""
    due = db.execute(query, (next_offset,)).fetchall()
    for kpart, offset, topic_id, first, count in due:
        missing = _not_placed(db, topic_id, kpart, first, first + count)
        if missing is not None:
            findings.add(_misplaced(kpart, offset, topic_id, missing))
        db.execute("delete from created_range where kpart = ? and entry_offset = ? and topic_id = ? and first_partition = ?",
                   (kpart, offset, topic_id, first))  # fmt: skip


def _misplaced(kpart: int, offset: int, topic_id: bytes, partition: int) -> FindingRow:
    message = f"partition {partition} is created here, but is not placed here"
    return FindingRow(kpart, offset, "partition-not-placed", message, topic_id, partition)


def _not_placed(db: StoreConnection, topic_id: bytes, kpart: int, first: int, end: int) -> int | None:
    """The first partition of a range that is not, and never was, placed at a coordinator; None also when the topic is placed no longer."""
    ranges = placed_ranges(db, topic_id)
    if not ranges:
        return None
    at, left = first, left_by_moves(db, topic_id, kpart)
    for one in ranges:
        start, stop = one.first_partition, one.first_partition + one.num_partitions
        while start <= at < min(stop, end) and (one.coordinator_id == kpart or at in left):
            at = stop if one.coordinator_id == kpart else at + 1
    return at if at < end else None


def _compare_levels(db: StoreConnection, findings: Findings, now_ms: int) -> None:
    found = db.execute("select level from feature where name = 'schema'").fetchone()
    in_force = 1 if found is None else int(found[0])
    db.execute("delete from level_use where level <= ?", (in_force,))
    query = "select kpart, entry_offset, level from level_use where seen_ms <= ? order by kpart, entry_offset"
    for kpart, offset, level in db.execute(query, (now_ms - SETTLED_MS,)).fetchall():
        message = f"an entry is written at schema level {level}, level {in_force} is in force"
        findings.add(FindingRow(kpart, offset, "level-not-in-force", message, expected=in_force, found=level))
        db.execute("delete from level_use where kpart = ? and entry_offset = ? and level = ?", (kpart, offset, level))
