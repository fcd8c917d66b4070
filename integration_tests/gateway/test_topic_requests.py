"""Kafka's requests about topics through a gateway's takers, on a real broker and real coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from kio.schema.errors import ErrorCode

from cli.dev.kafka import BrokerRuntime, KafkaCluster
from cli.main import root
from coordinator.client.admin import DisklessAdmin
from coordinator.client.errors import NotFound
from coordinator.client.model import TopicListing
from integration_tests.gateway.takers import GatewayTopics, gateway_topics
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from records.levels import LEVEL_LATEST

NameFactory = Callable[[str], str]
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture(scope="module")
def kafka(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A Kafka of these tests' own: they leave shadows there that no coordinator knows."""
    with KafkaCluster(1, tmp_path_factory.mktemp("topics-kafka"), runtime=broker_runtime) as made:
        yield made


@pytest.fixture(scope="module")
def service(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(
        kafka.bootstrap, tmp_path_factory.mktemp("topics"), partitions=2, properties={**UNDISTURBED, "max.partitions.per.topic": "8"}
    ) as made:
        made.start(1)
        yield made


def codes(rows: list[Any]) -> list[ErrorCode]:
    return [row.error_code for row in rows]


def kafka_settings(bootstrap: str, name: str) -> dict[str, str]:
    """The settings that a topic has of its own in Kafka."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_configs([resource])[resource].result(20)
    return {one.name: one.value for one in found.values() if one.source == 1}


def kafka_partitions(bootstrap: str, name: str) -> int:
    return len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(name, timeout=20).topics[name].partitions)


async def test_a_topic_lives_in_kafka_and_at_the_coordinators_with_one_id(
    kafka: KafkaCluster, service: Service, unique_name: NameFactory
) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name, classic = unique_name("diskless"), unique_name("classic")
        [row] = await gateway.create(name, diskless_enable="true", retention_ms="60000", max_message_bytes="2000000")
        assert (row.error_code, row.num_partitions, row.replication_factor) == (ErrorCode.none, 3, 1)
        assert {("diskless.enable", "true"), ("retention.ms", "60000")} <= {(one.name, one.value) for one in row.configs}
        described = await client.describe_topic(name)
        assert (described.topic_id, len(described.partitions)) == (row.topic_id.bytes, 3)
        assert described.settings == {"retention.ms": "60000", "max.message.bytes": "2000000"}
        found = gateway.catalogue.identified(row.topic_id.bytes)
        assert found is not None
        assert (found.name, found.partitions, found.coordinators) == (name, 3, tuple(one.coordinator_id for one in described.partitions))
        assert kafka_settings(kafka.bootstrap, name) == {"max.message.bytes": "0"}
        # A client that reaches the broker past the gateway can write nothing.
        refusals: list[Any] = []
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce(name, b"x", on_delivery=lambda error, _: refusals.append(error))
        assert producer.flush(20) == 0
        assert [one.name() for one in refusals] == ["MSG_SIZE_TOO_LARGE"]

        assert codes(await gateway.create(name, diskless_enable="true")) == [ErrorCode.topic_already_exists]
        assert codes(await gateway.create(classic, retention_ms="5000")) == [ErrorCode.none]
        assert kafka_settings(kafka.bootstrap, classic) == {"retention.ms": "5000"}
        assert codes(await gateway.create(classic, diskless_enable="true")) == [ErrorCode.topic_already_exists]
        assert [one.name for one in await client.admin.list_topics() if one.name == classic] == []

        assert codes(await gateway.delete(name, classic)) == [ErrorCode.none, ErrorCode.none]
        with pytest.raises(NotFound):
            await client.describe_topic(name)
        assert gateway.catalogue.named(name) is None
        assert codes(await gateway.delete(name)) == [ErrorCode.unknown_topic_or_partition]
        # The name is free, for another id.
        [again] = await gateway.create(name, diskless_enable="true")
        assert again.error_code is ErrorCode.none
        assert again.topic_id != row.topic_id


async def test_several_topics_of_one_request_succeed_and_fail_alone(
    kafka: KafkaCluster, service: Service, unique_name: NameFactory
) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses, rule=".*-wide-.*") as (gateway, client):
        from gateway.kafka_apis import KafkaApi

        module = KafkaApi.CREATE_TOPICS.request_parts(5)
        wide, compacted, chosen, wrong, twice, many = (unique_name(kind) for kind in ("a-wide", "b-wide", "c", "d", "e", "f-wide"))

        def topic(name: str, replicas: int = 1, **settings: str) -> Any:
            configs = tuple(module.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items())
            return module.CreatableTopic(name=name, num_partitions=-1, replication_factor=replicas, assignments=(), configs=configs)

        topics = (
            topic(wide),
            topic(compacted, cleanup_policy="compact"),
            topic(chosen, diskless_enable="false"),
            topic(wrong, diskless_enable="true", cleanup_policy="compact"),
            topic(twice),
            topic(twice),
            topic(many, replicas=9),
        )
        from integration_tests.gateway.takers import WITHIN

        answer = await gateway.ask(KafkaApi.CREATE_TOPICS, module.CreateTopicsRequest(topics=topics, timeout=WITHIN, validate_only=False))
        told = {str(one.name): (one.error_code, one.error_message) for one in answer.topics}
        assert [told[name][0] for name in (wide, compacted, chosen)] == [ErrorCode.none] * 3
        assert told[wrong][0] is ErrorCode.invalid_config
        assert "nothing compacts" in (told[wrong][1] or "")
        assert told[twice][0] is ErrorCode.invalid_request
        assert told[many][0] is ErrorCode.invalid_replication_factor
        listed = {one.name for one in await client.admin.list_topics()}
        assert {wide, compacted, chosen, many} & listed == {wide}
        assert kafka_settings(kafka.bootstrap, compacted) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates_and_deletes(kafka: KafkaCluster, service: Service, unique_name: NameFactory, version: int) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        assert codes(await gateway.create(name, diskless_enable="true", version=version)) == [ErrorCode.none]
        assert len((await client.describe_topic(name)).partitions) == 3
        assert codes(await gateway.delete(name, name, version=version - 1)) == [ErrorCode.invalid_request] * 2
        assert codes(await gateway.delete(name, version=version - 1)) == [ErrorCode.none]
        with pytest.raises(NotFound):
            await client.describe_topic(name)


async def test_a_dry_run_changes_nothing(kafka: KafkaCluster, service: Service, unique_name: NameFactory) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        assert codes(await gateway.create(name, diskless_enable="true", dry_run=True)) == [ErrorCode.none]
        assert codes(await gateway.create(name, diskless_enable="true", retention_ms="x", dry_run=True)) == [ErrorCode.invalid_config]
        assert name not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=20).topics
        await gateway.create(name, diskless_enable="true")
        assert (await gateway.grow(name, 5, dry_run=True)).error_code is ErrorCode.none
        assert (await gateway.alter(name, ("retention.ms", SET, "7"), dry_run=True)).error_code is ErrorCode.none
        described = await client.describe_topic(name)
        assert (len(described.partitions), described.settings) == (3, {})


async def test_settings_are_the_coordinators(kafka: KafkaCluster, service: Service, unique_name: NameFactory) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        await gateway.create(name, diskless_enable="true", retention_bytes="1000")
        settings = await gateway.describe(name)
        assert settings["diskless.enable"] == ("true", 1)
        assert settings["retention.bytes"] == ("1000", 1)
        assert settings["max.message.bytes"] == ("1048588", 5)
        assert settings["message.timestamp.type"] == ("CreateTime", 5)
        assert "segment.bytes" not in settings
        assert set(await gateway.describe(name, "retention.ms", "diskless.enable", version=1)) == {"retention.ms", "diskless.enable"}

        row = await gateway.alter(name, ("retention.ms", SET, "7"), ("retention.bytes", DELETE, None), ("max.message.bytes", SET, "500"))
        assert row.error_code is ErrorCode.none
        assert (await client.describe_topic(name)).settings == {"retention.ms": "7", "max.message.bytes": "500"}
        found = gateway.catalogue.named(name)
        assert found is not None
        assert found.settings == {"retention.ms": "7", "max.message.bytes": "500"}
        assert kafka_settings(kafka.bootstrap, name) == {"max.message.bytes": "0"}

        refused = [
            (("cleanup.policy", SET, "compact"), "nothing compacts"),
            (("segment.bytes", SET, "1000000"), "is not a setting of diskless topics"),
            (("cleanup.policy", APPEND, "compact"), "nothing is appended"),
            (("retention.ms", SET, "soon"), "a whole number"),
            (("diskless.enable", SET, "false"), "cannot be altered"),
            (("diskless.enable", DELETE, None), "cannot be altered"),
        ]
        for change, text in refused:
            row = await gateway.alter(name, change)
            assert (row.error_code, text in row.error_message) == (ErrorCode.invalid_config, True), row
        assert (await gateway.alter(name, ("diskless.enable", SET, "true"))).error_code is ErrorCode.none
        assert (await gateway.set_wholly(name, retention_bytes="9")).error_code is ErrorCode.none
        assert (await client.describe_topic(name)).settings == {"retention.bytes": "9"}

        classic = unique_name("classic")
        await gateway.create(classic)
        assert (await gateway.alter(classic, ("retention.ms", SET, "7"))).error_code is ErrorCode.none
        wait_until(lambda: kafka_settings(kafka.bootstrap, classic) == {"retention.ms": "7"}, "the setting to reach the broker")
        assert (await gateway.describe(classic))["retention.ms"] == ("7", 1)
        row = await gateway.alter(classic, ("diskless.enable", SET, "true"))
        assert (row.error_code, "diskless migration" in row.error_message) == (ErrorCode.invalid_config, True)


async def test_a_topic_grows_in_both_places(kafka: KafkaCluster, service: Service, unique_name: NameFactory) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        await gateway.create(name, diskless_enable="true")
        assert (await gateway.grow(name, 5)).error_code is ErrorCode.none
        assert len((await client.describe_topic(name)).partitions) == 5
        wait_until(lambda: kafka_partitions(kafka.bootstrap, name) == 5, "the partitions in Kafka")
        assert (await gateway.grow(name, 5)).error_code is ErrorCode.invalid_partitions
        assert (await gateway.grow(name, 4)).error_code is ErrorCode.invalid_partitions
        found = gateway.catalogue.named(name)
        assert found is not None
        assert found.partitions == 5


async def test_a_topic_is_classic_until_its_migration_has_begun_every_partition(
    kafka: KafkaCluster, service: Service, unique_name: NameFactory
) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        [row] = await gateway.create(name, partitions=2, retention_ms="86400000")
        await client.admin.raise_schema_level(LEVEL_LATEST)
        # The first step of a migration: the service has the topic, and its partitions wait for their B0.
        await client.admin.create_topic(name, 2, topic_id=row.topic_id.bytes, classic_pending=True)
        await gateway.catalogue.refreshed()
        assert gateway.catalogue.named(name) is None
        assert "segment.bytes" in await gateway.describe(name)
        both = ["--bootstrap-server", ",".join(service.addresses), "--kafka-bootstrap-server", kafka.bootstrap]
        words = ["migration", "start", name, "--writers-stopped", "--still", "0.3", "--yes", *both]
        done = await asyncio.to_thread(CliRunner().invoke, root, words, prog_name="diskless")
        assert done.exit_code == 0, done.output
        await gateway.catalogue.refreshed()
        found = gateway.catalogue.identified(row.topic_id.bytes)
        assert found is not None
        assert (found.name, found.partitions) == (name, 2)
        settings = await gateway.describe(name)
        assert settings["diskless.enable"] == ("true", 1)
        assert "segment.bytes" not in settings
        assert codes(await gateway.delete(name)) == [ErrorCode.none]


class CutOff:
    """Coordinators that the gateway never reaches: what it does last before it is killed."""

    def __init__(self, admin: DisklessAdmin) -> None:
        self._admin = admin
        self.changed_topics = admin.changed_topics
        self.describe_diskless_logs = admin.describe_diskless_logs
        self.describe_topic_configs = admin.describe_topic_configs
        self.alter_topic = admin.alter_topic
        self.is_reached = asyncio.Event()
        self.is_deleting_first = False

    async def create_topic(
        self,
        name: str,
        num_partitions: int,
        *,
        topic_id: bytes | None = None,
        settings: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> TopicListing:
        self.is_reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def delete_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> None:
        if self.is_deleting_first:
            await self._admin.delete_topic(topic, timeout_ms=timeout_ms)
        self.is_reached.set()
        await asyncio.Event().wait()


async def cut_off(bootstrap: str, coordinators: CutOff, work: Callable[[GatewayTopics], Awaitable[Any]]) -> None:
    """Do work of a gateway that is killed when it has reached the coordinators."""
    gateway = GatewayTopics(bootstrap, coordinators)
    task = asyncio.ensure_future(work(gateway))
    async with asyncio.timeout(30):
        await coordinators.is_reached.wait()
    gateway.close()
    task.cancel()
    await asyncio.wait([task])


async def test_repeating_finishes_a_creation_that_was_cut_off(kafka: KafkaCluster, service: Service, unique_name: NameFactory) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        dying = CutOff(client.admin)
        await cut_off(kafka.bootstrap, dying, lambda one: one.create(name, diskless_enable="true", retention_ms="9"))
        assert kafka_settings(kafka.bootstrap, name) == {"max.message.bytes": "0"}
        [(_, topic)] = (await gateway.room.shadows.topics([name])).seen.items()
        assert await gateway.room.shadows.unfinished([(name, topic.topic_id)]) == {topic.topic_id}

        [row] = await gateway.create(name, diskless_enable="true", partitions=4)
        assert row.error_code is ErrorCode.topic_already_exists
        assert "half created, with 3 partitions" in row.error_message
        row = await gateway.alter(name, ("retention.ms", SET, "7"))
        assert (row.error_code, "half created" in row.error_message) == (ErrorCode.request_timed_out, True)
        [row] = await gateway.create(name, diskless_enable="true", retention_ms="9")
        assert (row.error_code, row.topic_id.bytes) == (ErrorCode.none, topic.topic_id)
        described = await client.describe_topic(topic.topic_id)
        assert (described.name, len(described.partitions), described.settings) == (name, 3, {"retention.ms": "9"})
        assert await gateway.room.shadows.unfinished([(name, topic.topic_id)]) == frozenset()
        assert codes(await gateway.create(name, diskless_enable="true", retention_ms="9")) == [ErrorCode.topic_already_exists]


async def test_a_topic_that_the_coordinators_refuse_leaves_no_shadow(
    kafka: KafkaCluster, service: Service, unique_name: NameFactory
) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        alone, wide = unique_name("alone"), unique_name("wide")
        await client.admin.create_topic(alone, 1)  # at the coordinators only, with another id
        [row] = await gateway.create(alone, diskless_enable="true")
        assert row.error_code is ErrorCode.topic_already_exists
        [row] = await gateway.create(wide, diskless_enable="true", partitions=9)
        assert (row.error_code, "max.partitions.per.topic" in row.error_message) == (ErrorCode.invalid_partitions, True)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        wait_until(lambda: not {alone, wide} & set(admin.list_topics(timeout=20).topics), "the shadows to be gone")


@pytest.mark.parametrize("is_deleting_first", [False, True])
async def test_repeating_finishes_a_deletion_that_was_cut_off(
    kafka: KafkaCluster, service: Service, unique_name: NameFactory, is_deleting_first: bool
) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        [row] = await gateway.create(name, diskless_enable="true")
        dying = CutOff(client.admin)
        dying.is_deleting_first = is_deleting_first
        await cut_off(kafka.bootstrap, dying, lambda one: one.delete(row.topic_id.bytes))
        assert kafka_partitions(kafka.bootstrap, name) == 3
        assert codes(await gateway.delete(row.topic_id.bytes)) == [ErrorCode.none]
        with pytest.raises(NotFound):
            await client.describe_topic(name)
        assert codes(await gateway.delete(row.topic_id.bytes)) == [ErrorCode.unknown_topic_id]


async def test_repeating_finishes_a_growth_that_was_cut_off(kafka: KafkaCluster, service: Service, unique_name: NameFactory) -> None:
    async with gateway_topics(kafka.bootstrap, service.addresses) as (gateway, client):
        name = unique_name("topic")
        await gateway.create(name, diskless_enable="true")
        dying = CutOff(client.admin)
        await cut_off(kafka.bootstrap, dying, lambda one: one.grow(name, 5))
        assert len((await client.describe_topic(name)).partitions) == 3
        assert (await gateway.grow(name, 5)).error_code is ErrorCode.none
        assert len((await client.describe_topic(name)).partitions) == 5


async def test_two_gateways_create_one_topic(kafka: KafkaCluster, service: Service, unique_name: NameFactory) -> None:
    async with (
        gateway_topics(kafka.bootstrap, service.addresses) as (one, client),
        gateway_topics(kafka.bootstrap, service.addresses) as (other, _),
    ):
        for number in range(5):
            name = unique_name(f"topic{number}")
            rows = await asyncio.gather(
                one.create(name, diskless_enable="true", retention_ms="1"), other.create(name, diskless_enable="true", retention_ms="2")
            )
            told = [row.error_code for [row] in rows]
            assert ErrorCode.none in told
            assert set(told) <= {ErrorCode.none, ErrorCode.topic_already_exists}
            described = await client.describe_topic(name)
            in_kafka = await one.room.shadows.known_topics([name], are_new=lambda found: bool(found))
            assert [topic.topic_id for topic in in_kafka.seen.values()] == [described.topic_id]
            assert described.settings in ({"retention.ms": "1"}, {"retention.ms": "2"})
