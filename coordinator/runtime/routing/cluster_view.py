"""This node's knowledge of the service: where topics live and who leads which coordinator, from its own replicas.

The directory is replica 0's committed state, which may lag. Before an answer says that a topic does not exist, its maker calls
`Router.directory_is_current`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.core.directory.content import Restoration
from coordinator.core.directory.directory import DIRECTORY_PARTITION, Deletion, Directory, Placement, why_unknown
from coordinator.core.endpoints import endpoint_of
from coordinator.core.view import ShardView
from coordinator.kafka.batches import BatchArray, partition_keys, split_partition_key
from coordinator.runtime.routing.owner_loops import owners_of_files
from coordinator.runtime.routing.replicas import Replicas
from records.model import EarlierStretch, Endpoint

UNKNOWN_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node for a coordinator, and its address. Epoch and term are those of its claim, UNKNOWN_EPOCH and 0 where the group named it."""

    node_id: int
    epoch: int
    term: int
    host: str
    port: int


class ClusterView:
    """Look-ups over the replicas of this node; owns only what it has looked up in the directory, until that changes."""

    def __init__(self, replicas: Replicas, node_listener: str) -> None:
        """`node_listener` is the listener whose protocol this node speaks to the others."""
        self.replicas = replicas
        self.group_leaders: Mapping[int, int] = {}
        """The node that the group lets lead each coordinator, by its last assignment; empty before the first one."""
        self.group_followers: Mapping[int, tuple[int, ...]] = {}
        """The other nodes that it has follow each coordinator."""
        self._node_listener = node_listener
        self._owners: dict[bytes, int] = {}
        # Owners by topic and partition, -1 where none was looked up: files have many partitions of few topics.
        self._owners_of_topics: dict[bytes, list[int]] = {}
        self.states_before: dict[int, dict[int, ShardView]] = {}
        """By owner, then by coordinator: where partitions were before that `owners_of_files` knows, as these states had read it."""
        self._links: list[tuple[set[int], int]] | None = None
        """Pairs of coordinators between which a partition moved, with the time; None until it is asked for."""
        self._earlier_of_owners: dict[int, set[int]] | None = None

    def forget_owners(self) -> None:
        """The directory changed."""
        self._owners.clear()
        self._owners_of_topics.clear()
        self.states_before.clear()
        self._links = None
        self._earlier_of_owners = None

    @property
    def directory(self) -> Directory | None:
        """The directory as far as this node has applied it."""
        shard = self.replicas.shard(DIRECTORY_PARTITION)
        return None if shard is None else shard.directory

    def restoration(self) -> Restoration | None:
        """The restore that the log of the directory begins with."""
        shard = self.replicas.shard(DIRECTORY_PARTITION)
        return None if shard is None else shard.restoration

    def placement(self, topic_id: bytes) -> Placement | None:
        directory = self.directory
        return None if directory is None else directory.placements.get(topic_id)

    def owner_of(self, partition_key: bytes) -> int | None:
        """The coordinator of a topic partition, by its 20-byte key; None also while a restore has not settled where partitions moved."""
        owner = self._owners.get(partition_key)
        if owner is None:
            topic_id, partition = split_partition_key(partition_key)
            placement = self.placement(topic_id)
            owner = None if placement is None or not self.are_moves_settled else placement.coordinator_of(partition)
            if owner is not None:
                self._owners[partition_key] = owner
                if not self.earlier_of(partition_key):
                    self._set_owner(topic_id, partition, owner)
        return owner

    def _set_owner(self, topic_id: bytes, partition: int, owner: int) -> None:
        """Have `owners_of_files` know an owner."""
        owners = self._owners_of_topics.setdefault(topic_id, [])
        owners += [-1] * (partition + 1 - len(owners))
        owners[partition] = owner

    def _is_owner_set(self, topic_id: bytes, partition: int) -> bool:
        """Whether `owners_of_files` knows an owner: that of a partition that moved once the releases are read."""
        owners = self._owners_of_topics.get(topic_id, ())
        return partition < len(owners) and owners[partition] >= 0

    def releases_are_read(self, partition_key: bytes, owner: int) -> None:
        """The coordinators that had a partition before have all read here that it went: files with it are looked up in these states."""
        states = self.states_before.setdefault(owner, {})
        for one in self.earlier_of(partition_key):
            state = self.replicas.shard(one.coordinator_id)
            if state is None or states.setdefault(one.coordinator_id, state) is not state:
                return
        self._set_owner(*split_partition_key(partition_key), owner)

    @property
    def are_moves_settled(self) -> bool:
        """Whether it is known where partitions that moved go on: not between a restore and the look at all coordinators."""
        shard = self.replicas.shard(DIRECTORY_PARTITION)
        # A replica that was prepared for a restored log has not read that the log was restored.
        return shard is None or (shard.directory.are_moves_settled and shard.next_offset > 0)

    def earlier_of(self, partition_key: bytes) -> tuple[EarlierStretch, ...]:
        """The stretches that a partition has in other coordinators than its owner, the oldest first."""
        directory = self.directory
        return () if directory is None else directory.earlier.get(partition_key, ())

    def has_moved(self, batches: BatchArray) -> bool:
        """Whether one of the partitions of some batches has stretches in other coordinators than its owner."""
        directory = self.directory
        return directory is not None and bool(directory.earlier) and not directory.earlier.keys().isdisjoint(partition_keys(batches))

    def has_unread_release(self, batches: BatchArray) -> bool:
        """Whether one of these partitions moved, and has not been found in the `states_before` of its owner."""
        directory = self.directory
        if directory is None:
            return False
        moved = map(split_partition_key, directory.earlier.keys() & partition_keys(batches))
        return not all(self._is_owner_set(topic_id, partition) for topic_id, partition in moved)

    def is_behind(self, coordinator_id: int) -> bool:
        """Whether a coordinator has taken a step of a move of which this node's directory has not read the order."""
        shard, directory = self.replicas.shard(coordinator_id), self.directory
        return shard is not None and directory is not None and shard.newest_move > directory.last_move_id

    def has_unread_move(self, batches: BatchArray) -> bool:
        """Whether a partition of some batches came to its owner by such a move: it is not known here where it was before."""
        directory = self.directory
        if directory is None:
            return False
        for key in partition_keys(batches):
            owner = self.owner_of(key)
            shard = None if owner is None else self.replicas.shard(owner)
            stretch = None if shard is None else shard.stretches.get(key)
            if stretch is not None and stretch.move_id > directory.last_move_id:
                return True
        return False

    def earlier_coordinators(self, coordinator_ids: frozenset[int]) -> frozenset[int]:
        """The coordinators that have older batches of partitions of these, or of such as are about to come."""
        directory = self.directory
        if directory is None or not (directory.earlier or directory.moves):
            return frozenset()
        if self._earlier_of_owners is None:
            self._earlier_of_owners = {}
            for move in directory.moves.values():
                older = (*(one.coordinator_id for one in self.earlier_of(move.key)), move.from_coordinator)
                self._earlier_of_owners.setdefault(move.to_coordinator, set()).update(older)
            for key, stretches in directory.earlier.items():
                if (owner := self.owner_of(key)) is not None:
                    self._earlier_of_owners.setdefault(owner, set()).update(one.coordinator_id for one in stretches)
        return frozenset(before for one in coordinator_ids for before in self._earlier_of_owners.get(one, ()))

    def reader_of(self, partition_key: bytes, offset: int) -> int | None:
        """The coordinator that has the batch of an offset."""
        for one in self.earlier_of(partition_key):
            if offset < one.end_offset:
                return one.coordinator_id
        return self.owner_of(partition_key)

    def linked_to(self, owner_ids: Sequence[int], created_ms: int, window_ms: int) -> list[int]:
        """The coordinators that may have batches of a file although it does not name them, in order.

        Partitions have moved between them and its owners when the file was about to be committed: whoever commits a file again under its
        key goes by where partitions are by then. Each list that a file can have had leads to the same coordinators in the end.
        """
        found = set(owner_ids)
        if self._links is None:
            directory = self.directory or Directory()
            self._links = []
            for key, stretches in directory.earlier.items():
                nexts = [*(one.coordinator_id for one in stretches[1:]), self.owner_of(key)]
                self._links += [({one.coordinator_id, to}, one.time_ms) for one, to in zip(stretches, nexts, strict=True) if to is not None]
        near = [pair for pair, time_ms in self._links if created_ms < 0 or abs(created_ms - time_ms) <= window_ms]
        while more := [pair for pair in near if not pair.isdisjoint(found) and not pair <= found]:
            found = found.union(*more)
        return sorted(found.difference(owner_ids))

    def owners_of_files(self, files: Iterable[BatchArray]) -> list[tuple[int, int]]:
        """The coordinators that own files, each given as its batches, when every partition was asked for before: stretches of files with
        the same owner, with where each ends; -1 of files that have several owners, or an unknown one.

        Where the owner has `states_before`, they have to be asked whether they know the files.
        """
        return owners_of_files([batches.tobytes() for batches in files], self._owners_of_topics)

    def owners_of(self, partition_keys: set[bytes]) -> set[int | None]:
        """The coordinators of many topic partitions; None is among them when one has no owner."""
        owners = set(map(self._owners.get, partition_keys))
        return {self.owner_of(key) for key in partition_keys} if None in owners else owners

    def former_owner_of(self, partition_key: bytes) -> int | None:
        """The coordinator that a partition of a deleted topic had: it still knows which files were committed there."""
        topic_id, partition = split_partition_key(partition_key)
        deletion = self.deletion(topic_id)
        return None if deletion is None else deletion.coordinator_of(partition)

    def deletion(self, topic_id: bytes) -> Deletion | None:
        """The deletion of a topic, as long as it is remembered."""
        directory = self.directory
        return None if directory is None else directory.deletions.get(topic_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic, also of a deleted one as long as that is remembered; None for an id that is not known here."""
        topic = self.placement(topic_id) or self.deletion(topic_id)
        return None if topic is None else topic.name

    def why_unknown(self, topic_id: bytes) -> str:
        """Why a topic id is not known."""
        return why_unknown(self.directory or Directory(), topic_id)

    def node_endpoint(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        """Where this node reaches another one: the two may name different listeners for nodes while that setting is changed."""
        return endpoint_of(endpoints, self._node_listener)

    def leader(self, coordinator_id: int, listener: str | None = None) -> KnownNode | None:
        """The leader of a coordinator, at its address of a listener, else that for nodes.

        By the claim in force as this node has read it, which outranks whatever the group says. Where this node does not follow, or has
        not read its log to the end yet, by the group.
        """
        replica = self.replicas.get(coordinator_id)
        named = None if replica is not None and replica.is_warm else self._named(self.group_leaders.get(coordinator_id, -1), listener)
        if named is not None:
            return named
        claim = None if replica is None or replica.view is None else replica.view.known_claim
        return None if claim is None else self._at(claim.node_id, claim.epoch, claim.term, claim.endpoints, listener)

    def _at(self, node_id: int, epoch: int, term: int, endpoints: Sequence[Endpoint], listener: str | None) -> KnownNode | None:
        if not endpoints:
            return None
        endpoint = endpoint_of(endpoints, self._node_listener if listener is None else listener)
        return KnownNode(node_id, epoch, term, endpoint.host, endpoint.port)

    def standbys(self, coordinator_id: int, listener: str | None = None) -> list[KnownNode]:
        """The nodes that stand by for a coordinator, or are to, as far as they are registered."""
        leader = self.leader(coordinator_id, listener)
        named = (self._named(node_id, listener) for node_id in self.group_followers.get(coordinator_id, ()))
        return [one for one in named if one is not None and (leader is None or one.node_id != leader.node_id)]

    def _named(self, node_id: int, listener: str | None) -> KnownNode | None:
        """A node that the group names, if it is registered."""
        directory = self.directory
        node = None if directory is None else directory.nodes.get(node_id)
        return None if node is None else self._at(node_id, UNKNOWN_EPOCH, 0, node.endpoints, listener)
