"""The Kafka starter itself: what it starts serves, survives what tests do to it, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from cli.dev.kafka import BrokerRuntime, ExistingKafka, ExtraListener, KafkaCluster, KafkaStartError, NoKafkaError
from cli.dev.ports import lease_ports
from cli.dev.process import command_line, reap_leftovers, register_folder
from integration_tests.waiting import wait_until

REPOSITORY = Path(__file__).parents[1]


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)]).values():
        created.result(60)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> list[int]:
    """Produce with acks=all and return the offsets in order; an entry that fails fails the test."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "socket.timeout.ms": 3000, "log_level": 0})
    offsets: list[int] = []

    def report(error: object, message: object) -> None:
        assert error is None
        offsets.append(message.offset())  # type: ignore[attr-defined]

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=report)
    assert producer.flush(60) == 0
    return offsets


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() or b"" for message in consumer.consume(count, 60)]
    finally:
        consumer.close()


def test_a_stopped_broker_leaves_no_process_and_no_folder(broker_runtime: BrokerRuntime) -> None:
    with KafkaCluster(runtime=broker_runtime) as cluster:
        pid, folder = cluster.node(1).pid, cluster.folder
        assert pid is not None
        assert str(folder) in command_line(pid)
        assert (register_folder() / f"{pid}.json").exists()
    assert command_line(pid) == ""
    assert not folder.exists()
    assert not (register_folder() / f"{pid}.json").exists()


def test_data_and_addresses_survive_a_clean_stop_and_a_kill(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    cluster = kafka_cluster()
    bootstrap = cluster.bootstrap
    create_topic(bootstrap, "kept")
    produce(bootstrap, "kept", [b"a"])
    cluster.stop(clean=True)
    cluster.start()
    assert cluster.bootstrap == bootstrap
    produce(bootstrap, "kept", [b"b"])
    cluster.kill(1)
    cluster.restart(1)
    assert consume(bootstrap, "kept", 2) == [b"a", b"b"]


def test_a_broker_begins_at_the_newest_feature_levels(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    """`meta.properties` without a checkpoint would give level 0, where the group protocol of KIP-848 does not exist."""
    cluster = kafka_cluster()
    create_topic(cluster.bootstrap, "t")
    with_new_protocol = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "group.protocol": "consumer"})
    try:
        with_new_protocol.subscribe(["t"])
        wait_until(lambda: with_new_protocol.poll(0.1) is None and bool(with_new_protocol.assignment()), "an assignment")
    finally:
        with_new_protocol.close()


def test_a_paused_broker_answers_nothing_until_resumed(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    cluster = kafka_cluster()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    cluster.pause(1)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    cluster.resume(1)
    assert list(admin.list_topics(timeout=60).brokers) == [1]


def test_a_broker_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from cli.dev.kafka import KafkaCluster\n"
        "cluster = KafkaCluster(folder=pathlib.Path(sys.argv[1])); cluster.start()\n"
        "print(cluster.node(1).pid, flush=True); sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert str(tmp_path) in command_line(pid)
        owner.send_signal(signal.SIGKILL)
    if sys.platform != "linux":
        reap_leftovers()
    wait_until(lambda: command_line(pid) == "", "the broker to die")


def test_a_failed_start_shows_the_end_of_the_log_and_leaves_nothing(broker_runtime: BrokerRuntime, tmp_path: Path) -> None:
    cluster = KafkaCluster(folder=tmp_path, runtime=broker_runtime, properties={"num.io.threads": "none"})
    with pytest.raises(KafkaStartError, match=r"Invalid value none for configuration num\.io\.threads"):
        cluster.start()
    assert not [entry for entry in register_folder().glob("*.json") if str(tmp_path) in entry.read_text(encoding="utf-8")]


def test_properties_given_by_the_caller_win(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    cluster = kafka_cluster(properties={"message.max.bytes": "654321"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    resource = ConfigResource(ResourceType.BROKER, "1")
    assert admin.describe_configs([resource])[resource].result(60)["message.max.bytes"].value == "654321"


def test_an_extra_listener_advertises_the_port_in_front_of_it(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    (in_front,) = lease_ports(1)
    try:
        cluster = kafka_cluster(listeners=[ExtraListener(name="PROXIED", advertised_ports=[in_front.port])])
        client = {"bootstrap.servers": f"127.0.0.1:{cluster.listener_port('PROXIED')}", "log_level": 0}

        def is_told() -> bool:
            return bool(AdminClient(client).list_topics(timeout=10).brokers[1].port == in_front.port)

        # A client may ask at that port as soon as it has heard of it, where nobody listens.
        wait_until(is_told, "the advertised port", excused=KafkaException)
    finally:
        in_front.close()


def test_a_cluster_that_does_not_answer_is_an_error_not_a_skip() -> None:
    (closed,) = lease_ports(1)
    try:
        with pytest.raises(NoKafkaError, match="KAFKA_BOOTSTRAP_SERVERS=127"):
            ExistingKafka(f"127.0.0.1:{closed.port}").start(timeout_s=0.5)
    finally:
        closed.close()


def test_a_leftover_of_a_dead_owner_is_reaped(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    """Stands for systems where the kernel does not kill children: the owner in the register is made a dead one."""
    cluster = kafka_cluster()
    pid = cluster.node(1).pid
    assert pid is not None
    entry = register_folder() / f"{pid}.json"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    registered = json.loads(entry.read_text(encoding="utf-8"))
    entry.write_text(json.dumps(registered | {"owner_pid": ended.pid}), encoding="utf-8")
    assert pid in reap_leftovers()
    wait_until(lambda: cluster.node(1).pid is None, "the broker to be gone")
    assert not entry.exists()
