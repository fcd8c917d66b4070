"""Answers questions of operators and other nodes about a node itself: coordinators, files, the schema level, contradictions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from coordinator.core.commands import Outcome
from coordinator.core.directory.directory import Directory
from coordinator.core.directory.replica_dirs import recorded_directories
from coordinator.core.endpoints import endpoint_of
from coordinator.core.files.logged import owner_ids_of
from coordinator.core.limits import FILES_PER_REQUEST_MAX
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.core.tables.stored_rows import Tombstone
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, parse_topic_id
from coordinator.operations.declaration import bad_timeout
from coordinator.operations.nodes import update_schema_level_response
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    BalanceLeadersRequest,
    BalanceLeadersResponse,
    DescribeCoordinatorsDirectory,
    DescribeCoordinatorsNode,
    DescribeCoordinatorsRecordedDirectory,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeNodeRequest,
    DrainNodeRequest,
    DrainNodeResponse,
    ListFilesFile,
    ListFilesRequest,
    ListFilesResponse,
    ReportContradictionRequest,
    ReportContradictionResponse,
    UpdateSchemaLevelRequest,
)
from coordinator.runtime.answers.descriptions import Descriptions
from coordinator.runtime.answers.file_listing import FILE_STATES, FileListing, FilePage, LocalFile
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.node.node import Node

LIST_FILES_MAX: Final = 1_000
"""Encoding so many takes the event loop some milliseconds."""
FILES_PER_PIECE: Final = 100
"""Looking at so many takes it one; requests of others come between."""


async def describe_coordinators(node: Node, _: int, request: DescribeCoordinatorsRequest, listener: str) -> Message:
    """Answer DescribeCoordinators from this node's replicas."""
    describe = Descriptions(node, listener)
    directory = node.view.directory or Directory()
    ids = request.coordinator_ids or node.replicas.ids()
    followed = frozenset(one.partition for one in node.replicas.followed())
    nodes = [
        DescribeCoordinatorsNode(
            node_id=n.node_id,
            rack=n.rack or None,
            host=endpoint_of(n.endpoints, listener).host,
            port=endpoint_of(n.endpoints, listener).port,
            incarnation_id=n.incarnation_id,
            drain=n.drain,
            directories=tuple(
                DescribeCoordinatorsRecordedDirectory(
                    directory_id=one.directory_id, is_online=one.is_online, coordinator_ids=tuple(one.partitions)
                )
                for one in recorded_directories(
                    directory, n, filter(node.replicas.exists, ids), followed if n.node_id == node.config.node_id else ()
                )
            ),
        )
        for n in describe.nodes()
        if n.endpoints
    ]
    service = node.topic.service()
    return DescribeCoordinatorsResponse(
        error_code=0,
        cluster_id=None if service is None else service.cluster_id,
        metadata_topic_id=ZERO_TOPIC_ID if service is None else parse_topic_id(service.topic_id),
        is_store_marked=node.workers.marking.has_store,
        store_problem=node.workers.marking.problem or None,
        node_id=node.config.node_id,
        incarnation_id=node.config.incarnation_id,
        time_ms=node.wall_ms(),
        withheld_reason=node.withheld_reason,
        placement_rules=node.config.rules.text,
        reserved_ids=tuple(sorted(node.config.only or ())),
        directories=tuple(
            DescribeCoordinatorsDirectory(
                directory_id=one.directory_id,
                path=one.path,
                offline_reason=one.offline_reason,
                total_bytes=one.total_bytes,
                free_bytes=one.free_bytes,
            )
            for one in node.keeper.directories.directories()
        ),
        queued_assignments=len(node.reports.queued()),
        assignment_wait_ms=round(node.reports.longest_wait_s() * 1000),
        coordinators=tuple(describe.coordinators(request.coordinator_ids)),
        nodes=tuple(nodes),
    )


