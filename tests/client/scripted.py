"""A scripted cluster behind real socket servers: directory, leaders, offsets; tests move leaders and add trouble.

It commits for real, as far as a client can tell: offsets by partition, results by object key and coordinator.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from coordinator.adapters.server.contract import Handler, IncomingRequest, Respond
from coordinator.adapters.server.server import Server
from coordinator.client.routing.routed_call import MOVED
from coordinator.core.commands import OK, FileStanding, Outcome, RaiseSchemaLevel
from coordinator.core.directory.decisions import decide_raise
from coordinator.core.directory.directory import Directory, apply_directory
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, LATEST
from coordinator.operations import discovery
from coordinator.operations.nodes import update_schema_level_response
from coordinator.operations.table import ApiTable
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message, encode
from coordinator.protocol.commit_file import CommitFileBody, decode_commit_file, encode_commit_response
from coordinator.protocol.find_batches import FindBatchesBody, decode_find_batches
from records.levels import LEVEL_LATEST
from records.model import Endpoint, NodeRegistered
from tests.decoding import decode_request

Trouble = Callable[["ScriptedNode", IncomingRequest, Respond], bool]
"""Sees each request first; True if it has dealt with it."""

Result = tuple[int, int]

BATCHES_PER_ANSWER = 3
"""So that a reader asks more than once."""


@dataclass(slots=True)
class ScriptedCluster:
    """What all nodes know. `leaders` is the truth; a node's `told` overrides what it tells."""

    coordinators: int = 4
    topics: dict[bytes, tuple[str, list[int]]] = field(default_factory=dict)
    topic_settings: dict[bytes, dict[str, str]] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    standbys: dict[int, tuple[int, ...]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    nodes: dict[int, ScriptedNode] = field(default_factory=dict)
    starts: dict[bytes, int] = field(default_factory=dict)
    """Where the diskless logs of migrated partitions begin, by the key of the partition; their classic logs begin at 0."""
    ends: dict[bytes, int] = field(default_factory=dict)
    logs: dict[bytes, list[m.FindBatchesBatchInfo]] = field(default_factory=dict)
    """The batches of each partition, by the key of the partition."""
    files: dict[tuple[str, int], tuple[CommitFileBody, list[Result]]] = field(default_factory=dict)
    moved: set[bytes] = field(default_factory=set)
    """Partitions that were elsewhere before, by their keys."""
    fenced: set[tuple[str, int]] = field(default_factory=set)
    """Files that coordinators have promised never to take."""
    emptied: set[str] = field(default_factory=set)
    commits: list[tuple[int, CommitFileBody]] = field(default_factory=list)
    directory: Directory = field(default_factory=Directory)
    gateways: list[m.DescribeGatewaysResponse] = field(default_factory=list)
    """The answers to DescribeGateways, one after the other; the last one stays."""
    metadata_topic_id: bytes = bytes(15) + b"\1"
    is_store_marked: bool = False
    remark: str | None = None
    """What creations that succeed are answered besides."""

    polls: list[tuple[ScriptedNode, IncomingRequest, Respond]] = field(default_factory=list)
    """The requests that wait for a commit."""

    def wake(self, which: Callable[[IncomingRequest], bool] = lambda _: True) -> None:
        """Answer polls."""
        woken = [poll for poll in self.polls if which(poll[1])]
        self.polls = [poll for poll in self.polls if poll not in woken]
        for node, request, respond in woken:
            respond(node.answer(request))

    def add_topic(self, topic_id: bytes, name: str, partitions: int) -> None:
        self.topics[topic_id] = (name, [partition % self.coordinators for partition in range(partitions)])

    def register(self, *levels: tuple[int, int]) -> None:
        """Enter nodes in the directory: (node id, highest schema level)."""
        for node_id, level_max in levels:
            node = NodeRegistered(
                node_id=node_id,
                rack="",
                endpoints=[],
                schema_level_max=level_max,
                incarnation_id=bytes(16),
                log_dirs=[],
                is_any_dir_offline=False,
            )
            apply_directory(self.directory, node, 0)

    def owner(self, key: bytes) -> int | None:
        _, owners = self.topics.get(key[:16], ("", []))
        partition = int.from_bytes(key[16:], "big")
        return owners[partition] if partition < len(owners) else None

    def missing(self, key: bytes) -> ErrorCode:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if key[:16] in self.topics else ErrorCode.UNKNOWN_TOPIC_ID

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{node.port}" for node in self.nodes.values()]


class ScriptedNode(Handler):
    """One node: answers from the cluster's truth, after `trouble` had its chance."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.port = 0
        self.server = Server(self, ApiTable(), listener=f"node-{node_id}")
        self.trouble: list[Trouble] = []
        self.seen: list[IncomingRequest] = []
        self.told: dict[int, int] = {}
        self.has_failed = False

    def count(self, api: ApiKey) -> int:
        return sum(request.api_key == api for request in self.seen)

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self.seen.append(request)
        self.cluster.wake(lambda poll: poll.peer.connection_id == request.peer.connection_id)
        if any(trouble(self, request, respond) for trouble in list(self.trouble)):
            return
        if request.api_key == ApiKey.FIND_BATCHES and self._has_to_wait(decode_find_batches(request.data, request.body_offset)):
            self.cluster.polls.append((self, request, respond))
        else:
            respond(self.answer(request))

    def _has_to_wait(self, wanted: FindBatchesBody) -> bool:
        """Whether a poll waits until something is committed, however long that takes."""
        points = [(topic_id + index.to_bytes(4, "big"), offset) for topic_id, asked in wanted.topics for index, offset, _ in asked]
        return wanted.max_wait_ms > 0 and not self.has_failed and all(offset == self.cluster.ends.get(key, 0) for key, offset in points)

    def answer(self, request: IncomingRequest) -> bytes:
        if request.api_key == ApiKey.COMMIT_FILE:
            answer = self._commit(decode_commit_file(request.data, request.body_offset))
            self.cluster.wake()
            return answer
        message = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
        return encode(self._reply(request.api_version, message))

    def _reply(self, version: int, message: Message) -> Message:
        match message:
            case m.DescribeTopicsRequest():
                every = (m.DescribeTopicsTopic(topic_id=topic_id, name=None) for topic_id in self.cluster.topics)
                return m.DescribeTopicsResponse(topics=tuple(map(self._topic, message.topics or every)))
            case m.ListTopicsRequest():
                return self._topics()
            case m.DescribeCoordinatorsRequest():
                return self._coordinators()
            case m.DescribeGatewaysRequest():
                answers = self.cluster.gateways
                return answers.pop(0) if len(answers) > 1 else answers[0]
            case m.ListOffsetsRequest():
                return self._list_offsets(message)
            case m.FindBatchesRequest():
                return self._find_batches(message)
            case m.CreatePartitionsRequest():
                return self._create(message)
            case m.DescribeFilesRequest():
                return self._describe_files(message)
            case m.FenceFilesRequest():
                return self._fence_files(message)
            case m.UpdateSchemaLevelRequest():
                return self._update_schema_level(message)
        if type(message).__name__ == "MetadataRequest":
            return discovery.metadata_response(version, [self._registered(node) for node in self.cluster.nodes.values()], "c", 1, [])
        _, keys = discovery.coordinator_keys(message)
        return discovery.find_coordinator_response(version, [self._find(key) for key in keys])

    def _registered(self, node: ScriptedNode) -> NodeRegistered:
        endpoints = [Endpoint(listener="i", host="127.0.0.1", port=node.port)]
        return NodeRegistered(
            node_id=node.node_id,
            rack="",
            endpoints=endpoints,
            schema_level_max=1,
            incarnation_id=bytes(16),
            log_dirs=[],
            is_any_dir_offline=False,
        )

    def _find(self, key: str) -> discovery.FoundCoordinator:
        coordinator, _, standby = key.partition("/")
        leader = self.told.get(int(coordinator), self.cluster.leaders.get(int(coordinator), -1))
        if standby:
            leader = (*self.cluster.standbys.get(int(coordinator), ()), -1, -1, -1)[int(standby) - 1]
        if leader < 0:
            return discovery.FoundCoordinator(key, -1, "", -1, Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message="no leader now"))
        return discovery.FoundCoordinator(key, leader, "127.0.0.1", self.cluster.nodes[leader].port, OK)

    def _topic(self, asked: m.DescribeTopicsTopic) -> m.DescribeTopicsTopicResult:
        found = {name: topic_id for topic_id, (name, _) in self.cluster.topics.items()}
        topic_id = asked.topic_id if any(asked.topic_id) else found.get(asked.name or "", bytes(16))
        if topic_id not in self.cluster.topics:
            return m.DescribeTopicsTopicResult(error_code=100, topic_id=asked.topic_id, name=asked.name, partitions=(), configs=())
        name, owners = self.cluster.topics[topic_id]
        partitions = tuple(
            m.DescribeTopicsPartitionResult(
                error_code=0,
                partition_index=index,
                coordinator_id=owner,
                leader_id=self.cluster.leaders[owner],
                # Nodes know the logs of coordinators that they follow: here, that they lead.
                **({"log_start_offset": 0, "high_watermark": self._end(topic_id, index)} if self._leads(owner) else {}),
            )
            for index, owner in enumerate(owners)
        )
        settings = self.cluster.topic_settings.get(topic_id, {})
        configs = tuple(m.DescribeTopicsConfig(name=key, value=value) for key, value in settings.items())
        return m.DescribeTopicsTopicResult(error_code=0, topic_id=topic_id, name=name, partitions=partitions, configs=configs)

    def _leads(self, coordinator_id: int) -> bool:
        return self.cluster.leaders[coordinator_id] == self.node_id

    def _end(self, topic_id: bytes, partition: int) -> int:
        return self.cluster.ends.get(topic_id + partition.to_bytes(4, "big"), 0)

    def _topics(self) -> m.ListTopicsResponse:
        topics = self.cluster.topics.items()
        listed = [
            m.ListTopicsTopic(topic_id=topic_id, name=name, ranges=tuple(map(_range_of, owners)), configs=())
            for topic_id, (name, owners) in topics
        ]
        return m.ListTopicsResponse(error_code=0, offset=len(listed), topics=tuple(listed), deleted_topic_ids=())

    def _coordinators(self) -> m.DescribeCoordinatorsResponse:
        described = tuple(
            m.DescribeCoordinatorsCoordinator(
                error_code=0,
                coordinator_id=i,
                state="leading" if leader == self.node_id else "following",
                leader_id=leader,
                leader_epoch=self.cluster.epochs.get(i, 1),
                host="",
                digest=b"",
                is_local=leader == self.node_id,
                directory_id=bytes(16),
            )
            for i, leader in self.cluster.leaders.items()
        )
        return m.DescribeCoordinatorsResponse(
            error_code=0,
            cluster_id="c",
            metadata_topic_id=self.cluster.metadata_topic_id,
            is_store_marked=self.cluster.is_store_marked,
            node_id=self.node_id,
            incarnation_id=bytes(16),
            time_ms=0,
            placement_rules="",
            reserved_ids=(),
            coordinators=described,
            directories=(),
            nodes=tuple(
                m.DescribeCoordinatorsNode(node_id=node.node_id, host="127.0.0.1", port=node.port, incarnation_id=bytes(16), directories=())
                for node in self.cluster.nodes.values()
            ),
        )

    def _refusal(self, key: bytes) -> ErrorCode:
        owner = self.cluster.owner(key)
        if owner is None:
            return self.cluster.missing(key)
        return ErrorCode.NONE if self.cluster.leaders[owner] == self.node_id else ErrorCode.NOT_COORDINATOR

    def _list_offsets(self, message: m.ListOffsetsRequest) -> m.ListOffsetsResponse:
        topics = []
        for topic in message.topics:
            results = []
            for one in topic.partitions:
                key = topic.topic_id + one.partition_index.to_bytes(4, "big")
                code = self._refusal(key)
                start = self.cluster.starts.get(key, 0)
                named = {EARLIEST: 0, EARLIEST_LOCAL: start, LATEST: self.cluster.ends.get(key, 0)}
                reached = (batch.base_offset for batch in self.cluster.logs.get(key, ()) if batch.batch_max_timestamp >= one.timestamp)
                found = named[one.timestamp] if one.timestamp in named else next(reached, -1)
                offset = found if code is ErrorCode.NONE else -1
                results.append(
                    m.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index, error_code=code, timestamp=one.timestamp, offset=offset
                    )
                )
            topics.append(m.ListOffsetsTopicResponse(topic_id=topic.topic_id, partitions=tuple(results)))
        return m.ListOffsetsResponse(topics=tuple(topics))

    def _find_batches(self, message: m.FindBatchesRequest) -> m.FindBatchesResponse:
        """Any node answers, unless its replica `has_failed`."""
        topics = []
        for topic in message.topics:
            results = []
            for one in topic.partitions:
                key = topic.topic_id + one.partition_index.to_bytes(4, "big")
                code = ErrorCode.NOT_COORDINATOR if self.has_failed else ErrorCode.NONE
                if code is ErrorCode.NONE and one.offset > self.cluster.ends.get(key, one.offset):
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                found = [batch for batch in self.cluster.logs.get(key, ()) if batch.last_offset >= one.offset and code is ErrorCode.NONE]
                results.append(
                    m.FindBatchesPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=code,
                        log_start_offset=0,
                        high_watermark=self.cluster.ends.get(key, 0),
                        batches=tuple(found[:BATCHES_PER_ANSWER]),
                    )
                )
            topics.append(m.FindBatchesTopicResponse(topic_id=topic.topic_id, partitions=tuple(results)))
        return m.FindBatchesResponse(topics=tuple(topics))

    def _create(self, message: m.CreatePartitionsRequest) -> m.CreatePartitionsResponse:
        results = []
        for one in message.topics:
            taken = {name: topic_id for topic_id, (name, _) in self.cluster.topics.items()}
            code = ErrorCode.NONE
            if self.cluster.leaders[0] != self.node_id:
                code = ErrorCode.NOT_COORDINATOR
            elif taken.get(one.name, one.topic_id) != one.topic_id:
                code = ErrorCode.TOPIC_ALREADY_EXISTS
            else:
                self.cluster.add_topic(one.topic_id, one.name, one.num_partitions)
            results.append(m.CreatablePartitionsResult(topic_id=one.topic_id, error_code=code, error_message=self.cluster.remark))
        return m.CreatePartitionsResponse(topics=tuple(results))

    def _update_schema_level(self, message: m.UpdateSchemaLevelRequest) -> Message:
        directory = self.cluster.directory
        if self.cluster.leaders[0] != self.node_id:
            return update_schema_level_response(Outcome(error=ErrorCode.NOT_COORDINATOR, message="not here"), directory)
        records, outcome = decide_raise(directory, RaiseSchemaLevel(level=message.level, gone_node_ids=frozenset(message.gone_node_ids)))
        for record in records:
            apply_directory(directory, record, 0)
        return update_schema_level_response(outcome, directory)

    def _describe_files(self, message: m.DescribeFilesRequest) -> m.DescribeFilesResponse:
        led = {i for i, leader in self.cluster.leaders.items() if leader == self.node_id}
        results = []
        for one in message.files:
            known = any((one.object_key, coordinator) in self.cluster.files for coordinator in led)
            code = ErrorCode.NONE if known else ErrorCode.RESOURCE_NOT_FOUND if led else ErrorCode.NOT_COORDINATOR
            is_live = known and one.object_key not in self.cluster.emptied
            results.append(m.DescribeFileResult(object_key=one.object_key, error_code=code, has_live_batches=is_live))
        return m.DescribeFilesResponse(files=tuple(results))

    def _fence_files(self, message: m.FenceFilesRequest) -> m.FenceFilesResponse:
        if self.cluster.leaders[message.coordinator_id] != self.node_id:
            files = tuple(m.FenceFilesResult(error_code=ErrorCode.NOT_COORDINATOR, standing=0) for _ in message.files)
            return m.FenceFilesResponse(error_code=0, files=files)
        results = []
        for one in message.files:
            if (one.object_key, message.coordinator_id) in self.cluster.files:
                standing = FileStanding.EMPTY if one.object_key in self.cluster.emptied else FileStanding.LIVE
            elif message.only_tell:
                standing = FileStanding.UNKNOWN
            else:
                self.cluster.fenced.add((one.object_key, message.coordinator_id))
                standing = FileStanding.FENCED
            results.append(m.FenceFilesResult(error_code=0, standing=standing))
        return m.FenceFilesResponse(error_code=0, files=tuple(results))

    def _commit(self, file: CommitFileBody) -> bytes:
        self.cluster.commits.append((self.node_id, file))
        keys = cast(list[bytes], file.batches["topic_partition"].tolist())
        owners = [self.cluster.owner(key) for key in keys]
        if None in owners:
            # Where the topic was placed, its coordinator remembers the file.
            for (object_key, owner), (share, answered) in self.cluster.files.items():
                if self.cluster.leaders[owner] == self.node_id and (object_key, share.batches.tobytes(), share.owner_ids) == (
                    file.object_key,
                    file.batches.tobytes(),
                    file.owner_ids,
                ):
                    return _commit_body(answered)
            codes = [int(self.cluster.missing(key)) if owner is None else 15 for key, owner in zip(keys, owners, strict=True)]
            return _commit_body([(code, -1) for code in codes])
        placed = {owner for key, owner in zip(keys, owners, strict=True) if key not in self.cluster.moved}
        if not file.owner_ids or placed - set(file.owner_ids):
            # A partition has moved to a coordinator that the file does not name.
            return _commit_body([(15 if owner in file.owner_ids else 6, -1) for owner in owners])
        results: list[Result] = [(int(MOVED) if key in self.cluster.moved else 16, -1) for key in keys]
        for owner in sorted({one for one in owners if one is not None}):
            rows = [row for row, one in enumerate(owners) if one == owner]
            if self.cluster.leaders[owner] == self.node_id:
                share = file._replace(batches=file.batches[rows], timeout_ms=0)
                for row, result in zip(rows, self._commit_share(owner, share), strict=True):
                    results[row] = result
        return _commit_body(results)

    def _commit_share(self, owner: int, share: CommitFileBody) -> list[Result]:
        if (share.object_key, owner) in self.cluster.files:
            known, results = self.cluster.files[share.object_key, owner]
            same = (known.owner_ids, known.batches.tobytes()) == (share.owner_ids, share.batches.tobytes())
            return results if same else [(92, -1)] * len(results)
        if (share.object_key, owner) in self.cluster.fenced:
            return [(42, -1)] * len(share.batches)
        results = []
        for batch in share.batches:
            key = bytes(batch["topic_partition"])
            results.append((0, self.cluster.ends.get(key, 0)))
            self.cluster.ends[key] = results[-1][1] + int(batch["last_offset"]) - int(batch["base_offset"]) + 1
            self.cluster.logs.setdefault(key, []).append(
                m.FindBatchesBatchInfo(
                    batch_id=len(self.cluster.files),
                    object_key=share.object_key,
                    magic=2,
                    byte_offset=int(batch["byte_offset"]),
                    byte_size=int(batch["size"]),
                    base_offset=results[-1][1],
                    last_offset=self.cluster.ends[key] - 1,
                    log_append_timestamp=-1,
                    batch_max_timestamp=int(batch["max_timestamp"]),
                    timestamp_type=int(batch["timestamp_type"]),
                )
            )
        self.cluster.files[share.object_key, owner] = (share, results)
        return results


def _commit_body(results: list[Result]) -> bytes:
    codes, bases = [code for code, _ in results], [base for _, base in results]
    unknown = [-1 if code else 0 for code in codes]
    return encode_commit_response(codes, bases, [-1] * len(codes), unknown, [False] * len(codes))


@asynccontextmanager
async def scripted(nodes: int = 2, coordinators: int = 4) -> AsyncIterator[ScriptedCluster]:
    """Nodes 1 to `nodes` share the coordinators in turn; all are stopped at the end."""
    cluster = ScriptedCluster(coordinators=coordinators)
    for node_id in range(1, nodes + 1):
        node = cluster.nodes[node_id] = ScriptedNode(cluster, node_id)
        node.port = await node.server.start("127.0.0.1", 0)
    cluster.leaders = {i: i % nodes + 1 for i in range(coordinators)}
    cluster.register(*dict.fromkeys(cluster.nodes, LEVEL_LATEST).items())
    try:
        yield cluster
    finally:
        for node in cluster.nodes.values():
            await node.server.stop(0)


def _range_of(owner: int) -> m.ListTopicsRange:
    return m.ListTopicsRange(coordinator_id=owner, num_partitions=1, classic_pending=False)
