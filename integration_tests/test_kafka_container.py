"""Kafka in containers by testcontainers: the spine of the service holds on it, on one broker and on three of which one dies.

The image is the one that DISKLESS_KAFKA_IMAGE names, else one that is made of the jars and the Java that the other tests use.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cli.dev.kafka import find_kafka
from cli.dev.kafka.container import ContainerKafka
from integration_tests.container_engine import ContainerEngine
from integration_tests.kafka_image import make_kafka_image
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from integration_tests.wire import OK, Batch, connected

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 900
SUBJECTS = ("commits", "topics")
REPLICATED = {"diskless.metadata.topic.replication.factor": "3", "diskless.metadata.topic.min.insync.replicas": "2"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * BUILD_TIMEOUT_S)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerEngine]:
    """An engine."""
    with ContainerEngine(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture(scope="module")
def environment(engine: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The variables of a machine on which Kafka is to run in containers of the engine."""
    image = os.environ.get("DISKLESS_KAFKA_IMAGE") or make_kafka_image(engine, tmp_path_factory.mktemp("image"), timeout_s=BUILD_TIMEOUT_S)
    # The reaper of testcontainers would have to be pulled; the containers here are removed by those who start them.
    made = {"DISKLESS_KAFKA": "testcontainers", "DISKLESS_KAFKA_IMAGE": image, "TESTCONTAINERS_RYUK_DISABLED": "true"}
    others = {key: value for key, value in engine.environment.items() if key not in {"KAFKA_BOOTSTRAP_SERVERS", "KAFKA_HOME"}}
    return others | made


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_tests_of_the_wire_pass_on_a_kafka_in_a_container(
    subject: str, environment: Mapping[str, str], engine: ContainerEngine
) -> None:
    before = engine.run("ps", "-aq")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", str(HERE / f"test_semantics_{subject}.py")]
    done = subprocess.run(command, env=environment, cwd=HERE.parent, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert engine.run("ps", "-aq") == before, "containers were left"


async def test_three_brokers_in_containers_replicate_the_log_and_one_may_die(
    environment: Mapping[str, str], data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DOCKER_HOST", "TESTCONTAINERS_RYUK_DISABLED"):
        if name in environment:
            monkeypatch.setenv(name, environment[name])
    with find_kafka(nodes=3, environment=environment) as kafka:
        assert isinstance(kafka, ContainerKafka)
        assert len(kafka.bootstrap.split(",")) == 3
        with Service(kafka.bootstrap, data_folder, partitions=3, properties=REPLICATED) as service:
            service.start(2)
            async with connected(service.addresses[0]) as wire:
                topic = await wire.new_topic()
                owner = topic.coordinators[0]
                (leader,) = [one.leader_id for one in await wire.coordinators() if one.coordinator_id == owner]
            async with connected(service.nodes[leader].address) as wire:
                assert [one.error for one in await wire.commit(Batch(topic, count=3))] == [OK]
                kafka.containers[0].get_wrapped_container().kill()
                # Kafka answers acks=all again when it misses the dead broker.
                assert [one.error for one in await wire.commit(Batch(topic, count=2), timeout_ms=50_000)] == [OK]
                assert await wire.ends(topic) == (0, 5)
            wait_until(service.is_shared, "the coordinators to be led with two of three brokers")
