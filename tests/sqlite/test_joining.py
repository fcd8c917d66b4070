"""When two runs become one, and that nothing changes by it."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.adapters.sqlite import joining
from coordinator.adapters.sqlite.joining import joined
from coordinator.core.state import packing_loops
from coordinator.core.state.run_packing import INT32_MAX, RUN_ROWS_MAX, UINT32_MAX
from coordinator.core.tables.stored_rows import PACKED, RunRow, unpack
from tests.compiled import plain


@pytest.fixture(autouse=True, params=[packing_loops, plain(packing_loops)], ids=["as installed", "plain"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop as it is installed, and as it is in the source."""
    monkeypatch.setattr(joining, "count_from_lower_bases", request.param.count_from_lower_bases)


def run(base: int, batches: int, *, file_base: int = 5, timestamp_base: int = 1000) -> RunRow:
    """A run of batches of one record, each with a file and a time of its own."""
    packed = np.zeros(batches, PACKED)
    for name in ("file", "timestamp", "index", "size"):
        packed[name] = np.arange(batches)
    return RunRow(3, base, base + batches - 1, timestamp_base + batches - 1, file_base, timestamp_base, packed.tobytes())


@pytest.mark.parametrize("second", [run(4, 3), run(4, 3, file_base=9000), run(4, 3, timestamp_base=10), run(4, 3, timestamp_base=9000)])
def test_a_joined_run_holds_the_batches_of_both(second: RunRow) -> None:
    first = run(0, 4)
    both = joined(first, second)
    assert both is not None
    assert unpack(both).tolist() == unpack(first).tolist() + unpack(second).tolist()
    assert both[:4] == (3, 0, 6, max(first.max_timestamp, second.max_timestamp))


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(run(5, 1), id="not adjacent"),
        pytest.param(run(4, RUN_ROWS_MAX - 3), id="too long"),
        pytest.param(run(4, 2, timestamp_base=1000 + INT32_MAX), id="a last time too far away"),
        pytest.param(run(4, 2, timestamp_base=(1 << 63) - 10), id="a time that far away that the distance has 64 bits"),
        pytest.param(run(4, 2, timestamp_base=999 - INT32_MAX), id="a first time too far back"),
        pytest.param(run(4, 2, file_base=5 + UINT32_MAX), id="a file too far away"),
    ],
)
def test_runs_that_do_not_fit_one_are_not_joined(second: RunRow) -> None:
    assert joined(run(0, 4), second) is None


def test_the_longest_run_and_the_farthest_distances_fit() -> None:
    for second in (
        run(4, RUN_ROWS_MAX - 4),
        run(4, 1, timestamp_base=1000 + INT32_MAX),
        run(4, 1, file_base=5 + UINT32_MAX),
    ):
        assert joined(run(0, 4), second) is not None
