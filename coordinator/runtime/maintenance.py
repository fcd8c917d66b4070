"""Answers questions of operators and other nodes about a node itself: coordinators, files, the schema level, contradictions."""

from __future__ import annotations

from typing import Final

from coordinator.core.log_entry import ContradictoryEntry
from coordinator.operations.declaration import bad_timeout
from coordinator.operations.nodes import update_schema_level_response
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeCoordinatorsCoordinator,
    DescribeCoordinatorsNode,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeNodeRequest,
    ListFilesFile,
    ListFilesRequest,
    ListFilesResponse,
    ReportContradictionRequest,
    ReportContradictionResponse,
    UpdateSchemaLevelRequest,
)
from coordinator.runtime.descriptions import CoordinatorDescription, Descriptions, FileDescription
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.node import Node

LIST_FILES_MAX: Final = 10_000


async def describe_coordinators(node: Node, _: int, request: DescribeCoordinatorsRequest) -> Message:
    """Answer DescribeCoordinators from this node's replicas."""
    describe = Descriptions(node)
    nodes = [
        DescribeCoordinatorsNode(
            node_id=n.node_id,
            rack=n.rack or None,
            host=n.endpoints[0].host,
            port=n.endpoints[0].port,
            incarnation_id=n.incarnation_id,
        )
        for n in describe.nodes()
        if n.endpoints
    ]
    described = describe.coordinators(request.coordinator_ids)
    return DescribeCoordinatorsResponse(
        error_code=0,
        cluster_id=describe.cluster_id,
        node_id=node.config.node_id,
        incarnation_id=node.config.incarnation_id,
        time_ms=node.wall_ms(),
        withheld_reason=node.withheld_reason,
        coordinators=tuple(_coordinator(one, node.config.node_id) for one in described),
        nodes=tuple(nodes),
    )


async def list_files(node: Node, _: int, request: ListFilesRequest) -> Message:
    """Answer one page of ListFiles from this node's replicas of the coordinators that are asked for."""
    describe = Descriptions(node)
    limit = min(max(1, request.max_files), LIST_FILES_MAX)
    missing = describe.not_listed(request.coordinator_ids)
    try:
        files, more = ([], False) if missing else describe.files(request.coordinator_ids, request.after_key or "", limit)
    except NotReadable as unreadable:
        missing = [unreadable.partition]
    if missing:
        outcome = node.router.not_led(missing[0])
        return ListFilesResponse(error_code=int(outcome.error), error_message=outcome.message, files=(), more=False)
    return ListFilesResponse(error_code=0, files=tuple(_file(one) for one in files), more=more)


async def update_schema_level(node: Node, _: int, request: UpdateSchemaLevelRequest) -> Message:
    """Answer UpdateSchemaLevel: what became of it, and the level and nodes of the directory as this node knows it."""
    if request.timeout_ms <= 0:
        outcome = bad_timeout(request.timeout_ms)
    else:
        outcome = await node.directory.raise_schema_level(request.level, frozenset(request.gone_node_ids), request.timeout_ms)
    return update_schema_level_response(outcome, node.view.directory)


async def describe_node(node: Node, _: int, __: DescribeNodeRequest) -> Message:
    """Answer DescribeNode."""
    return node.describe()


async def report_contradiction(node: Node, _: int, request: ReportContradictionRequest) -> Message:
    """Answer ReportContradiction: whether the complaint was heard by the leader it concerns."""
    entry = ContradictoryEntry(request.offset, request.epoch, request.term, request.reason)
    outcome = node.accusations.accused(request.coordinator_id, entry, request.node_id)
    return ReportContradictionResponse(error_code=outcome.error, error_message=outcome.message)


def _coordinator(one: CoordinatorDescription, node_id: int) -> DescribeCoordinatorsCoordinator:
    leader = one.leader
    return DescribeCoordinatorsCoordinator(
        error_code=0,
        coordinator_id=one.coordinator_id,
        state=one.state,
        leader_id=-1 if leader is None else leader.node_id,
        leader_epoch=-1 if leader is None else leader.epoch,
        term=0 if leader is None else leader.term,
        host="" if leader is None else leader.host,
        port=-1 if leader is None else leader.port,
        applied_offset=one.digest_offset,
        log_end_offset=one.log_end,
        live_partitions=one.live_partitions,
        digest=one.digest,
        is_local=leader is not None and leader.node_id == node_id,
        failures=one.failures,
        last_failure=one.last_failure or None,
        evidence=one.evidence or None,
        contradictions=one.contradictions,
        last_contradiction=one.last_contradiction or None,
    )


def _file(one: FileDescription) -> ListFilesFile:
    file = one.file
    return ListFilesFile(
        object_key=file.object_key,
        coordinator_id=one.coordinator_id,
        size=file.file_size,
        batch_count=file.batch_count,
        live_batches=file.live_batches,
        created_ms=file.created_ms,
        append_time_ms=file.append_time_ms,
        owner_ids=tuple(int(owner) for owner in filter(None, file.owner_ids.split(","))),
        uploader_broker_id=file.uploader_broker_id,
    )
