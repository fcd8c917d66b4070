"""What Fetch needs of the other rooms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordinator.client.model import FetchFrom, PartitionBatches


class TailFinder(Protocol):
    """Finds where batches are."""

    async def find(self, fetches: Sequence[FetchFrom], *, min_bytes: int, max_bytes: int, max_wait_ms: int) -> Sequence[PartitionBatches]:
        """Find batches of partitions from offsets on, one result for each in order.

        Returns when there are `min_bytes` of them, when a partition has an error, or after `max_wait_ms`. The first batch found comes
        whatever its size. Raises `coordinator.errors.DisklessError` when nothing can be found any more.
        """
