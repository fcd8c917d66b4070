"""Offsets of migrated topics, as of one log: brokers are asked for what is below B0, the coordinators for the rest.

EARLIEST is where the classic log begins as long as it has records, and EARLIEST_LOCAL is the same, since clients see no tiered storage.
Records of both parts may have any time, so the first one of a time is the classic part's if that has one. Records are deleted in the
classic part first: an error there leaves the diskless part as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, MAX_TIMESTAMP
from gateway.classic.boundaries import Boundaries, Boundary
from gateway.classic.parts import ClassicParts, OffsetAtBroker
from gateway.offsets.wire import Asked, Told
from gateway.ports import Catalogue

BROKERS_TIMEOUT_S: Final = 5.0
"""Partitions whose broker has not answered by then are answered that nobody leads them, and the others with what was found."""


class MigratedOffsets:
    """See the module. Used on the event loop."""

    def __init__(self, catalogue: Catalogue, boundaries: Boundaries, parts: ClassicParts) -> None:
        self._catalogue = catalogue
        self._boundaries = boundaries
        self._parts = parts

    def diskless(self, open_: Sequence[tuple[PartitionId, Asked]]) -> list[tuple[PartitionId, Asked]]:
        """Return what the coordinators are asked: of their own part alone, since they learn late where the classic one begins."""
        return [
            (partition, one._replace(value=EARLIEST_LOCAL) if one.value == EARLIEST and self._is_migrated(one) else one)
            for partition, one in open_
        ]

    async def look(self, open_: Sequence[tuple[PartitionId, Asked]], timeout_ms: int) -> dict[int, Told]:
        """Return what the classic parts have, by place; places that only the coordinators can answer are left out.

        Raises `coordinator.errors.DisklessError`.
        """
        places = {
            partition: place
            for place, (partition, one) in enumerate(open_)
            if self._is_migrated(one) and (one.value >= 0 or one.value in (EARLIEST, EARLIEST_LOCAL, MAX_TIMESTAMP))
        }
        known = await self._boundaries.of(places) if places else {}
        classic = {one: boundary for one, boundary in known.items() if isinstance(boundary, Boundary) and boundary.has_classic}
        if not classic:
            return {}
        asked = {one: EARLIEST if open_[places[one]][1].value == EARLIEST_LOCAL else open_[places[one]][1].value for one in classic}
        found = await self._parts.offsets(asked, min(timeout_ms / 1000, BROKERS_TIMEOUT_S))
        return {places[one]: told for one, boundary in classic.items() if (told := _below(found[one], boundary.start)) is not None}

    async def delete(self, open_: Sequence[tuple[PartitionId, Asked]], timeout_ms: int) -> dict[int, Told]:
        """Delete in the classic parts; returns the answers of places where nothing more is to be done.

        Raises `coordinator.errors.DisklessError`.
        """
        places = {partition: place for place, (partition, one) in enumerate(open_) if self._is_migrated(one)}
        # What cannot be taken back goes by what is known now.
        known = await self._boundaries.learn(list(places)) if places else {}
        told: dict[int, Told] = {}
        wanted: dict[PartitionId, int] = {}
        for one, boundary in known.items():
            value = open_[places[one]][1].value
            if isinstance(boundary, ErrorCode) or not boundary.has_classic:
                continue
            if value < -1 or value > boundary.high_watermark:
                told[places[one]] = Told(ErrorCode.OFFSET_OUT_OF_RANGE)
            else:
                wanted[one] = boundary.start if value < 0 else min(value, boundary.start)
        for one, low in (await self._parts.delete(wanted, min(timeout_ms / 1000, BROKERS_TIMEOUT_S)) if wanted else {}).items():
            boundary = known[one]
            assert isinstance(boundary, Boundary), "only such are wanted"
            if isinstance(low, ErrorCode):
                told[places[one]] = Told(low)
            elif 0 <= open_[places[one]][1].value <= boundary.start:
                told[places[one]] = Told(ErrorCode.NONE, offset=low if low < boundary.start else boundary.suffix_start)
        return told

    async def starts(self, open_: Sequence[tuple[PartitionId, Asked]]) -> dict[PartitionId, int]:
        """Return where migrated partitions begin whose classic part was deleted. Raises `coordinator.errors.DisklessError`."""
        migrated = [partition for partition, one in open_ if self._is_migrated(one)]
        known = await self._boundaries.learn(migrated) if migrated else {}
        return {one: boundary.suffix_start for one, boundary in known.items() if isinstance(boundary, Boundary)}

    def _is_migrated(self, asked: Asked) -> bool:
        topic = self._catalogue.named(asked.topic)
        return topic is not None and topic.is_migrated


def earlier(asked: Asked, diskless: Told, classic: Told) -> Told:
    """Return the answer of both parts together."""
    if classic.error is not ErrorCode.NONE or asked.value != MAX_TIMESTAMP:
        return classic
    return diskless if diskless.error is not ErrorCode.NONE or diskless.timestamp > classic.timestamp else classic


def _below(found: OffsetAtBroker | ErrorCode, start: int) -> Told | None:
    """The answer of a classic part; None when it has no such record below B0."""
    if isinstance(found, ErrorCode):
        return Told(found if found is ErrorCode.TOPIC_AUTHORIZATION_FAILED else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return Told(ErrorCode.NONE, found.timestamp, found.offset, found.epoch) if 0 <= found.offset < start else None
