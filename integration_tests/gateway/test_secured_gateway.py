"""A gateway in front of a secured Kafka: who gets in and by what, what is served before a login, and what clients may do."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation as Operation
from confluent_kafka.admin import (
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from cli.dev.kafka import BrokerRuntime
from coordinator.client.admin import DisklessAdmin
from coordinator.client.model import TopicListing
from integration_tests.gateway.secured import SecuredGateway
from integration_tests.secured_kafka import Right
from integration_tests.waiting import WAIT_S, wait_until
from simulation.fakes.certificates import Authority

EVERYTHING = (Operation.ALL,)
FORBIDDEN = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredGateway]:
    """The gateway of all tests; each makes topics of its own."""
    with SecuredGateway(tmp_path_factory.mktemp("gateway"), broker_runtime) as made:
        made.kafka.allow("alice", [Right(ResourceType.TOPIC, "*", EVERYTHING)])
        made.kafka.allow("*", [Right(ResourceType.GROUP, "*", (Operation.READ,))])
        yield made


def new_name(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:8]}"


def topic(world: SecuredGateway, *, is_diskless: bool = True, partitions: int = 1) -> str:
    """Make a topic as alice, through the gateway."""
    name = new_name("diskless" if is_diskless else "classic")
    config = {"diskless.enable": "true"} if is_diskless else {}
    admin = AdminClient(world.client("alice"))
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(WAIT_S)
    return name


def write(properties: dict[str, str], name: str, values: Iterable[str], **more: str) -> list[KafkaError | None]:
    """Write records one after the other; return what became of each."""
    producer = Producer({**properties, **{key.replace("_", "."): value for key, value in more.items()}})
    ends: list[KafkaError | None] = []
    for value in values:
        producer.produce(name, value=value, on_delivery=lambda error, _message: ends.append(error))
        producer.flush(WAIT_S)
    return ends


def read(properties: dict[str, str], name: str, count: int) -> list[str] | KafkaError:
    """Read the first records of a topic's only partition, without a group; the first error ends it."""
    consumer = Consumer({**properties, "group.id": new_name("nobody"), "enable.auto.commit": "false"})
    consumer.assign([TopicPartition(name, 0, 0)])
    found: list[str] = []
    failed: list[KafkaError] = []

    def is_over() -> bool:
        for message in consumer.consume(count - len(found), 1.0):
            if (error := message.error()) is not None:
                failed.append(error)
            else:
                found.append((message.value() or b"").decode())
        return len(found) == count or bool(failed)

    wait_until(is_over, f"{count} records, or an error")
    consumer.close()
    return failed[0] if failed else found


# A client of a classic topic logs in at the gateway's own node and at a relay port.
@pytest.mark.parametrize(
    ("mechanism", "is_diskless"), [("SCRAM-SHA-512", False), ("PLAIN", False), ("OAUTHBEARER", False), ("SCRAM-SHA-512", True)]
)
def test_a_login_passes_and_topics_work(world: SecuredGateway, mechanism: str, is_diskless: bool) -> None:
    name, properties = topic(world, is_diskless=is_diskless, partitions=2), world.client("alice", mechanism)
    admin = AdminClient(properties)
    producer = Producer({**properties, "enable.idempotence": "true"})
    for number in range(100):
        producer.produce(name, key=str(number), value=f"record {number}")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**properties, "group.id": new_name("group"), "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    found: set[bytes | None] = set()

    def has_all() -> bool:
        found.update(message.value() for message in consumer.consume(100, 0.5) if message.error() is None)
        return len(found) == 100

    wait_until(has_all, "all records")
    consumer.close()
    assert {(one.host, one.port) for one in admin.list_topics(timeout=WAIT_S).brokers.values()} <= {
        ("127.0.0.1", int(world.gateway.address.rpartition(":")[2])),
        *(("127.0.0.1", port) for port in world.gateway.relay_ports),
    }


def refusal(properties: dict[str, str]) -> KafkaError:
    """Return why a client is not let in."""
    errors: list[KafkaError] = []
    given: dict[str, Any] = {**properties, "error_cb": errors.append}
    admin = AdminClient(given)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    wait_until(lambda: bool(errors or admin.poll(0.1)) and bool(errors), "the reason")
    return next((one for one in errors if one.code() != KafkaError._ALL_BROKERS_DOWN), errors[0])


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_is_refused_by_the_cluster(world: SecuredGateway, mechanism: str) -> None:
    error = refusal(world.client("alice", mechanism, sasl_password="wrong"))
    assert error.code() == KafkaError._AUTHENTICATION
    assert "Authentication failed" in error.str()


