"""Packed runs, their digests and frozen rows are those of a readable reference, and compiled loops do what their source does."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.files.logged import AppliedFiles, LoggedFiles
from coordinator.core.state import packing_loops
from coordinator.core.state.frozen import freeze_partitions, freeze_producers
from coordinator.core.state.packing import unpack_ring
from coordinator.core.state.run_packing import INT32_MAX, RUN_ROWS_MAX, UINT32_MAX, batches_sum, pack_runs
from coordinator.core.tables import keyed_loops
from coordinator.core.tables.cells import PRODUCER_WIDTH, REMEMBERED_BATCHES
from coordinator.core.tables.keyed_loops import KeyedRows
from coordinator.core.tables.stored_rows import PACKED, ROW, FileName, Rows, RunRow, numbers_of, unpack
from coordinator.core.tables.tables import PartitionTable, ProducerTable
from records.committed_files.codec import FileTable
from records.committed_files.head import FileHead
from records.committed_files.lines import (
    BASE_OFFSET,
    BYTE_OFFSET,
    BYTE_SIZE,
    FILE,
    LINE_WIDTH,
    RECORD_COUNT,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VERDICT,
    BatchVerdict,
)
from records.committed_files.lines import ROW as PARTITION_ROW
from records.state_digest import PRODUCER_RING, U64, Digest, hash_batches, key_lanes
from tests.compiled import plain

PLAIN, PLAIN_ROWS = plain(packing_loops), plain(keyed_loops)
KEYS = {row: bytes([row]) * 20 for row in range(8)}
START_MS = 1_760_000_000_000
FAR_TIMES = [-1, 0, -(1 << 63), (1 << 63) - 1, START_MS + INT32_MAX, START_MS + INT32_MAX + 1]


class Written:
    """Writes files with random batches as they are when they were applied, and the rows of their accepted batches, one by one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.next_offset = dict.fromkeys(KEYS, 0)
        self.file_id = self.random.randrange(5)
        self.rows: dict[int, list[tuple[int, ...]]] = {}

    def files(self, counts: Sequence[int], *, far: float = 0.02) -> AppliedFiles:
        """Files with so many batches each; a share of times and files is far from the others."""
        rng = self.random
        heads: list[FileHead] = []
        file_ids: list[int] = []
        lines = np.full((sum(counts), LINE_WIDTH), 77, np.int64)
        at = 0
        for file, count in enumerate(counts):
            self.file_id += UINT32_MAX if rng.random() < far else rng.randrange(1, 4)
            file_ids.append(self.file_id)
            owners = rng.sample(sorted(KEYS), rng.randrange(1, 4))
            head = FileHead(f"key{self.file_id}", 1, 10, 2, list(range(file % 3)), 5, START_MS + rng.randrange(9), bytes([file]) * 16)
            heads.append(head)
            for index in range(count):
                owner, verdict = rng.choice(owners), rng.choice([BatchVerdict.ACCEPTED] * 9 + list(BatchVerdict))
                records = rng.choice([1, 1, 3, INT32_MAX, INT32_MAX + 1])
                place, size, kind = rng.randrange(INT32_MAX + 1), rng.randrange(1, INT32_MAX + 1), rng.randrange(2)
                time = rng.choice(FAR_TIMES) if rng.random() < far else START_MS + rng.randrange(50)
                row = (self.next_offset[owner], records, place, size, self.file_id, index, time, head.append_time_ms, kind)
                cells = (BASE_OFFSET, RECORD_COUNT, BYTE_OFFSET, BYTE_SIZE, TIMESTAMP, TIMESTAMP_TYPE, FILE, PARTITION_ROW, VERDICT)
                lines[at, cells] = (*row[:4], time, kind, file, owner, verdict)
                at += 1
                if verdict == BatchVerdict.ACCEPTED:
                    self.rows.setdefault(owner, []).append(row)
                    self.next_offset[owner] += records
        files = LoggedFiles(FileTable(heads, [0, *np.cumsum(counts).tolist()], lines), [bytes([file]) for file in range(len(counts))])
        files.file_ids[:] = file_ids
        for file in range(len(counts)):
            files.accepted[file] = int((files.table.lines_of(file)[:, VERDICT] == BatchVerdict.ACCEPTED).sum())
        return AppliedFiles(files, 0, len(counts), files.accepted.tolist())


