"""Decisions of the directory on its writes: what to log, and what to answer once it is logged."""

from __future__ import annotations

from typing import assert_never

from coordinator.core.commands import (
    OK,
    AlterTopicConfigs,
    Answer,
    AssignReplicasToDirs,
    ConfirmDeleted,
    ConfirmPlaced,
    CreateTopics,
    DeleteTopics,
    DirectoryWrite,
    DrainNode,
    EndMove,
    OrderMoves,
    Outcome,
    RaiseSchemaLevel,
    RegisterNode,
    SettleMoves,
    WantedTopic,
)
from coordinator.core.directory.directory import Directory, addresses, is_deleted, why_unknown, working_nodes
from coordinator.core.directory.draining import decide_drain, with_drain_of
from coordinator.core.directory.moving import decide_end_of_move, decide_moves, decide_settle
from coordinator.core.directory.placement import spread
from coordinator.core.directory.replica_dirs import decide_assign
from coordinator.core.directory.topic_settings import check_created, configured, decide_alter
from coordinator.core.limits import Limits
from coordinator.kafka.directory_ids import directory_id_text, is_reserved
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, illegal_topic_name, topic_id_text, why_classic
from records.history import levels
from records.levels import LEVEL_LATEST
from records.model import FeatureLevelSet, NodeRegistered, Record, TopicDeleting, TopicPlaced


def decide_directory_write(directory: Directory, command: DirectoryWrite, limits: Limits, log_time_ms: int) -> tuple[list[Record], Answer]:
    """Decide on the overlay's directory: return the records to log, and the answer."""
    match command:
        case CreateTopics():
            return decide_create(directory, command, limits, log_time_ms)
        case DeleteTopics():
            return decide_delete(directory, command, limits, log_time_ms)
        case AlterTopicConfigs():
            return decide_alter(directory, command)
        case ConfirmPlaced() | ConfirmDeleted():
            return decide_confirm(directory, command), OK
        case OrderMoves():
            return decide_moves(directory, command)
        case EndMove():
            return decide_end_of_move(directory, command)
        case SettleMoves():
            return decide_settle(directory, command)
        case RegisterNode():
            unfit = _unfit_node(command)
            return ([], unfit) if unfit is not None else decide_register(directory, command)
        case DrainNode():
            return decide_drain(directory, command)
        case AssignReplicasToDirs():
            return decide_assign(directory, command)
        case RaiseSchemaLevel():
            return decide_raise(directory, command)
        case _:
            assert_never(command)


def decide_create(directory: Directory, command: CreateTopics, limits: Limits, log_time_ms: int) -> tuple[list[Record], list[Outcome]]:
    """Decide CreatePartitions: one outcome per topic, and the placements to log.

    New partitions go, one range per coordinator, where the rules of `placement` want them.
    """
    loads = dict(command.eligible)
    twice = _named_twice(command.topics)
    outcomes: list[Outcome] = []
    records: list[Record] = []
    for topic in command.topics:
        refusal = _check_create(directory, topic, twice, limits, log_time_ms)
        refusal = refusal or check_created(directory, topic.topic_id, topic.name, topic.settings) or _check_pending(directory, topic)
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
        count = topic.num_partitions - first
        new = spread(first=first, count=count, placed=old, loads=loads, leaders=command.leaders, classic_pending=topic.classic_pending)
        ranges = [*old, *new]
        records.append(TopicPlaced(topic_id=topic.topic_id, name=topic.name, ranges=ranges, confirmed=False))
        if placement is None and topic.settings:
            records.append(configured(topic.topic_id, dict(topic.settings)))
        outcomes.append(_narrow(command) if topic.num_partitions > len(loads) and command.without else OK)
    return records, outcomes