@pytest.mark.parametrize(
    ("user", "rights", "may_write", "may_read"),
    [
        ("reader", (Operation.READ,), False, True),
        ("writer", (Operation.WRITE,), True, False),
        ("nobody", (), False, False),
        ("nobody", (Operation.DESCRIBE,), False, False),
    ],
)
async def test_clients_may_do_what_the_cluster_says(
    world: SecuredGateway, user: str, rights: tuple[Operation, ...], may_write: bool, may_read: bool
) -> None:
    name = topic(world)
    assert write(world.client("alice"), name, ["first"]) == [None]
    if rights:
        world.kafka.allow(user, [Right(ResourceType.TOPIC, name, rights)])
    async with world.wire(user) as wire:
        assert await wire.produce(name, b"second") == (0 if may_write else FORBIDDEN)
        code, records = await wire.fetch(name)
        assert code == (0 if may_read else FORBIDDEN)
        assert (b"first" in records) == may_read
        assert await wire.end(name) == (0 if may_read or may_write or Operation.DESCRIBE in rights else FORBIDDEN)
    if may_write:
        assert write(world.client(user), name, ["third"], enable_idempotence="true") == [None]
    assert read(world.client("alice"), name, 3 if may_write else 1) == ["first", "second", "third"][: 3 if may_write else 1]


def test_a_rule_that_denies_wins(world: SecuredGateway) -> None:
    name = topic(world)
    world.kafka.allow("denied", [Right(ResourceType.TOPIC, name, (Operation.ALL,))])
    world.kafka.allow("denied", [Right(ResourceType.TOPIC, name, (Operation.WRITE,))], AclPermissionType.DENY)
    [end] = write(world.client("denied"), name, ["refused"])
    assert end is not None
    assert end.code() == FORBIDDEN
    assert write(world.client("alice"), name, ["written"]) == [None]
    assert read(world.client("denied"), name, 1) == ["written"]


def test_rights_that_are_taken_away_end_while_the_client_is_connected(world: SecuredGateway) -> None:
    name = topic(world)
    writing, reading = (Right(ResourceType.TOPIC, name, (one,)) for one in (Operation.WRITE, Operation.READ))
    world.kafka.allow("leaver", [writing, reading])
    errors: list[KafkaError] = []
    producer = Producer({**world.client("leaver"), "linger.ms": "0"})
    consumer = Consumer({**world.client("leaver"), "group.id": new_name("nobody"), "enable.auto.commit": "false"})
    consumer.assign([TopicPartition(name, 0, 0)])
    wait_until(lambda: is_written(producer, name, errors), "the first record to be written")
    wait_until(lambda: is_read(consumer, errors), "the first record to be read")
    assert errors == []
    world.kafka.forbid("leaver", [writing])
    taken_s = time.monotonic()
    wait_until(lambda: not is_written(producer, name, errors), "a record to be refused")
    assert time.monotonic() - taken_s < 10
    assert [one.code() for one in errors] == [FORBIDDEN]
    errors.clear()
    world.kafka.forbid("leaver", [reading])
    taken_s = time.monotonic()
    others = Producer(world.client("alice"))

    def is_reading_refused() -> bool:
        others.produce(name, value=b"more")
        others.flush(WAIT_S)
        is_read(consumer, errors)
        return bool(errors)

    wait_until(is_reading_refused, "the reader to be refused")
    assert time.monotonic() - taken_s < 10
    assert errors[0].code() == FORBIDDEN
    consumer.close()


