"""Bytes of objects are read from the store: whole blocks at the tail, ranges or blocks of old data, each only once at a time.

Whoever needs bytes that are being read already waits for that read. Reads go on when those who asked for them are gone: others join.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from coordinator.errors import DisklessError
from coordinator.object_store import ObjectStore, grouped_ranges
from gateway.fetch.cache import Extent, ExtentCache, read_extent
from gateway.fetch.limits import FetchLimits, FetchStats, Places

log = logging.getLogger(__name__)

REMEMBERED: Final = 4096
"""Of so many blocks of old data is remembered how much of them was asked for."""


TELL_EVERY_S: Final = 5.0


class Range(NamedTuple):
    """A range of an object."""

    start: int
    stop: int

    def holds(self, other: Range) -> bool:
        """Whether the other is within this one."""
        return self.start <= other.start and other.stop <= self.stop


Flight = asyncio.Task[Extent]
"""A read that is under way."""


class BlockReader:
    """See the module. Used on the event loop."""

    def __init__(self, store: ObjectStore, cache: ExtentCache, limits: FetchLimits, stats: FetchStats) -> None:
        self._store = store
        self._cache = cache
        self._limits = limits
        self._stats = stats
        self._tail = Places(limits.tail_bytes_max, limits.tail_reads_max, waiting=partial(setattr, stats, "tail_waiting"))
        self._old = Places(limits.old_bytes_max, limits.old_reads_max, waiting=partial(setattr, stats, "old_waiting"))
        self._flights: dict[str, dict[Range, Flight]] = {}
        self._tell_s = 0.0
        self._asked: OrderedDict[tuple[str, int], tuple[int, int]] = OrderedDict()

    @property
    def is_old_busy(self) -> bool:
        """Whether reading ahead would be in the way of reads of old data that are waited for."""
        return self._old.is_busy

    def begin(self, object_key: str, wanted: Iterable[Range], *, is_old: bool) -> Iterator[tuple[Flight, Range]]:
        """Read ranges of an object that are not in the cache; yield each with the read that brings it."""
        left: list[Range] = []
        for one in wanted:
            flight = self._joined(object_key, one)
            if flight is None:
                left.append(one)
            else:
                self._stats.joined_reads += 1
                yield flight, one
        size = self._limits.block_bytes
        in_blocks: dict[int, list[Range]] = {}
        single: list[Range] = []
        for one in sorted(left):
            block = one.start // size
            if one.stop <= (block + 1) * size:
                in_blocks.setdefault(block, []).append(one)
            else:
                single.append(one)
        for block, ranges in in_blocks.items():
            if is_old and not self._is_worth_a_block(object_key, block, ranges):
                single += ranges
                continue
            flight = self._launch(object_key, Range(block * size, (block + 1) * size), is_block=True, is_old=is_old)
            yield from ((flight, one) for one in ranges)
        for parts in grouped_ranges(sorted(single), self._limits.range_gap_bytes, size):
            whole = Range(parts[0].start, max(one.stop for one in parts))
            flight = self._launch(object_key, whole, is_block=False, is_old=is_old)
            yield from ((flight, one) for one in parts)

    async def close(self) -> None:
        """End all reads."""
        flights = [flight for ranges in self._flights.values() for flight in ranges.values()]
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _joined(self, object_key: str, wanted: Range) -> Flight | None:
        return next((flight for range_, flight in self._flights.get(object_key, {}).items() if range_.holds(wanted)), None)

    def _is_worth_a_block(self, object_key: str, block: int, ranges: Sequence[Range]) -> bool:
        """Whether so much of a block was asked for that all of it is read: the next readers will want the rest.

        Then it is forgotten, so that a block which the cache has lost is not read whole again for each small part of it.
        """
        place, limits = (object_key, block), self._limits
        size, reads = self._asked.pop(place, (0, 0))
        size, reads = size + sum(one.stop - one.start for one in ranges), reads + 1
        if size >= limits.block_worth_bytes or reads >= limits.block_worth_reads:
            return True
        self._asked[place] = (size, reads)
        if len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        return False

    def _launch(self, object_key: str, wanted: Range, *, is_block: bool, is_old: bool) -> Flight:
        flight = asyncio.get_running_loop().create_task(self._read(object_key, wanted, is_block=is_block, is_old=is_old))
        flights = self._flights.setdefault(object_key, {})
        flights[wanted] = flight

        def landed(done: Flight) -> None:
            del flights[wanted]
            if not flights and self._flights.get(object_key) is flights:
                del self._flights[object_key]
            if not done.cancelled() and (error := done.exception()) is not None and not isinstance(error, DisklessError):
                log.error("object not read key=%s", object_key, exc_info=error)

        flight.add_done_callback(landed)
        return flight

    async def _read(self, object_key: str, wanted: Range, *, is_block: bool, is_old: bool) -> Extent:
        places, size, stats = self._old if is_old else self._tail, wanted.stop - wanted.start, self._stats
        await places.take(size)
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        stats.store_reads += 1
        try:
            if is_block:
                data = await self._store.get_up_to(object_key, wanted.start, size)
            else:
                [view] = await self._store.get_ranges(object_key, [(wanted.start, size)])
                data = bytes(view)  # the cache counts what it keeps
        except DisklessError as error:
            stats.store_read_failures += 1
            if now_s() >= self._tell_s:
                # One stands for many: a store that fails fails every read, and consumers try again at once.
                self._tell_s = now_s() + TELL_EVERY_S
                log.warning(
                    "object not read key=%s start=%d bytes=%d failures=%d error=%r",
                    object_key, wanted.start, size, stats.store_read_failures, str(error),
                )  # fmt: skip
            raise
        finally:
            stats.read_seconds.observe(now_s() - began_s)
            places.give(size)
        stats.store_read_bytes += len(data)
        extent = read_extent(object_key, wanted.start, data, is_old=is_old)
        self._cache.keep(extent)
        return extent
