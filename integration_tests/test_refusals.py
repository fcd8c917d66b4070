"""What is not safe to serve is refused loudly: exit status 1, and last lines that name the key, its value and the fix."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from coordinator.protocol import messages
from integration_tests.final_state import create_topic
from integration_tests.history import UserPartition
from integration_tests.routes import Address
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from integration_tests.watched import Watched, ask

SAFE = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
}
END_S = 90.0

UNSAFE = [
    ("retention.ms", "604800000", {}),
    ("retention.bytes", "1000000", {}),
    ("cleanup.policy", "compact", {}),
    ("unclean.leader.election.enable", "true", {}),
    ("message.timestamp.type", "CreateTime", {}),
    ("min.insync.replicas", "1", {"diskless.metadata.topic.replication.factor": "3", "diskless.metadata.topic.min.insync.replicas": "2"}),
]


def create(bootstrap: str, topic: str, partitions: int, config: dict[str, str]) -> None:
    """Create a Kafka topic, again and again while one of that name is still being deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    wait_until(is_created, f"topic {topic} to be created")
    wait_until(lambda: set(admin.list_topics(topic).topics[topic].partitions) == set(range(partitions)), f"topic {topic} to be known")


def alter(bootstrap: str, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)


def wait_ended(node: CoordinatorProcess) -> tuple[int, str]:
    """Wait for the end of a process by itself: (status, its last two lines)."""
    assert node.process is not None
    try:
        status = node.process.wait(END_S)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"node {node.node_id} did not end within {END_S:g} s\n{node.log_tail()}") from late
    return status, node.log_tail(2)


def run_to_end(node: CoordinatorProcess) -> tuple[int, str]:
    node.start()
    return wait_ended(node)


def addresses(service: Service) -> dict[int, Address]:
    return {
        node_id: Address(node.address.rpartition(":")[0], int(node.address.rpartition(":")[2])) for node_id, node in service.nodes.items()
    }


def test_unsafe_topics_are_refused_by_key_value_and_fix(kafka: Kafka, data_folder: Path) -> None:
    services = [Service(kafka.bootstrap, data_folder / f"{n}", partitions=1, properties=more) for n, (_, _, more) in enumerate(UNSAFE)]
    try:
        for service, (key, value, _) in zip(services, UNSAFE, strict=True):
            create(kafka.bootstrap, service.topic, 1, SAFE | {key: value})
        with ThreadPoolExecutor(3) as threads:
            ends = list(threads.map(run_to_end, [service.add(1) for service in services]))
        for service, (key, value, more), (status, text) in zip(services, UNSAFE, ends, strict=True):
            assert status == 1, text
            assert f"topic {service.topic} is not safe to lead on" in text
            assert f"{key}={value}" in text
            fix = f"--entity-name {service.topic} --add-config {key}="
            assert fix in text
            if more:
                assert "replicas of partition 0=1" in text
                assert "1 replicas, fewer than the 3 expected" in text
                assert "kafka-reassign-partitions.sh" in text
    finally:
        for service in services:
            service.stop()


def test_a_missing_topic_is_not_created_where_that_is_forbidden(service: Service, kafka: Kafka) -> None:
    status, text = run_to_end(service.add(1, diskless_metadata_topic_auto_create="false"))
    assert status == 1
    assert f"topic {service.topic} does not exist" in text
    assert "diskless.metadata.topic.auto.create is false" in text
    assert "diskless init" in text
    assert service.topic not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics().topics


def test_a_topic_that_kafka_refuses_to_create_is_named_with_the_reason(service: Service) -> None:
    node = service.add(1, diskless_metadata_topic_replication_factor="3", diskless_metadata_topic_min_insync_replicas="2")
    status, text = run_to_end(node)
    assert status == 1
    assert f"create the topic {service.topic}" in text
    assert "eplication factor" in text


@pytest.mark.parametrize("what", ["cluster", "node"])
def test_a_data_directory_of_another_cluster_or_node_is_refused(service: Service, what: str) -> None:
    node = service.add(1)
    node.data_folder.mkdir(parents=True)
    meta = node.data_folder / "meta.properties"
    if what == "cluster":
        meta.write_text("version=1\ncluster.id=AnotherClusterAltogether\nnode.id=1\n", encoding="utf-8")
        wanted = ["belongs to cluster AnotherClusterAltogether", "correct bootstrap.servers or data.dirs"]
    else:
        other = service.add(2, data_dirs=str(node.data_folder))
        other.start()
        other.wait_ready()
        assert other.terminate() == 0
        wanted = ["belongs to node.id 2, this is node.id 1", "correct node.id or data.dirs"]
    before = sorted((path.name, path.stat().st_size) for path in node.data_folder.iterdir())
    status, text = run_to_end(node)
    assert status == 1
    for words in (str(node.data_folder), *wanted, "or empty the directory"):
        assert words in text
    assert sorted((path.name, path.stat().st_size) for path in node.data_folder.iterdir()) == before


