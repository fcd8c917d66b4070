"""The monitor's database as its one writer sees it.

`merge` takes over the summary of a micro-batch in one transaction, which moves the heads together with everything that was
derived from the entries below them. So a micro-batch that comes again after a crash changes nothing, and a second
monitor on the same database is noticed: its heads are not those of the database.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from spark_jobs.scan.garbage import without_collection
from spark_jobs.scan.head import Head
from spark_jobs.scan.summary import (
    SUMMARY_SCHEMA,
    CountRow,
    EventRow,
    FindingRow,
    HeadRow,
    HeldRow,
    LevelRow,
    LinkRow,
    NoteRow,
    ProducerLinkRow,
    QuarantineRow,
    RestartRow,
    ScannedFileRow,
    rows_of,
)
from spark_jobs.snapshots.content import SnapshotContent
from spark_jobs.store import findings, merge_migrations, merge_moves, merge_orders, merge_sums
from spark_jobs.store.books import TEMPORARY
from spark_jobs.store.engine import OpenStore, StorePlace, open_writer, tables
from spark_jobs.store.findings import Findings, write_notes, write_quarantine
from spark_jobs.store.merge_chains import ChainMerge, group_rows
from spark_jobs.store.reader import knows_all, read_heads, read_state
from spark_jobs.store.seed import seed
from spark_jobs.store.statements import insert, insert_numbered, upsert

SCHEMA_VERSION = 1
MICRO_BATCHES_KEPT = 1000

_HEAD = """insert into head (kpart, next_offset, epoch, term, seq, from_offset, from_ms, log_end, append_ms, merged_ms, state, restarted_at)
    values (?,?,?,?,?,?,?,?,?,?,?,?) on conflict (kpart) do update set next_offset = excluded.next_offset, epoch = excluded.epoch,
    term = excluded.term, seq = excluded.seq, log_end = excluded.log_end, append_ms = excluded.append_ms,
    merged_ms = excluded.merged_ms, state = excluded.state,
    restarted_at = coalesce(excluded.restarted_at, head.restarted_at)"""
_UNREAD = """insert into unread_span (kpart, from_ms, to_ms)
    select kpart, append_ms, case when append_ms > ? then append_ms else ? end from head where kpart = ?
    on conflict (kpart, from_ms) do update set to_ms = excluded.to_ms"""
_MICRO_BATCH = insert_numbered("micro_batch", "merged_ms", "entries", "batches", "scan_ms", "merge_ms", "lag_entries")
_OPEN_TRANSACTION = insert("open_transaction", "kpart", "name", "entry_offset", "append_ms")
_HELD = insert("held_entry", "kpart", "entry_offset", "append_ms", "value")
_LOG_END = "update head set log_end = case when next_offset > ? then next_offset else ? end where kpart = ?"


class StaleHeadsError(Exception):
    """A summary was scanned from other heads than those of the database: another process writes it."""


class LogMismatchError(Exception):
    """The database was built from another log."""


class Store:
    """See the module's text. Used by one thread at a time."""

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self._db = _opened(place)
        self._pruned_minute = -1

    @staticmethod
    def open(place: StorePlace) -> Store:
        """Open a database, made if need be."""
        if isinstance(place, Path):
            place.mkdir(parents=True, exist_ok=True)
        return Store(place)

    def reopen(self) -> None:
        """Connect anew, because the connection is lost."""
        self._db.close()
        self._db = _opened(self._place)

    def hold(self) -> bool:
        """Keep other monitors out of this database until it is closed; False when one is in."""
        return self._db.hold()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- heads

    def heads(self) -> dict[int, Head]:
        """Return the position of the scan in each partition of the metadata topic; partitions never read are not in it."""
        return read_heads(self._db)

    def adopt_log(self, topic: str, topic_id: str, partitions: int) -> None:
        """Note which log this database is of. Raises LogMismatchError when it is of another one."""
        known = self._db.execute("select topic, topic_id from log").fetchone()
        if known is not None and tuple(known) != (topic, topic_id):
            raise LogMismatchError(
                f"the database holds topic {known[0]} with id {known[1]}, not {topic} with id {topic_id}; use an empty database"
            )
        adopt = upsert("log", "topic", "topic", "topic_id", "partitions", "schema_version", keep="topic_id,schema_version")
        with self._db.writing():
            self._db.execute(adopt, (topic, topic_id, partitions, SCHEMA_VERSION))

    def start_from(self, content: SnapshotContent, now_ms: int) -> None:
        """Begin a partition of the metadata topic with a snapshot that ends after the entries read of it.

        Entries that were lost to reading so are a finding. Raises StaleHeadsError when it was read up to there.
        """
        kpart, end = content.head.metadata_partition, content.head.end_offset
        found = Findings(())
        with self._db.writing():
            known = read_heads(self._db).get(kpart)
            if known is not None:
                if known.next_offset >= end:
                    raise StaleHeadsError(
                        f"partition {kpart} of the metadata topic was read up to {known.next_offset}, the snapshot's end is {end}"
                    )
                message = (
                    f"entries {known.next_offset} to {end - 1} were lost or pruned before they were read; a snapshot says what they left"
                )
                found.add(FindingRow(kpart, end, "log-lost", message, expected=known.next_offset, found=end))
                self._db.execute(_UNREAD, (content.head.log_time_ms, content.head.log_time_ms, kpart))
            seed(self._db, content, now_ms)
            found.write(self._db, now_ms)
            merge_sums.add_totals(self._db, SUMMARY_SCHEMA.empty_table(), found.found)

    # ---- merging

    def merge(
        self, summary: pa.Table, heads: Mapping[int, Head], log_ends: Mapping[int, int], now_ms: int, scan_ms: int | None = None
    ) -> None:
        """Take over a summary that was scanned from `heads`. Raises StaleHeadsError and ContradictedError, then nothing has changed."""
        begin_s = time.perf_counter()
        with self._db.writing():
            stored = read_heads(self._db)
            if stored != dict(heads):
                raise StaleHeadsError("the heads moved since the scan began: does another monitor use this database? stop one of them")
            with without_collection():
                self._merge(summary, stored, log_ends, now_ms)
            merge_ms = round((time.perf_counter() - begin_s) * 1000)
            self._note_micro_batch(summary, log_ends, now_ms, scan_ms, merge_ms)

    def _merge(self, summary: pa.Table, stored: Mapping[int, Head], log_ends: Mapping[int, int], now_ms: int) -> None:
        db = self._db
        rows = rows_of(summary, HeadRow)
        found = Findings(rows_of(summary, FindingRow))
        restarts = self._merge_chains(summary, rows, found, now_ms)
        write_quarantine(db, rows_of(summary, QuarantineRow), now_ms)
        write_notes(db, rows_of(summary, NoteRow), now_ms)
        merge_orders.note_levels(db, rows_of(summary, LevelRow), now_ms)
        merge_sums.add_activity(db, summary, now_ms)
        lost = {row.kpart for row in rows_of(summary, RestartRow)}
        for row in rows:
            if row.kpart in lost:
                db.execute(_UNREAD, (row.append_ms, row.append_ms, row.kpart))
            self._move_head(row, log_ends.get(row.kpart, row.next_offset), now_ms, restarts.get(row.kpart))
            merge_sums.add_freshness(db, now_ms - row.oldest_ms, now_ms)
        self._merge_held(summary, rows)
        db.executemany(_LOG_END, [(end, end, kpart) for kpart, end in log_ends.items()])
        merge_orders.compare_orders(db, found, now_ms)
        found.write(db, now_ms)
        merge_sums.add_totals(db, summary, found.found)
        self._forget_old(now_ms)

    def _merge_chains(self, summary: pa.Table, heads: Iterable[HeadRow], found: Findings, now_ms: int) -> dict[int, int | None]:
        """Returns, per partition, where its chains were restarted last."""
        grouped = group_rows([row.kpart for row in heads])
        for link in rows_of(summary, LinkRow):
            grouped[link.kpart].links.append(link)
        for producer in rows_of(summary, ProducerLinkRow):
            grouped[producer.kpart].producer_links.append(producer)
        for file in rows_of(summary, ScannedFileRow):
            grouped[file.kpart].files.append(file)
        for event in rows_of(summary, EventRow):
            grouped[event.kpart].events.append(event)
        for restart in rows_of(summary, RestartRow):
            grouped[restart.kpart].restarts.append(restart)
        firsts = {row.kpart: row.first_offset for row in heads}
        restarted: dict[int, int | None] = {}
        for kpart, rows in grouped.items():
            is_complete = knows_all(self._db, kpart)
            sees_all = firsts[kpart] == 0 if is_complete is None else is_complete
            merge = ChainMerge(self._db, kpart, rows, found, now_ms, is_complete=sees_all)
            merge.run()
            restarted[kpart] = merge.restarted_at
        return restarted

    def _move_head(self, row: HeadRow, log_end: int, now_ms: int, restarted_at: int | None) -> None:
        values = (row.kpart, row.next_offset, row.epoch, row.term, row.seq, row.first_offset, row.oldest_ms, max(log_end, row.next_offset))
        self._db.execute(_HEAD, (*values, row.append_ms, now_ms, row.state, restarted_at))

    def _merge_held(self, summary: pa.Table, heads: Iterable[HeadRow]) -> None:
        db = self._db
        for row in heads:
            state = read_state(row.state)
            if not state.has_held:
                continue
            db.execute("delete from held_entry where kpart = ?", (row.kpart,))
            db.execute("delete from open_transaction where kpart = ?", (row.kpart,))
            if state.transaction is not None:
                opened, append_ms = state.transaction.opened, state.transaction.append_ms
                db.execute(_OPEN_TRANSACTION, (row.kpart, opened.name, opened.offset, append_ms))
        db.executemany(_HELD, rows_of(summary, HeldRow))

    def _note_micro_batch(self, summary: pa.Table, log_ends: Mapping[int, int], now_ms: int, scan_ms: int | None, merge_ms: int) -> None:
        db = self._db
        counts = {"entries": 0, "batches": 0}
        for row in rows_of(summary, CountRow):
            if row.name in counts:
                counts[row.name] += row.value
        heads = dict(db.execute("select kpart, next_offset from head"))
        lag = sum(max(0, end - heads.get(kpart, 0)) for kpart, end in log_ends.items())
        db.execute(_MICRO_BATCH, (now_ms, counts["entries"], counts["batches"], scan_ms, merge_ms, lag))
        db.execute("delete from micro_batch where id <= (select max(id) from micro_batch) - ?", (MICRO_BATCHES_KEPT,))

    def _forget_old(self, now_ms: int) -> None:
        minute = now_ms // merge_sums.MINUTE_MS
        if minute == self._pruned_minute:
            return
        self._pruned_minute = minute
        merge_sums.forget_old(self._db, now_ms)
        findings.forget_old(self._db)
        merge_migrations.forget_old(self._db)
        merge_moves.forget_old(self._db)


def _opened(place: StorePlace) -> OpenStore:
    db = open_writer(place)
    try:
        db.script(tables())
        db.script(TEMPORARY)
    except BaseException:
        db.close()
        raise
    return db
