"""Migrations by drivers that are no super users of Kafka: readers keep reading, and a migration can always be taken back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType

from cli.commands.migration.run import take_back
from cli.dev.kafka import BrokerRuntime
from cli.outcome import Exit, Failed
from coordinator.client.model import PartitionId
from integration_tests.secured_kafka import LOGIN, Right, SecuredKafka
from integration_tests.service import Service
from integration_tests.test_migration import QUIET, STILL, Place, may_write
from integration_tests.waiting import WAIT_S, wait_until
from migration.classic import MigrationRefused
from migration.kafka.fence import TopicAcls
from migration.kafka.topic import KafkaClassicTopic
from records.record_batch import Record

CLUSTER, GROUP = "kafka-cluster", "readers"
NO_ACLS, CLOSED, KEPT = TopicAcls(False, False, 0), TopicAcls(True, False, 0), TopicAcls(True, True, 0)


@pytest.fixture(scope="module")
def open_kafka(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker on which everybody may do with a topic what no ACL is about."""
    properties = {"allow.everyone.if.no.acl.found": "true"}
    with SecuredKafka(tmp_path_factory.mktemp("open"), broker_runtime, properties=properties) as running:
        running.add_users(driver="driver-secret", reader="reader-secret", writer="writer-secret")
        yield running


def login(kafka: SecuredKafka, user: str) -> dict[str, str]:
    return {"bootstrap.servers": kafka.address(LOGIN), **kafka.login(user, f"{user}-secret")}


def place_of(service: Service, kafka: SecuredKafka, user: str) -> Place:
    """Commands of a user of Kafka."""
    properties = {**kafka.login(user, f"{user}-secret"), "node.security.protocol": "PLAINTEXT"}
    options = tuple(word for name, value in properties.items() for word in ("--command-property", f"{name}={value}"))
    return Place(service, kafka.address(LOGIN), options)


def may_read(properties: dict[str, str], topic: str) -> bool:
    """Whether a user may read the first record of a topic."""
    consumer = Consumer({**properties, "group.id": GROUP, "auto.offset.reset": "earliest", **QUIET})
    try:
        error: KafkaError | None = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].error
        if error is None:
            consumer.assign([TopicPartition(topic, 0, 0)])
            message = consumer.poll(WAIT_S)
            assert message is not None
            error = message.error()
        if error is not None and error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise KafkaException(error)
        return error is None
    finally:
        consumer.close()


def topic_of(kafka: SecuredKafka, name: str) -> KafkaClassicTopic:
    """The topic in the hands of a super user."""
    bootstrap = kafka.cluster.bootstrap
    return KafkaClassicTopic(name, bootstrap_servers=bootstrap, client_id="test", kafka_properties={}, is_fence_confirmed=False)


def acls(kafka: SecuredKafka, name: str) -> TopicAcls:
    return asyncio.run(topic_of(kafka, name).fence.acls())


def create(kafka: SecuredKafka, name: str, service: Service) -> None:
    by_a_super_user = Place(service, kafka.cluster.bootstrap)
    by_a_super_user.create(name)
    by_a_super_user.write(name, 5)


def login_topic(kafka: SecuredKafka, user: str, name: str) -> KafkaClassicTopic:
    properties = kafka.login(user, f"{user}-secret")
    return KafkaClassicTopic(
        name, bootstrap_servers=kafka.address(LOGIN), client_id="test", kafka_properties=properties, is_fence_confirmed=True
    )


async def may_describe(kafka: SecuredKafka, user: str, name: str) -> bool:
    try:
        await login_topic(kafka, user, name).describe()
    except KafkaException:
        return False
    return True


async def may_alter(kafka: SecuredKafka, user: str, name: str) -> bool:
    topic = login_topic(kafka, user, name)
    try:
        await topic.take_records(await topic.describe(), "5", dry_run=True)
    except (MigrationRefused, KafkaException):
        return False
    return True


