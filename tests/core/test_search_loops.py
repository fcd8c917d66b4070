"""The loops that search batches: compiled and interpreted they find the same, and what a look at every unpacked row finds."""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import coordinator.core.tables.search_loops as compiled
from coordinator.core.tables.stored_rows import APPEND_TIME_BIT, PACKED, ROW, RunRow, numbers_of, unpack
from tests.compiled import plain

PLAIN = plain(compiled)
BOTH = (compiled, PLAIN)
INT64_MAX = (1 << 63) - 1


@st.composite
def runs(draw: st.DrawFn) -> RunRow:
    """A packed run; its numbers reach the ends of what fits."""
    batches = draw(
        st.lists(
            st.tuples(
                st.integers(1, 5) | st.just(APPEND_TIME_BIT),
                st.booleans(),
                st.integers(0, (1 << 32) - 1),
                st.integers(0, 3) | st.just((1 << 31) - 1),
            ),
            min_size=1,
            max_size=12,
        )
    )
    packed = np.zeros(len(batches), PACKED)
    for at, (count, is_append_time, number, age) in enumerate(batches):
        packed[at] = (count - 1 | (APPEND_TIME_BIT if is_append_time else 0), number, number, number, age, at)
    base = draw(st.integers(0, 10) | st.just(1 << 62))
    file_base = draw(st.sampled_from([0, 7, 1 << 40]))
    timestamp_base = draw(st.sampled_from([-1, 0, 5, -(1 << 63), INT64_MAX - (1 << 31) + 1]))
    last = base + sum(count for count, _, _, _ in batches) - 1
    return RunRow(0, base, last, 0, file_base, timestamp_base, packed.tobytes())


def offsets(run: RunRow) -> st.SearchStrategy[int]:
    """Offsets in a run and around it."""
    return st.integers(run.base - 2, min(run.base + 25, run.last + 2)) | st.sampled_from([run.last, run.last + 1])


def times(run: RunRow) -> st.SearchStrategy[int]:
    """Times around those of a run."""
    return st.integers(run.timestamp_base, run.timestamp_base + 4) | st.just(INT64_MAX)


@given(runs(), st.data())
@settings(max_examples=300)
def test_packed_batches_are_found_where_their_rows_say(run: RunRow, data: st.DataObject) -> None:
    rows = unpack(run).tolist()
    place = data.draw(st.integers(0, len(rows)))
    log_start, time = data.draw(offsets(run)), data.draw(times(run))
    end = data.draw(offsets(run) | st.just(INT64_MAX))
    base = rows[place][0] if place < len(rows) else run.last + 1
    expected = next(
        (
            (at, row[0])
            for at, row in enumerate(rows)
            if at >= place and row[0] < end and row[0] + row[1] > log_start and (row[8] == 1 or row[6] >= time)
        ),
        (-1, -1),
    )
    cells = memoryview(run.data).cast("I")
    for module in BOTH:
        assert module.packed_reaching(cells, place, base, end, log_start, run.timestamp_base, time) == expected


@given(runs(), st.integers(1, 5), st.data())
@settings(max_examples=300)
def test_batches_are_unpacked_as_rows_are(run: RunRow, limit: int, data: st.DataObject) -> None:
    offset, end = data.draw(offsets(run)), data.draw(offsets(run) | st.just(INT64_MAX))
    expected = [
        (base, count, byte_offset, size, file, index, timestamp, kind)
        for base, count, byte_offset, size, file, index, timestamp, _, kind in unpack(run).tolist()
        if base < end and base + count > offset
    ]
    cells = memoryview(run.data).cast("I")
    for module in BOTH:
        place, base = 0, run.base
        found: list[tuple[int, ...]] = []
        while place >= 0:
            some, place, base = module.unpack_batches(cells, place, base, offset, end, run.file_base, run.timestamp_base, limit)
            assert len(some) == limit or place < 0
            found += some
        assert found == expected


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 4, st.booleans()), max_size=8), st.data())
def test_rows_are_found_by_their_effective_time(batches: list[tuple[int, int, int, int, bool]], data: st.DataObject) -> None:
    rows = np.zeros(len(batches), ROW)
    for at, (base, count, timestamp, append_time, is_append_time) in enumerate(batches):
        rows[at] = (base, count, 0, 0, 0, 0, timestamp - 1, append_time, int(is_append_time))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
    log_start, time = data.draw(st.integers(0, 6)), data.draw(st.integers(-1, 5))
    effective = np.where(rows["type"] == 1, rows["append_time"], rows["timestamp"])
    hits = (effective >= time) & (rows["base"] + rows["count"] > log_start)
    expected = next((at for at in range(start, stop) if hits[at]), -1)
    for module in BOTH:
        assert module.row_reaching(numbers_of(rows).data, start, stop, log_start, time) == expected


@given(st.lists(st.integers(-(1 << 63), INT64_MAX)), st.integers(0, 4), st.integers(-(1 << 63), INT64_MAX))
def test_the_first_that_is_not_less(values: list[int], start: int, least: int) -> None:
    expected = next((at for at in range(start, len(values)) if values[at] >= least), -1)
    for module in BOTH:
        assert module.first_at_least(memoryview(array("q", values)), start, least) == expected
