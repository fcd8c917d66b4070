"""The gateway's takers for topics over a real broker and real coordinators, without sockets: what one client asks of one gateway."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.link import BrokerLink
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.client.client import DisklessClient
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.framing import read_request_header, request_frame
from coordinator.security.client_security import ClientSecurity
from coordinator.security.principal import ANONYMOUS
from gateway.kafka_apis import KafkaApi
from gateway.topics.catalogue import TopicCatalogue
from gateway.topics.coordinators import TopicCoordinators
from gateway.topics.rule import CreationRule
from gateway.topics.takers import TopicRoom, topic_room
from gateway.topics.wire import TOPIC

PEER = Peer(1, "PLAINTEXT", "127.0.0.1", ANONYMOUS)
WITHIN = timedelta(seconds=20)


class ClientSession:
    """One connection of a client: implements `gateway.ports.Session`."""

    connection_id = 1
    address = "127.0.0.1"
    listener = "PLAINTEXT"
    relayed_broker_id: int | None = None
    client_id: str | None = "test"
    zone: str | None = None

    def __init__(self, upstream: BrokerLink) -> None:
        self.upstream = upstream


class GatewayTopics:
    """One gateway's room of topics with one client."""

    def __init__(self, bootstrap: str, coordinators: TopicCoordinators, rule: str = "requested") -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")

        async def place(_: object) -> tuple[str, int]:
            return host, int(port)

        self.own = BrokerLink(place, ClientSecurity({}), "gateway")
        self.session = ClientSession(BrokerLink(place, ClientSecurity({}), "client"))
        self.catalogue = TopicCatalogue(coordinators)
        self.room: TopicRoom = topic_room(CreationRule(rule), self.catalogue, coordinators, self.own)

    def close(self) -> None:
        """End both connections."""
        self.own.close()
        self.session.upstream.close()

    async def ask(self, api: KafkaApi, request: Any) -> Any:
        """Ask as a client does; the answer has the version of the request."""
        version = int(request.__version__)
        frame = request_frame(api, version, 7, "test", encode(request), flexible=request.__flexible__)[4:]
        offset = read_request_header(frame, flexible=request.__flexible__).body_offset
        incoming = IncomingRequest(api, version, 7, "test", frame, offset, api, 0.0, PEER)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        taker = self.room.everywhere.get(api) or self.room.own[api]
        taker.take(self.session, incoming, answered.set_result)
        body = await asyncio.wait_for(answered, 60)
        assert body is not None, "the connection would be closed"
        return decode(api.answer_type(version), body)

    # ---- short forms: the answer's rows as (code, message)

    async def create(
        self, *names: str, partitions: int = 3, version: int = 7, dry_run: bool = False, replicas: int = 1, **settings: str
    ) -> list[Any]:
        """Create topics with the same settings, whose dots are written as underscores."""
        module = KafkaApi.CREATE_TOPICS.request_parts(version)
        configs = tuple(module.CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in settings.items())
        topics = tuple(
            module.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, assignments=(), configs=configs)
            for name in names
        )
        return list(
            (
                await self.ask(KafkaApi.CREATE_TOPICS, module.CreateTopicsRequest(topics=topics, timeout=WITHIN, validate_only=dry_run))
            ).topics
        )

    async def delete(self, *topics: str | bytes, version: int = 6) -> list[Any]:
        """Delete topics by name or id."""
        module = KafkaApi.DELETE_TOPICS.request_parts(version)
        if version < 6:
            request = module.DeleteTopicsRequest(topic_names=tuple(topics), timeout=WITHIN)
        else:
            states = tuple(
                module.DeleteTopicState(name=None, topic_id=uuid.UUID(bytes=one))
                if isinstance(one, bytes)
                else module.DeleteTopicState(name=one, topic_id=None)
                for one in topics
            )
            request = module.DeleteTopicsRequest(topics=states, timeout=WITHIN)
        return list((await self.ask(KafkaApi.DELETE_TOPICS, request)).responses)

    async def grow(self, name: str, count: int, *, dry_run: bool = False) -> Any:
        """Give a topic partitions."""
        module = KafkaApi.CREATE_PARTITIONS.request_parts(3)
        topic = module.CreatePartitionsTopic(name=name, count=count, assignments=None)
        [row] = (
            await self.ask(
                KafkaApi.CREATE_PARTITIONS, module.CreatePartitionsRequest(topics=(topic,), timeout=WITHIN, validate_only=dry_run)
            )
        ).results
        return row

    async def describe(self, name: str, *keys: str, version: int = 4) -> dict[str, tuple[str, int]]:
        """Settings of a topic: value and source by name."""
        module = KafkaApi.DESCRIBE_CONFIGS.request_parts(version)
        resource = module.DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys or None)
        [row] = (
            await self.ask(KafkaApi.DESCRIBE_CONFIGS, module.DescribeConfigsRequest(resources=(resource,), include_synonyms=True))
        ).results
        assert row.error_code is ErrorCode.none, row.error_message
        return {one.name: (one.value, int(one.config_source)) for one in row.configs}

    async def alter(self, name: str, *changes: tuple[str, int, str | None], dry_run: bool = False) -> Any:
        """Change settings: name, operation, value."""
        module = KafkaApi.INCREMENTAL_ALTER_CONFIGS.request_parts(1)
        configs = tuple(module.AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes)
        resource = module.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
        request = module.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=dry_run)
        [row] = (await self.ask(KafkaApi.INCREMENTAL_ALTER_CONFIGS, request)).responses
        return row

    async def set_wholly(self, name: str, **settings: str) -> Any:
        """Replace the settings of a topic."""
        module = KafkaApi.ALTER_CONFIGS.request_parts(2)
        configs = tuple(module.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in settings.items())
        resource = module.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
        [row] = (await self.ask(KafkaApi.ALTER_CONFIGS, module.AlterConfigsRequest(resources=(resource,), validate_only=False))).responses
        return row


@asynccontextmanager
async def gateway_topics(
    bootstrap: str, addresses: list[str], rule: str = "requested"
) -> AsyncIterator[tuple[GatewayTopics, DisklessClient]]:
    """One gateway's room of topics over real coordinators."""
    async with DisklessClient(addresses, client_id="gateway", api_timeout_ms=30_000) as client:
        topics = GatewayTopics(bootstrap, client.admin, rule)
        try:
            yield topics, client
        finally:
            topics.close()
