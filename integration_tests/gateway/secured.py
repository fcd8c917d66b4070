"""A gateway in front of a Kafka that lets nobody in without a proof: SASL_SSL on both sides, SCRAM, PLAIN and OAUTHBEARER, ACLs.

    with SecuredGateway(folder, runtime) as world:
        world.kafka.allow("alice", [...])
        properties = world.client("alice")          # librdkafka's, for the gateway

The users are those of `PASSWORDS`, with the same password for SCRAM and PLAIN; tokens of OAUTHBEARER may name anybody.
"""

from __future__ import annotations

import io
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import kio.schema.fetch.v12 as fetch
import kio.schema.list_offsets.v7 as list_offsets
import kio.schema.produce.v9 as produce
from confluent_kafka.admin import AclOperation, ResourceType
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from coordinator.adapters.kafka.link import BrokerLink
from coordinator.protocol.framing import reply_body, request_frame
from coordinator.security.client_security import ClientSecurity
from integration_tests.secured_kafka import JAAS, LOGIN, Right, SecuredKafka
from integration_tests.secured_service import SecuredService
from integration_tests.service import UNDISTURBED
from records.record_batch import Record, encode_batch
from simulation.fakes.certificates import Authority

USERS: Final = ("gateway", "alice", "maker", "reader", "writer", "nobody", "denied", "leaver")
PASSWORDS: Final = {name: f"the secret of {name}" for name in USERS}
SUBJECT: Final = 'unsecuredLoginStringClaim_sub="broker"'
GATEWAY_GROUP: Final = "diskless-gateways"
OWN_RIGHTS: Final = (
    Right(ResourceType.GROUP, GATEWAY_GROUP, (AclOperation.READ, AclOperation.DESCRIBE)),
    Right(ResourceType.TOPIC, "*", (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)),
    Right(ResourceType.BROKER, "kafka-cluster", (AclOperation.DESCRIBE_CONFIGS,)),
)
"""All that docs/secure-gateways.md asks for the gateway's own principal at Kafka."""
MIGRATED_RIGHTS: Final = (AclOperation.READ, AclOperation.DELETE)
"""What it asks for on each migrated topic besides."""
COORDINATOR_RIGHTS: Final = "CLUSTER_ACTION,DESCRIBE_CONFIGS,ALTER_CONFIGS"
"""All that it asks for the gateway's own principal at the coordinator."""