def test_readers_of_a_topic_without_acls_keep_reading(
    one_node: Service, open_kafka: SecuredKafka, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("orders")[-60:].lstrip("-")
    create(open_kafka, name, one_node)
    place, reader, writer = place_of(one_node, open_kafka, "driver"), login(open_kafka, "reader"), login(open_kafka, "writer")
    assert may_write(writer, name)
    text = place.run("start", name, "--yes", *STILL, status=Exit.USAGE)
    assert f"topic {name} has no ACL but the one that stops its writers" in text
    assert acls(open_kafka, name) == NO_ACLS
    assert not place.is_known(name)

    [row] = place.run("start", name, "--readers", "everybody", "--yes", *STILL)
    assert (row["result"], row["start_offset"]) == ("diskless", 6)
    assert acls(open_kafka, name) == NO_ACLS
    assert may_read(reader, name)
    assert not may_write(writer, name), "it takes no records any more"
    assert place.verify(name)[0]["prefix_records"] == 6
    assert [row["result"] for row in place.run("abort", name, "--yes")] == ["reset"]
    assert acls(open_kafka, name) == NO_ACLS
    wait_until(lambda: may_write(writer, name), "the writer to be let in again")

    # The ACLs of a start that was killed say who reads the topic.
    topic = KafkaClassicTopic(
        name,
        bootstrap_servers=place.kafka,
        client_id="test",
        kafka_properties=open_kafka.login("driver", "driver-secret"),
        is_fence_confirmed=False,
        keep_readers=True,
    )
    asyncio.run(topic.refuse_writes())
    assert [row["start_offset"] for row in place.run("start", name, "--yes", *STILL)] == [7]
    assert may_read(reader, name)


def test_readers_who_were_locked_out_are_let_in_by_an_abort(
    one_node: Service, open_kafka: SecuredKafka, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("orders")[-60:].lstrip("-")
    create(open_kafka, name, one_node)
    place, reader, writer = place_of(one_node, open_kafka, "driver"), login(open_kafka, "reader"), login(open_kafka, "writer")
    assert may_read(reader, name)
    # Not so: everybody reads it. Its only ACL takes every right away, that of the driver to look at the topic too.
    text = place.run("start", name, "--readers", "super-users", "--yes", *STILL, status=Exit.FAILURE)
    assert "topic_authorization_failed; then start again, or let the writers write again with `diskless migration abort`" in text
    assert acls(open_kafka, name) == CLOSED
    assert not may_read(reader, name)
    assert [row["result"] for row in place.run("abort", name, "--yes")] == ["left pending"]
    assert acls(open_kafka, name) == NO_ACLS
    wait_until(lambda: may_read(reader, name), "the reader to be let in again")
    assert may_write(writer, name)


def test_a_migration_is_not_taken_back_when_records_come_meanwhile(
    one_node: Service, open_kafka: SecuredKafka, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("orders")[-60:].lstrip("-")
    create(open_kafka, name, one_node)
    place = Place(one_node, open_kafka.cluster.bootstrap)
    place.run("start", name, "--readers", "everybody", "--yes", *STILL)

    async def write_meanwhile() -> None:
        async with place.client() as client:
            topic = await client.describe_topic(name)
            logs = await client.admin.describe_diskless_logs([PartitionId(topic.topic_id, 0)])
            await client.write({(name, 0): [Record(timestamp_ms=time.time_ns() // 1_000_000, value=b"diskless")]})
            with pytest.raises(Failed, match=r"as little as before: .*records were committed from offset 5 to 5 already"):
                await take_back(client, topic_of(open_kafka, name), topic, logs)

    asyncio.run(write_meanwhile())
    assert place.size_limit(name).own == "0"
    assert "diskless records from offset" in place.run("abort", name, "--yes", status=Exit.FAILURE)
    assert place.size_limit(name).own == "0"


def test_acls_of_others_stay_as_they_are(one_node: Service, open_kafka: SecuredKafka, unique_name: Callable[[str], str]) -> None:
    name = unique_name("orders")[-60:].lstrip("-")
    create(open_kafka, name, one_node)
    place, reader = place_of(one_node, open_kafka, "driver"), login(open_kafka, "reader")
    rights = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ)
    open_kafka.allow("reader", [Right(ResourceType.TOPIC, name, rights)])
    open_kafka.allow("driver", [Right(ResourceType.TOPIC, name, (*rights, AclOperation.ALTER_CONFIGS))])
    wait_until(lambda: may_read(reader, name), "the reader's right to be known")
    assert [row["result"] for row in place.run("start", name, "--readers", "everybody", "--yes", *STILL)] == ["diskless"]
    assert acls(open_kafka, name) == TopicAcls(False, False, 7), "nobody else was let in"
    assert may_read(reader, name)
    assert not may_read(login(open_kafka, "writer"), name)
    place.run("abort", name, "--yes")
    assert acls(open_kafka, name) == TopicAcls(False, False, 7)


def test_taking_a_migration_back_needs_the_rights_to_acls_and_to_the_topics_settings(
    one_node: Service, secured_kafka: SecuredKafka, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("orders")[-60:].lstrip("-")
    create(secured_kafka, name, one_node)
    secured_kafka.add_users(migrator="migrator-secret", undoer="undoer-secret", bystander="bystander-secret")
    rights = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ)
    settings = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
    secured_kafka.allow(
        "migrator",
        [Right(ResourceType.TOPIC, name, (*rights, AclOperation.ALTER_CONFIGS)), Right(ResourceType.GROUP, GROUP, (AclOperation.READ,))],
    )
    for user in ("migrator", "undoer"):
        secured_kafka.allow(user, [Right(ResourceType.BROKER, CLUSTER, (AclOperation.ALTER,))])
    wait_until(lambda: may_read(login(secured_kafka, "migrator"), name), "the migrator's right to be known")
    [row] = place_of(one_node, secured_kafka, "migrator").run("start", name, "--yes", *STILL)
    assert row["result"] == "diskless"
    text = place_of(one_node, secured_kafka, "bystander").run("abort", name, "--yes", status=Exit.FAILURE)
    assert "allow the principal ALTER on the cluster" in text
    undoer = place_of(one_node, secured_kafka, "undoer")
    secured_kafka.allow("undoer", [Right(ResourceType.TOPIC, name, settings[:2])])
    wait_until(lambda: asyncio.run(may_describe(secured_kafka, "undoer", name)), "the undoer's first right to be known")
    text = undoer.run("abort", name, "--yes", status=Exit.FAILURE)
    assert "max.message.bytes" in text
    assert "allow the principal ALTER_CONFIGS on the topic" in text
    by_a_super_user = Place(one_node, secured_kafka.cluster.bootstrap)
    assert by_a_super_user.size_limit(name).own == "0"
    assert [row["state"] for row in by_a_super_user.run("abort", name, "--dry-run")] == ["initialised"], "nothing was changed"
    secured_kafka.allow("undoer", [Right(ResourceType.TOPIC, name, settings)])
    wait_until(lambda: asyncio.run(may_alter(secured_kafka, "undoer", name)), "the undoer's right to be known")
    assert [row["result"] for row in undoer.run("abort", name, "--yes")] == ["reset"]
    assert by_a_super_user.size_limit(name).own is None
