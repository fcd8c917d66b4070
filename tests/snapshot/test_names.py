"""Names of snapshot files: those that we make, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.snapshot import SnapshotId, parse_snapshot_name, snapshot_name


@pytest.mark.parametrize(
    ("end_offset", "epoch", "name"),
    [
        (0, 0, "00000000000000000000-0000000000.checkpoint"),
        (5_120_793, 2, "00000000000005120793-0000000002.checkpoint"),
        (2**63 - 1, 2**31 - 1, "09223372036854775807-2147483647.checkpoint"),
    ],
)
def test_a_name_has_offset_and_epoch(end_offset: int, epoch: int, name: str) -> None:
    assert snapshot_name(end_offset, epoch) == name
    assert parse_snapshot_name(name) == (end_offset, epoch)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "00000000000005120793-0000000002.checkpoint.part",
        "00000000000005120793-0000000002.checkpoint\n",
        "00000000000005120793-00000000000000000002.checkpoint",
        "00000000000005120793-0000000002.snapshot",
        "0000000000005120793-0000000002.checkpoint",
        "00000000000005120793-0000000002-8f3a.checkpoint",
        "-0000000000005120793-0000000002.checkpoint",
        "+0000000000005120793-0000000002.checkpoint",
        "\u06600000000000005120793-0000000002.checkpoint",
        "0000_000000005120793-0000000002.checkpoint",
        "09223372036854775808-0000000002.checkpoint",
        "00000000000005120793-2147483648.checkpoint",
        "x/00000000000005120793-0000000002.checkpoint",
    ],
)
def test_any_other_name_is_none(name: str) -> None:
    assert parse_snapshot_name(name) is None


@pytest.mark.parametrize(("end_offset", "epoch"), [(-1, 0), (0, -1), (2**63, 0), (0, 2**31)])
def test_numbers_of_no_log_have_no_name(end_offset: int, epoch: int) -> None:
    with pytest.raises(ValueError, match=f"no snapshot has end offset {end_offset} and epoch {epoch}"):
        snapshot_name(end_offset, epoch)


ids = st.builds(SnapshotId, st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))


@given(ids, ids)
def test_names_sort_as_the_snapshots(one: SnapshotId, other: SnapshotId) -> None:
    assert (snapshot_name(*one) < snapshot_name(*other)) == (one < other)
