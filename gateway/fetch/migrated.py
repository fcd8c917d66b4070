"""Fetches of migrated topics: one log of two parts, of which the classic one is read from the brokers.

An answer may hold partitions of both kinds. Records below B0 come as they stand in the classic log, with the aborted transactions that a
broker names. Readers that come through the classic part pass over what was deleted at the beginning of the diskless one. What brokers take
too long for is left out of the answer, and is there when the client asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from coordinator.client.model import FetchFrom, PartitionBatches
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from gateway.classic.boundaries import Boundaries, Boundary
from gateway.classic.parts import ClassicParts, ClassicPiece, Flight, PieceWanted

log = logging.getLogger(__name__)

GRACE_S: Final = 0.5
"""So long the records of other brokers are waited for once an answer has some."""

Find: TypeAlias = Callable[[Sequence[FetchFrom], int], Awaitable[Sequence[PartitionBatches]]]
"""Finds batches of the diskless parts, within a wait in ms."""


class Below(NamedTuple):
    """What an answer has of a partition whose reader is below B0."""

    error: ErrorCode
    high_watermark: int
    log_start: int
    records: bytes = b""
    aborted: tuple[tuple[int, int], ...] = ()


class FetchOfBoth(NamedTuple):
    """The partitions of a request, and which places among them are of migrated topics."""

    wanted: Sequence[FetchFrom]
    migrated: Collection[int]
    isolation: int
    classic_bytes_max: int
    max_wait_ms: int


class _Step(NamedTuple):
    """What is asked of a partition of a migrated topic: records of the classic part, if it has some, and of the diskless part."""

    classic: PieceWanted | None
    diskless: FetchFrom


class MigratedReads:
    """See the module. Used on the event loop."""

    def __init__(self, boundaries: Boundaries, parts: ClassicParts) -> None:
        self._boundaries = boundaries
        self._parts = parts

    async def find(self, fetch: FetchOfBoth, find: Find) -> tuple[Sequence[PartitionBatches], Mapping[int, Below]]:
        """Return what was found in the diskless parts of all partitions, and, by place, what there is for readers below B0.

        Raises `coordinator.errors.DisklessError` when nothing can be found any more.
        """
        kept = await self._boundaries.of(fetch.wanted[place].partition for place in fetch.migrated)
        boundaries = {place: kept[fetch.wanted[place].partition] for place in fetch.migrated}
        steps = {place: _step(fetch.wanted[place], boundary) for place, boundary in boundaries.items()}
        found, pieces = await self._look(fetch, steps, fetch.max_wait_ms, find)
        passed = {place for place, piece in pieces.items() if isinstance(piece, ClassicPiece) and piece.is_passed}
        doubted = [place for place in fetch.migrated if place not in passed and _is_doubted(found[place], steps[place], pieces.get(place))]
        if passed or doubted:
            learned = await self._boundaries.learn([fetch.wanted[place].partition for place in doubted]) if doubted else {}
            boundaries |= {place: learned[fetch.wanted[place].partition] for place in doubted}
            again = {place: _step(fetch.wanted[place], boundaries[place], is_passed=place in passed) for place in {*passed, *doubted}}
            again = {place: step for place, step in again.items() if step != steps[place]}
            if again:
                steps |= again
                classic = [one.records for one in pieces.values() if isinstance(one, ClassicPiece)]
                has_some = any(classic) or any(one.batches for one in found)
                found, pieces = await self._look_again(fetch, steps, again, found, pieces, 0 if has_some else fetch.max_wait_ms, find)
        return found, {
            place: self._told(fetch.wanted[place], boundaries[place], found[place], pieces[place])
            for place, step in steps.items()
            if step.classic is not None
        }

    async def _look_again(
        self,
        fetch: FetchOfBoth,
        steps: Mapping[int, _Step],
        again: Mapping[int, _Step],
        found: Sequence[PartitionBatches],
        pieces: Mapping[int, ClassicPiece | ErrorCode | None],
        max_wait_ms: int,
        find: Find,
    ) -> tuple[Sequence[PartitionBatches], dict[int, ClassicPiece | ErrorCode | None]]:
        """Look once more, at some partitions alone, by what is known now."""
        places = list(again)
        part = fetch._replace(wanted=[fetch.wanted[place] for place in places])
        more, new = await self._look(part, {number: again[place] for number, place in enumerate(places)}, max_wait_ms, find)
        merged, kept = list(found), {place: piece for place, piece in pieces.items() if steps[place].classic is not None}
        for number, place in enumerate(places):
            merged[place] = more[number]
            if number in new:
                kept[place] = new[number]
        return merged, kept

    async def _look(
        self, fetch: FetchOfBoth, steps: Mapping[int, _Step], max_wait_ms: int, find: Find
    ) -> tuple[Sequence[PartitionBatches], dict[int, ClassicPiece | ErrorCode | None]]:
        """Ask coordinators and brokers at the same time; a piece that takes too long is None."""
        wanted = [steps[place].diskless if place in steps else one for place, one in enumerate(fetch.wanted)]
        classic = {place: step.classic for place, step in steps.items() if step.classic is not None}
        if not classic:
            return await find(wanted, max_wait_ms), {}
        reads = self._parts.read({wanted[place].partition: one for place, one in classic.items()}, fetch.isolation, fetch.classic_bytes_max)
        flights = {place: reads[wanted[place].partition] for place in classic}
        found = list(await find(wanted, 0))
        rest = [place for place in range(len(wanted)) if place not in classic]
        if not any(found[place].batches or found[place].error for place in rest):
            found = await self._wait(wanted, rest, flights, found, max_wait_ms, find)
        await asyncio.wait(flights.values(), timeout=GRACE_S)
        return found, {place: flight.result() if flight.done() and not flight.cancelled() else None for place, flight in flights.items()}

    async def _wait(
        self,
        wanted: Sequence[FetchFrom],
        rest: Sequence[int],
        flights: Mapping[int, Flight],
        found: list[PartitionBatches],
        max_wait_ms: int,
        find: Find,
    ) -> list[PartitionBatches]:
        """Return when a broker has answered, or there is news of the partitions that are in objects."""
        if not rest:
            await asyncio.wait(flights.values(), return_when=asyncio.FIRST_COMPLETED)
            return found
        poll = asyncio.ensure_future(find([wanted[place] for place in rest], max_wait_ms))
        try:
            news: set[asyncio.Future[Any]] = {poll, *flights.values()}
            await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
            if poll.done():
                for place, one in zip(rest, poll.result(), strict=True):
                    found[place] = one
        finally:
            poll.cancel()
        return found

    def _told(
        self, wanted: FetchFrom, boundary: Boundary | ErrorCode, found: PartitionBatches, piece: ClassicPiece | ErrorCode | None
    ) -> Below:
        assert isinstance(boundary, Boundary), "a partition without a boundary has no classic part"
        end = max(boundary.high_watermark, found.high_watermark)
        if isinstance(piece, ErrorCode):
            return Below(piece, end, boundary.prefix_start)
        if piece is None:
            return Below(ErrorCode.NONE, end, boundary.prefix_start)
        if piece.is_short or piece.lies_across:
            what = "ends before the diskless log begins" if piece.is_short else "has a batch that lies across the diskless log's start"
            name = f"{topic_id_text(wanted.partition.topic_id)}-{wanted.partition.partition}"
            log.warning("classic log of %s %s offset=%d: see `diskless migration repair`", name, what, wanted.offset)
            # It may be repaired; a batch that lies across is read by nobody before.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if piece.is_short else ErrorCode.CORRUPT_MESSAGE
            return Below(error, end, boundary.prefix_start)
        return Below(ErrorCode.NONE, end, piece.log_start, piece.records, piece.aborted)


def _step(fetch: FetchFrom, boundary: Boundary | ErrorCode, *, is_passed: bool = False) -> _Step:
    """What is to be asked; `is_passed` when the classic log is known to have nothing more before B0."""
    if isinstance(boundary, ErrorCode):
        return _Step(None, fetch)
    if fetch.offset < boundary.start and boundary.has_classic and not is_passed:
        # The coordinators tell the end of the log meanwhile.
        return _Step(PieceWanted(fetch.offset, fetch.bytes_max, boundary.start), fetch._replace(offset=boundary.suffix_start, bytes_max=1))
    if fetch.offset < boundary.suffix_start and (is_passed or (boundary.has_classic and fetch.offset >= boundary.start)):
        return _Step(None, fetch._replace(offset=boundary.suffix_start))
    return _Step(None, fetch)


def _is_doubted(found: PartitionBatches, step: _Step, piece: ClassicPiece | ErrorCode | None) -> bool:
    """Whether an answer says that the two parts do not meet where they were thought to."""
    if step.classic is None:
        return found.error is ErrorCode.OFFSET_OUT_OF_RANGE
    return piece is ErrorCode.OFFSET_OUT_OF_RANGE or (isinstance(piece, ClassicPiece) and piece.is_short)