# ---- under a running service


def start_with_topic(service: Service, kafka: Kafka) -> CoordinatorProcess:
    """One node that checks the topic twice a second, with a diskless topic that has an entry of the log for every partition."""
    create(kafka.bootstrap, service.topic, 2, SAFE)
    node = service.add(1, topic_check_interval_ms="500", diskless_metadata_topic_num_partitions="2")
    node.start()
    node.wait_ready()
    create_topic(addresses(service), "orders", 4)
    return node


def test_settings_that_become_unsafe_stop_the_service(service: Service, kafka: Kafka) -> None:
    node = start_with_topic(service, kafka)
    alter(kafka.bootstrap, service.topic, "retention.ms", "86400000")
    status, text = wait_ended(node)
    assert status == 1
    assert "retention.ms=86400000" in text
    assert "--add-config retention.ms=-1" in text


@pytest.mark.parametrize("how", ["shorter", "longer", "deleted"])
def test_a_topic_deleted_under_the_service_stops_it(service: Service, kafka: Kafka, how: str) -> None:
    node = start_with_topic(service, kafka)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([service.topic])[service.topic].result(60)
    if how != "deleted":
        create(kafka.bootstrap, service.topic, 2, SAFE)
    if how == "longer":
        # Kafka's client reads on from the same offset of the new log without an error.
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 5})
        for number in range(1_000):
            producer.produce(service.topic, b"of another life", partition=number % 2)
        assert producer.flush(60) == 0
    status, text = wait_ended(node)
    assert status == 1
    assert f"topic {service.topic} was deleted" in text
    assert "acknowledged entries are gone" in text if how == "deleted" else "Start again with empty data directories" in text


def test_a_node_started_after_its_topic_vanished_creates_none(service: Service, kafka: Kafka) -> None:
    node = start_with_topic(service, kafka)
    assert node.terminate() == 0
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_topics([service.topic])[service.topic].result(60)
    wait_until(lambda: service.topic not in admin.list_topics().topics, "the topic to be gone")
    status, text = run_to_end(node)
    assert status == 1
    assert f"topic {service.topic} does not exist, but {node.data_folder} holds the state of a service that had it" in text
    assert "diskless restore start" in text
    assert service.topic not in admin.list_topics().topics
    # A new topic is for people to decide on.
    create(kafka.bootstrap, service.topic, 2, SAFE)
    node.start()
    node.wait_ready()


def test_new_partitions_of_the_topic_are_led_and_take_new_placements_only(service: Service, kafka: Kafka) -> None:
    create(kafka.bootstrap, service.topic, 2, SAFE)
    for node_id in (1, 2):
        service.add(node_id, topic_check_interval_ms="500", diskless_metadata_topic_num_partitions="2").start()
    service.properties["diskless.metadata.topic.num.partitions"] = "2"
    service.wait_shared()
    run = Watched(service, "orders", 4)
    with run.load() as load:
        load.wait_flowing()
        new = NewPartitions(service.topic, 5)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_partitions([new])[service.topic].result(60)
        service.properties["diskless.metadata.topic.num.partitions"] = "5"
        service.wait_shared()
        later = create_topic(addresses(service), "later", 30)
        assert set(later.values()) == {0, 1, 2, 3, 4}
        for node in service.nodes.values():
            asked = messages.DescribeTopicsTopic(topic_id=bytes(16), name="orders")
            (topic,) = ask(node.address, messages.DescribeTopicsRequest(topics=(asked,)), messages.DescribeTopicsResponse).topics
            assert {UserPartition(topic.topic_id, one.partition_index): one.coordinator_id for one in topic.partitions} == run.owners
        load.wait_flowing()
    run.coordinators = 5
    run.check()
    # The new coordinators serve commits and reads as the old ones do.
    fresh = Watched.of(service, later)
    with fresh.load(seed=7) as load:
        load.wait_flowing()
    fresh.check()
