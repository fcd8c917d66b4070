"""The archive's rows without Spark: the same for every way of cutting the log, and no bytes make them fail."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from records.codec import encode_entry, encode_key
from records.file_columns import expand
from records.model import EntryKey, FileCommitted, LeadershipClaimed, NoOp, TopicDeleted
from spark_jobs.archive.rows import ArchiveScan, archive_function, split_heads
from spark_jobs.scan.head import Head
from tests.sqlite.random_log import LogModel

KPART = 5
TERM = -7
Entry = tuple[bytes | None, bytes | None]


def claim(epoch: int, term: int) -> Entry:
    record = LeadershipClaimed(epoch=epoch, term=term, node_id=1, rack="", endpoints=[])
    return encode_key(EntryKey(epoch, term, 0)), encode_entry([record])


def made(seed: int, entries: int = 120) -> tuple[list[Entry], list[tuple[int, FileCommitted]]]:
    """A log with void and unreadable entries, and the files that count by offset."""
    rng, model = random.Random(seed), LogModel(random.Random(seed))
    log, files, seq = [claim(1, 3), claim(2, TERM), claim(2, 9)], [], 0
    for _ in range(entries):
        if rng.random() < 0.15:
            log.append(rng.choice([log[-1], (None, b""), (b"stray", None), claim(7, 7), (encode_key(EntryKey(2, TERM, seq + 4)), b"x")]))
            continue
        seq += 1
        key = encode_key(EntryKey(2, TERM, seq))
        if rng.random() < 0.1:
            log.append((key, rng.choice([None, b"", b"\xc3\x01junk", encode_entry([NoOp()]) + b"\0"])))
            continue
        record = model.next_record()
        if isinstance(record, FileCommitted):
            files.append((len(log), record))
        log.append((key, encode_entry([NoOp(), record] if rng.random() < 0.2 else [record])))
    return log, files


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
    log: Sequence[Entry], cuts: Sequence[int], heads: dict[int, Head] | None = None
) -> tuple[list[dict[str, object]], dict[int, Head]]:
    """The rows of a log in micro-batches that end at `cuts`, and the last heads."""
    found: list[dict[str, object]] = []
    heads = heads or {}
    start = heads[KPART].next_offset if KPART in heads else 0
    for stop in cuts:
        made_batches = list(archive_function(heads)(iter([batch(log, start, stop)] if stop > start else [])))
        if made_batches:
            table, after = split_heads(pa.Table.from_batches(made_batches))
            found += table.to_pylist()
            heads = {**heads, **after}
        start = stop
    return sorted(found, key=lambda row: tuple(row[name] for name in ("offset", "record_number", "run_number"))), heads  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_the_same_for_every_cut_of_the_log(seed: int) -> None:
    log, files = made(seed)
    whole, heads = rows_of(log, [len(log)])
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(log)), 10))
    assert rows_of(log, [*cuts, len(log)]) == (whole, heads)
    assert rows_of(log, range(1, len(log) + 1)) == (whole, heads)
    runs = [row for row in whole if (row["verdict"], row["record"]) == ("applied", "FileCommitted")]
    assert [(row["offset"], row["object_key"]) for row in runs] == [
        (offset, file.object_key) for offset, file in files for _ in file.run_length
    ]
    assert sum(int(str(row["bytes"])) for row in runs) == sum(int(expand(file).byte_size.sum()) for _, file in files)
    assert {row["offset"] for row in whole} == set(range(len(log)))
    assert heads[KPART].next_offset == len(log)


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
        ("unreadable", None),
        ("void", "NoOp"),
        ("applied", None),
    ]
    assert rows[2]["topic_id"] == "dHR0dHR0dHR0dHR0dHR0dA"
    assert json.loads(str(rows[2]["body"])) == {"topic_id": (b"t" * 16).hex(), "order_offset": 3}
    assert "error" in json.loads(str(rows[3]["body"]))


def test_replays_leave_no_rows_and_no_new_head() -> None:
    log, _ = made(3)
    _, heads = rows_of(log, [60])
    scan = ArchiveScan(KPART, heads[KPART])
    assert not list(scan.read(batch(log, 0, 60)))
    _, again = split_heads(pa.Table.from_pylist([scan.head_row()]))
    assert again == heads


def test_batches_that_were_not_accepted_are_told() -> None:
    _, files = made(1)
    record = files[0][1]
    rejected = FileCommitted(
        **{name: getattr(record, name) for name in record.__slots__ if not name.startswith("other_")},
        other_index=[0, 2],
        other_code=[0, 45],
        other_base_offset=[7, -1],
        other_time=[-1, -1],
        other_log_start=[0, 0],
        other_message=["", "out of order"],
    )
    log = [claim(1, TERM), (encode_key(EntryKey(1, TERM, 1)), encode_entry([rejected]))]
    rows, _ = rows_of(log, [2])
    (told,) = [row for row in rows if row["record"] == "FileCommitted.not_accepted"]
    body = json.loads(str(told["body"]))
    assert (body["place"], body["code"], body["base_offset"]) == ([0, 2], [0, 45], [7, -1])
    assert told["batches"] == 2
