"""The port of a migration to the coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.model import SeededProducer


class MigrationCalls(Protocol):
    """The calls of the coordinators that a migration makes; `DisklessClient` has them."""

    async def init_diskless_log(
        self,
        topic_id: bytes,
        partition: int,
        *,
        start_offset: int,
        prefix_start: int,
        leader_epoch: int,
        producers: Sequence[SeededProducer],
    ) -> None:
        """Set where the diskless log begins, and which batches of producers it knows from its first moment."""

    async def describe_diskless_log(self, topic_id: bytes, partition: int) -> DisklessLogState:
        """Return the state of a partition's diskless log."""
