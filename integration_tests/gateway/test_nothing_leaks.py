"""No byte that a client gets has the host or a port of a real broker: every API and version is asked of three brokers."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from coordinator.adapters.kafka.cluster import topic_id_bytes
from coordinator.protocol.codec import decode
from coordinator.protocol.framing import reply_body
from gateway.kafka_apis import KafkaApi
from integration_tests.gateway.samples import frame, message_type
from integration_tests.gateway.world import BROKERS_HOST, World
from records.record_batch import Record, encode_batch

CLASSIC: Final = "leaks-classic"
DISKLESS: Final = "leaks-diskless"
GROUP: Final = "leaks-group"
ANSWER_TIMEOUT_S: Final = 12.0
LOGINS: Final = "Sasl"
"""On a listener without logins a broker ends the connection at them."""
VARIANTS: Final[Mapping[int, tuple[Mapping[str, object], ...]]] = {
    KafkaApi.METADATA: ({"topics": None}, {"name": CLASSIC, "topic_id": None}, {"name": DISKLESS, "topic_id": None}),
    KafkaApi.DELETE_TOPICS: ({"name": "leaks-nothing", "topic_names": ("leaks-nothing",), "topic_id": None},),
    KafkaApi.FIND_COORDINATOR: ({"key_type": 0}, {"key_type": 1}, {"key_type": 2, "key": "g:AAAAAAAAAAAAAAAAAAAABw:0"}),
    KafkaApi.DESCRIBE_CLUSTER: ({"endpoint_type": 1, "include_fenced_brokers": True}, {"endpoint_type": 2}),
    KafkaApi.DESCRIBE_CONFIGS: (
        {"resource_type": 4, "resource_name": "1", "include_synonyms": True, "configuration_keys": None},
        {"resource_type": 4, "resource_name": "2", "include_synonyms": False, "configuration_keys": None},
        {"resource_type": 2, "resource_name": CLASSIC, "configuration_keys": None},
    ),
}
"""What is asked beside the plain sample of an API."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker_runtime: BrokerRuntime) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("leaks"), broker_runtime, brokers=3) as made:
        made.start(1001, 1002)
        yield made


SKIPPED: Final = frozenset({(KafkaApi.DELETE_TOPICS, 0)})
"""Samples that would take away what later ones ask for."""


def known(topic: str, topic_id: uuid.UUID) -> Mapping[str, object]:
    """Return values of fields by their names."""
    return {
        "topic_id": topic_id,
        "resource_pattern_type": 3,
        **dict.fromkeys(("name", "topic", "topic_name"), topic),
        **dict.fromkeys(("topics", "topic_names"), (topic,)),
        **dict.fromkeys(("group_id", "groups", "groups_names", "group_ids", "key", "coordinator_keys"), GROUP),
        "resource_name": topic,
        "resource_type": 2,
        "broker_id": 99,
        "member_id": "nobody",
        "replica_id": -1,
        "acks": -1,
        "timestamp": -1,
        "transactional_id": None,
        "partition_max_bytes": 1_000_000,
        "max_bytes": 1_000_000,
        "patterntype_filter": 1,
        "pattern_type_filter": 1,
        "resource_type_filter": 1,
        "operation": 3,
        "permission_type": 3,
        "client_software_name": "samples",
        "client_software_version": "1",
        "strict": False,
        "records": encode_batch([Record(value=b"sample", timestamp_ms=int(time.time() * 1000))]),
    }