def test_rights_that_are_taken_away_end_for_idle_consumers_of_one_login_and_no_other(world: SecuredGateway) -> None:
    name = topic(world)
    right = Right(ResourceType.TOPIC, name, (Operation.READ,))
    world.kafka.allow("leaver", [right])
    consumers = [Consumer({**world.client(user), "group.id": new_name("nobody")}) for user in ("leaver", "leaver", "alice")]
    errors: list[list[KafkaError]] = [[] for _ in consumers]
    for consumer in consumers:
        consumer.assign([TopicPartition(name, 0, 0)])

    def idle(seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            for consumer, found in zip(consumers, errors, strict=True):
                message = consumer.poll(0.05)
                if message is not None and message.error() is not None:
                    found.append(message.error())

    idle(6)
    assert errors == [[], [], []]
    world.kafka.forbid("leaver", [right])
    taken_s = time.monotonic()

    def are_refused() -> bool:
        idle(0.2)
        return all(errors[:2])

    wait_until(are_refused, "both to be refused")
    assert time.monotonic() - taken_s < 10
    assert {one.code() for found in errors[:2] for one in found} == {FORBIDDEN}
    assert errors[2] == []
    for consumer in consumers:
        consumer.close()


def is_written(producer: Producer, name: str, errors: list[KafkaError]) -> bool:
    """Write one record; note why not."""
    ends: list[KafkaError | None] = []
    producer.produce(name, value=b"record", on_delivery=lambda error, _message: ends.append(error))
    assert producer.flush(WAIT_S) == 0
    refused = [one for one in ends if one is not None]  # a KafkaError cannot be compared with None
    errors += refused
    return not refused


def is_read(consumer: Consumer, errors: list[KafkaError]) -> bool:
    """Read one record, if there is one; note why not."""
    message = consumer.poll(1.0)
    if message is not None and message.error() is not None:
        errors.append(message.error())
    return message is not None and message.error() is None


def test_topics_are_administered_with_the_rights_of_the_client(world: SecuredGateway) -> None:
    name = topic(world)
    world.kafka.allow("writer", [Right(ResourceType.TOPIC, name, (Operation.WRITE, Operation.READ))])
    admin, resource = AdminClient(world.client("writer")), ConfigResource(ConfigResource.Type.TOPIC, name)
    change = ConfigResource(ConfigResource.Type.TOPIC, name)
    change.add_incremental_config(ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET))
    made, end = new_name("made"), TopicPartition(name, 0, 1)
    assert write(world.client("alice"), name, ["first", "second"]) == [None, None]
    works = {
        "create": admin.create_topics([NewTopic(made, 1, 1, config={"diskless.enable": "true"})])[made],
        "delete": admin.delete_topics([name])[name],
        "grow": admin.create_partitions([NewPartitions(name, 4)])[name],
        "describe": admin.describe_configs([resource])[resource],
        "alter": admin.incremental_alter_configs([change])[change],
        "delete records": admin.delete_records([end])[end],
    }
    for what, work in works.items():
        with pytest.raises(KafkaException) as refused:
            work.result(WAIT_S)
        assert refused.value.args[0].code() == FORBIDDEN, what
    assert set(AdminClient(world.client("alice")).list_topics(timeout=WAIT_S).topics) >= {name}
    boss = AdminClient(world.client("alice"))
    assert boss.incremental_alter_configs([change])[change].result(WAIT_S) is None
    assert boss.describe_configs([resource])[resource].result(WAIT_S)["retention.ms"].value == "60000"
    assert boss.delete_records([end])[end].result(WAIT_S).low_watermark == 1
    boss.delete_topics([name])[name].result(WAIT_S)


class User:
    """What one user does with a topic, as the code that Kafka or a gateway answers with: 0 is success."""

    def __init__(self, world: SecuredGateway, name: str, topic: str) -> None:
        self._admin = AdminClient(world.client(name))
        self._topic = topic
        self._resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def create(self, **config: str) -> int:
        new = NewTopic(self._topic, 2, 1, config={key.replace("_", "."): value for key, value in config.items()})
        return _code(lambda: self._admin.create_topics([new])[self._topic])

    def grow(self, count: int) -> int:
        return _code(lambda: self._admin.create_partitions([NewPartitions(self._topic, count)])[self._topic])

    def delete(self) -> int:
        return _code(lambda: self._admin.delete_topics([self._topic])[self._topic])

    def alter(self) -> int:
        entry = ConfigEntry("retention.ms", "7", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ConfigResource.Type.TOPIC, self._topic, incremental_configs=[entry])
        return _code(lambda: self._admin.incremental_alter_configs([change])[change])

    def describe(self) -> int:
        return _code(lambda: self._admin.describe_configs([self._resource])[self._resource])


