"""A topic is migrated on a cluster with ACLs: writers go on through gateways with their rights, and brokers take nothing any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from cli.dev.kafka import BrokerRuntime
from coordinator.client.client import DisklessClient
from coordinator.security.client_security import ClientSecurity
from integration_tests.gateway.secured import MIGRATED_RIGHTS, PASSWORDS, SecuredGateway
from integration_tests.secured_kafka import LOGIN, Right
from integration_tests.waiting import WAIT_S, wait_until
from migration.driver import MigrationDriver
from migration.finishing import finish
from migration.kafka.topic import KafkaClassicTopic

QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def secured(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredGateway]:
    with SecuredGateway(tmp_path_factory.mktemp("migrated-secured"), broker_runtime, gateway_rights_ttl_ms="500") as made:
        yield made


def outcome(properties: dict[str, str], topic: str) -> KafkaError | int:
    """Write a record; returns its offset, or the error."""
    told: list[KafkaError | int] = []
    producer = Producer({**properties, "message.timeout.ms": "10000", **QUIET})
    producer.produce(topic, b"value", partition=0, on_delivery=lambda error, message: told.append(error or message.offset() or 0))
    assert producer.flush(WAIT_S) == 0
    [result] = told
    return result


def read(properties: dict[str, str], topic: str, count: int) -> list[int] | KafkaError:
    """Read from the beginning on: so many offsets, or the error that comes first."""
    consumer = Consumer({**properties, "group.id": "readers", "auto.offset.reset": "error", **QUIET})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        offsets: list[int] = []
        while len(offsets) < count:
            message = consumer.poll(WAIT_S)
            assert message is not None, offsets
            if (error := message.error()) is not None:
                return error
            offsets.append(message.offset() or 0)
        return offsets
    finally:
        consumer.close()


def deleted(properties: dict[str, str], topic: str, before: int) -> int:
    """Delete the records before an offset; returns the log start, or the code of the error."""
    admin = AdminClient({**properties, **QUIET})  # it must outlive the question
    try:
        [done] = admin.delete_records([TopicPartition(topic, 0, before)]).values()
        return int(done.result(WAIT_S).low_watermark)
    except KafkaException as error:
        return int(error.args[0].code())


async def migrate(secured: SecuredGateway, name: str) -> list[int]:
    """Migrate a topic as a super user of Kafka, whose writers an ACL stops."""
    topic = KafkaClassicTopic(
        name, bootstrap_servers=secured.kafka.cluster.bootstrap, client_id="test", kafka_properties={}, is_fence_confirmed=False
    )
    facts = await topic.describe()
    security = ClientSecurity(secured.service.login("broker"))
    async with DisklessClient(secured.service.addresses, security=security) as client:
        await client.admin.create_topic(name, 1, topic_id=facts.topic_id, classic_pending=True)
        migrated = await MigrationDriver(client.admin, still_s=0.1).migrate(topic.partition(facts.topic_id, 0))
        assert (await topic.fence.acls()).is_closed
        assert await finish(topic, facts.topic_id, [migrated.start_offset], drain_timeout_s=WAIT_S) == [None]
        assert not (await topic.fence.acls()).is_closed
        return [migrated.start_offset]


async def test_writers_go_on_with_the_rights_they_had(secured: SecuredGateway, unique_name: Callable[[str], str]) -> None:
    name, kafka = unique_name("orders")[-60:].lstrip("-"), secured.kafka
    admin = AdminClient({"bootstrap.servers": kafka.cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(WAIT_S)
    kafka.allow("writer", [Right(ResourceType.TOPIC, name, (AclOperation.WRITE, AclOperation.DESCRIBE))])
    rights = (AclOperation.READ, AclOperation.DESCRIBE)
    kafka.allow("reader", [Right(ResourceType.TOPIC, name, rights), Right(ResourceType.GROUP, "readers", (AclOperation.READ,))])
    writer, reader = secured.client("writer"), secured.client("reader")
    straight = {"bootstrap.servers": kafka.address(LOGIN), **kafka.login("writer", PASSWORDS["writer"])}
    wait_until(lambda: isinstance(outcome(writer, name), int), "the writer's right to be known")
    while outcome(straight, name) != 4:
        pass

    assert await migrate(secured, name) == [5]
    wait_until(lambda: outcome(writer, name) == 5, "the writer to be let go on through the gateway")
    refused = outcome(straight, name)
    assert isinstance(refused, KafkaError)
    assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
    forbidden = outcome(reader, name)
    assert isinstance(forbidden, KafkaError)
    assert forbidden.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    # The gateway's own login reads the classic part: without the right it says so, and nobody gets less than there is.
    error = read(reader, name, 6)
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "the gateway's own login may not use the classic part" in secured.gateway.log_text()
    reading, deleting = MIGRATED_RIGHTS
    kafka.allow("gateway", [Right(ResourceType.TOPIC, name, (reading,))])
    wait_until(lambda: read(reader, name, 6) == [*range(6)], "the gateway's right to be known")
    assert isinstance(read(writer, name, 6), KafkaError), "who may only write reads neither part"

    # It deletes records of the classic part for a client that may, as soon as it may itself.
    kafka.allow("leaver", [Right(ResourceType.TOPIC, name, (AclOperation.DELETE, AclOperation.DESCRIBE))])
    cleaner = secured.client("leaver")
    wait_until(lambda: deleted(cleaner, name, 2) == KafkaError.TOPIC_AUTHORIZATION_FAILED, "the gateway to be refused")
    assert read(reader, name, 6) == [*range(6)]
    kafka.allow("gateway", [Right(ResourceType.TOPIC, name, (deleting,))])
    wait_until(lambda: deleted(cleaner, name, 2) == 2, "the records to be deleted")
    assert deleted(reader, name, 3) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    gone = read(reader, name, 1)
    assert isinstance(gone, KafkaError)
    assert gone.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
