"""Answers of real brokers as clients may see them: addresses and leaders are those of a view. Pure functions over kio's messages.

Invariant: no address in an answer that leaves here comes from a broker. A node that the view does not have is left out, and what it leads
or coordinates has no leader for the moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from coordinator.protocol.codec_fields import shape
from gateway.ports import DisklessTopic
from gateway.view.model import NO_LEADER
from gateway.view.view import View

DISKLESS_EPOCH: Final = 0
"""Leader epoch of all diskless partitions, in every answer."""


def metadata(answer: Any, view: View, diskless: Mapping[bytes, DisklessTopic], unfinished: frozenset[bytes] = frozenset()) -> Any:
    """Rewrite a Metadata answer of version 10 or above. `diskless` are topics by id; `unfinished` ids have no leader yet."""
    row = type(answer).__dataclass_fields__["brokers"]
    broker_type: Any = shape(row)[1]
    brokers = tuple(
        broker_type(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack or None) for node in view.nodes.values()
    )
    topics = tuple(_metadata_topic(topic, view, diskless, unfinished) for topic in answer.topics)
    controller = answer.controller_id if int(answer.controller_id) in view.nodes else NO_LEADER
    return replace(answer, brokers=brokers, topics=topics, controller_id=controller)


def _metadata_topic(topic: Any, view: View, diskless: Mapping[bytes, DisklessTopic], unfinished: frozenset[bytes]) -> Any:
    topic_id = topic_id_of(topic)
    found = diskless.get(topic_id)
    if found is not None:
        rows = tuple(_diskless_partition(one, view, found) for one in topic.partitions if one.partition_index < found.partitions)
        return replace(topic, partitions=rows)
    if topic_id in unfinished:
        return replace(topic, error_code=ErrorCode.leader_not_available, partitions=())
    return replace(topic, partitions=tuple(_classic_partition(one, view) for one in topic.partitions))


def _diskless_partition(row: Any, view: View, topic: DisklessTopic) -> Any:
    index = int(row.partition_index)
    coordinator = topic.coordinators[index] if index < len(topic.coordinators) else None
    leader = view.leader(topic.topic_id, index, coordinator)
    nodes = () if leader == NO_LEADER else (leader,)
    return replace(
        row,
        error_code=ErrorCode.leader_not_available if leader == NO_LEADER else ErrorCode.none,
        leader_id=leader,
        leader_epoch=DISKLESS_EPOCH,
        replica_nodes=nodes,
        isr_nodes=nodes,
        offline_replicas=(),
    )


def _classic_partition(row: Any, view: View) -> Any:
    if int(row.leader_id) == NO_LEADER or int(row.leader_id) in view.nodes:
        return row
    return replace(row, leader_id=NO_LEADER, error_code=ErrorCode.leader_not_available)


def topic_id_of(topic: Any) -> bytes:
    """Return the id of a topic in an answer; zeros for none."""
    return bytes(16) if topic.topic_id is None else bytes(topic.topic_id.bytes)


def find_coordinator(answer: Any, view: View) -> Any:
    """Rewrite an answer to FindCoordinator."""
    if hasattr(answer, "coordinators"):
        return replace(answer, coordinators=tuple(_coordinator(one, view) for one in answer.coordinators))
    return _coordinator(answer, view)


def _coordinator(row: Any, view: View) -> Any:
    if int(row.node_id) == NO_LEADER:
        return replace(row, host="", port=-1)
    node = view.nodes.get(int(row.node_id))
    if node is None:
        return replace(row, node_id=NO_LEADER, host="", port=-1, error_code=ErrorCode.coordinator_not_available)
    return replace(row, host=node.host, port=node.port)


def describe_cluster(answer: Any, view: View) -> Any:
    """Rewrite an answer to DescribeCluster; one that names no brokers (an error) names none afterwards."""
    if not answer.brokers:
        return answer
    example = answer.brokers[0]
    brokers = tuple(
        replace(example, broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack or None, **_unfenced(example))
        for node in view.nodes.values()
    )
    controller = answer.controller_id if int(answer.controller_id) in view.nodes else NO_LEADER
    return replace(answer, brokers=brokers, controller_id=controller)


def _unfenced(example: Any) -> dict[str, bool]:
    return {"is_fenced": False} if hasattr(example, "is_fenced") else {}


def node_endpoints(answer: Any, view: View) -> Any:
    """Rewrite an answer that names the addresses of new leaders (KIP-951)."""
    ends = tuple(
        replace(one, host=view.nodes[int(one.node_id)].host, port=view.nodes[int(one.node_id)].port)
        for one in answer.node_endpoints
        if int(one.node_id) in view.nodes
    )
    return replace(answer, node_endpoints=ends)