def _code(ask: Callable[[], Any]) -> int:
    try:
        ask().result(WAIT_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return 0


def listed(world: SecuredGateway, name: str) -> TopicListing | None:
    async def ask() -> list[TopicListing]:
        async with DisklessAdmin(world.service.addresses, security=world.service.client("broker")) as admin:
            return await admin.list_topics()

    return next((one for one in asyncio.run(ask()) if one.name == name), None)


def shadow_partitions(world: SecuredGateway, name: str) -> int:
    admin = AdminClient({"bootstrap.servers": world.kafka.cluster.bootstrap})
    found = admin.list_topics(timeout=WAIT_S).topics.get(name)
    return 0 if found is None else len(found.partitions)


def allow(world: SecuredGateway, user: str, topic: str, *operations: Operation) -> None:
    world.kafka.allow(user, [Right(ResourceType.TOPIC, topic, operations)])


def test_each_right_is_asked_of_the_cluster_before_anything_changes(world: SecuredGateway) -> None:
    topic = f"rights-{uuid.uuid4().hex[:8]}"
    nobody, maker = User(world, "nobody", topic), User(world, "maker", topic)
    assert nobody.create(diskless_enable="true") == FORBIDDEN
    assert (listed(world, topic), shadow_partitions(world, topic)) == (None, 0)
    allow(world, "maker", topic, Operation.CREATE)
    wait_until(lambda: maker.create(diskless_enable="true", retention_ms="5") == 0, "maker to create the topic")
    first = listed(world, topic)
    assert first is not None
    assert (first.num_partitions, first.settings) == (2, {"retention.ms": "5"})

    # Who may see a topic, or create it, may not do anything else with it.
    allow(world, "reader", topic, Operation.DESCRIBE)
    reader = User(world, "reader", topic)
    wait_until(lambda: topic in AdminClient(world.client("reader")).list_topics(timeout=WAIT_S).topics, "the reader to see the topic")
    for user in (reader, maker, nobody):
        assert [user.grow(4), user.alter(), user.describe(), user.delete()] == [FORBIDDEN] * 4
    assert listed(world, topic) == first
    assert shadow_partitions(world, topic) == 2

    # Each right lets its own request through, and no other one.
    allow(world, "writer", topic, Operation.ALTER_CONFIGS)
    writer = User(world, "writer", topic)
    wait_until(lambda: writer.alter() == 0, "the writer to alter settings")
    assert writer.describe() == 0
    assert [writer.grow(4), writer.delete()] == [FORBIDDEN] * 2
    altered = listed(world, topic)
    assert altered is not None
    assert altered.settings == {"retention.ms": "7"}
    allow(world, "denied", topic, Operation.ALTER)
    denied = User(world, "denied", topic)
    wait_until(lambda: denied.grow(4) == 0, "the topic to grow")
    assert [denied.alter(), denied.delete()] == [FORBIDDEN] * 2
    allow(world, "leaver", topic, Operation.DELETE)
    leaver = User(world, "leaver", topic)
    assert leaver.alter() == FORBIDDEN
    wait_until(lambda: leaver.delete() == 0, "the topic to be deleted")
    assert listed(world, topic) is None
    wait_until(lambda: shadow_partitions(world, topic) == 0, "the shadow to be gone")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:{port}"}, "make it SASL_PLAINTEXT"),
        ({"listeners": "SSL://127.0.0.1:{port}"}, "make it SASL_SSL"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "sasl.mechanism GSSAPI is not known"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.certificate.location": "{certificate}"}, "would take every client for this gateway"),
        ({"kafka.ssl.ca.location": "/not/there"}, "kafka.*: /not/there"),
        ({"coordinator.client.ssl.ca.location": "/not/there"}, "coordinator.client.*: /not/there"),
        ({"ssl.keystore.location": "/not/there"}, "ssl.keystore.location /not/there"),
    ],
)
def test_a_gateway_does_not_start_less_secure_than_it_says(world: SecuredGateway, changed: dict[str, str], reason: str) -> None:
    gateway = world.make(1_009)
    port = gateway.address.rpartition(":")[2]
    gateway.properties |= {key: value.format(port=port, certificate=world.certificate) for key, value in changed.items()}
    gateway.start()
    try:
        wait_until(lambda: gateway.process is not None and not gateway.process.is_running(), "the process to end")
        assert "cannot start: " in gateway.log_text()
        assert reason in gateway.log_text()
    finally:
        gateway.close()


def test_a_certificate_of_a_client_is_a_gate_beside_its_login(world: SecuredGateway) -> None:
    with world.running(1_010, ssl_client_auth="required", ssl_truststore_location=str(world.ca.ca_file)) as gateway:
        mine = str(world.ca.issue("a stranger to Kafka"))
        without = {**world.client("alice"), "bootstrap.servers": gateway.address}
        with_it = {**without, "ssl.certificate.location": mine, "ssl.key.location": mine}
        assert AdminClient(with_it).list_topics(timeout=WAIT_S).brokers
        assert refusal(without).code() in (KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
        assert refusal({**with_it, "sasl.password": "wrong"}).code() == KafkaError._AUTHENTICATION


def test_a_certificate_that_is_replaced_counts_for_new_connections(world: SecuredGateway) -> None:
    other = Authority(world.ca.ca_file.parent, "other-ca")
    with world.running(1_011, ssl_keystore_location=str(world.ca.issue("replaced"))) as gateway:
        client = {**world.client("alice"), "bootstrap.servers": gateway.address}
        assert AdminClient(client).list_topics(timeout=WAIT_S).brokers
        other.issue("replaced")
        wait_until(lambda: "certificate reloaded" in gateway.log_text(), "the new certificate")
        assert AdminClient({**client, "ssl.ca.location": str(other.ca_file)}).list_topics(timeout=WAIT_S).brokers
