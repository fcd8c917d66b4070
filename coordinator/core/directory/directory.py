"""The directory: the content of metadata partition 0 besides its own user partitions.

It has the placement and the own settings of each topic, the topics that are being deleted, the nodes, the data directory of each of their
replicas, and the schema level in force. `apply_directory` and the log's time change it. Ids of deleted topics are remembered, so that a
delayed creation cannot bring a topic back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from coordinator.core.limits import Limits
from coordinator.core.moves import MOVES_LEVEL, Move
from coordinator.kafka.batches import partition_key
from coordinator.kafka.names import topic_id_text
from records.model import (
    EarlierStretch,
    Endpoint,
    FeatureLevelSet,
    MovesSettled,
    NodeRegistered,
    PartitionMoved,
    PartitionMoving,
    PlacedRange,
    Record,
    ReplicasAssignedToDirs,
    TopicConfigured,
    TopicDeleting,
    TopicPlaced,
)

DIRECTORY_PARTITION = 0
"""The metadata partition that has the directory."""

UNDATED = 0
"""Log time of a deletion after which no file was committed yet; such a deletion is never old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a topic lives. `order_offset` is the offset of the entry that placed its newest partitions."""

    topic_id: bytes
    name: str
    ranges: tuple[PlacedRange, ...]
    confirmed: bool
    order_offset: int

    @property
    def num_partitions(self) -> int:
        return sum(r.num_partitions for r in self.ranges)

    def coordinator_of(self, partition: int) -> int | None:
        """The coordinator of a partition, or None when there is no such partition."""
        return _coordinator_in(self.ranges, partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A deleted topic: its name, the ranges its owners had, and whether all of them have logged the deletion.

    `others` are coordinators that have stretches of partitions that moved, or were about to get them.
    """

    topic_id: bytes
    name: str
    ranges: tuple[PlacedRange, ...]
    confirmed: bool
    order_offset: int
    time_ms: int
    others: tuple[int, ...] = ()

    def coordinator_of(self, partition: int) -> int | None:
        """The coordinator that a partition had, or None when there was no such partition."""
        return _coordinator_in(self.ranges, partition)


def why_unknown(directory: Directory, topic_id: bytes) -> str:
    """Say of a topic that the directory does not place what is known of it, with its name if it had one."""
    text = topic_id_text(topic_id)
    going = directory.deletions.get(topic_id)
    if going is None:
        return f"topic id {text} is not known: no topic was created with it, or it was deleted long ago"
    return f"topic {going.name} (id {text}) was deleted"


def _coordinator_in(ranges: tuple[PlacedRange, ...], partition: int) -> int | None:
    for placed in ranges:
        if placed.first_partition <= partition < placed.first_partition + placed.num_partitions:
            return placed.coordinator_id
    return None


@dataclass(slots=True)
class Directory:
    """State of the directory; plain dictionaries, because it changes rarely.

    `topic_settings` has the settings of topics that have some of their own. `replica_dirs` maps a node and a metadata partition to the data
    directory of the node's replica. `unconfirmed` are topics with owners to tell, `undated` the deletions since the newest file.
    `moves` are under way, by the key of their partition; `earlier` has the stretches of partitions that moved before that of their owner.
    `are_moves_settled` is false from a restore on until it is known where each partition that moved has to go on.
    """

    placements: dict[bytes, Placement] = field(default_factory=dict)
    names: dict[str, bytes] = field(default_factory=dict)
    topic_settings: dict[bytes, Mapping[str, str]] = field(default_factory=dict)
    deletions: dict[bytes, Deletion] = field(default_factory=dict)
    nodes: dict[int, NodeRegistered] = field(default_factory=dict)
    replica_dirs: dict[tuple[int, int], bytes] = field(default_factory=dict)
    schema_level: int = 1
    unconfirmed: set[bytes] = field(default_factory=set)
    undated: set[bytes] = field(default_factory=set)
    moves: dict[bytes, Move] = field(default_factory=dict)
    earlier: dict[bytes, tuple[EarlierStretch, ...]] = field(default_factory=dict)
    are_moves_settled: bool = True
    last_move_id: int = 0

    def copy(self) -> Directory:
        return Directory(
            placements=dict(self.placements),
            names=dict(self.names),
            topic_settings=dict(self.topic_settings),
            deletions=dict(self.deletions),
            nodes=dict(self.nodes),
            replica_dirs=dict(self.replica_dirs),
            schema_level=self.schema_level,
            unconfirmed=set(self.unconfirmed),
            undated=set(self.undated),
            moves=dict(self.moves),
            earlier=dict(self.earlier),
            are_moves_settled=self.are_moves_settled,
            last_move_id=self.last_move_id,
        )


