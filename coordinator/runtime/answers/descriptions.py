"""Descriptions of the service: topics, coordinators and nodes, from this node's replicas (may be stale)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.core.directory.directory import Deletion, Placement
from coordinator.core.directory.topic_settings import settings_of
from coordinator.core.leadership.states import State
from coordinator.runtime.directories.reporting import log_dirs
from coordinator.runtime.loading.progress import LoadStatus
from coordinator.runtime.node.node import Node
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.cluster_view import KnownLeader
from records.model import NodeRegistered

NO_DIRECTORY = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPartition:
    partition: int
    coordinator_id: int
    leader_id: int
    log_start: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTopic:
    topic_id: bytes
    name: str
    partitions: list[LocalPartition]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCoordinator:
    """A coordinator as this node sees it; `digest` is that of the state at `digest_offset`, the last one written.

    Failures, evidence and contradictions are those of this node since its process started.
    """

    coordinator_id: int
    state: str
    leader: KnownLeader | None
    digest_offset: int
    log_end: int
    live_partitions: int
    digest: bytes
    failures: int
    last_failure: str
    evidence: str
    state_locked_since_ms: int
    contradictions: int
    last_contradiction: str
    verified_end_offset: int
    directory_id: bytes
    load: LoadStatus | None


class Descriptions:
    """Reads a node's replicas; changes nothing. Addresses of leaders are those of `listener`, else those for nodes."""

    def __init__(self, node: Node, listener: str = "") -> None:
        self._node = node
        self._listener = listener
        self._homes = {place.partition: place.directory_id for place in node.keeper.directories.places()}

    @property
    def cluster_id(self) -> str | None:
        facts = self._node.topic.facts
        return None if facts is None else facts.cluster_id

    def topic(self, placement: Placement | Deletion) -> LocalTopic:
        """A topic with what is known of its partitions; -1 where this node knows nothing.

        A deleted topic has the coordinators that its partitions had: who repeats a commit of then must find them.
        """
        partitions = [
            self._partition(placement, partition, placed.coordinator_id)
            for placed in placement.ranges
            for partition in range(placed.first_partition, placed.first_partition + placed.num_partitions)
        ]
        directory = self._node.view.directory
        settings = {} if directory is None else settings_of(directory, placement.topic_id)
        return LocalTopic(topic_id=placement.topic_id, name=placement.name, partitions=partitions, settings=settings)

    def _partition(self, placement: Placement | Deletion, partition: int, coordinator_id: int) -> LocalPartition:
        leader = self._node.view.leader(coordinator_id)
        shard = self._node.replicas.shard(coordinator_id)
        bounds = None if shard is None else shard.bounds(placement.topic_id, partition)
        log_start, high_watermark = (-1, -1) if bounds is None else bounds
        return LocalPartition(
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

    def coordinators(self, wanted: Iterable[int]) -> list[LocalCoordinator]:
        """Those of the coordinators with these ids, or of all, that are followed here."""
        replicas = self._node.replicas
        return [self._coordinator(replica) for one in list(wanted) or replicas.ids() if (replica := replicas.get(one)) is not None]

    def _coordinator(self, replica: Replica) -> LocalCoordinator:
        coordinator_id = replica.partition
        shard, failures = replica.view, replica.failures
        state = State.FAILED.value if replica.unloadable else "loading"
        if shard is not None:
            state = shard.phase.value
        return LocalCoordinator(
            coordinator_id=coordinator_id,
            state=state,
            leader=self._node.view.leader(coordinator_id, self._listener),
            digest_offset=replica.writer.written_offset,
            log_end=-1 if shard is None else shard.applied_offset + 1,
            live_partitions=0 if shard is None else shard.live_partitions,
            digest=replica.writer.digest.to_bytes(),
            failures=failures.count,
            last_failure=failures.last_reason,
            evidence=failures.evidence,
            state_locked_since_ms=replica.state_lock.since_ms,
            contradictions=self._node.accusations.count(coordinator_id),
            last_contradiction=self._node.accusations.newest(coordinator_id),
            verified_end_offset=self._node.workers.snapshots.verified_end(coordinator_id),
            directory_id=self._homes.get(coordinator_id, NO_DIRECTORY),
            load=replica.load_status(),
        )

    def nodes(self) -> list[NodeRegistered]:
        """The registered nodes, this one always among them."""
        directory = self._node.view.directory
        known = {} if directory is None else dict(directory.nodes)
        config, dirs = self._node.config, log_dirs(self._node.keeper.directories.directories())
        itself = NodeRegistered(
            node_id=config.node_id,
            rack=config.rack,
            endpoints=config.endpoints,
            schema_level_max=config.schema_level_max,
            incarnation_id=config.incarnation_id,
            log_dirs=list(dirs.online),
            is_any_dir_offline=dirs.is_any_offline,
        )
        known.setdefault(config.node_id, itself)
        return [known[node_id] for node_id in sorted(known)]
