"""What must come true after the last fault of a run: everything heals, and all replicas agree with each other and with the log.

ending = Ending(scenario=..., judge=..., clients=..., processes=..., objects=..., gateways=...)
while unwell := ending.look(): ...  # some virtual time later
ending.compare_with_log()
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.leadership.states import State
from coordinator.core.view import ShardView
from coordinator.runtime.replica.replica import Replica
from records.state_digest import Digest, hash_position
from simulation.fakes.kafka_group import FakeGroup
from simulation.fakes.snapshots import FakeObjects
from simulation.gateways.world import GatewayWorld
from simulation.judge import Judge, name
from simulation.process import SimulatedProcess
from simulation.scenario import Scenario
from simulation.workload.clients import Clients


class Ending:
    """Looks at a cluster without faults and without new work of clients."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        judge: Judge,
        clients: Clients,
        processes: Mapping[int, SimulatedProcess],
        group: FakeGroup,
        objects: FakeObjects,
        gateways: GatewayWorld | None,
    ) -> None:
        self._scenario = scenario
        self._judge = judge
        self._clients = clients
        self._processes = processes
        self._group = group
        self._objects = objects
        self._gateways = gateways
        self._agreed: set[int] = set()
        """The metadata partitions whose replicas were all written at one look, and equal."""

    def look(self) -> list[str]:
        """List the faults that remain when no more faults are injected.

        Background work goes on for as long as the cluster lives (scans, snapshots), so there need not be a moment at which every replica of
        every partition has written everything. Each partition has such a moment: its replicas are compared then.
        """
        clients, judge = self._clients, self._judge
        unwell = [f"{clients.busy} clients wait for an answer"] if clients.busy else []
        for partition in range(self._scenario.partitions):
            unwell += self._unwell_replicas(partition)
        directory = judge.folds[0]
        open_work = directory.placements.keys() - directory.confirmed - directory.deleting
        unwell += [f"topic {topic_id.hex()[:6]} is not confirmed" for topic_id in open_work]
        unwell += [f"partition {name(where)} is still moving" for where in directory.moving]
        if judge.retention is not None:
            unwell += judge.retention.left()
        if judge.objects is not None:
            unwell += judge.objects.left(self._objects.by_key)
        if self._gateways is not None:
            unwell += self._gateways.left()
        return unwell

    def _with_earlier(self, told: Collection[int]) -> set[int]:
        """What a node is to follow: what it is told to, and what has older batches of partitions of that, or of the directory."""
        directory, duties = self._judge.folds[0], {*told, DIRECTORY_PARTITION}
        moved = {where: earlier for where, earlier in directory.moved.items() if directory.owner_of(where) in duties}
        return {*told, *(one for where, earlier in moved.items() if where[0] not in directory.deleting for one, _ in earlier)}

    def _unwell_replicas(self, partition: int) -> list[str]:
        fold = self._judge.folds[partition]
        shards = self._shards(partition)
        unwell, unwritten = [], []
        leading = [node_id for node_id, shard in shards.items() if shard.is_leading]
        if leading != [fold.leader]:
            unwell.append(f"partition {partition} is led by {leading}, its claim is of {fold.leader}")
        told = {node_id: self._with_earlier(self._group.told(process.name)) for node_id, process in self._processes.items()}
        for node_id, duties in told.items():
            if partition not in duties and partition != DIRECTORY_PARTITION:
                unwell += [f"node {node_id} follows partition {partition}, which it is not told to"] if node_id in shards else []
                continue
            shard = shards.get(node_id)
            if shard is None or shard.state.applied_offset < fold.last_counted:
                unwell.append(f"node {node_id} has not applied partition {partition} to {fold.last_counted}")
            elif shard.phase is State.FAILED:
                unwell.append(f"node {node_id} partition {partition} has failed")
            elif shard.state.trimming or shard.state.has_unwritten() or shard.state.frozen:
                unwritten.append(f"node {node_id} has not written partition {partition}")
        if self._clients.busy or unwell:
            return unwell
        if not unwritten:
            self._compare_replicas(partition, shards)
            self._agreed.add(partition)
        return [] if partition in self._agreed else unwritten

    def _shards(self, partition: int) -> dict[int, ShardView]:
        shards = {}
        for node_id, process in self._processes.items():
            replica = None if process.node is None else process.node.replicas.get(partition)
            if replica is not None and replica.view is not None:
                shards[node_id] = replica.view
        return shards

    def _compare_replicas(self, partition: int, node_ids: Iterable[int]) -> None:
        """Replicas that have written everything must have equal digests. A node may just have begun to load one for a move."""
        nodes = {node_id: self._processes[node_id].node for node_id in node_ids}
        digests = {
            node_id: self._digest_of_rows(node.replicas[partition]).to_bytes() for node_id, node in nodes.items() if node is not None
        }
        if len(set(digests.values())) > 1:
            told = {node_id: digest.hex()[:8] for node_id, digest in digests.items()}
            self._judge.broken("equal digests", f"partition {partition} in the end: {told}")

    def _digest_of_rows(self, replica: Replica) -> Digest:
        """The digest a replica has written, without the position in the log: they may have written at different offsets."""
        if replica.writer.written_offset < 0:
            return replica.writer.digest
        position = hash_position(*self._judge.folds[replica.partition].positions[replica.writer.written_offset])
        return replica.writer.digest.minus(position)

    def compare_with_log(self) -> None:
        """All replicas say what the log says, and so do the topics that clients created and deleted."""
        for partition in range(self._scenario.partitions):
            for node_id, shard in self._shards(partition).items():
                self._judge.look(node_id, partition, shard)
        for topic in self._judge.topics.values():
            for partition in range(topic.num_partitions):
                where = (topic.topic_id, partition)
                is_there = self._judge.folds_of(where) is not None
                if topic.is_created and not topic.is_going and not is_there:
                    self._judge.broken("acknowledged topics are there", f"{topic.name}-{partition} is gone")
                if topic.is_deleted and any(where in fold.partitions for fold in self._judge.folds):
                    self._judge.broken("deleted stays deleted", f"{topic.name}-{partition} is there")
