"""Findings as rows of the database: bounded per micro-batch, counted exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from spark_jobs.scan.audit import ROWS_MAX
from spark_jobs.scan.summary import FindingRow, NoteRow, QuarantineRow
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import insert_new, insert_numbered

_FINDING_COLUMNS = ("kpart", "entry_offset", "rule", "message", "topic_id", "partition", "producer_id", "object_key", "expected", "found")
_INSERT_FINDING = insert_numbered("finding", *_FINDING_COLUMNS, "seen_ms")
_INSERT_QUARANTINE = insert_new("quarantine", "kpart", "entry_offset", "error", "size_bytes", "first_bytes", "seen_ms")
_INSERT_NOTE = insert_numbered("note", "kpart", "entry_offset", "text", "seen_ms")


class ContradictedError(Exception):
    """An entry contradicts what the store knows, so it is void for every replica; what was merged so far must be undone."""

    def __init__(self, finding: FindingRow) -> None:
        super().__init__(finding.message)
        self.finding = finding


KEPT_MAX = 100_000
"""Rows that are kept of each table; the oldest go first."""


class Findings:
    """Findings of one micro-batch, those of the scan and those of the merge. `found` counts those of the merge."""

    def __init__(self, scanned: Iterable[FindingRow]) -> None:
        self._rows: dict[int, list[FindingRow]] = {}
        self.found: Counter[int] = Counter()
        for row in scanned:
            self._rows.setdefault(row.kpart, []).append(row)

    def add(self, row: FindingRow) -> None:
        """Note something that is wrong."""
        self.found[row.kpart] += 1
        rows = self._rows.setdefault(row.kpart, [])
        # The scan bounds its findings too; of both together those at the lowest offsets are kept.
        if len(rows) < 2 * ROWS_MAX:
            rows.append(row)

    def write(self, db: StoreConnection, now_ms: int) -> None:
        """Insert the rows, by offset."""
        for rows in self._rows.values():
            rows.sort(key=lambda row: (row.offset, row.rule, row.topic_id or b"", row.partition or 0, row.producer_id or 0))
            db.executemany(_INSERT_FINDING, [(*_plain(row), now_ms) for row in rows[:ROWS_MAX]])


def _plain(row: FindingRow) -> tuple[object, ...]:
    # The key of a file travels as bytes.
    key = row.object_key
    return (*row[:7], key.decode() if isinstance(key, bytes) else key, *row[8:])


def write_quarantine(db: StoreConnection, rows: Iterable[QuarantineRow], now_ms: int) -> None:
    """Insert what cannot be read."""
    db.executemany(_INSERT_QUARANTINE, [(*row, now_ms) for row in rows])


def write_notes(db: StoreConnection, rows: Iterable[NoteRow], now_ms: int) -> None:
    """Insert what is worth knowing."""
    db.executemany(_INSERT_NOTE, [(*row, now_ms) for row in rows])


def forget_old(db: StoreConnection) -> None:
    """Keep the newest rows only."""
    for table in ("finding", "note"):
        db.execute(f"delete from {table} where id <= (select max(id) from {table}) - ?", (KEPT_MAX,))
    (count,) = db.execute("select count(*) from quarantine").fetchone()
    if count > KEPT_MAX:
        oldest = "select kpart, entry_offset from quarantine order by seen_ms, kpart, entry_offset limit ?"
        db.execute(f"delete from quarantine where (kpart, entry_offset) in ({oldest})", (count - KEPT_MAX,))