def expected_runs(rows: dict[int, list[tuple[int, ...]]]) -> list[RunRow]:
    """Partition by partition, run by run, batch by batch."""
    runs = []
    for owner, batches in sorted(rows.items()):
        for at in range(0, len(batches), RUN_ROWS_MAX):
            piece = [dict(zip(ROW.names or (), row, strict=True)) for row in batches[at : at + RUN_ROWS_MAX]]
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


def check_packed(written: Written, applied: Sequence[AppliedFiles]) -> None:
    packed = pack_runs(applied, KEYS)
    assert packed.runs == expected_runs(written.rows)
    assert packed.partition_rows.tolist() == sorted(written.rows)
    for owner, sums in zip(packed.partition_rows.tolist(), packed.sums, strict=True):
        rows = np.array(written.rows[owner], ROW)
        assert digest_of(sums) == expected_digest(KEYS[owner], rows) == digest_of(batches_sum(key_lanes(KEYS[owner]), rows)[0])


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32),
    counts=st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=5), max_size=4),
    far=st.sampled_from([0, 0.1]),
)
def test_packed_runs_are_those_of_the_reference(seed: int, counts: list[list[int]], far: float) -> None:
    written = Written(seed)
    check_packed(written, [written.files(each, far=far) for each in counts])


@pytest.mark.parametrize("far", [0, 0.0005])
def test_partitions_of_many_runs_are_packed_in_pieces(far: float) -> None:
    written = Written(7)
    check_packed(written, [written.files([100] * 20, far=far) for _ in range(13)])
    assert max(map(len, written.rows.values())) > 2 * RUN_ROWS_MAX


@pytest.mark.parametrize("loops", [packing_loops, PLAIN], ids=["compiled", "plain"])
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), counts=st.lists(st.integers(1, 20), min_size=1, max_size=5), far=st.sampled_from([0, 0.1]))
def test_batches_that_are_taken_out_of_a_run_are_those_that_end_between_two_offsets(
    loops: ModuleType, seed: int, counts: list[int], far: float
) -> None:
    written = Written(seed)
    rng = written.random
    for run in pack_runs([written.files(counts, far=far)], KEYS).runs:
        rows = unpack(run)
        end = int(rng.choice([*rows["base"][1:].tolist(), run.last + 1, 1 << 62]))
        start, target = sorted(rng.choice([run.base, *(rows["base"] + rng.randrange(3)).tolist(), run.last + 1]) for _ in range(2))
        lanes = key_lanes(KEYS[run.partition_row])
        sums, files, behind = np.full((1, 2), 7, np.uint64), np.full(len(rows), -1, np.int64), np.zeros(1, np.int64)
        cells = memoryview(run.data).cast("I")
        gone = loops.take_out_run(
            cells, run.base, run.file_base, run.timestamp_base, start, target, end, *lanes, sums.data, files.data, behind.data
        )
        ends = rows["base"] + rows["count"]
        counted = rows[rows["base"] < end]
        expected = rows[(rows["base"] < end) & (ends > start) & (ends <= target)]
        assert files[:gone].tolist() == expected["file"].tolist()
        assert sums.tolist() == (batches_sum(lanes, expected) + np.uint64(7)).tolist()
        assert min(int(behind[0]), target) == min(int(counted["base"][-1] + counted["count"][-1]), target)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), counts=st.lists(st.integers(0, 8), min_size=1, max_size=5))
def test_batches_are_sorted_by_partition(seed: int, counts: list[int]) -> None:
    written = Written(seed)
    found = written.files(counts).sorted()
    ends = [*found.starts, len(found.rows)][1:]
    assert found.partition_rows == sorted(written.rows)
    assert {
        row: found.rows[start:end].tolist() for row, start, end in zip(found.partition_rows, found.starts, ends, strict=True)
    } == written.rows  # fmt: skip