def broker_properties(passwords: Mapping[str, str], **more: str) -> dict[str, str]:
    """Return what a broker needs for the logins of the listener LOGIN; other names have underscores for dots."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    mine = "listener.name.login."
    return {
        f"{mine}sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        f"{mine}plain.sasl.jaas.config": f"{JAAS}.plain.PlainLoginModule required {users};",
        f"{mine}oauthbearer.sasl.jaas.config": f"{JAAS}.oauthbearer.OAuthBearerLoginModule required {SUBJECT};",
        "connection.failed.authentication.delay.ms": "10",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


class GatewayWire:
    """Requests of Kafka as they are, without what a client library makes of them."""

    def __init__(self, connection: BrokerLink) -> None:
        self.connection = connection

    async def produce(self, topic: str, value: bytes) -> int:
        """Write one record to partition 0; return the error code."""
        records = encode_batch([Record(timestamp_ms=int(time.time() * 1000), value=value)])
        partition = produce.request.PartitionProduceData(index=i32(0), records=records)
        request = produce.ProduceRequest(
            transactional_id=None,
            acks=i16(-1),
            timeout=i32Timedelta.parse(timedelta(seconds=30)),
            topic_data=(produce.request.TopicProduceData(name=TopicName(topic), partition_data=(partition,)),),
        )
        answer = await self._ask(request, produce.ProduceResponse)
        return int(answer.responses[0].partition_responses[0].error_code.value)

    async def fetch(self, topic: str) -> tuple[int, bytes]:
        """Read partition 0 from its beginning; return the error code and the bytes."""
        partition = fetch.request.FetchPartition(partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1 << 20))
        request = fetch.FetchRequest(
            max_wait=i32Timedelta.parse(timedelta(0)),
            min_bytes=i32(0),
            isolation_level=i8(0),
            topics=(fetch.request.FetchTopic(topic=TopicName(topic), partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        answer = await self._ask(request, fetch.FetchResponse)
        [told] = answer.responses[0].partitions
        return int(told.error_code.value), bytes(told.records or b"")

    async def end(self, topic: str) -> int:
        """Ask for the end of partition 0; return the error code."""
        partition = list_offsets.request.ListOffsetsPartition(partition_index=i32(0), timestamp=i64(-1))
        request = list_offsets.ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(0),
            topics=(list_offsets.request.ListOffsetsTopic(name=TopicName(topic), partitions=(partition,)),),
        )
        answer = await self._ask(request, list_offsets.ListOffsetsResponse)
        return int(answer.topics[0].partitions[0].error_code.value)

    async def _ask(self, request: Any, answer_type: Any) -> Any:
        body = io.BytesIO()
        entity_writer(type(request))(body, request)
        key, version = int(request.__api_key__), int(request.__version__)
        frame = request_frame(key, version, 1, "wire", body.getvalue(), flexible=True)[4:]
        answer = reply_body(await self.connection.forward(frame), tagged=True)
        return entity_reader(answer_type)(answer, 0)[0]


class SecuredGateway:
    """See the module's text."""

    def __init__(self, folder: Path, runtime: BrokerRuntime, *, broker: Mapping[str, str] | None = None, **settings: str) -> None:
        """`broker` are more properties of the broker's; other names are settings of the gateway, with underscores for dots."""
        self.kafka = SecuredKafka(folder / "secured", runtime, properties={**broker_properties(PASSWORDS), **(broker or {})})
        self._folder = folder
        self._settings = {key.replace("_", "."): value for key, value in settings.items()}
        certificates = folder / "gateway-certificates"
        certificates.mkdir(parents=True)
        self.ca = Authority(certificates, "gateway-ca")
        self.certificate = self.ca.issue("gateway")

    def __enter__(self) -> Self:
        self.kafka.__enter__()
        try:
            self.kafka.add_users(**PASSWORDS)
            self.kafka.allow("gateway", OWN_RIGHTS)
            # Nodes come by the listener that stays open: what they need of Kafka is proven elsewhere.
            nodes = self._folder / "nodes"
            nodes.mkdir()
            given = {**UNDISTURBED, "acls": f"User:broker:{COORDINATOR_RIGHTS}"}
            self.service = SecuredService(self.kafka.cluster.bootstrap, nodes, partitions=2, properties=given)
            self.service.start(1)
            self.gateway = self.make()
            self.gateway.start()
            self.gateway.wait_serving()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def make(self, node_id: int = 1001, **changed: str) -> GatewayProcess:
        """Make a gateway without starting it; changes of its settings have underscores for dots."""
        made = GatewayProcess(
            node_id,
            bootstrap=self.kafka.address(LOGIN),
            coordinators=self.service.addresses[0],
            folder=self._folder / f"gateway-{node_id}",
            properties={
                **{f"kafka.{key}": value for key, value in self.kafka.login("gateway", PASSWORDS["gateway"]).items()},
                **{f"coordinator.client.{key}": value for key, value in self.service.login("broker").items()},
                "ssl.keystore.location": str(self.certificate),
                "object.store.url": self.service.properties["object.store.url"],
                "diskless.gateway.group.id": GATEWAY_GROUP,
                **self._settings,
            },
        )
        made.properties["listeners"] = f"SASL_SSL://{made.address}"
        made.properties |= {key.replace("_", "."): value for key, value in changed.items()}
        return made

    @contextmanager
    def running(self, node_id: int, **changed: str) -> Iterator[GatewayProcess]:
        """Run one gateway more, which leaves the others in the end."""
        made = self.make(node_id, **changed)
        try:
            made.start()
            made.wait_serving()
            yield made
            assert made.terminate() == 0
        finally:
            made.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if hasattr(self, "gateway"):
            self.gateway.close()
        if hasattr(self, "service"):
            self.service.stop()
        self.kafka.__exit__(kind, error, trace)

    @asynccontextmanager
    async def wire(self, user: str, mechanism: str = "SCRAM-SHA-512") -> AsyncIterator[GatewayWire]:
        """Connect to the gateway's own node as a user."""
        host, _, port = self.gateway.address.rpartition(":")

        async def find(_: object) -> tuple[str, int]:
            return host, int(port)

        given = {**self.client(user, mechanism), "ssl.ca.location": str(self.ca.ca_file)}
        security = ClientSecurity({key: value for key, value in given.items() if key != "bootstrap.servers"})
        connection = BrokerLink(find, security, "wire", logs_in=True)
        try:
            yield GatewayWire(connection)
        finally:
            connection.close()

    def client(self, user: str, mechanism: str = "SCRAM-SHA-512", **changed: str) -> dict[str, str]:
        """Return the properties of a user's client, librdkafka's; changes have underscores for dots."""
        own = {"sasl.username": user, "sasl.password": PASSWORDS.get(user, "wrong")}
        if mechanism == "OAUTHBEARER":
            own = {"sasl.oauthbearer.config": f"principal={user}", "enable.sasl.oauthbearer.unsecure.jwt": "true"}
        return {
            "bootstrap.servers": self.gateway.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca.ca_file),
            "sasl.mechanism": mechanism,
            **own,
            **{key.replace("_", "."): value for key, value in changed.items()},
        }
