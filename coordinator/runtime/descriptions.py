"""Descriptions of the service: topics, coordinators, nodes and files, from this node's replicas (may be stale)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator.core.directory.directory import Deletion, Placement
from coordinator.core.leadership.states import State
from coordinator.core.tables.stored_rows import FileRow
from coordinator.core.view import ShardView
from coordinator.runtime.cluster_view import Leader
from coordinator.runtime.node import Node
from records.model import NodeRegistered


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    partition: int
    coordinator_id: int
    leader_id: int
    log_start: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    topic_id: bytes
    name: str
    partitions: list[PartitionDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorDescription:
    """A coordinator as this node sees it; `digest` is that of the state at `digest_offset`, the last one written.

    Failures, evidence and contradictions are those of this node since its process started.
    """

    coordinator_id: int
    state: str
    leader: Leader | None
    digest_offset: int
    log_end: int
    live_partitions: int
    digest: bytes
    failures: int
    last_failure: str
    evidence: str
    contradictions: int
    last_contradiction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDescription:
    coordinator_id: int
    file: FileRow


class Descriptions:
    """Reads a node's replicas; changes nothing."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def cluster_id(self) -> str | None:
        facts = self._node.facts
        return None if facts is None else facts.cluster_id

    def topic(self, placement: Placement | Deletion) -> TopicDescription:
        """A topic with what is known of its partitions; -1 where this node knows nothing.

        A deleted topic has the coordinators that its partitions had: who repeats a commit of then must find them.
        """
        partitions = [
            self._partition(placement, partition, placed.coordinator_id)
            for placed in placement.ranges
            for partition in range(placed.first_partition, placed.first_partition + placed.num_partitions)
        ]
        return TopicDescription(topic_id=placement.topic_id, name=placement.name, partitions=partitions)

    def _partition(self, placement: Placement | Deletion, partition: int, coordinator_id: int) -> PartitionDescription:
        leader = self._node.view.leader(coordinator_id)
        shard = self._node.view.shard(coordinator_id)
        bounds = None if shard is None else shard.bounds(placement.topic_id, partition)
        log_start, high_watermark = (-1, -1) if bounds is None else bounds
        return PartitionDescription(
            partition=partition,
            coordinator_id=coordinator_id,
            leader_id=-1 if leader is None else leader.node_id,
            log_start=log_start,
            high_watermark=high_watermark,
        )

    def all_placements(self) -> list[Placement]:
        """Every topic, by name."""
        directory = self._node.view.directory
        return [] if directory is None else sorted(directory.placements.values(), key=lambda placement: placement.name)

    def placements(self, wanted: Sequence[tuple[bytes, str | None]]) -> list[Placement | None]:
        """The placements of topics by id, or by name when the id is zero."""
        directory = self._node.view.directory
        if directory is None:
            return [None] * len(wanted)
        ids = [directory.names.get(name or "") if not any(topic_id) else topic_id for topic_id, name in wanted]
        return [None if topic_id is None else directory.placements.get(topic_id) for topic_id in ids]

    def coordinators(self, wanted: Iterable[int]) -> list[CoordinatorDescription]:
        """The coordinators with these ids, or all."""
        ids = list(wanted) or sorted(self._node.replicas)
        return [self._coordinator(coordinator_id) for coordinator_id in ids if coordinator_id in self._node.replicas]

    def _coordinator(self, coordinator_id: int) -> CoordinatorDescription:
        replica = self._node.replicas[coordinator_id]
        shard, failures = replica.view, replica.failures
        state = State.FAILED.value if replica.unloadable else "loading"
        if shard is not None:
            state = shard.phase.value
        return CoordinatorDescription(
            coordinator_id=coordinator_id,
            state=state,
            leader=self._node.view.leader(coordinator_id),
            digest_offset=replica.written_offset,
            log_end=-1 if shard is None else shard.applied_offset + 1,
            live_partitions=0 if shard is None else shard.live_partitions,
            digest=replica.digest.to_bytes(),
            failures=failures.count,
            last_failure=failures.last_reason,
            evidence=failures.evidence,
            contradictions=self._node.accusations.count(coordinator_id),
            last_contradiction=self._node.accusations.newest(coordinator_id),
        )

    def nodes(self) -> list[NodeRegistered]:
        """The registered nodes, this one always among them."""
        directory = self._node.view.directory
        known = {} if directory is None else dict(directory.nodes)
        config = self._node.config
        itself = NodeRegistered(
            node_id=config.node_id,
            rack=config.rack,
            endpoints=config.endpoints,
            schema_level_max=config.schema_level_max,
            incarnation_id=config.incarnation_id,
        )
        known.setdefault(config.node_id, itself)
        return [known[node_id] for node_id in sorted(known)]

    def files(self, coordinator_ids: Iterable[int], after_key: str, limit: int) -> tuple[list[FileDescription], bool]:
        """Known files in key order after a key, and whether there are more.

        They are those of this node's replicas, which may be behind their leaders: of the given coordinators, else of those led
        here. A file with several owners has a row for each, and a page ends between keys: it may be longer than `limit` by the
        rows of its last key, for the next page begins after that key. Raises `NotReadable`.
        """
        ids = list(dict.fromkeys(coordinator_ids)) or self._node.view.led()
        found: list[FileDescription] = []
        for coordinator_id in ids:
            rows = self._node.replicas[coordinator_id].look(ShardView.files_after, after_key, limit + 1)
            found += [FileDescription(coordinator_id=coordinator_id, file=row) for row in rows]
        found.sort(key=lambda description: (description.file.object_key, description.coordinator_id))
        end = min(limit, len(found))
        while 0 < end < len(found) and found[end].file.object_key == found[end - 1].file.object_key:
            end += 1
        return found[:end], end < len(found)

    def not_listed(self, coordinator_ids: Iterable[int]) -> list[int]:
        """Coordinators of which this node has no replica that can be read."""
        replicas = self._node.replicas
        return [one for one in coordinator_ids if one not in replicas or not replicas[one].is_readable]
