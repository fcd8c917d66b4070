"""Micro-batches whose entries contradict the state: which ones are void is found by merging smaller pieces.

Nearly always a summary is merged as it is. Where an entry does not fit what the store knows, nothing of its partition of the
metadata topic is taken over; its entries are read again and scanned piece by piece, smaller until a piece is the one entry, which
is void then. So chains never follow what replicas do not follow, and what is found is what entry by entry would have found. Each
piece is a merge of its own that moves the head, so a crash in between loses and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.scan import SUMMARY_SCHEMA, Head, scan_function
from spark_jobs.scan.summary import FindingRow, HeadRow, rows_of
from spark_jobs.store.findings import ContradictedError
from spark_jobs.store.sink import Store

ENTRIES_READ_MAX = 1000
"""Entries that are read again at a time: they pass through the memory of the driver."""

ReadAgain = Callable[[int, int, int], pa.Table]
"""Entries (`INPUT_COLUMNS`) of a partition of the metadata topic from an offset on, below an end."""


def merge_judged(
    store: Store,
    summary: pa.Table,
    heads: Mapping[int, Head],
    read_again: ReadAgain,
    log_ends: Mapping[int, int],
    now_ms: int,
    scan_ms: int | None = None,
) -> None:
    """Take over a summary that was scanned from `heads`, without the entries that contradict the state. Raises StaleHeadsError."""
    while True:
        try:
            store.merge(summary, heads, log_ends, now_ms, scan_ms)
            return
        except ContradictedError as error:
            kpart = error.finding.kpart
        (head,) = [row for row in rows_of(summary, HeadRow) if row.kpart == kpart]
        for start in range(head.first_offset, head.next_offset, ENTRIES_READ_MAX):
            entries = read_again(kpart, start, min(start + ENTRIES_READ_MAX, head.next_offset))
            for batch in entries.to_batches():
                _merge_pieces(store, kpart, batch, log_ends, now_ms)
        summary = summary.filter(pc.not_equal(summary.column("kpart"), kpart))
        heads = store.heads()
        if not summary.num_rows:
            return


def _merge_pieces(store: Store, kpart: int, batch: pa.RecordBatch, log_ends: Mapping[int, int], now_ms: int) -> None:
    """Take over entries: pieces grow while they are lawful, and shrink to the entry that is not."""
    start, size = 0, batch.num_rows
    while start < batch.num_rows:
        piece = batch.slice(start, size)
        try:
            _merge_piece(store, kpart, piece, {}, log_ends, now_ms)
        except ContradictedError as error:
            if piece.num_rows > 1:
                size = piece.num_rows // 2
                continue
            void = {piece.column("offset")[0].as_py(): error.finding}
            _merge_piece(store, kpart, piece, void, log_ends, now_ms)
            size = 0
        start += piece.num_rows
        size = max(1, 2 * size)


def _merge_piece(
    store: Store, kpart: int, piece: pa.RecordBatch, void: Mapping[int, FindingRow], log_ends: Mapping[int, int], now_ms: int
) -> None:
    heads = store.heads()
    found: Iterator[pa.RecordBatch] = scan_function(heads, {kpart: void})(iter([piece]))
    store.merge(pa.Table.from_batches(list(found), SUMMARY_SCHEMA), heads, log_ends, now_ms)
