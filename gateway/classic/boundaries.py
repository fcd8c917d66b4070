"""Where the two parts of migrated partitions meet, as the coordinators said last.

B0 stands once it is set, but for two acts of operators: a migration that is taken back, which unsets it, and a repair, which lowers it.
What is kept here is asked for anew where an answer does not fit to it (`learn`), so a fetch that goes well asks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode

TIMEOUT_MS: Final = 5_000
KEPT_MAX: Final = 100_000
"""Partitions of which something is kept; above it all are asked for anew."""


class Boundary(NamedTuple):
    """The offsets of a migrated partition: B0 is `start`, `suffix_start` the first offset that the diskless log still has."""

    start: int
    prefix_start: int
    suffix_start: int
    high_watermark: int

    @property
    def has_classic(self) -> bool:
        """Whether the classic log may have records. One that has lost all of them never gets others."""
        return self.prefix_start < self.start


class DescribesLogs(Protocol):
    """The operation of the service that is needed; `DisklessAdmin` has it."""

    async def describe_diskless_logs(
        self, partitions: Sequence[PartitionId], *, timeout_ms: int | None = None
    ) -> Sequence[DisklessLogState]:
        """Return where the migrations of partitions stand."""


class Boundaries:
    """See the module. Used on one event loop."""

    def __init__(self, coordinators: DescribesLogs) -> None:
        self._coordinators = coordinators
        self._kept: dict[PartitionId, Boundary] = {}

    async def of(self, partitions: Iterable[PartitionId]) -> Mapping[PartitionId, Boundary | ErrorCode]:
        """Return the boundaries of partitions, or why one is not known now. Raises `coordinator.client.errors.ServiceError`."""
        wanted = list(partitions)
        missing = [one for one in wanted if one not in self._kept]
        learned = await self.learn(missing) if missing else {}
        return {one: learned[one] if one in learned else self._kept[one] for one in wanted}

    async def learn(self, partitions: Sequence[PartitionId]) -> Mapping[PartitionId, Boundary | ErrorCode]:
        """Ask for boundaries anew. Raises `coordinator.client.errors.ServiceError`."""
        found: dict[PartitionId, Boundary | ErrorCode] = {}
        states = await self._coordinators.describe_diskless_logs(partitions, timeout_ms=TIMEOUT_MS)
        if len(self._kept) + len(partitions) > KEPT_MAX:
            self._kept.clear()
        for one, state in zip(partitions, states, strict=True):
            self._kept.pop(one, None)
            if state.error is not ErrorCode.NONE:
                found[one] = state.error
            elif state.state == "pending":  # its migration was taken back a moment ago
                found[one] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                prefix = state.prefix_start if state.state == "initialised" else state.start_offset
                found[one] = self._kept[one] = Boundary(state.start_offset, prefix, state.suffix_start, state.high_watermark)
        return found
