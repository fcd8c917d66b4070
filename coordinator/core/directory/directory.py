"""The directory: what metadata partition 0 knows beyond its own user partitions.

Where every topic was placed, which topics are going, which nodes exist and which schema level writers use. Changed by
`apply_directory` and by what the log says of time. Deleted topic ids are remembered so that a delayed create cannot
bring one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from coordinator.core.commands import (
    OK,
    ConfirmDeleted,
    ConfirmPlaced,
    CreateTopics,
    DeleteTopics,
    Outcome,
    RaiseSchemaLevel,
    RegisterNode,
    WantedTopic,
)
from coordinator.core.directory.placement import spread
from coordinator.core.limits import Limits
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, illegal_topic_name, topic_id_text
from records.history import levels
from records.levels import LEVEL_LATEST
from records.model import Endpoint, FeatureLevelSet, NodeRegistered, PlacedRange, Record, TopicDeleting, TopicPlaced

UNDATED = 0
"""Log time of a deletion behind which no file was committed yet; such a deletion is never old."""


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
    """A deleted topic: its name, the ranges its owners had, and whether all of them have logged the deletion."""

    topic_id: bytes
    name: str
    ranges: tuple[PlacedRange, ...]
    confirmed: bool
    order_offset: int
    time_ms: int

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

    `unconfirmed` are topics with owners to tell, `undated` the deletions since the newest file.
    """

    placements: dict[bytes, Placement] = field(default_factory=dict)
    names: dict[str, bytes] = field(default_factory=dict)
    deletions: dict[bytes, Deletion] = field(default_factory=dict)
    nodes: dict[int, NodeRegistered] = field(default_factory=dict)
    schema_level: int = 1
    unconfirmed: set[bytes] = field(default_factory=set)
    undated: set[bytes] = field(default_factory=set)

    def copy(self) -> Directory:
        return Directory(
            placements=dict(self.placements),
            names=dict(self.names),
            deletions=dict(self.deletions),
            nodes=dict(self.nodes),
            schema_level=self.schema_level,
            unconfirmed=set(self.unconfirmed),
            undated=set(self.undated),
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
        case TopicDeleting():
            _apply_deleting(directory, record, offset)
        case NodeRegistered():
            directory.nodes[record.node_id] = record
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


def _apply_deleting(directory: Directory, record: TopicDeleting, offset: int) -> None:
    _note_confirmed(directory, record.topic_id, record.confirmed)
    going = directory.deletions.get(record.topic_id)
    if going is not None:
        directory.deletions[record.topic_id] = replace(going, confirmed=record.confirmed)
        return
    placement = directory.placements.pop(record.topic_id, None)
    if placement is not None and directory.names.get(placement.name) == record.topic_id:
        del directory.names[placement.name]
    ranges = () if placement is None else placement.ranges
    directory.deletions[record.topic_id] = Deletion(
        topic_id=record.topic_id,
        name="" if placement is None else placement.name,
        ranges=ranges,
        confirmed=record.confirmed,
        order_offset=offset,
        time_ms=UNDATED,
    )
    directory.undated.add(record.topic_id)


def date_deletions(directory: Directory, time_ms: int) -> None:
    """Give the deletions since the newest file the log time of the one that now follows them."""
    for topic_id in directory.undated:
        directory.deletions[topic_id] = replace(directory.deletions[topic_id], time_ms=time_ms)
    directory.undated.clear()


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


def decide_create(directory: Directory, command: CreateTopics, limits: Limits, log_time_ms: int) -> tuple[list[Outcome], list[Record]]:
    """Decide CreatePartitions: one outcome per topic, and the placements to log.

    New partitions go, one range per coordinator, where the rules of `placement` want them.
    """
    loads = dict(command.eligible)
    twice = _named_twice(command.topics)
    outcomes: list[Outcome] = []
    records: list[Record] = []
    for topic in command.topics:
        refusal = _check_create(directory, topic, twice, limits, log_time_ms)
        if refusal is not None:
            outcomes.append(refusal)
            continue
        placement = directory.placements.get(topic.topic_id)
        first = placement.num_partitions if placement is not None else 0
        if topic.num_partitions <= first:
            outcomes.append(OK)
            continue
        if not loads:
            message = f"topic {topic.name}: no coordinator has a leader to take new partitions; retry when one is ready"
            outcomes.append(Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message))
            continue
        old = placement.ranges if placement is not None else ()
        new = spread(first=first, count=topic.num_partitions - first, placed=old, loads=loads, leaders=command.leaders)
        ranges = [*old, *new]
        records.append(TopicPlaced(topic_id=topic.topic_id, name=topic.name, ranges=ranges, confirmed=False))
        outcomes.append(_narrow(command) if topic.num_partitions > len(loads) and command.without else OK)
    return outcomes, records


def _narrow(command: CreateTopics) -> Outcome:
    """A success that says on how few coordinators a topic lives, though it would have been spread over more."""
    had = len(command.eligible)
    return Outcome(
        message=f"the new partitions live on {had} of {had + len(command.without)} coordinators, since nobody has claimed coordinators"
        f" {', '.join(map(str, sorted(command.without)))} yet; partitions do not move, but those added later go there first"
    )


def _named_twice(topics: list[WantedTopic]) -> set[bytes | str]:
    seen: set[bytes | str] = set()
    twice: set[bytes | str] = set()
    for topic in topics:
        for name in (topic.topic_id, topic.name):
            (twice if name in seen else seen).add(name)
    return twice


