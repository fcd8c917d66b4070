"""The order in which a Kafka is chosen, as far as it can be seen without starting one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.dev.kafka import ExistingKafka, KafkaCluster, NoKafkaError, find_kafka
from cli.dev.kafka.container import ContainerKafka, image_environment
from cli.dev.kafka.prepare import RuntimeUnavailableError, distribution_jars


def test_an_existing_cluster_comes_first() -> None:
    found = find_kafka(environment={"KAFKA_BOOTSTRAP_SERVERS": "a:1,b:2", "KAFKA_HOME": "/nowhere", "DISKLESS_KAFKA": "testcontainers"})
    assert isinstance(found, ExistingKafka)
    assert found.bootstrap == "a:1,b:2"


def test_a_distribution_that_is_none_is_an_error_even_when_containers_are_asked_for(tmp_path: Path) -> None:
    environment = {"KAFKA_HOME": str(tmp_path), "DISKLESS_KAFKA": "testcontainers", "PATH": ""}
    with pytest.raises(NoKafkaError, match="point it at an unpacked Kafka distribution"):
        find_kafka(environment=environment)


def test_containers_are_taken_when_asked_for() -> None:
    found = find_kafka(environment={"DISKLESS_KAFKA": "testcontainers", "DISKLESS_KAFKA_IMAGE": "own/kafka:1"})
    assert isinstance(found, ContainerKafka)
    assert found.source == "testcontainers, own/kafka:1"


def test_an_unknown_choice_is_an_error() -> None:
    with pytest.raises(NoKafkaError, match="DISKLESS_KAFKA=docker is not known"):
        find_kafka(environment={"DISKLESS_KAFKA": "docker"})


def test_a_container_listens_on_every_interface_and_advertises_loopback_to_clients() -> None:
    variables = image_environment(19092, node_id=2, nodes=3, cluster_id="c", session_timeout_ms=2000)
    assert variables["KAFKA_LISTENERS"].startswith("PLAINTEXT://0.0.0.0:19092,")
    assert variables["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:19092,BROKERS://kafka-2:29092"
    assert variables["KAFKA_CONTROLLER_QUORUM_VOTERS"] == "1@kafka-1:29093,2@kafka-2:29093,3@kafka-3:29093"
    assert (variables["KAFKA_NODE_ID"], variables["KAFKA_MIN_INSYNC_REPLICAS"], variables["CLUSTER_ID"]) == ("2", "2", "c")


@pytest.mark.parametrize(("name", "complaint"), [("kafka-clients-3.9.1.jar", "is Kafka 3.9; 4.0 or newer"), ("other.jar", "has no libs")])
def test_a_distribution_too_old_or_incomplete_is_refused(name: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / name).touch()
    with pytest.raises(RuntimeUnavailableError, match=complaint):
        distribution_jars(tmp_path)


def test_a_distributions_jars_are_listed_in_a_fixed_order(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    for name in ("zeta-1.jar", "kafka-clients-4.1.0.jar", "notes.txt"):
        (tmp_path / "libs" / name).touch()
    assert [jar.name for jar in distribution_jars(tmp_path)] == ["kafka-clients-4.1.0.jar", "zeta-1.jar"]


@pytest.mark.parametrize("nodes", [0, 2, 5])
def test_a_cluster_has_one_node_or_three(nodes: int) -> None:
    with pytest.raises(ValueError, match="1 or 3 nodes"):
        KafkaCluster(nodes)


def test_a_cluster_that_is_not_started_says_so() -> None:
    with pytest.raises(RuntimeError, match="not started"):
        KafkaCluster().bootstrap  # noqa: B018
