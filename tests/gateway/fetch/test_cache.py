"""What is kept in memory: bounded in bytes, the least used goes first, and old data has a share of its own."""

from __future__ import annotations

from gateway.fetch.cache import Extent, ExtentCache, read_extent
from gateway.fetch.limits import FetchStats


def made(bytes_max: int, old_share: float = 0.25) -> tuple[ExtentCache, FetchStats]:
    stats = FetchStats()
    return ExtentCache(bytes_max, old_share, stats), stats


def extent(key: str, start: int, size: int, *, is_old: bool = False) -> Extent:
    return read_extent(key, start, bytes(size), is_old=is_old)


def test_a_range_is_found_in_the_bytes_that_hold_it() -> None:
    cache, _ = made(10_000)
    one, other = extent("wal/1", 100, 50), extent("wal/1", 400, 50)
    cache.keep(one)
    cache.keep(other)
    assert cache.find("wal/1", 100, 150) is one
    assert cache.find("wal/1", 410, 420) is other
    for start, stop in ((99, 120), (120, 151), (200, 210), (140, 410)):
        assert cache.find("wal/1", start, stop) is None
    assert cache.find("wal/2", 100, 150) is None


def test_bytes_that_hold_others_take_their_place() -> None:
    cache, stats = made(10_000)
    for start in (0, 100, 300):
        cache.keep(extent("wal/1", start, 50))
    block = extent("wal/1", 0, 200)
    cache.keep(block)
    assert cache.find("wal/1", 100, 150) is block
    assert cache.find("wal/1", 300, 350) is not block
    assert stats.cached_bytes == block.size_bytes + extent("", 0, 50).size_bytes


def test_the_least_used_goes_first() -> None:
    size = extent("", 0, 1_000).size_bytes
    cache, stats = made(3 * size)
    for number in range(3):
        cache.keep(extent(f"wal/{number}", 0, 1_000))
    assert cache.find("wal/0", 0, 10) is not None
    cache.keep(extent("wal/3", 0, 1_000))
    assert [cache.find(f"wal/{number}", 0, 10) is not None for number in range(4)] == [True, False, True, True]
    assert stats.cached_bytes == 3 * size
    cache.keep(extent("wal/large", 0, 3_200))
    assert cache.find("wal/large", 0, 10) is None, "it would not leave room for itself"
    assert stats.cached_bytes == 3 * size


def test_old_data_has_its_share_and_no_more() -> None:
    cache, stats = made(100_000, old_share=0.2)
    for number in range(12):
        cache.keep_own(f"own/{number}", bytes(10_000))
    assert stats.cached_bytes == 100_000, "the tail has all of it while nobody reads old data"
    for number in range(50):
        cache.keep(extent(f"old/{number}", 0, 4_000, is_old=True))
    assert [cache.find(f"old/{number}", 0, 4_000) is not None for number in range(46, 50)] == [True] * 4
    assert sum(cache.find(f"own/{number}", 0, 10_000) is not None for number in range(12)) == 8
    for number in range(12, 15):
        cache.keep_own(f"own/{number}", bytes(10_000))
    assert [cache.find(f"old/{number}", 0, 4_000) is not None for number in range(46, 50)] == [True] * 4
    assert sum(cache.find(f"own/{number}", 0, 10_000) is not None for number in range(15)) == 8
    assert stats.cached_bytes <= 100_000


def test_what_is_forgotten_is_counted_once() -> None:
    cache, stats = made(10_000)
    one = extent("wal/1", 0, 100)
    cache.keep(one)
    cache.forget(one)
    cache.forget(one)
    assert stats.cached_bytes == 0
    assert cache.find("wal/1", 0, 10) is None
