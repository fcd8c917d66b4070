"""Descriptions of the service as parts of answers: topics, coordinators and nodes, from this node's replicas (may be stale)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coordinator.core.directory.directory import Deletion, Placement
from coordinator.core.directory.topic_settings import settings_of
from coordinator.core.leadership.states import State
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCoordinatorsCoordinator,
    DescribeTopicsConfig,
    DescribeTopicsPartitionResult,
    DescribeTopicsTopicResult,
)
from coordinator.runtime.directories.reporting import log_dirs
from coordinator.runtime.node.node import Node
from coordinator.runtime.replica.replica import Replica
from records.model import NodeRegistered

NO_DIRECTORY = bytes(16)


class Descriptions:
    """Reads a node's replicas; changes nothing. Addresses of leaders are those of `listener`, else those for nodes."""

    def __init__(self, node: Node, listener: str = "") -> None:
        self._node = node
        self._listener = listener
        self._places = {place.partition: place for place in node.keeper.directories.places()}

    @property
    def cluster_id(self) -> str | None:
        facts = self._node.topic.facts
        return None if facts is None else facts.cluster_id

    def topic(self, placement: Placement | Deletion) -> DescribeTopicsTopicResult:
        """A topic with what is known of its partitions; -1 where this node knows nothing.

        A deleted topic has the coordinators that its partitions had: who repeats a commit of then must find them.
        """
        partitions = tuple(
            self._partition(placement, partition, placed.coordinator_id)
            for placed in placement.ranges
            for partition in range(placed.first_partition, placed.first_partition + placed.num_partitions)
        )
        directory = self._node.view.directory
        settings = {} if directory is None else settings_of(directory, placement.topic_id)
        configs = tuple(DescribeTopicsConfig(name=name, value=value) for name, value in sorted(settings.items()))
        return DescribeTopicsTopicResult(
            error_code=0, topic_id=placement.topic_id, name=placement.name, partitions=partitions, configs=configs
        )

    def _partition(self, placement: Placement | Deletion, partition: int, coordinator_id: int) -> DescribeTopicsPartitionResult:
        leader = self._node.view.leader(coordinator_id)
        shard = self._node.replicas.shard(coordinator_id)
        bounds = None if shard is None else shard.bounds(placement.topic_id, partition)
        log_start, high_watermark = (-1, -1) if bounds is None else bounds
        return DescribeTopicsPartitionResult(
            error_code=0,
            partition_index=partition,
            coordinator_id=coordinator_id,
            leader_id=-1 if leader is None else leader.node_id,
            log_start_offset=log_start,
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

    def coordinators(self, wanted: Iterable[int]) -> list[DescribeCoordinatorsCoordinator]:
        """Those of the coordinators with these ids, or of all, that exist; of those that are not followed here only who leads them."""
        replicas = self._node.replicas
        return [
            self._elsewhere(one) if (replica := replicas.get(one)) is None else self._coordinator(replica)
            for one in list(wanted) or replicas.ids()
            if replicas.exists(one)
        ]

    def _elsewhere(self, coordinator_id: int) -> DescribeCoordinatorsCoordinator:
        leader = self._node.view.leader(coordinator_id, self._listener)
        return DescribeCoordinatorsCoordinator(
            error_code=ErrorCode.NOT_COORDINATOR,
            error_message=self._node.router.not_led(coordinator_id).message,
            coordinator_id=coordinator_id,
            state="not followed",
            leader_id=-1 if leader is None else leader.node_id,
            host="" if leader is None else leader.host,
            port=-1 if leader is None else leader.port,
            digest=b"",
            is_local=False,
            directory_id=NO_DIRECTORY,
        )

    def _coordinator(self, replica: Replica) -> DescribeCoordinatorsCoordinator:
        """Failures, evidence and contradictions are those of this node since its process started."""
        coordinator_id, node = replica.partition, self._node
        shard, failures, load = replica.view, replica.failures, replica.load_status()
        state = State.FAILED.value if replica.unloadable else "loading"
        if shard is not None:
            state = shard.phase.value
        leader, place = node.view.leader(coordinator_id, self._listener), self._places.get(coordinator_id)
        return DescribeCoordinatorsCoordinator(
            error_code=0,
            coordinator_id=coordinator_id,
            state=state,
            leader_id=-1 if leader is None else leader.node_id,
            leader_epoch=-1 if leader is None else leader.epoch,
            term=0 if leader is None else leader.term,
            host="" if leader is None else leader.host,
            port=-1 if leader is None else leader.port,
            applied_offset=replica.writer.written_offset,  # that of the digest
            log_end_offset=-1 if shard is None else shard.applied_offset + 1,
            live_partitions=0 if shard is None else shard.live_partitions,
            live_files=0 if shard is None else shard.file_counts().live,
            live_file_bytes=0 if shard is None else shard.file_counts().bytes_live,
            producers=0 if shard is None else shard.remembered_producers,
            state_bytes=-1 if place is None else place.size_bytes,
            commits=0 if shard is None else shard.commit_counts.commits,
            digest=replica.writer.digest.to_bytes(),
            is_local=leader is not None and leader.node_id == node.config.node_id,
            failures=failures.count,
            last_failure=failures.last_reason or None,
            evidence=failures.evidence or None,
            state_locked_since_ms=replica.state_lock.since_ms,
            contradictions=node.accusations.count(coordinator_id),
            last_contradiction=node.accusations.newest(coordinator_id) or None,
            verified_end_offset=node.workers.snapshots.verified_end(coordinator_id),
            directory_id=NO_DIRECTORY if place is None else place.directory_id,
            load_step=None if load is None else load.step.value,
            load_snapshot=None if load is None else load.snapshot,
            loaded_bytes=-1 if load is None else load.loaded_bytes,
            load_bytes=-1 if load is None else load.total_bytes,
            loaded_entries=-1 if load is None else load.loaded_entries,
            load_entries=-1 if load is None else load.total_entries,
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
