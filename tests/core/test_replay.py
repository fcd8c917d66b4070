"""What a follower reads together it applies as if it had come entry by entry, also with void and bad entries in between."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

import coordinator.core.follower as follower_module
from benchmarks.replay import START_MS, Log, new_shard
from coordinator.core.events import EntriesRead
from coordinator.core.files import read_block, replay, replay_loops
from coordinator.core.files.read_block import ReadBlock
from coordinator.core.files.replay import UNUSUAL_MAX, blocks_of
from coordinator.core.log_entry import ReadEntry
from coordinator.core.shard import Shard
from coordinator.core.state.packing import Flush, Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.core.view import ShardView
from coordinator.testing.state_store import MemoryStateStore
from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.entry_key import EntryKey
from records.model import FileCommitted, NoOp
from tests.compiled import plain

BATCHES_PER_FILE = 10


@pytest.fixture
def log() -> list[ReadEntry]:
    """A claim, ten topics and sixty files."""
    return Log(BATCHES_PER_FILE).entries(60 * BATCHES_PER_FILE)


def follow(entries: list[ReadEntry], patch: pytest.MonkeyPatch, *, together: bool) -> Shard:
    """A shard that read everything at once, deciding by blocks or entry by entry."""
    with patch.context() as limits:
        limits.setattr(follower_module, "REPLAY_BLOCK_BYTES_MIN", 1 if together else 1 << 60)
        shard = new_shard(ShardState(cold=MemoryStateStore().reader()))
        shard.feed(EntriesRead(entries), START_MS)
    return shard


def state_of(shard: Shard) -> object:
    state, view = shard.committed.state, ShardView(shard)
    hot = state.hot
    table = hot.partitions
    partitions = {
        key: tuple(column.cells[row] for column in (table.high_watermark, table.max_timestamp, table.max_timestamp_offset))
        for key, row in hot.partitions.index.items()
    }
    producers = {
        (hot.partitions.keys[owner], producer): (hot.producers.epoch.cells[row], list(hot.producers.remembered(row)))
        for owner, rows in hot.producers.index.items()
        for producer, row in rows.items()
    }
    rows = {key: [row for part in state.rows_from(at, 0) for row in part.tolist()] for key, at in hot.partitions.index.items()}
    files = state.files_after("", 10_000)
    return partitions, producers, rows, files, view.fence, view.last_entry, view.applied_offset, view.void_entries, view.failure


def placed(entries: list[ReadEntry]) -> list[ReadEntry]:
    """The entries at the offsets where they stand."""
    return [entry._replace(offset=offset) for offset, entry in enumerate(entries)]


def changed(entry: ReadEntry, **fields: object) -> ReadEntry:
    """The entry of a file with other fields."""
    (record,) = decode_entry(entry.value or b"")
    assert isinstance(record, FileCommitted)
    values = {name: getattr(record, name) for name in record.__dataclass_fields__} | fields
    return entry._replace(value=encode_entry([FileCommitted(**values)]))


def file_at(entries: list[ReadEntry], place: int) -> FileCommitted:
    (record,) = decode_entry(entries[place].value or b"")
    assert isinstance(record, FileCommitted)
    return record


def files_with_producers(entries: list[ReadEntry]) -> Iterator[int]:
    """Where files with idempotent batches stand."""
    for place, entry in enumerate(entries):
        (record,) = decode_entry(entry.value or b"")
        if isinstance(record, FileCommitted) and record.producer_index:
            yield place


def test_void_entries_among_files(log: list[ReadEntry], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    mixed = log[:15]
    for entry in log[15:]:
        key = decode_key(entry.key)
        assert key is not None
        voids = [
            entry._replace(key=encode_key(key._replace(seq=key.seq + 1))),
            entry._replace(key=encode_key(key._replace(seq=key.seq - 1)), value=b"not read"),
            entry._replace(key=encode_key(key._replace(term=3))),
            entry._replace(key=None, value=None),
        ]
        mixed += rng.sample(voids, rng.choice([0, 0, 1, 2]))
        mixed.append(entry)
    together = follow(placed(mixed), monkeypatch, together=True)
    assert state_of(together) == state_of(follow(placed(mixed), monkeypatch, together=False))
    assert together.failure is None
    assert set(ShardView(together).void_entries) == {"gap", "duplicate", "stale", "foreign"}


def test_other_records_among_files(log: list[ReadEntry], monkeypatch: pytest.MonkeyPatch) -> None:
    no_op = encode_entry([NoOp()])
    rejected = {"other_index": [BATCHES_PER_FILE], "other_code": [3], "other_base_offset": [-1], "other_time": [-1]}
    log = [*log[:30], *(log[30]._replace(value=no_op) for _ in range(3)), *log[30:]]
    keys = [encode_key(key._replace(seq=offset)) for offset, entry in enumerate(log) if (key := decode_key(entry.key))]
    log = placed([entry._replace(key=key) for entry, key in zip(log, keys, strict=True)])
    log[40] = changed(log[40], **rejected, other_log_start=[-1], other_message=["unknown topic"])
    log[41] = changed(log[41], **{**rejected, "other_code": [0]}, other_log_start=[0], other_message=[""])
    together = follow(log, monkeypatch, together=True)
    assert together.failure is None
    assert state_of(together) == state_of(follow(log, monkeypatch, together=False))


def check_void(log: list[ReadEntry], monkeypatch: pytest.MonkeyPatch, reason: str, void: int = 1) -> None:
    """Entry 40 is void, and so is what follows from that, in the same way however entries are applied."""
    together, alone = follow(log, monkeypatch, together=True), follow(log, monkeypatch, together=False)
    assert together.failure is None
    assert ShardView(together).void_entries == {"contradiction": void}
    assert ShardView(together).contradiction == ShardView(alone).contradiction
    assert reason in str(ShardView(together).contradiction)
    assert ShardView(together).state.applied_offset == log[-1].offset
    assert state_of(together) == state_of(alone)
    assert ShardView(together).state.file_name(40) is None


@pytest.mark.parametrize("value", [b"", b"\xc3\x01", None])
def test_an_entry_that_cannot_be_decoded_is_void(log: list[ReadEntry], value: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    check_void([*log[:40], log[40]._replace(value=value)], monkeypatch, "does not start with C3 01")


def test_an_offset_that_is_not_the_next_makes_an_entry_void(log: list[ReadEntry], monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = decode_entry(log[40].value or b"")
    assert isinstance(record, FileCommitted)
    log[40] = changed(log[40], run_base_offset=[*record.run_base_offset[:-1], record.run_base_offset[-1] + 1])
    check_void(log[:41], monkeypatch, f"offset {record.run_base_offset[-1] + 1}, {record.run_base_offset[-1]} is next")


def test_files_behind_a_void_one_do_not_follow_it(log: list[ReadEntry], monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that gave out a wrong offset goes on from there: all that it builds on it is void too, and nothing else."""
    (record,) = decode_entry(log[40].value or b"")
    assert isinstance(record, FileCommitted)
    log[40] = changed(log[40], run_base_offset=[offset + 1 for offset in record.run_base_offset])
    together, alone = follow(log, monkeypatch, together=True), follow(log, monkeypatch, together=False)
    assert together.failure is None
    assert ShardView(together).void_entries == ShardView(alone).void_entries
    assert state_of(together) == state_of(alone)


