"""`diskless topics` with Kafka's address, and what doctor finds when the two sides differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from cli.dev.kafka import BrokerRuntime, KafkaCluster
from cli.main import root
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until

WAIT_S = 20


@pytest.fixture(scope="module")
def cluster(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A Kafka of these tests' own: doctor looks at all topics."""
    made = KafkaCluster(1, runtime=broker_runtime, folder=tmp_path_factory.mktemp("shadows-kafka"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def service(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(cluster.bootstrap, tmp_path_factory.mktemp("shadows"), partitions=2, properties=UNDISTURBED) as made:
        made.start(1)
        yield made


class Commands:
    """The command line with both addresses."""

    def __init__(self, service: Service, kafka: str) -> None:
        self._both = ["--bootstrap-server", ",".join(service.addresses), "--kafka-bootstrap-server", kafka]

    def topics(self, *args: str, status: int = 0) -> str:
        """Run a command of topics; return what it prints."""
        result = CliRunner().invoke(root, ["topics", *args, *self._both], prog_name="diskless")
        assert result.exit_code == status, result.output
        return result.output

    def shadows(self) -> list[tuple[str, str]]:
        """Health and text of doctor's findings about shadows."""
        result = CliRunner().invoke(root, ["doctor", *self._both, "-o", "json"], prog_name="diskless")
        return [(one["health"], one["finding"]) for one in json.loads(result.stdout) if one["check"] == "shadows"]


def test_a_topic_and_its_shadow_are_made_grown_and_deleted_together(cluster: KafkaCluster, service: Service) -> None:
    commands = Commands(service, cluster.bootstrap)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    assert commands.shadows()[0][1].startswith("there are no diskless topics")
    commands.topics("create", "orders", "--partitions", "2", "--config", "retention.ms=9")
    assert commands.shadows() == [("ok", "1 diskless topics have a shadow in Kafka each that takes no records")]
    assert "exists" in commands.topics("create", "orders", "--partitions", "3", status=1)
    commands.topics("create", "orders", "--partitions", "2", "--config", "retention.ms=9")
    assert "orders exists already" in commands.topics("create", "orders", "--partitions", "3", "--if-not-exists")
    commands.topics("alter", "orders", "--partitions", "4")
    wait_until(lambda: len(admin.list_topics("orders", timeout=WAIT_S).topics["orders"].partitions) == 4, "the partitions of the shadow")
    assert commands.shadows() == [("ok", "1 diskless topics have a shadow in Kafka each that takes no records")]

    assert "migration start" in _refused_on_classic(commands, admin)
    assert "leave out --topic-id" in commands.topics("create", "x", "--topic-id", "AAECAwQFBgcICQoLDA0ODw", status=2)
    assert "nothing compacts" in commands.topics("create", "x", "--config", "cleanup.policy=compact", status=2)

    said = commands.topics("delete", "orders", "--yes")
    assert "its shadow in Kafka is deleted" in said
    wait_until(lambda: "orders" not in admin.list_topics(timeout=WAIT_S).topics, "the shadow to be gone")


def _refused_on_classic(commands: Commands, admin: AdminClient) -> str:
    admin.create_topics([NewTopic("classic", num_partitions=1)])["classic"].result(WAIT_S)
    wait_until(lambda: "classic" in admin.list_topics(timeout=WAIT_S).topics, "the classic topic")
    return commands.topics("create", "classic", status=1)


def test_doctor_tells_how_the_sides_differ(cluster: KafkaCluster, service: Service) -> None:
    commands = Commands(service, cluster.bootstrap)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    commands.topics("create", "written")
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        "written",
        incremental_configs=[ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    told: list[Any] = []

    def is_written() -> bool:
        producer.produce("written", b"past the gateways", on_delivery=lambda error, _: told.append(error))
        return producer.flush(WAIT_S) == 0 and told[-1] is None

    wait_until(is_written, "the shadow to take a record")
    admin.create_topics([NewTopic("half", num_partitions=1, config={"max.message.bytes": "0"})])["half"].result(WAIT_S)
    wait_until(lambda: "half" in admin.list_topics(timeout=WAIT_S).topics, "the half topic")
    result = CliRunner().invoke(root, ["topics", "create", "alone", "--bootstrap-server", ",".join(service.addresses)])
    assert result.exit_code == 0, result.output
    assert commands.shadows() == [
        ("warning", "topic half of Kafka takes no records (max.message.bytes=0), and the coordinators do not know it"),
        ("warning", "topic alone has no shadow in Kafka: gateways do not show it"),
        ("error", "the shadow of topic written takes records: max.message.bytes is 1000"),
        ("error", "the shadow of topic written has 1 records, which no reader of the diskless topic finds"),
    ]