def apply_directory(directory: Directory, record: Record, offset: int) -> bool:
    """Apply a record if it is one of the directory's. Returns whether it was."""
    match record:
        case TopicPlaced():
            known = directory.placements.get(record.topic_id)
            # The order of a placement is the entry that decided it; confirming it orders nothing new.
            order_offset = known.order_offset if known is not None and record.confirmed else offset
            directory.placements[record.topic_id] = Placement(
                topic_id=record.topic_id,
                name=record.name,
                ranges=tuple(record.ranges),
                confirmed=record.confirmed,
                order_offset=order_offset,
            )
            directory.names[record.name] = record.topic_id
            # An id that was deleted is placed again only when its deletion is no longer remembered.
            directory.deletions.pop(record.topic_id, None)
            directory.undated.discard(record.topic_id)
            _note_confirmed(directory, record.topic_id, record.confirmed)
        case TopicConfigured():
            _apply_configured(directory, record)
        case TopicDeleting():
            _apply_deleting(directory, record, offset)
        case PartitionMoving():
            _apply_moving(directory, record)
        case PartitionMoved():
            _apply_moved(directory, record)
        case MovesSettled():
            directory.are_moves_settled = True
            directory.last_move_id = max(directory.last_move_id, record.last_move_id)
        case NodeRegistered():
            directory.nodes[record.node_id] = record
        case ReplicasAssignedToDirs():
            for one in record.assignments:
                directory.replica_dirs |= {(record.node_id, partition): one.directory_id for partition in one.partitions}
        case FeatureLevelSet():
            # Levels only rise. A leader writes no lower one; should there be one, it is harmless to stay at the present level, while
            # replicas that stopped at it would stop for ever.
            directory.schema_level = max(directory.schema_level, record.level)
        case _:
            return False
    return True


def _note_confirmed(directory: Directory, topic_id: bytes, confirmed: bool) -> None:
    if confirmed:
        directory.unconfirmed.discard(topic_id)
    else:
        directory.unconfirmed.add(topic_id)


def _apply_configured(directory: Directory, record: TopicConfigured) -> None:
    """A topic that is not placed, or was deleted, has no settings."""
    directory.topic_settings.pop(record.topic_id, None)
    if record.names and record.topic_id in directory.placements:
        directory.topic_settings[record.topic_id] = dict(zip(record.names, record.values, strict=True))


def _apply_moving(directory: Directory, record: PartitionMoving) -> None:
    """Order a move. A partition is taken back for it to where it moves from: after a restore the directory may have it elsewhere."""
    directory.last_move_id = max(directory.last_move_id, record.move_id)
    placement = directory.placements.get(record.topic_id)
    if placement is None:
        return
    move = Move(
        move_id=record.move_id,
        topic_id=record.topic_id,
        partition=record.partition,
        from_coordinator=record.from_coordinator,
        to_coordinator=record.to_coordinator,
    )
    directory.moves[move.key] = move
    _place_at(directory, placement, record.partition, record.from_coordinator)


def _apply_moved(directory: Directory, record: PartitionMoved) -> None:
    placement, key = directory.placements.get(record.topic_id), partition_key(record.topic_id, record.partition)
    move = directory.moves.get(key)
    if placement is None or move is None or move.move_id != record.move_id:
        return
    del directory.moves[key]
    # A stretch that the owner had before is empty, or it could not have adopted the partition.
    directory.earlier[key] = tuple(one for one in record.earlier if one.coordinator_id != move.to_coordinator)
    _place_at(directory, placement, record.partition, move.to_coordinator)


def _place_at(directory: Directory, placement: Placement, partition: int, coordinator_id: int) -> None:
    directory.placements[placement.topic_id] = replace(placement, ranges=tuple(_with_owner(placement.ranges, partition, coordinator_id)))


def _with_owner(ranges: Iterable[PlacedRange], partition: int, coordinator_id: int) -> Iterator[PlacedRange]:
    """The ranges of a topic with another owner of one partition, in as few ranges as before and at most two more."""
    for placed in ranges:
        first, stop = placed.first_partition, placed.first_partition + placed.num_partitions
        if not first <= partition < stop or placed.coordinator_id == coordinator_id:
            yield placed
            continue
        for start, end, owner in (
            (first, partition, placed.coordinator_id),
            (partition, partition + 1, coordinator_id),
            (partition + 1, stop, placed.coordinator_id),
        ):
            if start < end:
                yield replace(placed, first_partition=start, num_partitions=end - start, coordinator_id=owner)