async def list_files(node: Node, _: int, request: ListFilesRequest) -> Message:
    """Answer one page of ListFiles from this node's replicas of the coordinators that are asked for."""
    if len(request.object_keys) > FILES_PER_REQUEST_MAX:
        message = f"{len(request.object_keys)} keys; at most {FILES_PER_REQUEST_MAX} are allowed in a request: split it"
        return _no_files(Outcome(error=ErrorCode.INVALID_REQUEST, message=message))
    listing = FileListing(node, request.coordinator_ids)
    missing = listing.unreadable()
    if missing:
        return _no_files(node.router.not_led(missing[0]))
    try:
        if request.object_keys:
            page = listing.of_keys(request.object_keys)
        else:
            limit = min(max(1, request.max_files), LIST_FILES_MAX)
            page = await page_of(listing, request.after_key or "", limit, request.states or FILE_STATES)
    except NotReadable as unreadable:
        return _no_files(node.router.not_led(unreadable.partition))
    return ListFilesResponse(error_code=0, files=tuple(_file(one) for one in page.files), last_key=page.last_key or None, more=page.more)


async def page_of(listing: FileListing, after_key: str, limit: int, states: Collection[int], *, at_once: int = FILES_PER_PIECE) -> FilePage:
    """Look at up to `limit` files after a key, `at_once` without letting the event loop run, and return those in these states.

    Raises `NotReadable`.
    """
    files: list[LocalFile] = []
    while True:
        page = listing.after(after_key, min(limit, at_once), states)
        files += page.files
        limit -= at_once
        if limit <= 0 or not page.more:
            return replace(page, files=files)
        after_key = page.last_key
        await asyncio.sleep(0)


async def update_schema_level(node: Node, _: int, request: UpdateSchemaLevelRequest) -> Message:
    """Answer UpdateSchemaLevel: what became of it, and the level and nodes of the directory as this node knows it."""
    if request.timeout_ms <= 0:
        outcome = bad_timeout(request.timeout_ms)
    else:
        outcome = await node.directory.raise_schema_level(request.level, frozenset(request.gone_node_ids), request.timeout_ms)
    return update_schema_level_response(outcome, node.view.directory)


async def drain_node(node: Node, _: int, request: DrainNodeRequest) -> Message:
    """Answer DrainNode: whether the directory has it; the group hears of it from the node itself."""
    outcome = bad_timeout(request.timeout_ms)
    if request.timeout_ms > 0:
        outcome = await node.directory.drain_node(request.node_id, request.drain, request.timeout_ms)
    return DrainNodeResponse(error_code=outcome.error, error_message=outcome.message)


async def balance_leaders(node: Node, _: int, request: BalanceLeadersRequest) -> Message:
    """Answer BalanceLeaders: a round of the group was asked for, in which the plan is made anew."""
    outcome = bad_timeout(request.timeout_ms) if request.timeout_ms <= 0 else node.standing.ask_for_round("an operator asks")
    return BalanceLeadersResponse(error_code=outcome.error, error_message=outcome.message)


async def describe_node(node: Node, _: int, __: DescribeNodeRequest) -> Message:
    """Answer DescribeNode."""
    return node.describe()


async def report_contradiction(node: Node, _: int, request: ReportContradictionRequest) -> Message:
    """Answer ReportContradiction: whether the complaint was heard by the leader it concerns."""
    entry = ContradictoryEntry(request.offset, request.epoch, request.term, request.reason)
    outcome = node.accusations.accused(request.coordinator_id, entry, request.node_id)
    return ReportContradictionResponse(error_code=outcome.error, error_message=outcome.message)


def _no_files(outcome: Outcome) -> ListFilesResponse:
    return ListFilesResponse(error_code=int(outcome.error), error_message=outcome.message, files=(), more=False)


def _file(one: LocalFile) -> ListFilesFile:
    known, life = one.known, one.life
    told = ListFilesFile(
        object_key=known.object_key,
        coordinator_id=one.coordinator_id,
        size=-1,
        batch_count=0,
        live_batches=0,
        created_ms=known.created_ms,
        append_time_ms=-1,
        owner_ids=(),
        state=life.state,
        since_ms=life.since_ms,
        until_ms=life.until_ms,
        owners_before=life.owners_before,
    )
    if isinstance(known, Tombstone):
        return told
    return replace(
        told,
        size=known.file_size,
        batch_count=known.batch_count,
        live_batches=known.live_batches,
        append_time_ms=known.append_time_ms,
        owner_ids=owner_ids_of(known.owner_ids),
        uploader_broker_id=known.uploader_broker_id,
    )
