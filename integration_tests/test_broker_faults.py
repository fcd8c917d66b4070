"""Brokers that hang, die and are missing: nothing acknowledged is lost or doubled, and the service comes back by itself.

How long Kafka is away in `test_a_service_started_without_kafka_...` is set by DISKLESS_TEST_KAFKA_AWAY_S (5 s; a release is
tested with 60).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, missing in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    PartitionMetadata,
    ResourceType,
)

from cli.dev.kafka import KafkaCluster
from coordinator.kafka.errors import RETRIABLE
from coordinator.protocol import messages
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from integration_tests.watched import GRACE_S, Watched, ask, quiet_admin

KAFKA_AWAY_S = float(os.environ.get("DISKLESS_TEST_KAFKA_AWAY_S", "5"))
HANG_S = 20.0
REQUEST_TIMED_OUT = 7
COORDINATORS = 4
USER_PARTITIONS = 12

KafkaFactory = Callable[..., KafkaCluster]
T = TypeVar("T")


class ServiceFactory(Protocol):
    def __call__(self, bootstrap: str, *, partitions: int = 8, properties: dict[str, str] | None = None) -> Service: ...


@pytest.fixture
def make_service(data_folder: Path) -> Iterator[ServiceFactory]:
    """Make services on a Kafka of the test's own; all are stopped afterwards."""
    made: list[Service] = []

    def make(bootstrap: str, *, partitions: int = 8, properties: dict[str, str] | None = None) -> Service:
        made.append(Service(bootstrap, data_folder, partitions=partitions, properties=properties))
        return made[-1]

    yield make
    for service in made:
        service.stop()


def let_last(seconds: float) -> None:
    """Wait for as long as a fault is meant to last."""
    end_s = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > end_s, "the time to be over")


def pids(service: Service) -> list[int]:
    return [node.process.pid for node in service.nodes.values() if node.process is not None and node.process.is_running()]


def assigned(service: Service) -> list[int]:
    """What the group assigns now, of all nodes."""
    found: list[int] = []
    for node in service.nodes.values():
        found += node.readiness()[1].get("assigned", [])  # type: ignore[arg-type]
    return sorted(found)


@pytest.mark.long
def test_one_broker_hangs_and_then_dies_under_load(kafka_cluster: KafkaFactory, make_service: ServiceFactory) -> None:
    kafka = kafka_cluster()
    service = make_service(kafka.bootstrap, partitions=COORDINATORS).start(2)
    run, started = Watched(service, "orders", USER_PARTITIONS), pids(service)
    with run.load() as load:
        load.wait_flowing()
        broken = run.broken_terms()
        for fault, heal in ((kafka.pause, kafka.resume), (kafka.kill, kafka.restart)):
            start_s = time.monotonic()
            fault(1)
            if fault == kafka.pause:
                let_last(HANG_S)
            wait_until(lambda since=start_s: REQUEST_TIMED_OUT in run.errors_since(since), "requests to time out")  # type: ignore[misc]
            assert run.errors_since(start_s) <= RETRIABLE
            heal(1)
            load.wait_flowing()
        wait_until(lambda: assigned(service) == list(range(COORDINATORS)), "every partition to be assigned again")
        service.wait_shared()
        load.wait_flowing()
    run.check()
    # A leader that was replaced just before the broker died may hear that its entry was refused before it reads its successor's claim.
    assert run.broken_terms() - broken <= run.replacements()
    assert pids(service) == started


def test_a_service_started_without_kafka_answers_at_once_and_comes_up_by_itself(
    kafka_cluster: KafkaFactory, make_service: ServiceFactory
) -> None:
    kafka = kafka_cluster()
    kafka.kill(1)
    service = make_service(kafka.bootstrap, partitions=COORDINATORS)
    for node_id in (1, 2):
        service.add(node_id).start()
    for node in service.nodes.values():
        node.wait_listening()
    topic = messages.CreatablePartitions(topic_id=os.urandom(16), name="early", num_partitions=2)
    create = messages.CreatePartitionsRequest(topics=(topic,), timeout_ms=1_000)
    asked = messages.ListOffsetsPartition(partition_index=0, timestamp=-1)
    read = messages.ListOffsetsRequest(topics=(messages.ListOffsetsTopic(topic_id=topic.topic_id, partitions=(asked,)),), timeout_ms=1_000)
    away_until_s = time.monotonic() + KAFKA_AWAY_S
    is_first = True
    while is_first or time.monotonic() < away_until_s:
        is_first = False
        for node in service.nodes.values():
            start_s = time.monotonic()
            created = ask(node.address, create, messages.CreatePartitionsResponse).topics[0]
            assert created.error_code in RETRIABLE, created
            found = ask(node.address, read, messages.ListOffsetsResponse).topics[0].partitions[0]
            assert found.error_code in RETRIABLE, found
            assert time.monotonic() - start_s < 2 * (1 + GRACE_S)
            assert not node.readiness()[0]
            assert node.get("/healthy")[0] == 200
    started = pids(service)
    kafka.restart(1)
    service.wait_shared()
    run = Watched(service, "orders", USER_PARTITIONS)
    with run.load() as load:
        load.wait_flowing()
    run.check()
    assert pids(service) == started


# ---- three brokers

REPLICATED = {
    "diskless.metadata.topic.replication.factor": "3",
    "diskless.metadata.topic.min.insync.replicas": "2",
    "topic.check.interval.ms": "1000",
}


