"""The images are built from the Dockerfile and run as the chart runs them: no root, nothing writable but data and /tmp, no compiler.

Building takes minutes, hence the tier `long`.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.kafka import Kafka
from cli.dev.ports import lease_block, lease_ports
from integration_tests.container_engine import COMMIT, ContainerEngine, restricted
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from integration_tests.wire import OK, Batch, connected

ROOT = Path(__file__).parents[1]
SERVICE_BYTES_MAX = 350_000_000
BUILD_TIMEOUT_S = 3000
COMPILERS = ("cc", "gcc", "g++", "clang", "ld", "as", "make", "pip", "pip3", "cython")

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * BUILD_TIMEOUT_S)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerEngine]:
    """An engine."""
    with ContainerEngine(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture(scope="module")
def service(engine: ContainerEngine) -> str:
    """The image of the service."""
    return engine.image(ROOT, "service", timeout_s=BUILD_TIMEOUT_S)


def test_the_image_of_the_service_is_small_and_has_only_what_it_needs(engine: ContainerEngine, service: str) -> None:
    (image,) = json.loads(engine.run("image", "inspect", service))
    assert image["Size"] < SERVICE_BYTES_MAX
    assert image["Config"]["User"] == "10001:10001"
    assert image["Config"]["Entrypoint"] == ["diskless"]
    looked_for = f"import shutil; print([name for name in {COMPILERS!r} if shutil.which(name, path='/opt/diskless/bin:/usr/bin:/bin')])"
    found = engine.run("run", "--rm", *restricted("--entrypoint", "python"), service, "-I", "-c", looked_for)
    # The base image of Docker has a pip of its own, for a Python that has none of our packages.
    assert set(json.loads(found.replace("'", '"'))) <= {"pip", "pip3"}
    missing = "import importlib.util as u; print([name for name in ('pyspark', 'pytest', 'Cython', 'pip') if u.find_spec(name)])"
    assert engine.run("run", "--rm", *restricted("--entrypoint", "/opt/diskless/bin/python"), service, "-I", "-c", missing).strip() == "[]"


@pytest.mark.skipif("DISKLESS_TEST_IMAGE_SERVICE" in os.environ, reason="that image was told another commit")
def test_the_image_says_what_it_was_built_from(engine: ContainerEngine, service: str) -> None:
    assert engine.run("run", "--rm", *restricted(), service, "--version").strip().endswith(f"+g{COMMIT[:12]}")


def test_the_service_has_compiled_loops_and_cannot_write_to_its_image(engine: ContainerEngine, service: str) -> None:
    loops = "import coordinator.app.main; from coordinator.app.process.compiled import interpreted_loops; print(interpreted_loops())"
    assert engine.run("run", "--rm", *restricted("--entrypoint", "python"), service, "-I", "-c", loops).strip() == "[]"
    done = engine.try_run("run", "--rm", *restricted("--entrypoint", "/bin/sh"), service, "-c", "touch /opt/diskless/x")
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr
    writable = "find / -xdev -writable -not -type l -not -path '/proc/*' -not -path '/dev/*' 2>/dev/null | grep -v '^/tmp$' | head"
    found = engine.run("run", "--rm", *restricted("--entrypoint", "/bin/sh"), service, "-c", f"id -u; {writable} || true")
    assert found.splitlines()[0] == "10001"
    assert set(found.splitlines()[1:]) <= {"/var/lib/diskless"}, found


def leads_all(http: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/ready", timeout=5) as answer:
            return json.load(answer)["leading"] == [0, 1]
    except OSError:
        return False


async def test_a_node_in_a_container_serves_and_stops_cleanly(engine: ContainerEngine, service: str, kafka: Kafka, tmp_path: Path) -> None:
    leases = lease_ports(2)
    port, http = (lease.port for lease in leases)
    settings = {
        "DISKLESS_NODE_ID": "1",
        "DISKLESS_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "DISKLESS_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "DISKLESS_HTTP_LISTENER": f"http://127.0.0.1:{http}",
        "DISKLESS_DATA_DIRS": "/var/lib/diskless",
        "DISKLESS_OBJECT_STORE_URL": "file:///tmp/objects",
        "DISKLESS_METADATA_TOPIC": f"__diskless_metadata-image-{port}",
        "DISKLESS_GROUP_ID": f"image-{port}",
        "DISKLESS_METADATA_TOPIC_NUM_PARTITIONS": "2",
        "DISKLESS_METADATA_TOPIC_REPLICATION_FACTOR": "1",
        "DISKLESS_METADATA_TOPIC_MIN_INSYNC_REPLICAS": "1",
    }
    variables = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
    name = engine.run("run", "-d", *restricted(*variables), service, "coordinator", "run").strip()
    try:
        wait_until(lambda: leads_all(http) or "ready" not in engine.run("ps", "--format", "ready", "-f", f"id={name}"), "the node to lead")
        assert "serving node=1" in engine.run("logs", name)
        assert "not compiled" not in engine.try_run("logs", name).stderr
        async with connected(f"127.0.0.1:{port}") as wire:
            topic = await wire.new_topic()
            assert [one.error for one in await wire.commit(Batch(topic, count=3))] == [OK]
            assert await wire.ends(topic) == (0, 3)
        status = engine.run("exec", name, "diskless", "coordinator", "status", "--bootstrap-server", f"127.0.0.1:{port}", "-o", "json")
        assert {row["leader"] for row in json.loads(status)} == {1}
    finally:
        engine.run("stop", "-t", "60", name)
        for lease in leases:
            lease.close()
    (state,) = json.loads(engine.run("inspect", name))
    assert state["State"]["ExitCode"] == 0, engine.try_run("logs", name).stderr[-2000:]


def is_ready(http: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_a_gateway_in_a_container_serves_kafka_clients_and_stops_cleanly(
    engine: ContainerEngine, service: str, kafka: Kafka, tmp_path: Path
) -> None:
    """Its node runs beside it: what of the image a gateway needs is the question here."""
    objects = tmp_path / "objects"
    node = Service(kafka.bootstrap, tmp_path, partitions=2, properties={"object.store.url": f"file://{objects}"})
    before = os.umask(0)  # the user of the image writes beside the node
    try:
        objects.mkdir()
        node.start(1)
    finally:
        os.umask(before)
    block, [http_lease] = lease_block(9), lease_ports(1)
    port, http = block[0].port, http_lease.port
    settings = {
        "DISKLESS_GATEWAY_NODE_ID": "1001",
        "DISKLESS_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "DISKLESS_COORDINATOR_BOOTSTRAP_SERVERS": node.addresses[0],
        "DISKLESS_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "DISKLESS_HTTP_LISTENER": f"http://127.0.0.1:{http}",
        "DISKLESS_GATEWAY_RELAY_BROKERS": "0-7",
        "DISKLESS_OBJECT_STORE_URL": "file:///objects",
        "DISKLESS_METADATA_TOPIC": node.topic,
        "DISKLESS_GATEWAY_GROUP_ID": f"image-gateways-{port}",
    }
    variables = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
    mount = f"--mount=type=bind,src={objects},dst=/objects"
    name = engine.run("run", "-d", *restricted(mount, *variables), service, "gateway", "run").strip()
    try:
        wait_until(
            lambda: is_ready(http) or "ready" not in engine.run("ps", "--format", "ready", "-f", f"id={name}"), "the gateway to serve"
        )
        assert "serving gateway=1001" in engine.run("logs", name), engine.try_run("logs", name).stderr[-3000:]
        topic = NewTopic("through-an-image", 2, replication_factor=1, config={"diskless.enable": "true"})
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        admin.create_topics([topic])[topic.topic].result(60)
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "enable.idempotence": True})
        for number in range(100):
            producer.produce(topic.topic, b"%d" % number)
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "image", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic.topic])
        found = Counter(message.value() for message in consumer.consume(100, 60))
        consumer.close()
        assert found == Counter(b"%d" % number for number in range(100))
        assert "Traceback" not in engine.try_run("logs", name).stderr
    finally:
        engine.run("stop", "-t", "60", name)
        node.stop()
        for lease in (*block, http_lease):
            lease.close()
    (state,) = json.loads(engine.run("inspect", name))
    assert state["State"]["ExitCode"] == 0, engine.try_run("logs", name).stderr[-2000:]


def test_the_monitor_runs_with_nothing_to_write_but_its_folder(engine: ContainerEngine, service: str, kafka: Kafka) -> None:
    monitor = engine.image(ROOT, "monitor", timeout_s=BUILD_TIMEOUT_S)
    topic = f"__diskless_metadata-monitor-{time.time_ns()}"
    plain = ["--bootstrap-server", kafka.bootstrap, "--metadata-topic", topic]
    init = ["init", *plain, "--partitions", "2", "--replication-factor", "1", "--min-insync-replicas", "1"]
    engine.try_run("run", "--rm", *restricted(), service, *init)
    folder = "--tmpfs=/var/lib/diskless-monitor:uid=10001,gid=10001,mode=0700"
    once = engine.try_run(
        "run", "--rm", *restricted(folder), monitor, "monitor", "run", *plain, "--dir", "/var/lib/diskless-monitor", "--once", timeout_s=300
    )
    assert once.returncode == 0, once.stdout[-3000:] + once.stderr[-3000:]
    assert re.search(rf"ready topic={topic} partitions=2", once.stdout), once.stdout
    options = "from pathlib import Path; from cli.spark.session import find_engine; print(find_engine(Path('/tmp')).jvm_options)"
    python = restricted("--entrypoint", "/opt/diskless/bin/python")
    assert ".jsa" in engine.run("run", "--rm", *python, monitor, "-I", "-c", options), "Spark's JVM starts with the archive of its classes"
    page = engine.run("run", "--rm", *restricted("--entrypoint", "python"), monitor, "-I", "-c", "import spark_jobs.dashboard.server")
    assert page == ""