def test_a_file_for_an_unknown_partition_is_void(log: list[ReadEntry], monkeypatch: pytest.MonkeyPatch) -> None:
    log[40] = changed(log[40], topic_ids=[b"?" * 16] * 10)
    check_void(log[:41], monkeypatch, "which does not exist here")


@pytest.mark.parametrize("sequence", [1, 2**31 - 1])
def test_a_sequence_that_is_not_the_next_makes_an_entry_void(log: list[ReadEntry], sequence: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The newest file whose last idempotent batch is of a producer that wrote before.
    place = [at for at in files_with_producers(log) if file_at(log, at).base_sequence[-1] > 1][-1]
    record = file_at(log, place)
    log[place] = changed(log[place], base_sequence=[*record.base_sequence[:-1], sequence])
    together, alone = follow(log[: place + 1], monkeypatch, together=True), follow(log[: place + 1], monkeypatch, together=False)
    assert ShardView(together).void_entries == ShardView(alone).void_entries == {"contradiction": 1}
    assert f"sequence {sequence} of epoch" in str(ShardView(together).contradiction)
    assert state_of(together) == state_of(alone)


@pytest.mark.parametrize("copies", [1, 3])
def test_a_file_that_was_committed_before_is_void(log: list[ReadEntry], copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also inside one block: the same key, but offsets that follow."""
    (first,) = decode_entry(log[40].value or b"")
    assert isinstance(first, FileCommitted)
    for place in range(41, 41 + copies):
        log[place] = changed(
            log[place], object_key=first.object_key, producer_index=[], producer_id=[], producer_epoch=[], base_sequence=[]
        )
    log = log[: 41 + copies]
    together, alone = follow(log, monkeypatch, together=True), follow(log, monkeypatch, together=False)
    assert ShardView(together).void_entries == ShardView(alone).void_entries == {"contradiction": copies}
    assert f"file {first.object_key} was committed by entry 40 already" in str(ShardView(together).contradiction)
    assert state_of(together) == state_of(alone)


@pytest.mark.parametrize("position", [(1 << 31) - 1, 1 << 31, 1 << 32])
def test_a_batch_beyond_what_requests_can_name_makes_an_entry_void(
    log: list[ReadEntry], position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (record,) = decode_entry(log[40].value or b"")
    assert isinstance(record, FileCommitted)
    before_last = sum(record.byte_size[:-1])
    log[40] = changed(log[40], byte_gap=[0] * (BATCHES_PER_FILE - 1) + [position - before_last])
    if position < 1 << 31:
        shard = follow(log[:41], monkeypatch, together=True)
        assert state_of(shard) == state_of(follow(log[:41], monkeypatch, together=False))
        assert not ShardView(shard).void_entries
        return
    check_void(log[:41], monkeypatch, f"has a batch at byte {position}")


@pytest.mark.parametrize("epochs_raised", [1, UNUSUAL_MAX, 12])
def test_files_that_raise_an_epoch_cut_the_block(log: list[ReadEntry], epochs_raised: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raising = random.Random(epochs_raised).sample(list(files_with_producers(log)), epochs_raised)
    epoch = 0
    for place in range(len(log)):
        if place in raising:
            epoch += 1
        (record,) = decode_entry(log[place].value or b"")
        if epoch and isinstance(record, FileCommitted):
            log[place] = changed(log[place], producer_epoch=[epoch] * len(record.producer_index))
    together = follow(log, monkeypatch, together=True)
    assert together.failure is None
    assert state_of(together) == state_of(follow(log, monkeypatch, together=False))


def numbers_of(part: object) -> object:
    """A block, or columns, with lists for arrays."""
    if part is None or isinstance(part, list):
        return part
    if isinstance(part, np.ndarray):
        return part.tolist()
    return {field.name: numbers_of(getattr(part, field.name)) for field in dataclasses.fields(part)}  # type: ignore[arg-type]


def first_parts(shard: Shard, entries: list[ReadEntry]) -> list[tuple[object, list[ReadEntry]]]:
    """The first two parts of entries, nothing of which is applied."""
    return [(numbers_of(block), list(part)) for block, part in islice(blocks_of(shard.committed.state.hot, entries, 1), 2)]


@pytest.mark.parametrize("unusual", [None, "offset", "partition", "epoch"])
def test_loops_do_the_same_when_they_are_not_compiled(log: list[ReadEntry], unusual: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    at = next(place for place in files_with_producers(log) if place >= 40)
    (record,) = decode_entry(log[at].value or b"")
    assert isinstance(record, FileCommitted)
    changes: dict[str, dict[str, object]] = {
        "offset": {"run_base_offset": [*record.run_base_offset[:-1], record.run_base_offset[-1] + 1]},
        "partition": {"topic_ids": [b"?" * 16] * 10},
        "epoch": {"producer_epoch": [7] * len(record.producer_index)},
    }
    if unusual is not None:
        log[at] = changed(log[at], **changes[unusual])
    shard = new_shard(ShardState(cold=MemoryStateStore().reader()))
    shard.feed(EntriesRead(log[:20]), START_MS)
    parts = [first_parts(shard, log[20:])]
    for name in ("place_batches", "place_producers"):
        monkeypatch.setattr(replay, name, getattr(plain(replay_loops), name))
    parts.append(first_parts(shard, log[20:]))
    assert parts[0] == parts[1]
    assert [len(entries) for _, entries in parts[0]] == ([len(log) - 20] if unusual is None else [at - 20, 1])
    assert not any(shard.committed.state.hot.producers.mark.cells)


@pytest.mark.parametrize("are_plain", [False, True])
def test_what_is_applied_together_is_packed_as_if_it_had_come_entry_by_entry(
    log: list[ReadEntry], are_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(5)
    for at in range(20, len(log)):
        (record,) = decode_entry(log[at].value or b"")
        assert isinstance(record, FileCommitted)
        log[at] = changed(
            log[at],
            owner_ids=list(range(at % 4)),
            object_key=f"schlüssel/{at}",
            byte_gap=[rng.randrange(9) for _ in record.byte_size],
            timestamp_type=[rng.randrange(2) for _ in record.byte_size],
        )
    alone = follow(log, monkeypatch, together=False)
    if are_plain:
        for name in ("advance_partitions", "remember_rows", "copy_rows"):
            monkeypatch.setattr(read_block, name, getattr(plain(replay_loops), name))
    together = follow(log, monkeypatch, together=True)
    assert together.failure is None
    assert state_of(together) == state_of(alone)
    assert [type(block).__name__ for block in ShardView(together).state.active.blocks] == ["AppliedRead"]
    for file_id, file in ShardView(together).state.active.files_by_id.items():
        assert file.file_row() == ShardView(alone).state.active.files_by_id[file_id].file_row()
    assert packed(together) == packed(alone)


def packed(shard: Shard) -> Flush:
    """What would be written now."""
    return Packer().pack(shard.freeze(shard.header("cluster", b"t" * 16)))


KEYS_NOT_DUE = [
    None,
    b"",
    b"\1" * 19,
    b"\1" * 20,
    encode_key(EntryKey(2, 77, 11)),
    encode_key(EntryKey(1, 78, 11)),
    encode_key(EntryKey(1, 77, 12)),
]


@pytest.mark.parametrize("key", KEYS_NOT_DUE)
def test_entries_are_due_up_to_the_first_that_is_not(log: list[ReadEntry], key: bytes | None) -> None:
    head = encode_key(EntryKey(1, 77, 0))[:12]
    for count_due in (replay_loops.count_due, plain(replay_loops).count_due):
        assert count_due(log, head, 0, 0) == len(log)
        assert count_due(log, head, 1, 0) == count_due(log, head, 0, 1) == 0
        assert count_due([*log[:11], log[11]._replace(key=key)], head, 0, 0) == 11
        assert count_due([*log[:11], log[12]], head, 0, 0) == 11
        assert count_due([log[11]._replace(key=encode_key(EntryKey(1, 77, 1 << 56)))], head, 1 << 56, 11) == 0


def test_plain_files_make_one_block(log: list[ReadEntry]) -> None:
    shard = new_shard(ShardState(cold=MemoryStateStore().reader()))
    shard.feed(EntriesRead(log[:11]), START_MS)
    ((block, entries),) = blocks_of(shard.committed.state.hot, log[11:], 1)
    assert isinstance(block, ReadBlock)
    assert list(entries) == log[11:]
    assert block.encoded == [entry.value for entry in log[11:]]
    assert block.batches == 60 * BATCHES_PER_FILE
