"""Files are applied as they were decided, and a file that cannot be applied leaves no trace; compiled loops do what their source does."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coordinator.core.commands import CommitFile
from coordinator.core.files.apply import ApplyResult, apply
from coordinator.core.files.decide import decide
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.files.outcomes import UNDO_WIDTH, UNKNOWN_PARTITION
from coordinator.core.files.requests import read_lines
from coordinator.core.tables import keyed_loops
from coordinator.core.tables.cells import PARTITION_WIDTH, PRODUCER_WIDTH, VALUES
from coordinator.core.tables.diskless_log import OFFSETS_MAX
from coordinator.core.tables.in_memory import HotState
from coordinator.core.tables.keyed_loops import KeyedRows
from coordinator.core.tables.stored_rows import ROW, numbers_of
from coordinator.core.tables.tables import PartitionTable
from coordinator.core.wording import partition_text
from coordinator.kafka.batches import partition_key
from records.committed_files.codec import read_files, topic_halves, topic_id_of
from records.committed_files.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BYTE_OFFSET,
    DETAIL,
    LINE_WIDTH,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TOPIC_HIGH,
    TOPIC_LOW,
    VERDICT,
    BatchVerdict,
)
from records.levels import LEVEL_LATEST
from tests.compiled import plain
from tests.core.build import OTHER_TOPIC, TOPIC, batch, batch_array, commit
from tests.core.loops_of_files import COMPILED, INTERPRETED

PLAIN_ROWS = plain(keyed_loops)
START_MS = 1_700_000_000_000
KEYS = [partition_key(topic_id, partition) for topic_id, partition in ((TOPIC, 0), (TOPIC, 1), (OTHER_TOPIC, 0), (OTHER_TOPIC, 2**31 - 1))]
MASK = 2**31 - 1


class Sent(NamedTuple):
    """A batch as a property draws it; `producer` -1 for none. `partition` counts in KEYS; beyond them it is one that is not here."""

    partition: int
    records: int
    producer: int
    epoch: int
    sequence: int
    timestamp: int
    timestamp_type: int


# Few sequences and few lengths, so that many batches follow each other, come again, or leave a gap.
BATCHES = st.builds(
    Sent,
    partition=st.sampled_from([0, 0, 0, 1, 2, 3]),
    records=st.sampled_from([1, 1, 2, 3, 2**31]),
    producer=st.sampled_from([-1, 5, 5, 5, 6, 2**63 - 1]),
    epoch=st.sampled_from([0, 0, 0, 1, 2]),
    sequence=st.integers(0, 6) | st.sampled_from([MASK, MASK - 1, -1]),
    timestamp=st.sampled_from([-1, 0, START_MS - 9, START_MS + 1, START_MS + 5, 2**63 - 1]),
    timestamp_type=st.integers(0, 1),
)
FILES = st.lists(st.lists(BATCHES, min_size=1, max_size=8), min_size=1, max_size=4)
GROUPS = st.lists(FILES, min_size=1, max_size=4)


def row_of(sent: Sent) -> dict[str, object]:
    """The batch as the wire has it."""
    topic_id, partition = (
        (TOPIC, 7) if sent.partition >= len(KEYS) else (KEYS[sent.partition][:16], int.from_bytes(KEYS[sent.partition][16:]))
    )
    row = batch(partition, sent.records, topic_id=topic_id, max_timestamp=sent.timestamp, timestamp_type=sent.timestamp_type)
    if sent.producer >= 0:
        last = (sent.sequence + sent.records - 1) & MASK
        row |= {"producer_id": sent.producer, "producer_epoch": sent.epoch, "base_sequence": sent.sequence, "last_sequence": last}
    return row


def partitions() -> PartitionTable:
    table = PartitionTable()
    for key in KEYS:
        table.add(key)
    return table


def tables_of(hot: HotState) -> object:
    """Both tables by key: every cell of partitions, and what is remembered of producers."""
    owners, producers = hot.partitions, hot.producers
    columns = (owners.high_watermark, owners.log_start, owners.first_offset, owners.max_timestamp, owners.max_timestamp_offset)
    return (
        {owners.keys[row]: [column.cells[row] for column in columns] for row in owners.rows.rows().tolist()},
        {
            (owners.keys[producers.owner.cells[row]], producers.producer.cells[row]): (
                producers.epoch.cells[row],
                producers.last_append.cells[row],
                list(producers.remembered(row)),
            )
            for row in producers.rows.rows().tolist()
        },
    )


def decided(hot: HotState, files: Sequence[Sequence[Sent]], group: int) -> LoggedFiles | None:
    """Decide a group of files."""
    commands: list[CommitFile] = [commit(f"{group}/{at}", [row_of(one) for one in sent]) for at, sent in enumerate(files)]
    read = read_lines(b"".join(command.batches.tobytes() for command in commands), commands)
    assert not any(fault for _, fault in read.faults)
    return decide(hot, commands, read, START_MS + group, LEVEL_LATEST).files


def as_read(files: LoggedFiles, first_id: int) -> LoggedFiles:
    """The same files as a follower reads them."""
    which, table = read_files(files.encoded)
    assert len(which) == len(files)
    read = LoggedFiles(table, files.encoded)
    read.offsets[:] = range(first_id, first_id + len(read))
    return read


# ---- what was decided is what is applied


@given(groups=GROUPS)
@settings(max_examples=100)
def test_followers_have_the_tables_of_the_leader(groups: list[list[list[Sent]]]) -> None:
    leader, follower, own = (HotState(partitions=partitions()) for _ in range(3))
    for number, group in enumerate(groups):
        files = decided(leader, group, number)
        assert files is not None
        assert apply(follower, as_read(files, 10 * number), 0, len(files)) == ApplyResult(len(files), None, has_directory_changed=False)
        assert apply(own, files, 0, len(files)).contradiction is None
        assert tables_of(follower) == tables_of(own) == tables_of(leader)
        accepted = [int((files.table.lines_of(file)[:, VERDICT] == BatchVerdict.ACCEPTED).sum()) for file in range(len(files))]
        assert files.accepted.tolist() == accepted


def test_a_file_of_an_unknown_partition_changes_nothing() -> None:
    hot = HotState(partitions=partitions())
    known, unknown = Sent(0, 1, 5, 0, 0, 7, 0), Sent(len(KEYS), 1, -1, 0, 0, 7, 0)
    files = decided(hot, [[known, unknown], [known]], 0)
    assert files is not None
    assert [head.object_key for head in files.table.heads] == ["0/1"]
    assert hot.partitions.high_watermark.cells[0] == 1
    before = tables_of(hot)
    assert decided(hot, [[known, unknown]], 1) is None
    assert tables_of(hot) == before


# ---- a file that cannot be applied


def spoil(files: LoggedFiles, line: int, how: str) -> None:
    """Make an accepted batch contradict the log before it."""
    cells = files.table.lines[line]
    if how == "partition":
        cells[PARTITION] = 8
    elif how == "bytes":
        cells[BYTE_OFFSET] = 2**31
    elif how == "sequence":
        cells[BASE_SEQUENCE] = cells[BASE_SEQUENCE] + 9 & MASK
    elif how == "epoch":
        cells[PRODUCER_EPOCH] -= 1
    else:
        cells[BASE_OFFSET] += 1


def can_be_spoiled(hot: HotState, files: LoggedFiles, line: int, how: str) -> bool:
    """Whether spoiling a batch makes it contradict: of an unknown producer any epoch may be the first, and any sequence but at offset 0."""
    cells = files.table.lines[line]
    row = hot.partitions.find(topic_id_of(*cells[[TOPIC_HIGH, TOPIC_LOW]].tolist()), int(cells[PARTITION]))
    if how not in ("sequence", "epoch") or row is None:
        return True
    known = None if cells[PRODUCER_ID] < 0 else hot.producers.find(row, int(cells[PRODUCER_ID]))
    if known is None:
        return how == "sequence" and cells[PRODUCER_ID] >= 0 and cells[BASE_OFFSET] == 0
    return how == "sequence" or bool(hot.producers.epoch.cells[known] == cells[PRODUCER_EPOCH])


@given(groups=GROUPS, spoiled=FILES, how=st.sampled_from(["offset", "partition", "bytes", "sequence", "epoch"]), data=st.data())
@settings(max_examples=150)
def test_a_file_that_cannot_be_applied_leaves_no_trace(
    groups: list[list[list[Sent]]], spoiled: list[list[Sent]], how: str, data: st.DataObject
) -> None:
    leader, follower = (HotState(partitions=partitions()) for _ in range(2))
    for number, group in enumerate([*groups, spoiled]):
        files = decided(leader, group, number)
        assert files is not None
        last = files
        if number < len(groups):
            apply(follower, as_read(files, 10 * number), 0, len(files))
    sound, broken = as_read(last, 100), as_read(last, 100)
    accepted = np.flatnonzero(broken.table.lines[:, VERDICT] == BatchVerdict.ACCEPTED).tolist()
    assume(accepted)
    line = data.draw(st.sampled_from(accepted))
    at = int(broken.bounds.searchsorted(line, "right")) - 1
    expected = follower.copy()
    if at:
        apply(expected, as_read(last, 100), 0, at)
    if not can_be_spoiled(expected, broken, line, how):
        how = "offset"
    spoil(broken, line, how)
    found = apply(follower, broken, 0, len(broken))
    assert found.stop == at
    assert found.contradiction is not None
    assert broken.table.heads[at].object_key in found.contradiction
    assert tables_of(follower) == tables_of(expected)
    # Nothing is left of it for what comes next either.
    assert apply(follower, sound, at, len(sound)).contradiction is None
    assert tables_of(follower) == tables_of(leader)


def test_what_a_file_changed_is_taken_back() -> None:
    """A new producer, a new epoch, a ring that is full, times and offsets, in one file whose last batch cannot be."""
    hot = HotState(partitions=partitions())
    first = [Sent(0, 1, 5, 0, sequence, START_MS + sequence, 0) for sequence in range(7)] + [Sent(1, 1, 6, 0, 0, 9, 1)]
    second = [Sent(0, 1, 5, 0, 7, START_MS + 50, 0), Sent(1, 2, 6, 1, 0, 2**62, 0), Sent(2, 1, 5, 0, 3, 9, 1), Sent(0, 1, 5, 0, 8, 0, 0)]
    leader = hot.copy()
    for number, sent in enumerate((first, second)):
        files = decided(leader, [sent], number)
        assert files is not None
        last = files
        if number == 0:
            apply(hot, files, 0, 1)
    before, rows_before = tables_of(hot), sorted(hot.producers.rows.rows().tolist())
    spoil(last, len(second) - 1, "sequence")
    assert apply(hot, last, 0, 1) == ApplyResult(
        0, f"file 1/0, producer 5 in {partition_text(hot, TOPIC, 0)}: sequence 17 of epoch 0, 8 is next", has_directory_changed=False
    )
    assert tables_of(hot) == before
    assert sorted(hot.producers.rows.rows().tolist()) == rows_before
    # The producer that was new for a moment is not written either.
    assert set(hot.producers.rows.take_changed().tolist()) == set(rows_before)


# ---- compiled and interpreted


def run_of(loops: ModuleType, kind: type[KeyedRows], groups: Sequence[Sequence[Sequence[Sent]]]) -> list[object]:
    """Everything the loops say of groups of files: read, decided, applied, and placed as rows."""
    speculative, committed, of_leader, of_follower = (
        kind(width) for width in (PARTITION_WIDTH, PARTITION_WIDTH, PRODUCER_WIDTH, PRODUCER_WIDTH)
    )
    for table in (speculative, committed):
        for number, key in enumerate(KEYS):
            row = table.take_row()
            table.set_key(row, *topic_halves(key[:16]), int.from_bytes(key[16:]))
            table.array[row, VALUES:] = [0, number, 0, -1, -1, -1, -1]
    said: list[object] = []
    for number, group in enumerate(groups):
        counts = [len(file) for file in group]
        bounds = np.cumsum([0, *counts])
        raw = b"".join(batch_array([row_of(one) for one in file]).tobytes() for file in group)
        first_line = bounds.tolist()
        lines, hashes = np.full((first_line[-1], LINE_WIDTH), 77, np.int64), bytearray(16 * len(group))
        heads = [(1, size) for size in (1 << 20, 1 << 20, 35, 10)[: len(group)]]
        owners_of = [[2] * at for at in range(len(group))]
        faults = loops.read_requests(raw, first_line, heads, owners_of, lines.data, memoryview(hashes))
        said += [lines.tolist(), faults, bytes(hashes)]
        if any(fault for _, fault in faults):
            continue
        for table in (of_leader, of_follower):
            table.reserve(len(lines))
        outcomes = loops.decide_files(lines.data, first_line, START_MS + number, OFFSETS_MAX, speculative, of_leader)
        said += [lines.tolist(), outcomes]
        if UNKNOWN_PARTITION in outcomes:
            continue
        if number == 2:
            lines[-1, BASE_OFFSET] += 1
        times, ids, accepted = np.full(len(group), START_MS + number), np.arange(len(group)) * 3, np.full(len(group), 77)
        fault, undo = np.full(3, 77), np.zeros((max(counts), UNDO_WIDTH), np.int64)
        lines[:, DETAIL] = np.where(lines[:, VERDICT] == BatchVerdict.ACCEPTED, 0, lines[:, DETAIL])
        stop = loops.apply_files(
            lines.data, bounds.data, 0, len(group), times.data, committed, of_follower, accepted.data, undo.data, fault.data
        )
        owners, rows = np.full(len(lines), 77), np.zeros(len(lines), ROW)
        end = loops.place_batches(
            lines.data, 0, int(bounds[stop]), bounds.data, ids.data, times.data, owners.data, numbers_of(rows).data, 0
        )  # fmt: skip
        totals = np.zeros(len(BatchVerdict) + 1, np.int64)
        few, owned = np.zeros(len(KEYS) - 1, np.int64), np.zeros(len(KEYS), np.int64)
        beyond = loops.count_batches(lines.data, 0, int(bounds[stop]), few.data)
        assert loops.count_batches(lines.data, 0, int(bounds[stop]), owned.data) == bounds[stop]
        places, by_partition = np.cumsum(owned) - owned, np.zeros(len(lines), ROW)
        loops.sort_batches(
            lines.data, 0, int(bounds[stop]), bounds.data, ids.data, times.data, places.data, numbers_of(by_partition).data
        )  # fmt: skip
        assert by_partition[:end].tolist() == rows[:end][np.argsort(owners[:end], kind="stable")].tolist()
        loops.count_lines(lines.data, totals.data)
        said += [
            lines.tolist(),
            stop,
            fault.tolist(),
            accepted[:stop].tolist(),
            end,
            owners.tolist(),
            beyond,
            places.tolist(),
            totals.tolist(),
        ]
        for table in (speculative, committed, of_leader, of_follower):
            said += [table.array[np.sort(table.rows())].tolist(), table.count, table.top]
            table.take_changed()
    return said


WITH_UNKNOWN = st.lists(
    st.lists(st.lists(BATCHES | BATCHES.map(lambda one: one._replace(partition=4)), min_size=1, max_size=8), min_size=1, max_size=4)
)


@given(groups=GROUPS | WITH_UNKNOWN)
@settings(max_examples=150)
def test_compiled_loops_do_what_their_source_does(groups: list[list[list[Sent]]]) -> None:
    assert run_of(COMPILED, KeyedRows, groups) == run_of(INTERPRETED, PLAIN_ROWS.KeyedRows, groups)