def _check_create(directory: Directory, topic: WantedTopic, twice: set[bytes | str], limits: Limits, log_time_ms: int) -> Outcome | None:
    """The first of the checks on id, name and count that fails."""
    text = topic_id_text(topic.topic_id)
    if topic.topic_id == ZERO_TOPIC_ID:
        message = f"topic {topic.name}: its id is all zero; send the id that Kafka gave the topic"
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    if topic.topic_id in twice or topic.name in twice:
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"topic {topic.name} or its id {text} stands in the request twice")
    if is_deleted(directory, topic.topic_id, log_time_ms, limits):
        return Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=f"topic id {text} was deleted and does not come back; use a new id")
    placement = directory.placements.get(topic.topic_id)
    if placement is not None and placement.name != topic.name:
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"topic id {text} belongs to topic {placement.name}, not {topic.name}")
    complaint = illegal_topic_name(topic.name)
    if complaint is not None:
        return Outcome(error=ErrorCode.INVALID_TOPIC_EXCEPTION, message=complaint)
    holder = directory.names.get(topic.name)
    if holder is not None and holder != topic.topic_id:
        return Outcome(error=ErrorCode.TOPIC_ALREADY_EXISTS, message=f"topic {topic.name} exists with id {topic_id_text(holder)}")
    if not 1 <= topic.num_partitions <= limits.partitions_per_topic_max:
        wanted = f"topic {topic.name}: {topic.num_partitions} partitions are wanted"
        message = f"{wanted}; 1 to {limits.partitions_per_topic_max} are allowed (max.partitions.per.topic)"
        return Outcome(error=ErrorCode.INVALID_PARTITIONS, message=message)
    return None


def decide_delete(directory: Directory, command: DeleteTopics, limits: Limits, log_time_ms: int) -> tuple[list[Outcome], list[Record]]:
    """Decide DeleteTopics: deleting again within the memory of deleted ids is a success."""
    outcomes: list[Outcome] = []
    records: list[Record] = []
    decided: set[bytes] = set()
    for topic_id in command.topic_ids:
        if topic_id in decided or is_deleted(directory, topic_id, log_time_ms, limits):
            outcomes.append(OK)
        elif topic_id in directory.placements:
            records.append(TopicDeleting(topic_id=topic_id, confirmed=False))
            decided.add(topic_id)
            outcomes.append(OK)
        else:
            outcomes.append(Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=why_unknown(directory, topic_id)))
    return outcomes, records


def decide_confirm(directory: Directory, command: ConfirmPlaced | ConfirmDeleted) -> list[Record]:
    """Log that all owners have done their part, if that is still the news it was."""
    match command:
        case ConfirmPlaced():
            placement = directory.placements.get(command.topic_id)
            if placement is None or placement.confirmed or list(placement.ranges) != command.ranges:
                return []
            return [TopicPlaced(topic_id=placement.topic_id, name=placement.name, ranges=list(placement.ranges), confirmed=True)]
        case ConfirmDeleted():
            going = directory.deletions.get(command.topic_id)
            if going is None or going.confirmed:
                return []
            return [TopicDeleting(topic_id=command.topic_id, confirmed=True)]


def decide_register(directory: Directory, command: RegisterNode) -> tuple[list[Record], Outcome]:
    """Log a node when anything about it is new.

    One that cannot follow the schema level in force is refused, and so is a second process with the id of a node that is
    registered, unless it says of just that process that it has ended: of two that start together the first is registered.
    """
    if command.schema_level_max < directory.schema_level:
        message = (
            f"node {command.node_id} supports schema levels up to {command.schema_level_max}, and level {directory.schema_level} is in"
            " force, which never goes back: run a version that has it, with schema.level.max at least as high"
        )
        return [], Outcome(error=ErrorCode.UNSUPPORTED_VERSION, message=message)
    known = directory.nodes.get(command.node_id)
    if known is not None and known.incarnation_id not in (command.incarnation_id, command.replaced_id):
        message = f"node {command.node_id} is registered by another process, at {addresses(known.endpoints)}"
        return [], Outcome(error=ErrorCode.DUPLICATE_BROKER_REGISTRATION, message=message)
    node = NodeRegistered(
        node_id=command.node_id,
        rack=command.rack,
        endpoints=list(command.endpoints),
        schema_level_max=command.schema_level_max,
        incarnation_id=command.incarnation_id,
    )
    return [] if known == node else [node], OK


def addresses(endpoints: Sequence[Endpoint]) -> str:
    """Where a node listens, for people."""
    return ", ".join(f"{one.host}:{one.port}" for one in endpoints) or "an unknown address"


def working_nodes(directory: Directory) -> list[NodeRegistered]:
    """The registered nodes but those below the level in force, which an operator has called gone: they could not register again."""
    return [node for _, node in sorted(directory.nodes.items()) if node.schema_level_max >= directory.schema_level]


def decide_raise(directory: Directory, command: RaiseSchemaLevel) -> tuple[list[Record], Outcome]:
    """Decide to raise the schema level; a level that is reached already is a success."""
    if command.level < 0:
        message = f"schema level {command.level}: levels are numbers from 1 on, and 0 changes nothing"
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    if command.level <= directory.schema_level:
        return [], OK
    if command.level > LEVEL_LATEST:
        message = f"schema level {command.level} is not known to this version, which knows {', '.join(map(str, levels()))}"
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    behind = [
        f"node {node.node_id} supports levels up to {node.schema_level_max}"
        for node in working_nodes(directory)
        if node.schema_level_max < command.level and node.node_id not in command.gone_node_ids
    ]
    if behind:
        message = (
            f"schema level {command.level} is not supported by every node: {', '.join(behind)}. Upgrade them and let them have it"
            " (schema.level.max), or say which of them are gone for good"
        )
        return [], Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
    return [FeatureLevelSet(level=command.level)], OK
