"""From a request on a connection to an operation of the node, and back to encoded bytes.

CommitFile, and mostly ListOffsets and FindBatches (`reads.py`), are answered by callback without a task of their own;
everything else runs as a task that this object owns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import Request, Respond
from coordinator.api import cluster as cluster_api
from coordinator.api import partitions as partitions_api
from coordinator.api import topics as topics_api
from coordinator.api.cluster import FoundCoordinator
from coordinator.api.commits import CommitRequest, read_commit, write_commit
from coordinator.app.fair_reads import FairReads
from coordinator.app.first_error import first_commit_error, first_error
from coordinator.app.ordering import ConnectionOrder, Lane
from coordinator.app.reads import Reads
from coordinator.core.commands import OK, CommitAnswer, DeletedTo, DescribedFile, Outcome
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.api_table import APIS, ApiKey, decode_request
from coordinator.protocol.codec import Message, encode
from coordinator.protocol.messages import (
    CreatePartitionsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeCoordinatorsCoordinator,
    DescribeCoordinatorsNode,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeFilesRequest,
    DescribeNodeRequest,
    DescribeTopicsPartitionResult,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsTopicResult,
    ListFilesFile,
    ListFilesRequest,
    ListFilesResponse,
    PlacePartitionsRequest,
    RegisterNodeRequest,
    RemoveTopicsRequest,
    ReportContradictionRequest,
    UpdateSchemaLevelRequest,
)
from coordinator.runtime.cluster_view import DIRECTORY_PARTITION
from coordinator.runtime.descriptions import CoordinatorDescription, Descriptions, FileDescription, TopicDescription
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.node import Node

LOG = logging.getLogger("coordinator.dispatch")

_COMMIT_FILE = int(ApiKey.COMMIT_FILE)
_COMMIT = ApiKey.COMMIT_FILE.name
_COMMITTED = (_COMMIT, 0)
_LIST_OFFSETS = int(ApiKey.LIST_OFFSETS)
_FIND_BATCHES = int(ApiKey.FIND_BATCHES)
DIRECTORY_TIMEOUT_MS = 2_000
LIST_FILES_MAX = 10_000

ALONE = frozenset({ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.UPDATE_SCHEMA_LEVEL})
UNORDERED = frozenset(
    {ApiKey.PLACE_PARTITIONS, ApiKey.REMOVE_TOPICS, ApiKey.REGISTER_NODE, ApiKey.DESCRIBE_NODE, ApiKey.REPORT_CONTRADICTION}
)
"""Requests between nodes: repeated until they succeed and ordered by what they carry, so they need not wait for each other."""

Serve = Callable[[Any], Awaitable[Message]]


class Dispatcher:
    """Implements the server's `Handler`."""

    def __init__(self, node: Node, metrics: Metrics) -> None:
        self._node = node
        self._metrics = metrics
        self.answered: Counter[tuple[str, int]] = Counter()
        """Requests answered, by operation and first error."""
        self._describe = Descriptions(node)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._observe_commit = metrics.series("request_seconds", _COMMIT).observe
        self._order = ConnectionOrder()
        self._fair_reads = FairReads()
        self._reads = Reads(
            node=node, metrics=metrics, order=self._order, fair_reads=self._fair_reads, answered=self.answered, spawn=self._spawn
        )
        self._serve: Mapping[int, Serve] = {
            ApiKey.CREATE_PARTITIONS: self._create_partitions,
            ApiKey.DELETE_TOPICS: self._delete_topics,
            ApiKey.DELETE_RECORDS: self._delete_records,
            ApiKey.DESCRIBE_FILES: self._describe_files,
            ApiKey.DESCRIBE_TOPICS: self._describe_topics,
            ApiKey.DESCRIBE_COORDINATORS: self._describe_coordinators,
            ApiKey.LIST_FILES: self._list_files,
            ApiKey.UPDATE_SCHEMA_LEVEL: self._update_schema_level,
            ApiKey.PLACE_PARTITIONS: self._place_partitions,
            ApiKey.REMOVE_TOPICS: self._remove_topics,
            ApiKey.REGISTER_NODE: self._register_node,
            ApiKey.DESCRIBE_NODE: self._describe_node,
            ApiKey.REPORT_CONTRADICTION: self._report_contradiction,
        }

    async def close(self) -> None:
        """Cancel what is not answered yet."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def handle(self, request: Request, respond: Respond) -> None:
        """Take a request; see `Handler`. What cannot be decoded raises here, so that the server closes the connection."""
        if request.api_key == _COMMIT_FILE:
            self._commit(request, respond)
            return
        if request.api_key == _LIST_OFFSETS:
            self._reads.list_offsets(request, respond)
            return
        if request.api_key == _FIND_BATCHES:
            self._reads.find_batches(request, respond)
            return
        api = ApiKey(request.api_key)
        message = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
        self._run(api, partial(self._body, api, request.api_version, message), request, respond)

    def _run(self, api: ApiKey, work: Callable[[], Coroutine[None, None, bytes]], request: Request, respond: Respond) -> None:
        if api in UNORDERED:
            self._spawn(self._answer(api, work(), request, respond))
            return

        def answered(body: bytes | None) -> None:
            respond(body)
            self._order.leave(request.connection_id)

        def start() -> bool:
            self._spawn(self._answer(api, work(), request, answered))
            return True

        self._order.enter(request.connection_id, Lane.ALONE if api in ALONE else Lane.READ, start)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _commit(self, request: Request, respond: Respond) -> None:
        commit = read_commit(request.data, request.body_offset, request.client_id)
        if commit.refusal is not None:
            respond(write_commit(commit.refusal))
            self.answered[(_COMMIT, first_commit_error(commit.refusal))] += 1
        elif self._order.enter_at_once(request.connection_id, Lane.COMMIT):
            if not self._start_commit(commit, request, respond):
                self._order.keep_alone(request.connection_id)
        else:
            self._order.enter(request.connection_id, Lane.COMMIT, partial(self._start_commit, commit, request, respond))

    def _start_commit(self, commit: CommitRequest, request: Request, respond: Respond) -> bool:
        connection_id, received_s = request.connection_id, request.received_s

        def answered(answer: CommitAnswer) -> None:
            respond(write_commit(answer))
            error = first_commit_error(answer)
            self.answered[(_COMMIT, error) if error else _COMMITTED] += 1
            self._observe_commit(self._loop.time() - received_s)
            self._order.leave(connection_id)

        try:
            return self._node.router.commit(commit.command, commit.timeout_ms, answered, len(request.data))
        except Exception:
            # The connection is closed, and nothing that waits behind this request on it may start.
            LOG.exception("commit failed peer=%s", request.peer)
            self.answered[(_COMMIT, ErrorCode.UNKNOWN_SERVER_ERROR)] += 1
            respond(None)
            return False

    async def _answer(self, api: ApiKey, work: Coroutine[None, None, bytes], request: Request, respond: Respond) -> None:
        try:
            body: bytes | None = await (self._fair_reads.take(request.connection_id, work) if APIS[api].is_answer_unbounded else work)
        except Exception:
            # A client whose request cannot be answered must not wait for ever: its connection is closed.
            LOG.exception("request failed api=%s peer=%s", api.name, request.peer)
            self.answered[(api.name, ErrorCode.UNKNOWN_SERVER_ERROR)] += 1
            body = None
        respond(body)
        self._metrics.observe("request_seconds", self._loop.time() - request.received_s, api.name)

    async def _body(self, api: ApiKey, version: int, message: Message) -> bytes:
        if api is ApiKey.METADATA:
            answer = self._metadata(version, message)
        elif api is ApiKey.FIND_COORDINATOR:
            answer = await self._find_coordinator(version, message)
        else:
            answer = await self._serve[api](message)
        self.answered[(api.name, first_error(answer))] += 1
        return encode(answer)

    # ---- operations of the KIP

    async def _create_partitions(self, request: CreatePartitionsRequest) -> Message:
        if request.timeout_ms <= 0:
            outcomes = [partitions_api.bad_timeout(request.timeout_ms)] * len(request.topics)
        else:
            outcomes = await self._node.directory.create_topics(topics_api.wanted_topics(request), request.timeout_ms)
        return topics_api.create_partitions_response(request, outcomes)

    async def _delete_topics(self, request: DeleteTopicsRequest) -> Message:
        if request.timeout_ms <= 0:
            outcomes = [partitions_api.bad_timeout(request.timeout_ms)] * len(request.topics)
        else:
            outcomes = await self._node.directory.delete_topics([topic.topic_id for topic in request.topics], request.timeout_ms)
        return topics_api.delete_topics_response(request, outcomes)

    async def _delete_records(self, request: DeleteRecordsRequest) -> Message:
        points = partitions_api.delete_records_points(request)
        if request.timeout_ms <= 0:
            answers = [DeletedTo(outcome=partitions_api.bad_timeout(request.timeout_ms))] * len(points)
        else:
            answers = await self._node.router.delete_records(points, request.timeout_ms)
        return partitions_api.delete_records_response(request, answers)

    async def _describe_files(self, request: DescribeFilesRequest) -> Message:
        if request.timeout_ms <= 0:
            answers = [DescribedFile(outcome=partitions_api.bad_timeout(request.timeout_ms))] * len(request.files)
        else:
            answers = await self._node.router.describe_files([file.object_key for file in request.files], request.timeout_ms)
        return partitions_api.describe_files_response(request, answers)

    async def _update_schema_level(self, request: UpdateSchemaLevelRequest) -> Message:
        if request.timeout_ms <= 0:
            outcome = partitions_api.bad_timeout(request.timeout_ms)
        else:
            gone = frozenset(request.gone_node_ids)
            outcome = await self._node.directory.raise_schema_level(request.level, gone, request.timeout_ms)
        return cluster_api.update_schema_level_response(outcome, self._node.view.directory)

    # ---- internal requests

    async def _place_partitions(self, request: PlacePartitionsRequest) -> Message:
        command = topics_api.place_partitions(request)
        outcomes = await self._node.directory.serve(request.coordinator_id, command, len(request.topics), max(1, request.timeout_ms))
        return topics_api.place_partitions_response(request, outcomes)

    async def _remove_topics(self, request: RemoveTopicsRequest) -> Message:
        command = topics_api.remove_topics(request)
        outcomes = await self._node.directory.serve(request.coordinator_id, command, len(request.topics), max(1, request.timeout_ms))
        return topics_api.remove_topics_response(request, outcomes)

    async def _register_node(self, request: RegisterNodeRequest) -> Message:
        command = topics_api.register_node(request)
        outcomes = await self._node.directory.serve(DIRECTORY_PARTITION, command, 1, max(1, request.timeout_ms))
        return topics_api.register_node_response(outcomes[0])

    async def _describe_node(self, _: DescribeNodeRequest) -> Message:
        return self._node.describe()

    async def _report_contradiction(self, request: ReportContradictionRequest) -> Message:
        entry = cluster_api.contradictory_entry(request)
        return cluster_api.report_contradiction_response(self._node.accusations.accused(request.coordinator_id, entry, request.node_id))

    # ---- discovery

    def _metadata(self, version: int, request: Message) -> Message:
        wanted = cluster_api.wanted_topics(request)
        placements = self._describe.all_placements() if wanted is None else self._describe.placements(wanted)
        topics = []
        for at, placement in enumerate(placements):
            if placement is not None:
                leaders = [partition.leader_id for partition in self._describe.topic(placement).partitions]
                topics.append(cluster_api.MetadataTopic(ErrorCode.NONE, placement.topic_id, placement.name, leaders))
            elif wanted is not None:
                topic_id, name = wanted[at]
                error = ErrorCode.UNKNOWN_TOPIC_ID if any(topic_id) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                topics.append(cluster_api.MetadataTopic(error, topic_id, name, []))
        leader = self._node.view.leader(DIRECTORY_PARTITION)
        controller_id = -1 if leader is None else leader.node_id
        return cluster_api.metadata_response(version, self._describe.nodes(), self._describe.cluster_id, controller_id, topics)

    async def _find_coordinator(self, version: int, request: Message) -> Message:
        key_type, keys = cluster_api.coordinator_keys(request)
        found = [await self._find_one(key_type, key) for key in keys]
        return cluster_api.find_coordinator_response(version, found)

    async def _find_one(self, key_type: int, text: str) -> FoundCoordinator:
        if key_type != cluster_api.COORDINATOR_KEY_TYPE:
            message = f"key type {key_type} is not served here; Diskless Coordinators have key type {cluster_api.COORDINATOR_KEY_TYPE}"
            return _not_found(text, ErrorCode.INVALID_REQUEST, message)
        try:
            key = cluster_api.parse_coordinator_key(text)
        except ValueError as error:
            return _not_found(text, ErrorCode.INVALID_REQUEST, str(error))
        coordinator_id = key.coordinator_id
        if coordinator_id is None:
            wire_key = partition_key(key.topic_id, key.partition)
            coordinator_id = self._node.view.owner_of(wire_key)
            if coordinator_id is None and await self._node.router.directory_is_current(DIRECTORY_TIMEOUT_MS):
                coordinator_id = self._node.view.owner_of(wire_key)
            if coordinator_id is None:
                coordinator_id = self._node.view.former_owner_of(wire_key)
        leader = None if coordinator_id is None else self._node.view.leader(coordinator_id)
        if leader is None:
            what = f"no coordinator owns {text}" if coordinator_id is None else f"coordinator {coordinator_id} has no leader now"
            return _not_found(text, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{what}; retry")
        return FoundCoordinator(text, leader.node_id, leader.host, leader.port, OK)

    async def _describe_topics(self, request: DescribeTopicsRequest) -> Message:
        if not await self._node.router.directory_is_current(min(max(1, request.timeout_ms), DIRECTORY_TIMEOUT_MS)):
            LOG.info("topics are described from a directory that may be stale")
        if not request.topics:
            described = [_topic(self._describe.topic(placement)) for placement in self._describe.all_placements()]
            return DescribeTopicsResponse(topics=tuple(described))
        wanted = [(topic.topic_id, topic.name) for topic in request.topics]
        results = []
        for (topic_id, name), placement in zip(wanted, self._describe.placements(wanted), strict=True):
            if placement is not None:
                results.append(_topic(self._describe.topic(placement)))
                continue
            results.append(self._unknown_topic(topic_id, name))
        return DescribeTopicsResponse(topics=tuple(results))

    def _unknown_topic(self, topic_id: bytes, name: str | None) -> DescribeTopicsTopicResult:
        """A topic that is not placed; a deleted one with the coordinators of its partitions, for repeated commits."""
        if not any(topic_id):
            message = f"topic {name} is not known; create it, or list the topics to see which there are"
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return DescribeTopicsTopicResult(error_code=error, error_message=message, topic_id=topic_id, name=name, partitions=())
        deletion = self._node.view.deletion(topic_id)
        former = None if deletion is None else _topic(self._describe.topic(deletion))
        return DescribeTopicsTopicResult(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            error_message=self._node.view.why_unknown(topic_id),
            topic_id=topic_id,
            name=name if former is None else former.name,
            partitions=() if former is None else former.partitions,
        )

    async def _describe_coordinators(self, request: DescribeCoordinatorsRequest) -> Message:
        nodes = [
            DescribeCoordinatorsNode(
                node_id=n.node_id,
                rack=n.rack or None,
                host=n.endpoints[0].host,
                port=n.endpoints[0].port,
                incarnation_id=n.incarnation_id,
            )
            for n in self._describe.nodes()
            if n.endpoints
        ]
        described = self._describe.coordinators(request.coordinator_ids)
        return DescribeCoordinatorsResponse(
            error_code=0,
            cluster_id=self._describe.cluster_id,
            node_id=self._node.config.node_id,
            incarnation_id=self._node.config.incarnation_id,
            time_ms=self._node.wall_ms(),
            withheld_reason=self._node.withheld_reason,
            coordinators=tuple(_coordinator(one, self._node.config.node_id) for one in described),
            nodes=tuple(nodes),
        )

    async def _list_files(self, request: ListFilesRequest) -> Message:
        limit = min(max(1, request.max_files), LIST_FILES_MAX)
        missing = self._describe.not_listed(request.coordinator_ids)
        try:
            files, more = ([], False) if missing else self._describe.files(request.coordinator_ids, request.after_key or "", limit)
        except NotReadable as unreadable:
            missing = [unreadable.partition]
        if missing:
            outcome = self._node.router.not_led(missing[0])
            return ListFilesResponse(error_code=int(outcome.error), error_message=outcome.message, files=(), more=False)
        return ListFilesResponse(error_code=0, files=tuple(_file(one) for one in files), more=more)


def _not_found(key: str, error: ErrorCode, message: str) -> FoundCoordinator:
    return FoundCoordinator(key, -1, "", -1, Outcome(error=error, message=message))


def _topic(topic: TopicDescription) -> DescribeTopicsTopicResult:
    partitions = tuple(
        DescribeTopicsPartitionResult(
            error_code=0,
            partition_index=p.partition,
            coordinator_id=p.coordinator_id,
            leader_id=p.leader_id,
            log_start_offset=p.log_start,
            high_watermark=p.high_watermark,
        )
        for p in topic.partitions
    )
    return DescribeTopicsTopicResult(error_code=0, topic_id=topic.topic_id, name=topic.name, partitions=partitions)


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
