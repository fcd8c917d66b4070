"""What Fetch needs of the other rooms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from coordinator.client.model import FetchFrom, PartitionBatches


class Watch(Protocol):
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

    def watch(self, fetches: Sequence[FetchFrom], found: Sequence[PartitionBatches], woken: Callable[[], None]) -> Watch | None:
        """Call `woken` once, when what was found of partitions may be different now; None when it is already, or is not known so long."""