class Client:
    """A connection to a port that sees the bytes of answers."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> bytes | None:
        """Return the answer, correlation id first; None when the connection was ended."""
        self._socket.sendall(request)
        head = self._read(4)
        return None if head is None else self._read(struct.unpack(">i", head)[0])

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            with contextlib.suppress(ConnectionResetError):
                more = self._socket.recv(size - len(data))
                if more:
                    data += more
                    continue
            return None
        return data


def offered(port: int) -> Mapping[int, tuple[int, int]]:
    """Return the versions that a port offers, by API."""
    with Client(port) as client:
        answer: Any = decode(
            message_type(18, 4, "response"), reply_body(client.ask(frame(18, 4, 1, {"client_software_name": "x"})) or b"", tagged=False)
        )
    return {int(row.api_key): (int(row.min_version), int(row.max_version)) for row in answer.api_keys}


def use(gateway: GatewayProcess) -> None:
    """Make groups, offsets and records that answers can tell of."""
    for topic in (CLASSIC, DISKLESS):
        producer = Producer({"bootstrap.servers": gateway.address})
        for number in range(30):
            producer.produce(topic, str(number), partition=number % 3)
        assert producer.flush(30) == 0


def leaks(world: World, answer: bytes) -> list[str]:
    """List what an answer has of real brokers."""
    found = [BROKERS_HOST] if BROKERS_HOST.encode() in answer else []
    for port in world.broker_ports:
        if struct.pack(">i", port) in answer:
            found.append(f"port {port} as a number")
        if str(port).encode() in answer:
            found.append(f"port {port} as text")
    return found


def test_every_api_and_version_is_without_addresses_of_brokers(world: World) -> None:
    gateway = world.gateways[1001]
    for topic, is_diskless in ((CLASSIC, False), (DISKLESS, True)):
        world.create(gateway, topic, 3, is_diskless=is_diskless)
    use(gateway)
    member = Consumer({"bootstrap.servers": gateway.address, "group.id": GROUP, "auto.offset.reset": "earliest"})
    member.subscribe([CLASSIC])
    member.poll(5)
    admin = World.admin(gateway)
    described = admin.describe_topics(TopicCollection([CLASSIC, DISKLESS]))
    ids = {name: uuid.UUID(bytes=topic_id_bytes(one.result(30).topic_id)) for name, one in described.items()}
    ports = {"own node": int(gateway.address.rpartition(":")[2]), "relay of 2": gateway.relay_ports[2]}
    seen: dict[str, bytes] = {}
    faults: list[str] = []
    unanswered: set[str] = set()
    for where, port in ports.items():
        versions = offered(port)
        assert {KafkaApi.METADATA, KafkaApi.FIND_COORDINATOR, KafkaApi.DESCRIBE_CLUSTER, KafkaApi.API_VERSIONS} <= versions.keys()
        assert 75 not in versions, "DescribeTopicPartitions"
        assert versions.keys() <= set(KafkaApi)
        for key, (low, high) in versions.items():
            for version in range(max(low, KafkaApi(key).first), high + 1):
                for topic, topic_id in ids.items():
                    for place, variant in enumerate(({}, *VARIANTS.get(key, ()))):
                        if (key, place) in SKIPPED:
                            continue
                        what = f"{where}: {KafkaApi(key).text} v{version} of {topic} ({place})"
                        with Client(port) as client:
                            try:
                                answer = client.ask(frame(key, version, 7, {**known(topic, topic_id), **variant}))
                            except TimeoutError:
                                faults.append(f"{what}: no answer in time")
                                continue
                        if answer is None:
                            unanswered.add(f"{KafkaApi(key).text} v{version} of {topic} at {where}")
                            continue
                        seen[what] = answer
                        faults += [f"{what}: {one}" for one in leaks(world, answer)]
    member.close()
    assert faults == []
    assert {name for name in unanswered if not name.startswith(LOGINS)} == set(), gateway.log_tail()
    # The search sees what there is to see.
    own = struct.pack(">i", ports["own node"])
    for name in ("Metadata v13", "Metadata v0", "DescribeCluster v2"):
        assert any(own in answer for what, answer in seen.items() if name in what), name
    coordinators = [answer for what, answer in seen.items() if "FindCoordinator v6" in what]
    relays = [port for one in world.gateways.values() for port in one.relay_ports]
    assert any(struct.pack(">i", one) in answer for one in relays for answer in coordinators)


def test_the_search_finds_what_a_broker_tells(world: World) -> None:
    """Asked without a gateway, the same requests show addresses."""
    port = world.kafka.listener_port("BEHIND", 1)
    for key in (KafkaApi.METADATA, KafkaApi.FIND_COORDINATOR, KafkaApi.DESCRIBE_CLUSTER):
        with Client(port) as client:
            answer = client.ask(frame(key, KafkaApi(key).last, 7, {**known(CLASSIC, uuid.UUID(int=7)), **VARIANTS[key][0]}))
        assert answer is not None
        assert leaks(world, answer), KafkaApi(key).text
