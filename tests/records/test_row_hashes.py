"""The hashes of many rows at once are those of each row, and compiled or interpreted BLAKE2b is that of `hashlib`."""

from __future__ import annotations

from hashlib import blake2b
from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from records import hash_loops
from records.row_hashes import Hashes, bytes_of, hash_files, hash_producers, hash_records, hash_tombstones, lanes_of_hashes
from records.state_digest import hash_file, hash_producer, hash_record, hash_tombstone, lanes_of, sum_of
from tests.compiled import plain

PLAIN = plain(hash_loops)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
OWNERS = st.sampled_from(["", "0", "0,1", "17"])
FILES = st.lists(
    st.tuples(INT64, st.text(max_size=40), st.binary(max_size=20), INT64, INT64, INT64, OWNERS, INT64, INT64, INT64), max_size=5
)


def hashed(loops: ModuleType, parts: list[bytes], size: int) -> list[bytes]:
    """The hashes of some bytes, as a module makes them."""
    hashes, ends = np.zeros((len(parts), size), np.uint8), np.cumsum(list(map(len, parts)), dtype=np.int64)
    loops.hash_spans(b"".join(parts), ends.data, size, hashes.data)
    return bytes_of(hashes)


def interpreted(parts: list[bytes], size: int) -> list[bytes]:
    """The same by the lines that are otherwise only run compiled."""
    hashes, ends = np.zeros((len(parts), size), np.uint8), np.cumsum(list(map(len, parts)), dtype=np.int64)
    PLAIN._hash_spans(b"".join(parts), ends.tolist(), size, PLAIN._ORDER, hashes)
    return bytes_of(hashes)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1000, 5000])
@pytest.mark.parametrize("size", [1, 8, 16, 33, 64])
def test_blake2b_is_that_of_hashlib(length: int, size: int) -> None:
    parts = [bytes((place * 7 + part) % 256 for place in range(length + part)) for part in range(3)]
    right = [blake2b(part, digest_size=size).digest() for part in parts]
    assert hashed(hash_loops, parts, size) == hashed(PLAIN, parts, size) == right
    if length < 300:
        assert interpreted(parts, size) == right


@given(parts=st.lists(st.binary(max_size=400), max_size=6), size=st.integers(1, 64))
def test_any_bytes_are_hashed_as_by_hashlib(parts: list[bytes], size: int) -> None:
    assert hashed(hash_loops, parts, size) == [blake2b(part, digest_size=size).digest() for part in parts]


@pytest.mark.parametrize("loops", [hash_loops, PLAIN], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(("ends", "size"), [([3, 2], 8), ([4], 8), ([-1], 8), ([3], 0), ([3], 65)])
def test_stretches_that_are_not_there_are_refused(loops: ModuleType, ends: list[int], size: int) -> None:
    hashes = np.zeros((len(ends), max(size, 1)), np.uint8)
    with pytest.raises(IndexError):
        loops.hash_spans(b"abc", np.array(ends, np.int64).data, size, hashes.data)


@given(files=FILES)
@example(files=[(number, f"key{number}", bytes(16), 1, 2, 3, "0", 4, 5, 6) for number in range(5000)])
def test_files_are_hashed_as_one_by_one(files: list[tuple[int, str, bytes, int, int, int, str, int, int, int]]) -> None:
    columns = list(map(list, zip(*files, strict=True))) or [[] for _ in range(10)]
    check(hash_files(*columns), [hash_file(*file) for file in files])


@given(producers=st.lists(st.tuples(st.binary(min_size=20, max_size=20), INT64, INT64, INT64, st.binary(max_size=140)), max_size=5))
def test_producers_are_hashed_as_one_by_one(producers: list[tuple[bytes, int, int, int, bytes]]) -> None:
    numbers = np.array([one[1:4] for one in producers], np.int64).reshape(-1, 3)
    found = hash_producers([one[0] for one in producers], numbers, [one[4] for one in producers])
    check(found, [hash_producer(*one) for one in producers])


@given(records=st.lists(st.binary(max_size=600), max_size=5))
@example(records=[bytes(100_000), b"", bytes(400_000), bytes(10)])
def test_records_are_hashed_as_one_by_one(records: list[bytes]) -> None:
    assert bytes_of(hash_records(records)) == list(map(hash_record, records))


REASONS = st.sampled_from(["fenced", "removed", "handed over"])


@given(stones=st.lists(st.tuples(st.text(max_size=40), REASONS, INT64, INT64), max_size=5))
@example(stones=[(f"key{number}", "removed", number, -1) for number in range(5000)])
def test_tombstones_are_hashed_as_one_by_one(stones: list[tuple[str, str, int, int]]) -> None:
    columns = list(map(list, zip(*stones, strict=True))) or [[] for _ in range(4)]
    check(hash_tombstones(*columns), [hash_tombstone(*stone) for stone in stones])


def check(found: Hashes, right: list[bytes]) -> None:
    assert bytes_of(found) == right
    assert sum_of(lanes_of_hashes(found)) == sum_of(lanes_of(right))
