"""The archive's rows without Spark: the same for every way of cutting the log, and no bytes make them fail."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pyarrow as pa
import pytest

from records.codec import encode_entry, encode_key
from records.committed_files.codec import FileCommitted
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey
from records.history import levels
from records.model import (
    LeadershipClaimed,
    NoOp,
    Record,
    TopicDeleted,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)
from spark_jobs.archive.entries import HeldMessage
from spark_jobs.archive.rows import ArchiveScan, archive_function, split
from spark_jobs.scan.head import Head
from tests.spark.scan_logs import values_of
from tests.sqlite.random_log import LogModel

KPART = 5
TERM = -7
Entry = tuple[bytes | None, bytes | None]


def claim(epoch: int, term: int) -> Entry:
    record = LeadershipClaimed(epoch=epoch, term=term, node_id=1, rack="", endpoints=[])
    return encode_key(EntryKey(epoch, term, 0)), encode_entry([record])


class Made:
    """A log with void and unreadable entries and transactions. `files` are those that count, `verdicts` those of chunks, by offset."""

    def __init__(self, seed: int, entries: int = 120) -> None:
        self.rng, self.model = random.Random(seed), LogModel(random.Random(seed))
        self.epoch, self.term, self.seq = 2, TERM, 0
        self.log = [claim(1, 3), claim(2, TERM), claim(2, 9)]
        self.files: list[tuple[int, FileCommitted]] = []
        self.in_transaction = False
        self.verdicts: dict[int, str] = {}
        while len(self.log) < entries:
            self.entry() if self.rng.random() < 0.93 else self.transaction()
        self.open_at = len(self.log)
        if seed % 2:
            self.transaction("open")

    def entry(self) -> None:
        kind = self.rng.random()
        if kind < 0.15:
            gap = encode_key(EntryKey(self.epoch, self.term, self.seq + 4))
            strays: list[Entry] = [self.log[-1], (None, b""), (b"stray", None), claim(self.epoch + 5, 7), (gap, b"x")]
            self.log.append(self.rng.choice(strays))
        elif kind < 0.25 and not self.in_transaction:
            self.add(self.rng.choice([None, b"", b"\xc3\x01junk", encode_entry([NoOp()]) + b"\0"]))
        else:
            share = self.model.files_per_record
            self.model.files_per_record = 0.0 if self.in_transaction else share
            record = self.model.next_record()
            self.model.files_per_record = share
            if isinstance(record, FileCommitted):
                self.files.append((len(self.log), record))
            records = [NoOp(), record] if self.rng.random() < 0.2 and not isinstance(record, FileCommitted) else [record]
            self.add(self.rng.choice([value for level in levels() for value in values_of(records, level)]))

    def add(self, value: bytes | None) -> None:
        self.seq += 1
        self.log.append((encode_key(EntryKey(self.epoch, self.term, self.seq)), value))

    def transaction(self, how: str | None = None) -> None:
        how = how or self.rng.choice(["ended", "noted", "claimed", "claimed and noted"])
        began, known = len(self.log), len(self.files)
        self.add(encode_entry([TransactionBegan(name="t")], self.rng.choice(levels())))
        began_seq, self.in_transaction = self.seq, True
        for _ in range(self.rng.randint(0, 5)):
            self.entry()
        self.in_transaction = False
        self.verdicts |= dict.fromkeys(range(began, len(self.log)), "applied" if how == "ended" else "aborted")
        if how == "ended":
            self.add(encode_entry([TransactionEnded(num_chunks=self.seq - began_seq)]))
            return
        del self.files[known:]
        if how.startswith("claimed"):
            self.epoch, self.term, self.seq = self.epoch + 1, self.rng.randrange(1 << 60), 0
            self.log.append(claim(self.epoch, self.term))
        if how.endswith("noted"):
            self.add(encode_entry([TransactionAborted(reason="no")]))


def batch(log: Sequence[Entry], start: int, stop: int) -> pa.RecordBatch:
    count = stop - start
    return pa.record_batch(
        {
            "partition": pa.array([KPART] * count, pa.int32()),
            "offset": pa.array(range(start, stop), pa.int64()),
            "key": pa.array([key for key, _ in log[start:stop]], pa.binary()),
            "value": pa.array([value for _, value in log[start:stop]], pa.binary()),
            "timestamp_ms": pa.array([1_760_000_000_000 + offset for offset in range(start, stop)], pa.int64()),
        }
    )


def rows_of(
    log: Sequence[Entry], cuts: Sequence[int], heads: dict[int, Head] | None = None, *, restarts: bool = False
) -> tuple[list[dict[str, object]], dict[int, Head]]:
    """The rows of a log in micro-batches that end at `cuts`, and the last heads; with `restarts` every one is of a new start."""
    found: list[dict[str, object]] = []
    heads = heads or {}
    held: dict[int, list[HeldMessage]] = {}
    start = heads[KPART].next_offset if KPART in heads else 0
    for stop in cuts:
        made_batches = list(archive_function(heads, held)(iter([batch(log, start, stop)] if stop > start else [])))
        if made_batches:
            table, after, now_held = split(pa.Table.from_batches(made_batches))
            found += table.to_pylist()
            heads, held = {**heads, **after}, {**held, **now_held}
            if restarts:
                held, stop = {}, heads[KPART].next_offset
        start = stop
    return sorted(found, key=lambda row: tuple(row[name] for name in ("offset", "record_number", "run_number"))), heads  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_the_same_for_every_cut_of_the_log(seed: int) -> None:
    made = Made(seed)
    log, files = made.log, made.files
    whole, heads = rows_of(log, [len(log)])
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(log)), 10))
    for restarts in (False, True):
        assert rows_of(log, [*cuts, len(log)], restarts=restarts) == (whole, heads)
        assert rows_of(log, range(1, len(log) + 1), restarts=restarts) == (whole, heads)
    runs = [row for row in whole if (row["verdict"], row["record"]) == ("applied", "FileCommitted")]
    assert [(row["offset"], row["object_key"]) for row in runs] == [
        (offset, file.object_key) for offset, file in files for _ in groupby(file.accepted, lambda one: one[:2])
    ]
    assert sum(int(str(row["bytes"])) for row in runs) == sum(one.byte_size for _, file in files for one in file.accepted)
    assert {row["offset"] for row in whole} == set(range(made.open_at))
    assert heads[KPART].next_offset == made.open_at
    told = {(made.verdicts[int(str(row["offset"]))], row["verdict"]) for row in whole if row["offset"] in made.verdicts}
    assert told <= {(one, other) for one in ("applied", "aborted") for other in (one, "void", "unreadable")}


def test_every_entry_says_what_it_is() -> None:
    log = [
        claim(1, TERM),
        (None, b"x"),
        (encode_key(EntryKey(1, TERM, 1)), encode_entry([TopicDeleted(topic_id=b"t" * 16, order_offset=3)])),
        (encode_key(EntryKey(1, TERM, 2)), None),
        (encode_key(EntryKey(1, TERM, 2)), encode_entry([NoOp()])),
        (encode_key(EntryKey(1, TERM, 3)), encode_entry([])),
    ]
    rows, _ = rows_of(log, [len(log)])
    told = [(row["verdict"], row["record"]) for row in rows]
    assert told == [
        ("claim", "LeadershipClaimed"),
        ("void", None),
        ("applied", "TopicDeleted"),
        ("contradiction", None),
        ("void", "NoOp"),
        ("applied", None),
    ]
    assert rows[2]["topic_id"] == "dHR0dHR0dHR0dHR0dHR0dA"
    assert json.loads(str(rows[2]["body"])) == {"topic_id": (b"t" * 16).hex(), "order_offset": 3}
    assert "error" in json.loads(str(rows[3]["body"]))


def test_replays_leave_no_rows_and_no_new_head() -> None:
    log = Made(2).log
    _, heads = rows_of(log, [60])
    scan = ArchiveScan(KPART, heads[KPART])
    assert not list(scan.read(batch(log, 0, 60)))
    _, again, held = split(pa.Table.from_pylist(scan.head_rows()))
    assert again == heads
    assert held == {KPART: []}


def test_batches_that_were_not_accepted_are_told() -> None:
    record = Made(1).files[0][1]
    accepted = record.batches[0]
    batches = [
        accepted._replace(verdict=BatchVerdict.DUPLICATE, base_offset=7, detail=-1),
        accepted,
        accepted._replace(verdict=BatchVerdict.SEQUENCE_GAP, base_offset=-1, detail=40),
    ]
    rejected = replace(record, batches=batches)
    log = [claim(1, TERM), (encode_key(EntryKey(1, TERM, 1)), encode_entry([rejected]))]
    rows, _ = rows_of(log, [2])
    (told,) = [row for row in rows if row["record"] == "FileCommitted.not_accepted"]
    body = json.loads(str(told["body"]))
    assert (body["place"], body["verdict"]) == ([0, 2], ["duplicate", "sequence_gap"])
    assert (body["base_offset"], body["detail"]) == ([7, -1], [-1, 40])
    assert told["batches"] == 2


def in_term(*entries: Sequence[Record]) -> list[Entry]:
    """A claim and entries of its term."""
    return [claim(1, TERM), *((encode_key(EntryKey(1, TERM, seq)), encode_entry(records)) for seq, records in enumerate(entries, 1))]


BEGAN, ENDED = [TransactionBegan(name="t", num_chunks=1)], [TransactionEnded(num_chunks=1)]
DELETED, NOTE = [TopicDeleted(topic_id=b"t" * 16, order_offset=3)], [TransactionAborted(reason="no")]
ENDINGS: list[tuple[list[Entry], list[str]]] = [
    (in_term(DELETED, BEGAN, DELETED, ENDED, DELETED), ["claim", "applied", "applied", "applied", "applied", "applied"]),
    (in_term(DELETED, BEGAN, DELETED), ["claim", "applied"]),
    ([*in_term(DELETED, BEGAN, DELETED), claim(2, 8)], ["claim", "applied", "aborted", "aborted", "claim"]),
    (in_term(BEGAN, DELETED, NOTE, DELETED), ["claim", "aborted", "aborted", "applied", "applied"]),
    # What contradicts the log leaves its records, and why.
    (in_term(BEGAN, DELETED, BEGAN, NOTE), ["claim", "aborted", "aborted", "contradiction", "applied"]),
    (in_term(DELETED, ENDED, NOTE), ["claim", "applied", "contradiction", "applied"]),
    (in_term(BEGAN, DELETED, DELETED, ENDED), ["claim", "aborted", "aborted", "aborted", "contradiction"]),
    (in_term([LeadershipClaimed(epoch=2, term=1, node_id=1, rack="", endpoints=[])]), ["claim", "contradiction"]),
]


@pytest.mark.parametrize(("log", "verdicts"), ENDINGS)
def test_what_a_transaction_holds_leaves_rows_when_it_is_over(log: list[Entry], verdicts: list[str]) -> None:
    for cuts in ([len(log)], range(1, len(log) + 1)):
        rows, heads = rows_of(log, cuts)
        assert [row["verdict"] for row in rows] == verdicts
        assert heads[KPART].next_offset == len(verdicts)


def test_lost_entries_abort_a_transaction_and_what_was_held_is_told() -> None:
    log = in_term(BEGAN, DELETED, DELETED, ENDED)
    first = list(archive_function({}, {})(iter([batch(log, 0, 3)])))
    _, heads, held = split(pa.Table.from_batches(first))
    assert (heads[KPART].next_offset, [one.offset for one in held[KPART]]) == (1, [1, 2])
    rows, heads, held = split(pa.Table.from_batches(list(archive_function(heads, held)(iter([batch(log, 4, 5)])))))
    assert [(row["offset"], row["verdict"]) for row in rows.to_pylist()] == [(1, "aborted"), (2, "aborted"), (4, "applied")]
    assert (heads[KPART].next_offset, held) == (5, {KPART: []})
