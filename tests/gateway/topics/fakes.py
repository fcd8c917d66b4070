"""Small real implementations of what the room of topics asks: coordinators, and a Kafka that answers questions about its topics."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest
from kio.schema.describe_configs.v4.response import DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.client.calls.directory import TopicConfigs
from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.errors import Unavailable
from coordinator.client.model import PartitionId, TopicChanges, TopicListing
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import encode
from coordinator.protocol.framing import read_request_header, reply_frame, request_frame
from coordinator.security.principal import ANONYMOUS
from gateway.kafka_apis import KafkaApi
from gateway.topics.wire import NOW, TOPIC


def listing(name: str, topic_id: bytes, partitions: int = 3, classic: Sequence[int] = (), **settings: str) -> TopicListing:
    """A topic as the coordinators list it; dots of its settings are written as underscores."""
    own = {key.replace("_", "."): value for key, value in settings.items()}
    coordinators = tuple(range(partitions))
    return TopicListing(
        topic_id=topic_id, name=name, num_partitions=partitions, settings=own, coordinators=coordinators, classic=tuple(classic)
    )


@dataclass(slots=True)
class FakeCoordinators:
    """Coordinators in memory; `log` has the changes in their order. Implements `gateway.topics.coordinators.Coordinators`."""

    log: list[tuple[str, TopicListing | None]] = field(default_factory=list)
    pending: set[bytes] = field(default_factory=set)
    written: set[bytes] = field(default_factory=set)
    is_down: bool = False
    asked: list[tuple[int, bool]] = field(default_factory=list)
    wait: Callable[[], Any] | None = None

    def put(self, one: TopicListing) -> None:
        """Create or change a topic."""
        self.log.append((one.topic_id.hex(), one))

    def remove(self, topic_id: bytes) -> None:
        """Delete a topic."""
        self.log.append((topic_id.hex(), None))

    async def changed_topics(self, since: int = -1, *, is_current: bool = True, timeout_ms: int | None = None) -> TopicChanges:
        self.asked.append((since, is_current))
        if self.wait is not None:
            await self.wait()
        if self.is_down:
            raise Unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody answers")
        now = dict(self.log)
        changed = now if since < 0 else dict(self.log[since:])
        topics = tuple(one for one in changed.values() if one is not None)
        deleted = () if since < 0 else tuple(bytes.fromhex(key) for key, one in changed.items() if one is None)
        return TopicChanges(offset=len(self.log), is_whole=since < 0, topics=topics, deleted=deleted)

    async def describe_diskless_logs(self, partitions: Sequence[PartitionId], *, timeout_ms: int | None = None) -> list[DisklessLogState]:
        return [
            DisklessLogState(state="pending")
            if one.topic_id in self.pending
            else DisklessLogState(state="initialised", start_offset=7, high_watermark=8 if one.topic_id in self.written else 7)
            for one in partitions
        ]

    async def create_topic(
        self,
        name: str,
        num_partitions: int,
        *,
        topic_id: bytes | None = None,
        settings: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> TopicListing:
        raise NotImplementedError

    async def alter_topic(
        self, name: str, changes: Mapping[str, str | None], *, dry_run: bool = False, timeout_ms: int | None = None
    ) -> None:
        raise NotImplementedError

    async def describe_topic_configs(self, names: Sequence[str], *, timeout_ms: int | None = None) -> list[TopicConfigs]:
        raise NotImplementedError

    async def delete_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class FakeBroker:
    """Answers Metadata and DescribeConfigs of topics: (id, partitions, max.message.bytes) by name. Implements `Asks`."""

    topics: dict[str, tuple[bytes, int, str | None]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Of the broker itself, whose id is 2."""
    is_lost: bool = False
    hidden: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    async def ask(self, request: Any, answer_type: type[Any]) -> Any:
        self.asked.append(type(request).__name__)
        if self.is_lost:
            raise BrokerLost("the broker went away")
        return self._metadata(request) if isinstance(request, MetadataRequest) else self._configs(request)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        brokers = tuple(MetadataResponseBroker(node_id=BrokerId(one), host="h", port=i32(1)) for one in (1, 2))
        names = {topic_id: name for name, (topic_id, _, _) in self.topics.items()}
        asked = [
            str(one.name) if one.name is not None else names.get(one.topic_id.bytes if one.topic_id else b"")
            for one in request.topics or ()
        ]
        return MetadataResponse(
            throttle_time=NOW,  # type: ignore[arg-type]
            brokers=brokers,
            topics=tuple(self._topic(name) for name in asked if name is not None),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        topic_id, partitions, _ = (bytes(16), 0, None) if name in self.hidden else self.topics.get(name, (bytes(16), 0, None))
        unseen = KafkaError.topic_authorization_failed if name in self.hidden else KafkaError.unknown_topic_or_partition
        return MetadataResponseTopic(
            error_code=KafkaError.none if partitions else unseen,
            name=TopicName(name),
            topic_id=uuid.UUID(bytes=topic_id),
            partitions=tuple(
                MetadataResponsePartition(
                    error_code=KafkaError.none,
                    partition_index=i32(index),
                    leader_id=BrokerId(1),
                    replica_nodes=(),
                    isr_nodes=(),
                    offline_replicas=(),
                )
                for index in range(partitions)
            ),
        )

    def _configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            throttle_time=NOW,  # type: ignore[arg-type]
            results=tuple(
                self._result(int(one.resource_type), one.resource_name, one.configuration_keys or ()) for one in request.resources
            ),
        )

    def _result(self, kind: int, name: str, keys: Sequence[str]) -> DescribeConfigsResult:
        if kind == TOPIC:
            value = self.topics.get(name, (b"", 0, None))[2]
            values = {} if value is None else {"max.message.bytes": value}
            code = KafkaError.topic_authorization_failed if value is None else KafkaError.none
        else:
            values = self.settings if name == "2" else {}
            code = KafkaError.none if name == "2" else KafkaError.invalid_request
        configs = tuple(
            DescribeConfigsResourceResult(
                name=key, value=values[key], read_only=False, is_sensitive=False, synonyms=(), documentation=None, config_source=i8(1)
            )
            for key in keys
            if key in values
        )
        return DescribeConfigsResult(error_code=code, error_message=None, resource_type=i8(kind), resource_name=name, configs=configs)


def _raw(topic_id: uuid.UUID | None) -> bytes:
    return b"" if topic_id is None else topic_id.bytes


class FakeUpstream:
    """What a client's connection would send on; answers what is forwarded with `passed on`, and no question."""

    def __init__(self) -> None:
        self.forwarded: list[bytes] = []

    async def forward(self, frame: bytes) -> bytes:
        self.forwarded.append(frame)
        return reply_frame(7, b"\0passed on", tagged=False)[4:]  # a body, with or without tagged fields before it

    async def ask(self, request: Any, answer_type: type[Any]) -> Any:
        raise AssertionError(f"not asked for: {request}")


def session() -> Any:
    """One connection of a client."""
    return SimpleNamespace(upstream=FakeUpstream(), client_id="test", address="127.0.0.1")


def incoming(api: KafkaApi, request: Any) -> IncomingRequest:
    """A request as the server hands it on."""
    frame = request_frame(api, int(request.__version__), 7, "test", encode(request), flexible=request.__flexible__)[4:]
    offset = read_request_header(frame, flexible=request.__flexible__).body_offset
    peer = Peer(1, "PLAINTEXT", "127.0.0.1", ANONYMOUS)
    return IncomingRequest(api, int(request.__version__), 7, "test", frame, offset, api, 0.0, peer)
