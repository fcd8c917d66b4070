"""The diskless topics as the coordinators listed them last: followed each second, and read to the end on demand.

A topic that is being migrated is a classic one until all its partitions have their B0; until then it is not in the tables. It is a classic
one again when its migration is taken back, which no listing tells and which ends with its first diskless record. A listing asks
only for what changed since the last one, and costs next to nothing when nothing did. Invariants: one listing is under way at a time;
`refreshed` returns after one that began after its call; `named` and `identified` always agree.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from coordinator.client.errors import ServiceError
from coordinator.client.model import PartitionId, TopicChanges, TopicListing
from gateway.ports import DisklessTopic
from gateway.topics.coordinators import TopicCoordinators

LOG = logging.getLogger(__name__)

FOLLOW_EVERY_S: Final = 1.0
LOOK_BACK_EVERY_S: Final = 5.0
"""So often it is asked whether migrations were taken back."""
TIMEOUT_MS: Final = 5_000


class TopicCatalogue:
    """Implements `gateway.ports.Catalogue`. Used on one event loop."""

    def __init__(
        self, coordinators: TopicCoordinators, *, every_s: float = FOLLOW_EVERY_S, look_back_every_s: float = LOOK_BACK_EVERY_S
    ) -> None:
        self._coordinators = coordinators
        self._every_s = every_s
        self._look_back_every_s = look_back_every_s
        self._offset = -1
        self._by_name: dict[str, DisklessTopic] = {}
        self._by_id: dict[bytes, DisklessTopic] = {}
        self._migrating: dict[bytes, TopicListing] = {}
        self._migrated: set[bytes] = set()
        self._unwritten: dict[bytes, TopicListing] = {}
        """Migrated topics without a diskless record."""
        self._look_back_s = 0.0
        self._epochs: dict[bytes, dict[int, int]] = {}
        self._listing = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        self.listed_s: float | None = None
        """When the last listing came, by the loop's clock."""

    def named(self, name: str) -> DisklessTopic | None:
        """See `gateway.ports.Catalogue`."""
        return self._by_name.get(name)

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        """See `gateway.ports.Catalogue`."""
        return self._by_id.get(topic_id)

    def __len__(self) -> int:
        return len(self._by_id)

    async def refreshed(self) -> None:
        """See `gateway.ports.Catalogue`. Callers that wait for a listing that has not begun share it."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._list_next(), name="list-topics")
            self._next.add_done_callback(_seen)
        await asyncio.shield(self._next)

    async def follow(self) -> None:
        """List again and again; what fails is logged, and the tables stay. Ends by being cancelled."""
        failed = ""
        while True:
            try:
                async with self._listing:
                    await self._list(is_current=False)
                if failed:
                    LOG.info("topics are listed again")
                failed = ""
            except ServiceError as error:
                if str(error) != failed:
                    LOG.warning("topics not listed error=%r; those known stay", str(error))
                failed = str(error)
            await asyncio.sleep(self._every_s)

    async def _list_next(self) -> None:
        async with self._listing:
            self._next = None  # who calls from here on waits for another one
            await self._list(is_current=True)

    async def _list(self, *, is_current: bool) -> None:
        changes = await self._coordinators.changed_topics(self._offset, is_current=is_current, timeout_ms=TIMEOUT_MS)
        self._take(changes)
        await self._look_at_migrations()
        self.listed_s = asyncio.get_running_loop().time()

    def _take(self, changes: TopicChanges) -> None:
        self._offset = changes.offset
        if changes.is_whole:
            self._by_name, self._by_id, self._migrating = {}, {}, {}
            self._migrated &= {one.topic_id for one in changes.topics}
            self._unwritten = {topic_id: one for topic_id, one in self._unwritten.items() if topic_id in self._migrated}
        for topic_id in changes.deleted:
            self._forget(topic_id)
        for one in changes.topics:
            if one.classic and one.topic_id not in self._migrated:
                self._migrating[one.topic_id] = one
            else:
                self._keep(one)
                if one.topic_id in self._unwritten:
                    self._unwritten[one.topic_id] = one

    def _forget(self, topic_id: bytes) -> None:
        gone = self._by_id.pop(topic_id, None)
        self._migrating.pop(topic_id, None)
        self._unwritten.pop(topic_id, None)
        self._epochs.pop(topic_id, None)
        self._migrated.discard(topic_id)
        # A topic of the same name may have been made since then.
        if gone is not None and self._by_name.get(gone.name) is gone:
            del self._by_name[gone.name]

    def _keep(self, one: TopicListing) -> None:
        known = self._epochs.get(one.topic_id, {})
        epochs = tuple(known.get(partition, 0) for partition in range(one.num_partitions)) if known else ()
        topic = DisklessTopic(one.name, one.topic_id, one.num_partitions, dict(one.settings), one.coordinators, epochs, bool(one.classic))
        self._by_id[one.topic_id] = self._by_name[one.name] = topic

    async def _look_at_migrations(self) -> None:
        """Take topics into the tables whose partitions all have their B0, and those out of them that have it no more."""
        looked, now_s = dict(self._migrating), asyncio.get_running_loop().time()
        if now_s >= self._look_back_s:
            looked |= self._unwritten
            self._look_back_s = now_s + self._look_back_every_s
        asked = [PartitionId(topic_id, partition) for topic_id, one in looked.items() for partition in one.classic]
        states = await self._coordinators.describe_diskless_logs(asked, timeout_ms=TIMEOUT_MS) if asked else ()
        pending, unknown, written = set(), set(), set()
        for one, state in zip(asked, states, strict=True):
            if state.error:
                unknown.add(one.topic_id)
            elif state.state == "pending":
                pending.add(one.topic_id)
            else:
                self._epochs.setdefault(one.topic_id, {})[one.partition] = state.leader_epoch
                if state.high_watermark > state.start_offset:
                    written.add(one.topic_id)
        for topic_id, topic in looked.items():
            if topic_id in self._unwritten:
                if topic_id in pending:
                    LOG.info("a migration was taken back topic=%s", topic.name)
                    self._forget(topic_id)
                    self._migrating[topic_id] = topic
                elif topic_id in written:
                    del self._unwritten[topic_id]
            elif topic_id not in pending | unknown:
                self._migrated.add(topic_id)
                self._keep(self._migrating.pop(topic_id))
                if topic_id not in written:
                    self._unwritten[topic_id] = topic


def _seen(task: asyncio.Task[None]) -> None:
    """Mark the failure of a listing as seen: those who waited may have gone."""
    if not task.cancelled():
        task.exception()
