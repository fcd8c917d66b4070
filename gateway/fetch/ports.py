"""What Fetch needs of the other rooms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from coordinator.client.model import FetchFrom, PartitionBatches
from coordinator.kafka.acls import AclOperation
from gateway.ports import Rights, Session


class PromisedRights(Rights, Protocol):
    """Rights that can be told for a while."""

    def allowed_until_s(self, session: Session, topics: Collection[str], operation: AclOperation) -> float:
        """Return until when, by the loop's clock, the client may use all of the topics so without asking here again; 0 for not at all."""


class NewsWatch(Protocol):
    """Looks at partitions of which nothing new is known."""

    def holds_until_s(self) -> float:
        """Return until when, by the loop's clock, that can be said without asking here again."""

    def close(self) -> None:
        """Look no more."""


class TailFinder(Protocol):
    """Finds where batches are."""

    async def find(self, fetches: Sequence[FetchFrom], *, min_bytes: int, max_bytes: int, max_wait_ms: int) -> Sequence[PartitionBatches]:
        """Find batches of partitions from offsets on, one result for each in order.

        Returns when there are `min_bytes` of them, when a partition has an error, or after `max_wait_ms`. The first batch found comes
        whatever its size. Raises `coordinator.errors.DisklessError` when nothing can be found any more.
        """

    def watch(self, fetches: Sequence[FetchFrom], found: Sequence[PartitionBatches], woken: Callable[[], None]) -> NewsWatch | None:
        """Call `woken` once, when what was found of partitions may be different now; None when it is already, or is not known so long."""