def _others_of(directory: Directory, placement: Placement) -> tuple[int, ...]:
    """The coordinators that have stretches of a topic's partitions, or may be about to get them, besides their owners."""
    topic_id, owners = placement.topic_id, {placed.coordinator_id for placed in placement.ranges}
    had = {one.coordinator_id for key, stretches in directory.earlier.items() if key.startswith(topic_id) for one in stretches}
    coming = {move.to_coordinator for move in directory.moves.values() if move.topic_id == topic_id}
    return tuple(sorted((had | coming) - owners))


def _apply_deleting(directory: Directory, record: TopicDeleting, offset: int) -> None:
    _note_confirmed(directory, record.topic_id, record.confirmed)
    going = directory.deletions.get(record.topic_id)
    if going is not None:
        directory.deletions[record.topic_id] = replace(going, confirmed=record.confirmed)
        return
    placement = directory.placements.pop(record.topic_id, None)
    directory.topic_settings.pop(record.topic_id, None)
    if placement is not None and directory.names.get(placement.name) == record.topic_id:
        del directory.names[placement.name]
    ranges = () if placement is None else placement.ranges
    others = () if placement is None else _others_of(directory, placement)
    directory.moves = {key: move for key, move in directory.moves.items() if move.topic_id != record.topic_id}
    directory.earlier = {key: stretches for key, stretches in directory.earlier.items() if not key.startswith(record.topic_id)}
    directory.deletions[record.topic_id] = Deletion(
        topic_id=record.topic_id,
        name="" if placement is None else placement.name,
        ranges=ranges,
        confirmed=record.confirmed,
        order_offset=offset,
        time_ms=UNDATED,
        others=others,
    )
    directory.undated.add(record.topic_id)


def date_deletions(directory: Directory, time_ms: int) -> None:
    """Give the deletions since the newest file the log time of the one that now follows them."""
    for topic_id in directory.undated:
        directory.deletions[topic_id] = replace(directory.deletions[topic_id], time_ms=time_ms)
    directory.undated.clear()


def reopen_orders(directory: Directory) -> None:
    """Make every placement and deletion one that the owners have still to confirm; where partitions moved has to be found out first."""
    directory.are_moves_settled = directory.schema_level < MOVES_LEVEL
    for topic_id, placement in directory.placements.items():
        directory.placements[topic_id] = replace(placement, confirmed=False)
    for topic_id, going in directory.deletions.items():
        directory.deletions[topic_id] = replace(going, confirmed=False)
    directory.unconfirmed = {*directory.placements, *directory.deletions}


def forgettable(directory: Directory, before_ms: int) -> list[bytes]:
    """The topics that were deleted before a time and whose owners have all logged it."""
    return [topic_id for topic_id, going in directory.deletions.items() if going.confirmed and UNDATED < going.time_ms < before_ms]


def forget_deletions(directory: Directory, before_ms: int) -> bool:
    """Forget finished deletions from before a time; returns whether there were any."""
    old = forgettable(directory, before_ms)
    for topic_id in old:
        del directory.deletions[topic_id]
    return bool(old)


def is_deleted(directory: Directory, topic_id: bytes, log_time_ms: int, limits: Limits) -> bool:
    """Whether a topic id was deleted within the memory of deleted ids."""
    going = directory.deletions.get(topic_id)
    if going is None:
        return False
    return not going.confirmed or is_remembered(going.time_ms, log_time_ms, limits)


def is_remembered(deleted_ms: int, log_time_ms: int, limits: Limits) -> bool:
    """Whether a deletion at a log time is still to be remembered."""
    return deleted_ms == UNDATED or log_time_ms - deleted_ms <= limits.deleted_topic_retention_ms


def addresses(endpoints: Sequence[Endpoint]) -> str:
    """Where a node listens, for people."""
    return ", ".join(f"{one.host}:{one.port}" for one in endpoints) or "an unknown address"


def working_nodes(directory: Directory) -> list[NodeRegistered]:
    """The registered nodes but those below the level in force, which an operator has called gone: they could not register again."""
    return [node for _, node in sorted(directory.nodes.items()) if node.schema_level_max >= directory.schema_level]