def group_coordinator(admin: AdminClient, group: str) -> int | None:
    """The broker that coordinates a consumer group, None while there is none."""
    try:
        return int(admin.describe_consumer_groups([group], request_timeout=5)[group].result(20).coordinator.id)
    except KafkaException:
        return None


def partitions_of(admin: AdminClient, topic: str) -> list[PartitionMetadata]:
    """The partitions of a topic as some broker that answers sees them; none while no broker does."""
    try:
        return list(admin.list_topics(topic, timeout=5).topics[topic].partitions.values())
    except KafkaException:
        return []


def leaders(admin: AdminClient, topic: str) -> set[int]:
    """The brokers that lead partitions of a topic; empty while nobody can say."""
    return {one.leader for one in partitions_of(admin, topic)}


def in_sync_sizes(admin: AdminClient, topic: str) -> set[int]:
    """Sizes of the in-sync sets of a topic's partitions; empty while nobody can say."""
    return {len(one.isrs) for one in partitions_of(admin, topic)}


def awaited(ask: Callable[[], T | None], what: str) -> T:
    """The first answer that is one: brokers that have much to do do not always answer in time."""
    found: list[T] = []

    def is_answered() -> bool:
        answer = ask()
        found.extend([answer] if answer else [])
        return bool(found)

    wait_until(is_answered, what)
    return found[0]


def is_led_by_others(found: set[int], lost: int | None) -> bool:
    return bool(found) and not found & {lost, -1}


# The run under every kind of fault (`test_fault_run`) freezes brokers, too.
@pytest.mark.long
@pytest.mark.parametrize("how", ["kill", "pause"])
def test_the_loss_of_one_of_three_brokers_ends_no_term(kafka_cluster: KafkaFactory, make_service: ServiceFactory, how: str) -> None:
    """The broker leads metadata partitions and coordinates the group; Kafka's own session time of 9 s freezes all commits."""
    kafka = kafka_cluster(nodes=3, session_timeout_ms=9_000, heartbeat_interval_ms=2_000)
    service = make_service(kafka.bootstrap, partitions=6, properties=REPLICATED).start(2)
    admin = quiet_admin(kafka.bootstrap)
    run = Watched(service, "orders", 12)
    with run.load() as load:
        load.wait_flowing()
        broken, moved_before, epochs_before = run.broken_terms(), run.moved_terms(), run.epochs()
        lost = awaited(lambda: group_coordinator(admin, service.properties["group.id"]), "a coordinator of the group")
        assert lost in awaited(lambda: leaders(admin, service.topic), "the leaders"), "the broker leads no metadata partition"
        start_s = time.monotonic()
        (kafka.kill if how == "kill" else kafka.pause)(lost)
        wait_until(lambda: is_led_by_others(leaders(admin, service.topic), lost), "the others to take the partitions over")
        load.wait_flowing()
        print(f"{how}: commits were back after {time.monotonic() - start_s:.1f} s")
        wait_until(lambda: assigned(service) == list(range(6)), "every partition to be assigned again")
        service.wait_shared()
        print(f"{how}: members were back after {time.monotonic() - start_s:.1f} s")
        (kafka.restart if how == "kill" else kafka.resume)(lost)
        load.wait_flowing()
        service.wait_shared()
    run.check()

    def claims() -> int:
        return sum(len(epochs) - len(epochs_before[partition]) for partition, epochs in run.epochs().items())

    # No term broke, and no assignment was taken away: members wait for the next coordinator of their group.
    assert [node_id for node_id, node in service.nodes.items() if "are lost" in node.log_text()] == []
    assert (run.broken_terms(), run.moved_terms(), claims()) == (broken, moved_before, 0)


def test_below_min_isr_nothing_is_acknowledged_and_it_can_be_seen(kafka_cluster: KafkaFactory, make_service: ServiceFactory) -> None:
    kafka = kafka_cluster(nodes=3)
    service = make_service(kafka.bootstrap, partitions=2, properties=REPLICATED).start(1)
    admin, node = quiet_admin(kafka.bootstrap), service.nodes[1]
    # Three combined nodes keep their quorum only with two of them, so the minimum is raised instead.
    entry = ConfigEntry("min.insync.replicas", "3", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, service.topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)
    run = Watched(service, "orders", 4)
    with run.load() as load:
        load.wait_flowing()
        broken = run.broken_terms()
        wait_until(lambda: node.metric("oldest_unacknowledged_entry_age_seconds") < 1, "nothing old in the metrics")
        kafka.kill(3)
        wait_until(lambda: in_sync_sizes(admin, service.topic) == {2}, "the in-sync sets to shrink")
        # Not what clients were told: the answer to a file of both coordinators may come now, with a share that was acknowledged before.
        acknowledged = node.samples("commits_total")
        assert len(acknowledged) == 2
        assert min(acknowledged.values()) > 0
        wait_until(lambda: node.metric("oldest_unacknowledged_entry_age_seconds", partition="1") > 6, "old entries in the metrics")
        wait_until(lambda: "is below min.insync.replicas=3" in node.log_text(), "the log to name the reason")
        assert node.samples("commits_total") == acknowledged
        kafka.restart(3)
        load.wait_flowing()
    run.check()
    assert run.broken_terms() == broken
    wait_until(lambda: node.metric("oldest_unacknowledged_entry_age_seconds") < 1, "nothing old in the metrics")
