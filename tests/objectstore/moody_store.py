"""An object store whose deletions fail as they are told, over one that does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from coordinator.object_store import Deleted, ObjectStore, StoreError
from tests.objectstore.failing_store import FailingStore


class MoodyStore(FailingStore):
    """`ObjectStore`; `calls` are the deletions that it was asked for."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.calls: list[list[str]] = []
        self.under_way = 0
        """Deletions that were asked for and have not answered."""
        self.answers = asyncio.Event()
        """No deletion answers while it is not set; it is set at first."""
        self.answers.set()
        self.error: StoreError | None = None
        """With it every deletion fails, having done nothing."""
        self.stubborn: dict[str, StoreError] = {}
        """Keys with which a deletion fails, having done nothing."""

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        self.calls.append(list(keys))
        self.under_way += 1
        await asyncio.sleep(0)
        await self.answers.wait()
        error = self.error or next((self.stubborn[key] for key in keys if key in self.stubborn), None)
        deleted = await super().delete_many(keys) if error is None else Deleted(confirmed=frozenset(), error=error)
        self.under_way -= 1
        return deleted