def test_a_part_of_the_files_is_packed_by_itself() -> None:
    """A file that contradicts the log stands between the others."""
    written = Written(5)
    whole = written.files([3, 4, 5, 2])
    dropped = int(whole.files.file_ids[2])
    parts = [AppliedFiles(whole.files, 0, 2, whole.live_batches[:2]), AppliedFiles(whole.files, 3, 4, whole.live_batches[3:])]
    left = {owner: [row for row in rows if row[4] != dropped] for owner, rows in written.rows.items()}
    assert pack_runs(parts, KEYS).runs == expected_runs({owner: rows for owner, rows in left.items() if rows})
    assert [one.object_keys() for one in parts] == [[f"key{file_id}" for file_id in whole.files.file_ids[some]] for some in ([0, 1], [3])]
    assert [one.lines for one in parts] == [7, 2]
    assert parts[1].file_name(3) == FileName(f"key{whole.files.file_ids[3]}", whole.files.table.heads[3].append_time_ms)


def test_what_was_packed_is_unpacked() -> None:
    written = Written(3)
    applied = [written.files([500, 700, 1300], far=0)]
    for owner, rows in written.rows.items():
        runs = [run for run in pack_runs(applied, KEYS).runs if run.partition_row == owner]
        again = np.concatenate([unpack(run) for run in runs])
        again["append_time"] = [row[7] for row in rows]  # not in the packed form
        assert again.tolist() == rows


def test_a_file_is_stored_with_its_head_and_its_counts_as_one_of_many_or_alone() -> None:
    written = Written(4)
    whole = written.files([2, 3, 1, 4])
    for part in (whole, AppliedFiles(whole.files, 1, 3, whole.live_batches[1:3])):
        part.live_batches[0] -= 1
        rows = part.file_rows(part.first, part.stop).rows()
        assert rows == [part.file_row(file) for file in range(part.first, part.stop)]
        heads = whole.files.table.heads[part.first : part.stop]
        assert [row.owner_ids for row in rows] == [",".join(map(str, head.owner_ids)) for head in heads]
        assert [row.live_batches for row in rows] == part.live_batches
        assert [row.batch_count for row in rows] == whole.files.accepted[part.first : part.stop].tolist()


def test_nothing_frozen_is_nothing() -> None:
    none = np.empty(0, np.int64)
    assert freeze_producers(ProducerTable(), none).stored().rows() == []
    assert list(freeze_partitions(PartitionTable(), none, [], {}).stored()) == []
    assert pack_runs([], KEYS).runs == []
    assert not len(pack_runs([Written(1).files([0, 0])], KEYS).partition_rows)


def test_frozen_partitions_are_those_of_the_table() -> None:
    table = PartitionTable()
    for row in KEYS:
        table.add(KEYS[row])
        columns = (table.high_watermark, table.log_start, table.first_offset, table.prefix_start, table.leader_epoch, table.max_timestamp)
        for number, column in enumerate(columns):
            column.cells[row] = 100 * row + number
        table.max_timestamp_offset.cells[row] = 100 * row + 9
    found = freeze_partitions(table, np.array([1, 2, 5]), [4, 0], {2: 17, 4: 18, 7: 19})
    table.high_watermark.cells[1] = 0  # what was frozen stays
    rows = list(found.stored())
    assert [row[0] for row in rows] == [1, 2, 5, 4, 0]
    assert rows[0] == (1, KEYS[1], 100, 101, 102, 103, 104, 105, 109, 101, False)
    assert rows[1].trimmed_to == 17
    assert rows[3] == (4, KEYS[4], 400, 401, 402, 403, 404, 405, 409, 18, True)
    assert rows[4].trimmed_to == 0


