"""Packing and writing rest between pieces, so that the event loop gets the interpreter, and make the same of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabase, writer
from coordinator.core.files.logged import AppliedFiles
from coordinator.core.state import packing
from coordinator.core.yielding import Rest, no_rest
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.model import PartitionCreated
from tests.sqlite.random_log import START_MS
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica, header

FILES, PARTITIONS = 700, 10
LONGEST_PIECE = {"files": 1, "producers": 1, "records": 1, "blocks": 8, "statements": 1}
HASHED_AT_ONCE = 512


def replica(folder: Path) -> Replica:
    """A replica with files of a batch each, every one of another producer, that were not written yet."""

    def open_store() -> StateDatabase:
        database = StateDatabase(folder, cluster_id=CLUSTER_ID, topic_id=TOPIC_ID, metadata_partition=PARTITION)
        database.open()
        return database

    made = Replica(open_store)
    topic_id = b"u" * 16
    made.apply([PartitionCreated(topic_id=topic_id, name="t", first_partition=0, num_partitions=PARTITIONS, order_offset=0)], 0)
    for number in range(FILES):
        record = FileCommitted(
            object_key=f"key{number}", object_format=1, file_size=100, uploader_broker_id=1, owner_ids=[0], created_ms=START_MS,
            append_time_ms=START_MS, content_hash=bytes(16),
            batches=[CommittedBatch(topic_id, number % PARTITIONS, 0, number // PARTITIONS, 1, 0, 100, START_MS, 0, number, 0, 0)],
        )  # fmt: skip
        made.apply([record], number + 1)
    return made


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, in order: a word for every unit of work. Whoever rests adds that."""
    seen: list[str] = []

    def note(owner: object, name: str, word: str) -> None:
        real: Callable[..., object] = getattr(owner, name)

        def noted(*arguments: object) -> object:
            seen.append(word)
            return real(*arguments)

        monkeypatch.setattr(owner, name, noted)

    note(packing, "hash_files", "files")
    note(packing, "hash_producers", "producers")
    note(packing, "hash_records", "records")
    note(AppliedFiles, "sort_into", "blocks")
    note(writer, "insert_statement", "statements")
    return seen


def test_no_piece_is_long_and_the_flush_is_the_same(tmp_path: Path, events: list[str]) -> None:
    def flush_of(name: str, rest: Rest) -> packing.Flush:
        one = replica(tmp_path / name)
        flush = one.packer.pack(one.state.freeze(header(one.state)), rest)
        one.store.write(flush, rest)
        one.store.close(clean=False)
        return flush

    rested = flush_of("rested", lambda: events.append("rest"))
    happened = list(events)
    assert rested == flush_of("at-once", no_rest)
    for word, longest in LONGEST_PIECE.items():
        pieces = [len(list(group)) for found, group in groupby(happened) if found == word]
        # The topics, tombstones and header are rows too, a few.
        assert max(pieces) <= longest + (2 if word == "statements" else 0), word
    assert happened.count("blocks") == FILES
    for word in ("files", "producers", "records"):
        assert happened.count(word) == -(-FILES // HASHED_AT_ONCE), word


def test_few_rows_go_in_by_small_statements(events: list[str]) -> None:
    assert max(size for _, size in writer.portions(writer.FEW_ROWS)) == 64
    assert max(size for _, size in writer.portions(writer.FEW_ROWS + 1)) == 256
    for rows in (0, 1, 63, 64, 65, writer.FEW_ROWS, writer.FEW_ROWS + 333):
        assert sum(size for _, size in writer.portions(rows)) == rows
    assert events == []
