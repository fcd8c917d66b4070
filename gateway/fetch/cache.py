"""The bytes of objects that are kept in memory: own files, blocks and ranges that were read.

Bounded in bytes. Old data and the tail each lose what was used least. Old data has no more than its share, so who reads a partition from
its beginning does not push out the tail, which all others read; the tail has what is left.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gateway.fetch.batch_loops import MARK_BYTES
from gateway.fetch.limits import FetchStats


@dataclass(slots=True, eq=False)
class Extent:
    """Consecutive bytes of an object, which nobody changes, with marks of the batches in them that were checked."""

    object_key: str
    start: int
    data: bytes | bytearray | memoryview
    marks: bytearray | None
    """See `batch_loops.assign_batches`; None when all batches were checked."""
    is_old: bool

    @property
    def stop(self) -> int:
        """Where it ends in the object."""
        return self.start + len(self.data)

    @property
    def size_bytes(self) -> int:
        """How many bytes of memory it has."""
        return len(self.data) + (0 if self.marks is None else len(self.marks))


def read_extent(object_key: str, start: int, data: bytes, *, is_old: bool) -> Extent:
    """Return bytes of an object that were read, of which no batch is checked."""
    return Extent(object_key, start, data, bytearray(len(data) // MARK_BYTES + 1), is_old)


class ExtentCache:
    """See the module. `stats` is told how much is kept."""

    def __init__(self, bytes_max: int, old_share: float, stats: FetchStats) -> None:
        self._bytes_max = bytes_max
        self._old_max = int(bytes_max * old_share)
        self._stats = stats
        self._by_object: dict[str, list[Extent]] = {}
        self._recent: OrderedDict[Extent, None] = OrderedDict()
        self._old: OrderedDict[Extent, None] = OrderedDict()
        self._bytes = self._old_bytes = 0

    def find(self, object_key: str, start: int, stop: int) -> Extent | None:
        """Return kept bytes of an object that hold a range."""
        for one in self._by_object.get(object_key, ()):
            if one.start <= start and stop <= one.stop:
                (self._old if one.is_old else self._recent).move_to_end(one)
                return one
        return None

    def keep(self, extent: Extent) -> None:
        """Keep bytes; those that they contain are forgotten. What is larger than all that may be kept is not kept."""
        if extent.size_bytes > (self._old_max if extent.is_old else self._bytes_max):
            return
        for one in list(self._by_object.get(extent.object_key, ())):
            if extent.start <= one.start and one.stop <= extent.stop:
                self.forget(one)
        self._by_object.setdefault(extent.object_key, []).append(extent)
        (self._old if extent.is_old else self._recent)[extent] = None
        self._count(extent, extent.size_bytes)
        while self._old_bytes > self._old_max:
            self.forget(next(iter(self._old)))
        while self._bytes > self._bytes_max:
            self.forget(next(iter(self._recent or self._old)))

    def keep_own(self, object_key: str, data: bytes | bytearray | memoryview) -> None:
        """Keep a file that this gateway has uploaded, every batch of which it has checked. The bytes must not change any more."""
        self.keep(Extent(object_key, 0, data, None, is_old=False))

    def forget(self, extent: Extent) -> None:
        """Keep bytes no longer."""
        kept = self._by_object.get(extent.object_key, [])
        if extent not in kept:
            return
        kept.remove(extent)
        if not kept:
            del self._by_object[extent.object_key]
        del (self._old if extent.is_old else self._recent)[extent]
        self._count(extent, -extent.size_bytes)

    def _count(self, extent: Extent, size_bytes: int) -> None:
        self._bytes += size_bytes
        self._old_bytes += size_bytes if extent.is_old else 0
        self._stats.cached_bytes = self._bytes
