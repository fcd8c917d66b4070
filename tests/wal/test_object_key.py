"""Object keys carry the creation time of their file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.client.records.ulid import new_key, new_ulid
from coordinator.kafka.object_key import TIME_MAX_MS, created_ms_of_key, creation_ms

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"  # the example of the ULID specification


def test_known_ulid() -> None:
    assert created_ms_of_key(ULID) == 1469922850259
    assert new_ulid(1469922850259, bytes.fromhex("d6764c61efb99302bd5b")) == ULID


@given(st.integers(0, TIME_MAX_MS), st.binary(min_size=10, max_size=10), st.text(max_size=8), st.sampled_from(["", "wal/", "a/b/"]))
def test_key_gives_its_time_back(now_ms: int, random: bytes, rack: str, prefix: str) -> None:
    key = new_key(now_ms, random, prefix=prefix, rack=rack)
    assert created_ms_of_key(key) == now_ms
    assert key.startswith(prefix)
    assert all(segment not in ("", ".", "..") for segment in key.split("/"))


@given(st.integers(0, TIME_MAX_MS - 1), st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_later_keys_sort_later(now_ms: int, first: bytes, second: bytes) -> None:
    assert new_ulid(now_ms, first) < new_ulid(now_ms + 1, second)


@pytest.mark.parametrize("key", [f"wal/a/{ULID}", f"wal/node-3-{ULID}", f"x.{ULID}", f"a_{ULID.lower()}"])
def test_time_is_read_from_the_end_of_the_last_segment(key: str) -> None:
    assert created_ms_of_key(key) == 1469922850259


@pytest.mark.parametrize(
    "key",
    [
        "",
        "wal/",
        f"{ULID}/file",
        f"{ULID}.wal",
        f"x{ULID}",
        f"é{ULID}",
        ULID[:-1],
        "8" + "Z" * 25,
        "U" * 26,
        ULID[:-1] + "\u017f",
        ULID[:-1] + "ß",
    ],
)
def test_key_without_a_ulid_has_no_time(key: str) -> None:
    assert created_ms_of_key(key) is None


def test_arguments_of_a_ulid_are_checked() -> None:
    with pytest.raises(ValueError, match="now_ms -1"):
        new_ulid(-1, bytes(10))
    with pytest.raises(ValueError, match="9 random bytes"):
        new_ulid(0, bytes(9))
    with pytest.raises(ValueError, match="must end with '/'"):
        new_key(0, bytes(10), prefix="wal")


@pytest.mark.parametrize("told_ms", [-1, 0, TIME_MAX_MS])
def test_the_time_in_a_key_stands_and_what_is_told_counts_only_without_one(told_ms: int) -> None:
    assert creation_ms(f"wal/a/{ULID}", told_ms) == 1469922850259
    assert creation_ms("wal/a/b", told_ms) == told_ms
