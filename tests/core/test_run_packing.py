"""Packed runs, their digests and frozen rows are those of a readable reference, with loops compiled and not."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.files import block as block_module
from coordinator.core.files.block import AppliedBlock, BlockFile, CommitBlock, GatheredFiles, Int64s
from coordinator.core.state import frozen, packing_loops, run_packing
from coordinator.core.state import unwritten as tail_module
from coordinator.core.state.frozen import FrozenProducers, freeze_partitions, freeze_producers
from coordinator.core.state.packing import unpack_ring
from coordinator.core.state.run_packing import INT32_MAX, UINT32_MAX, batches_sum, pack_runs
from coordinator.core.state.unwritten import FileBlock
from coordinator.core.tables import row_loops, scratch
from coordinator.core.tables.stored_rows import ROW, Rows, RunRow, numbers_of, unpack
from coordinator.core.tables.tables import PartitionTable, ProducerTable, RememberedBatch
from records.file_columns import iterate
from records.file_head import FileHead
from records.model import FileCommitted
from records.state_digest import U64, Digest, hash_batches, key_lanes
from tests.compiled import plain
from tests.records.strategies import files_committed

KEYS = {row: bytes([row]) * 20 for row in range(8)}
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
START_MS = 1_760_000_000_000

times = st.one_of(
    st.integers(START_MS, START_MS + 50), st.sampled_from([-1, 0, INT64_MIN, INT64_MAX, START_MS + INT32_MAX, START_MS + INT32_MAX + 1])
)


@contextmanager
def loops(are_plain: bool) -> Iterator[None]:
    """Run with the loops as they are in the source, or as they are installed."""
    packing, rows = (plain(packing_loops), plain(row_loops)) if are_plain else (packing_loops, row_loops)
    with (
        patch.object(run_packing, "pack_stretches", packing.pack_stretches),
        patch.object(run_packing, "add_hashes", packing.add_hashes),
        patch.object(frozen, "copy_rings", packing.copy_rings),
        patch.object(block_module, "place_columns", rows.place_columns),
        patch.object(tail_module, "place_record", rows.place_record),
    ):
        yield


@dataclass
class Segments:
    """A block that has its rows already."""

    partition_rows: list[int]
    parts: list[Rows]

    def lengths(self) -> Int64s:
        return np.array([len(part) for part in self.parts], np.int64)

    def place(self, targets: memoryview[int], rows: memoryview[int]) -> None:
        for target, part in zip(targets.tolist(), self.parts, strict=True):
            np.asarray(rows)[target : target + len(part)] = numbers_of(part)


@st.composite
def blocks(draw: st.DrawFn) -> list[Segments]:
    """Blocks in log order: offsets go on in each partition, file ids never go back."""
    next_offset = dict.fromkeys(KEYS, 0)
    made, file_id = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 4))):
        parts, owners = [], draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=5))
        for owner in owners:
            rows = np.zeros(draw(st.integers(1, 12)), ROW)
            for row in rows:
                count = draw(st.sampled_from([1, 1, 3, INT32_MAX, INT32_MAX + 1]))
                row["base"], row["count"] = next_offset[owner], count
                next_offset[owner] += count
                row["byte_offset"], row["size"] = draw(st.integers(0, INT32_MAX)), draw(st.integers(1, INT32_MAX))
                row["file"], row["index"] = file_id, draw(st.integers(0, 1 << 20))
                row["timestamp"], row["append_time"], row["type"] = draw(times), START_MS + draw(st.integers(0, 9)), draw(st.integers(0, 1))
                file_id += draw(st.sampled_from([0, 0, 0, 1, 1, UINT32_MAX]))
            parts.append(rows)
        made.append(Segments(owners, parts))
    return made


def expected_runs(made: Sequence[Segments], rows_max: int) -> list[RunRow]:
    """Partition by partition, run by run, batch by batch."""
    of_partition: dict[int, list[dict[str, int]]] = {}
    for one in made:
        for owner, part in zip(one.partition_rows, one.parts, strict=True):
            names = ROW.names or ()
            of_partition.setdefault(owner, []).extend(dict(zip(names, row, strict=True)) for row in part.tolist())
    runs = []
    for owner, batches in sorted(of_partition.items()):
        for at in range(0, len(batches), rows_max):
            piece = batches[at : at + rows_max]
            stamps, files = [one["timestamp"] for one in piece], [one["file"] for one in piece]
            fits = max(stamps) - min(stamps) <= INT32_MAX and max(files) - min(files) <= UINT32_MAX
            runs += [expected_run(owner, piece)] if fits else [expected_run(owner, [one]) for one in piece]
    return runs


def expected_run(owner: int, batches: list[dict[str, int]]) -> RunRow:
    """The packed form, number by number."""
    file_base, time_base = min(one["file"] for one in batches), min(one["timestamp"] for one in batches)
    data = b"".join(
        struct.pack(
            "<IIIIiI",
            one["count"] - 1 | (0x80000000 if one["type"] == 1 else 0),
            one["byte_offset"],
            one["size"],
            one["file"] - file_base,
            one["timestamp"] - time_base,
            one["index"],
        )
        for one in batches
    )
    greatest = max(one["append_time"] if one["type"] == 1 else one["timestamp"] for one in batches)
    last = batches[-1]["base"] + batches[-1]["count"] - 1
    return RunRow(owner, batches[0]["base"], last, greatest, file_base, time_base, data)


def expected_digest(key: bytes, rows: Rows) -> Digest:
    """As `verify` computes it."""
    lane_low, lane_high = (np.full(len(rows), lane, np.int64) for lane in key_lanes(key))
    low, high = hash_batches(lane_low, lane_high, rows)
    return Digest(sum(low.tolist()) % (1 << 64), sum(high.tolist()) % (1 << 64))


def digest_of(lanes: U64) -> Digest:
    return Digest(int(lanes[1]), int(lanes[0]))


@pytest.mark.parametrize("are_plain", [False, True])
@settings(max_examples=80, deadline=None)
@given(made=blocks(), rows_max=st.integers(1, 9), slice_rows=st.integers(1, 20))
def test_packed_runs_are_those_of_the_reference(are_plain: bool, made: list[Segments], rows_max: int, slice_rows: int) -> None:
    with loops(are_plain), patch.object(run_packing, "RUN_ROWS_MAX", rows_max), patch.object(run_packing, "_SLICE_ROWS", slice_rows):
        packed = pack_runs(made, KEYS)
        digests = dict(zip(packed.partition_rows.tolist(), map(digest_of, packed.sums), strict=True))
        assert packed.runs == expected_runs(made, rows_max)
        for owner in {owner for one in made for owner in one.partition_rows}:
            pairs = [pair for one in made for pair in zip(one.partition_rows, one.parts, strict=True)]
            rows = np.concatenate([part for partition_row, part in pairs if partition_row == owner])
            assert digests.pop(owner) == expected_digest(KEYS[owner], rows) == digest_of(batches_sum(KEYS[owner], rows)[0])
        assert not digests


def test_what_was_packed_is_unpacked() -> None:
    rows = np.zeros(2500, ROW)
    rows["count"] = np.arange(2500) % 7 + 1
    rows["base"] = rows["count"].cumsum() - rows["count"]
    rows["timestamp"], rows["type"], rows["file"] = START_MS - np.arange(2500), np.arange(2500) % 2, 40 + np.arange(2500) // 9
    runs = pack_runs([Segments([3], [rows])], KEYS).runs
    assert [len(unpack(run)) for run in runs] == [1000, 1000, 500]
    assert np.concatenate([unpack(run) for run in runs]).tolist() == rows.tolist()


@pytest.mark.parametrize("are_plain", [False, True])
@settings(max_examples=60, deadline=None)
@given(record=files_committed())
def test_rows_of_a_record_are_its_batches(are_plain: bool, record: FileCommitted) -> None:
    block = FileBlock(77, record, list(range(len(record.run_length))), b"", len(record.byte_size))
    with loops(are_plain):
        rows = block.rows().tolist()
    assert rows == [
        (
            one.base_offset, one.record_count, one.byte_offset, one.byte_size, 77, index, one.timestamp_ms, record.append_time_ms,
            one.timestamp_type,
        )
        for index, one in enumerate(iterate(record))
    ]  # fmt: skip


def random_block(rng: random.Random) -> AppliedBlock:
    """Columns of random numbers, sorted by random partitions."""
    of_file = [rng.randrange(1, 6) for _ in range(rng.randrange(1, 5))]
    n = sum(of_file)
    partition = np.array([rng.randrange(4) for _ in range(n)], np.int64)
    order = np.argsort(partition, kind="stable")
    rows, starts = np.unique(partition[order], return_index=True)
    columns = np.array([numbers(rng, n) for _ in range(scratch.COLUMNS)])
    columns[scratch.FILE_OF], columns[scratch.ORDER] = np.arange(len(of_file)).repeat(of_file), order
    columns[scratch.STARTS, : len(rows)], columns[scratch.STOPS, : len(rows)] = starts, np.append(starts[1:], n)
    block = CommitBlock(
        heads=[FileHead(f"key{at}", 1, 10 + at, 2, list(range(at)), 5, 7, bytes([at]) * 16) for at in range(len(of_file))],
        append_time_ms=7,
        batches_of_file=of_file,
        keys=[KEYS[row] for row in rows.tolist()],
        columns=columns,
        producers=None,
        encoded=[bytes([at]) for at in range(len(of_file))],
    )
    files = [BlockFile(block, at, 100 + 3 * at, of_file[at] - 1) for at in range(len(of_file))]
    return AppliedBlock(block, rows.tolist(), files)


def numbers(rng: random.Random, n: int) -> Int64s:
    return np.array([rng.randrange(-(1 << 40), 1 << 40) for _ in range(n)], np.int64)


@pytest.mark.parametrize("are_plain", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_rows_of_a_block_are_its_columns(are_plain: bool, seed: int) -> None:
    applied = random_block(random.Random(seed))
    block = applied.block
    with loops(are_plain):
        rows = applied.rows().tolist()
    expected = []
    for at in block.order.tolist():
        numbers_of_batch = block.columns[:, at].tolist()
        file = numbers_of_batch[scratch.FILE_OF]
        kinds = (scratch.BASE, scratch.COUNT, scratch.BYTE_OFFSET, scratch.SIZE)
        place = at - sum(block.batches_of_file[:file])
        times = (numbers_of_batch[scratch.TIMESTAMP], block.append_time_ms, numbers_of_batch[scratch.TYPE])
        expected.append((*(numbers_of_batch[kind] for kind in kinds), applied.files[file].file_id, place, *times))
    assert rows == expected


def test_files_of_a_block_are_its_rows_one_by_one() -> None:
    for seed in range(20):
        blocks_of_both = [random_block(random.Random(seed)), random_block(random.Random(-seed - 1))]
        gathered = GatheredFiles()
        for applied in blocks_of_both:
            applied.add_files(gathered)
        assert gathered.lists().rows() == [file.file_row() for applied in blocks_of_both for file in applied.files]
        files = len(blocks_of_both[0].files)
        assert [row.owner_ids for row in gathered.lists().rows()][: min(3, files)] == ["", "0", "0,1"][:files]


@pytest.mark.parametrize("are_plain", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_frozen_producers_are_those_of_the_table(are_plain: bool, seed: int) -> None:
    rng, table = random.Random(seed), ProducerTable()
    for at in range(200):
        row = table.add(rng.randrange(9), rng.randrange(9) << 40)
        batch = RememberedBatch(rng.randrange(1 << 31), rng.randrange(1 << 31), rng.randrange(1 << 60), rng.choice([-1, START_MS + at]))
        table.remember(row, rng.choice([3, 3, 3, 4]), batch, START_MS + at)
    touched = {row for rows in table.index.values() for row in rows.values() if rng.random() < 0.7}
    with loops(are_plain):
        producers = freeze_producers(table, touched).stored().rows()
    assert [one.row for one in producers] == sorted(touched)
    for one in producers:
        cells = [column.cells[one.row] for column in (table.owner, table.producer, table.epoch, table.last_append)]
        assert list(one) == [one.row, *cells, one.ring]
        assert unpack_ring(one.ring) == list(reversed([tuple(batch) for batch in table.remembered(one.row)]))


@pytest.mark.parametrize("are_plain", [False, True])
def test_nothing_frozen_is_nothing(are_plain: bool) -> None:
    with loops(are_plain):
        producers: FrozenProducers = freeze_producers(ProducerTable(), set())
        assert producers.stored().rows() == []
        assert list(freeze_partitions(PartitionTable(), set(), [], {}).stored()) == []
        assert pack_runs([], KEYS).runs == []
        assert not len(pack_runs([Segments([], [])], KEYS).partition_rows)


def test_frozen_partitions_are_those_of_the_table() -> None:
    table = PartitionTable()
    for row in KEYS:
        table.add(KEYS[row])
        for number, column in enumerate((table.high_watermark, table.log_start, table.first_offset, table.max_timestamp)):
            column.cells[row] = 100 * row + number
        table.max_timestamp_offset.cells[row] = 100 * row + 9
    found = list(freeze_partitions(table, {5, 1, 2}, [4, 0], {2: 17, 4: 18, 7: 19}).stored())
    table.high_watermark.cells[1] = 0  # what was frozen stays
    assert [row[0] for row in found] == [1, 2, 5, 4, 0]
    assert found[0] == (1, KEYS[1], 100, 101, 102, 103, 109, 101, False)
    assert found[1].trimmed_to == 17
    assert found[3] == (4, KEYS[4], 400, 401, 402, 403, 409, 18, True)
    assert found[4].trimmed_to == 0