def _narrow(command: CreateTopics) -> Outcome:
    """A success that says on how few coordinators a topic lives, though it would have been spread over more."""
    had = len(command.eligible)
    return Outcome(
        message=f"the new partitions live on {had} of {had + len(command.without)} coordinators, since no node has claimed coordinators"
        f" {', '.join(map(str, sorted(command.without)))} yet; `diskless partitions move` balances them later"
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
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"topic {topic.name} or its id {text} is in the request twice")
    if is_deleted(directory, topic.topic_id, log_time_ms, limits):
        return Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=f"topic id {text} was deleted and does not come back; use a new id")
    placement = directory.placements.get(topic.topic_id)
    if placement is not None and placement.name != topic.name:
        return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"topic id {text} belongs to topic {placement.name}, not {topic.name}")
    complaint = illegal_topic_name(topic.name)
    if complaint is not None:
        return Outcome(error=ErrorCode.INVALID_TOPIC_EXCEPTION, message=complaint)
    reserved = why_classic(topic.name, limits.metadata_topic)
    if reserved is not None:
        return Outcome(error=ErrorCode.INVALID_TOPIC_EXCEPTION, message=f"{reserved}; choose another name for a diskless topic")
    holder = directory.names.get(topic.name)
    if holder is not None and holder != topic.topic_id:
        return Outcome(error=ErrorCode.TOPIC_ALREADY_EXISTS, message=f"topic {topic.name} exists with id {topic_id_text(holder)}")
    if not 1 <= topic.num_partitions <= limits.partitions_per_topic_max:
        wanted = f"topic {topic.name}: {topic.num_partitions} partitions are wanted"
        message = f"{wanted}; 1 to {limits.partitions_per_topic_max} are allowed (max.partitions.per.topic)"
        return Outcome(error=ErrorCode.INVALID_PARTITIONS, message=message)
    return None


def _check_pending(directory: Directory, topic: WantedTopic) -> Outcome | None:
    """A topic that is taken for a classic one has no partitions that were born diskless."""
    placement = directory.placements.get(topic.topic_id)
    if not topic.classic_pending or placement is None or all(one.classic_pending for one in placement.ranges):
        return None
    message = f"topic {topic.name} has partitions that were born diskless: it cannot be created as a classic topic; take a new topic id"
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)


def decide_delete(directory: Directory, command: DeleteTopics, limits: Limits, log_time_ms: int) -> tuple[list[Record], list[Outcome]]:
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
    return records, outcomes


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


def _unfit_node(node: RegisterNode) -> Outcome | None:
    """Why a node cannot be registered: clients would be sent to addresses that accept no connection, or its directories mean nothing."""
    message = None
    if node.node_id < 0 or not node.endpoints or not all(one.host and 0 < one.port < 65536 for one in node.endpoints):
        message = (
            f"node {node.node_id} with endpoints {[(one.host, one.port) for one in node.endpoints]}: a node has an id from 0 and addresses"
        )
    elif not node.log_dirs:
        message = f"node {node.node_id} tells of no data directory that is online (LogDirs): a node has at least one"
    elif reserved := [directory_id_text(one) for one in node.log_dirs if is_reserved(one)]:
        message = f"node {node.node_id}: {reserved[0]} is reserved by Kafka and names no directory: draw another directory.id"
    elif len(set(node.log_dirs)) < len(node.log_dirs):
        message = f"node {node.node_id} names a data directory twice: each needs a directory.id of its own"
    return None if message is None else Outcome(error=ErrorCode.INVALID_REQUEST, message=message)


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
    node = with_drain_of(known, registration_record(command))
    return [] if known == node else [node], OK


def registration_record(command: RegisterNode) -> NodeRegistered:
    """Return what the log says of a node that was registered so."""
    return NodeRegistered(
        node_id=command.node_id,
        rack=command.rack,
        endpoints=list(command.endpoints),
        schema_level_max=command.schema_level_max,
        incarnation_id=command.incarnation_id,
        log_dirs=list(command.log_dirs),
        is_any_dir_offline=command.is_any_dir_offline,
    )


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