def remembering(seed: int) -> ProducerTable:
    """A table of producers with rings of every length, some of which are full and begin anywhere."""
    rng, table = random.Random(seed), ProducerTable()
    for row in rng.sample(range(90), 60):
        ring = [
            (rng.randrange(1 << 31), rng.randrange(1 << 31), rng.randrange(1 << 60), rng.choice([-1, START_MS])) for _ in range(row % 6)
        ]
        table.restore(row, rng.randrange(9), row << 40, rng.randrange(9), START_MS + row, np.array(ring, np.int64).reshape(-1, 4))
    table.restored()
    return table


@pytest.mark.parametrize("seed", range(5))
def test_frozen_producers_are_those_of_the_table(seed: int) -> None:
    table = remembering(seed)
    rows = np.sort(random.Random(seed).sample(table.rows.rows().tolist(), 40))
    producers = freeze_producers(table, rows).stored().rows()
    assert [one.row for one in producers] == rows.tolist()
    for one in producers:
        cells = [column.cells[one.row] for column in (table.owner, table.producer, table.epoch, table.last_append)]
        assert list(one) == [one.row, *cells, one.ring]
        assert unpack_ring(one.ring) == list(reversed([tuple(batch) for batch in table.remembered(one.row)]))


# ---- compiled and interpreted


def packed_by(loops: ModuleType, rows: Rows, stretches: Sequence[int]) -> object:
    starts, stops = np.array(stretches[:-1]), np.array(stretches[1:])
    partition = np.arange(len(starts)) % len(KEYS)
    lanes = np.array([key_lanes(key) for key in KEYS.values()], np.int64)
    packed, runs = np.zeros((len(rows), PACKED.itemsize // 4), np.uint32), np.zeros((len(rows), 8), np.int64)
    sums = np.zeros((len(KEYS), 2), np.uint64)
    found = loops.pack_stretches(
        numbers_of(rows).data, starts.data, stops.data, partition.data, lanes.data, packed.data, runs.data, sums.data
    )
    return found, packed.tolist(), runs.tolist(), sums.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_stretches_are_packed_alike(seed: int) -> None:
    written = Written(seed)
    written.files([20, 30, 40], far=0.05)
    rows = np.array([row for of_partition in written.rows.values() for row in of_partition], ROW)
    cuts = sorted(random.Random(seed).sample(range(1, len(rows)), 9))
    assert packed_by(packing_loops, rows, [0, *cuts, len(rows)]) == packed_by(PLAIN, rows, [0, *cuts, len(rows)])


@pytest.mark.parametrize("seed", range(3))
def test_rings_are_copied_alike(seed: int) -> None:
    table = remembering(seed)
    rows = np.sort(table.rows.rows())

    def copied(loops: ModuleType, kind: type[KeyedRows]) -> object:
        same = kind(PRODUCER_WIDTH)
        for row in rows.tolist():
            same.restore(row, *table.rows.array[row, :3].tolist())
            same.array[row] = table.rows.array[row]
        rings, ends = np.zeros(len(rows) * REMEMBERED_BATCHES, PRODUCER_RING), np.zeros(len(rows), np.int64)
        end = loops.copy_rings(
            rows.data, same, rings.view(np.int32).reshape(-1, 6).data, rings.view(np.int64).reshape(-1, 3).data, ends.data
        )
        return end, rings.tolist(), ends.tolist()

    assert copied(packing_loops, KeyedRows) == copied(PLAIN, PLAIN_ROWS.KeyedRows)


@pytest.mark.parametrize("loops", [packing_loops, PLAIN], ids=["compiled", "interpreted"])
@given(
    files=st.lists(st.integers(-3, 6) | st.just(1 << 62)),
    others=st.sets(st.integers(0, 6)),
    lost=st.dictionaries(st.integers(0, 6), st.integers(1, 9)),
)
def test_losses_are_counted_for_files_that_stand_nowhere_else(
    loops: ModuleType, files: list[int], others: set[int], lost: dict[int, int]
) -> None:
    right = Counter(lost) + Counter(file for file in files if file not in others)
    found = loops.count_losses(np.array(files, np.int64).data, dict.fromkeys(others), lost)
    assert found == [file for file in files if file in others]
    assert lost == right
