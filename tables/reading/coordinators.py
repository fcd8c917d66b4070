"""What tables ask of the coordinators, and how: offsets and batches of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from coordinator.client.model import FetchFrom, ListedOffset, PartitionBatches, PartitionId

ALL_BYTES: Final = 2**31 - 1
"""Pages are bounded by the number of batches: the place of one costs a hundred bytes, however large it is."""


class Coordinators(Protocol):
    """The operations of the service that are needed; `DisklessClient` has them."""

    async def list_offsets(self, queries: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[ListedOffset]:
        """Look up offsets."""

    async def find_batches(
        self, fetches: Sequence[FetchFrom], *, fetch_bytes_max: int, batches_per_partition_max: int = 0, timeout_ms: int | None = None
    ) -> list[PartitionBatches]:
        """Find batches and the objects that hold them."""


async def listed_offsets(client: Coordinators, queries: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[int]:
    """Look up offsets, in order; -1 where no record has the time that is asked for. Raises ServiceError when one of them is refused."""
    answers = await client.list_offsets(queries, timeout_ms=timeout_ms)
    for answer in answers:
        answer.raise_for_error()
    return [answer.offset for answer in answers]
