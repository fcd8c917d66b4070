"""What this room asks of the coordinators; `coordinator.client.admin.DisklessAdmin` answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from coordinator.client.calls.directory import TopicConfigs
from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.model import PartitionId, TopicChanges, TopicListing


class TopicCoordinators(Protocol):
    """The coordinators' topics. All calls raise `coordinator.client.errors.ServiceError`."""

    async def changed_topics(self, since: int = -1, *, is_current: bool = True, timeout_ms: int | None = None) -> TopicChanges:
        """Return all topics, or what changed of them since the offset of an earlier answer."""

    async def describe_diskless_logs(
        self, partitions: Sequence[PartitionId], *, timeout_ms: int | None = None
    ) -> Sequence[DisklessLogState]:
        """Return where the migrations of partitions stand."""

    async def create_topic(
        self,
        name: str,
        num_partitions: int,
        *,
        topic_id: bytes | None = None,
        settings: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> TopicListing:
        """Create a topic with an id, or grow it; repeating it is harmless."""

    async def alter_topic(
        self, name: str, changes: Mapping[str, str | None], *, dry_run: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Change settings of a topic, all or none; None deletes one."""

    async def describe_topic_configs(self, names: Sequence[str], *, timeout_ms: int | None = None) -> Sequence[TopicConfigs]:
        """Return all settings of topics."""

    async def delete_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> None:
        """Delete the topic of an id."""
