"""Settings of topics over Kafka's own requests, on a real broker and real nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from integration_tests.commands import run
from integration_tests.kafka_scripts import java_program
from integration_tests.service import UNDISTURBED, Service
from integration_tests.test_snapshot_dump import TOOL_TIMEOUT_S

# The first test may have to fetch the jars.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def service(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two nodes that share four coordinators."""
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("retention"), partitions=4, properties=UNDISTURBED) as service:
        for node_id in (1, 2):
            service.add(node_id).start()
        service.wait_shared()
        yield service


def settings(service: Service, topic: str) -> str:
    """The settings of a topic as `topics describe` shows them."""
    return str(run(service, "topics", "describe", topic)[0]["settings"])


def test_a_topic_has_its_settings_from_its_creation_on(service: Service) -> None:
    run(service, "topics", "create", "born", "--partitions", "8", "--config", "retention.ms=1000", "--config", "retention.bytes=7")
    assert settings(service, "born") == "retention.bytes=7,retention.ms=1000"
    said = run(service, "topics", "alter", "born", "--config", "retention.ms=2000", "--delete-config", "retention.bytes", output=False)
    assert "retention.ms=2000" in said
    assert settings(service, "born") == "retention.ms=2000"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("create", "never", "--config", "cleanup.policy=compact"), Exit.FAILURE, "nothing compacts"),
        (("create", "never", "--config", "retention.ms"), Exit.USAGE, "write it as KEY=VALUE"),
        (("alter", "nobody", "--config", "retention.ms=1"), Exit.NOT_FOUND, "nobody"),
        (("alter", "old"), Exit.USAGE, "nothing to change"),
        (("alter", "old", "--config", "retention.ms=1", "--delete-config", "retention.ms"), Exit.USAGE, "choose one"),
        (("alter", "old", "--config", "retention.ms=-2"), Exit.FAILURE, "from -1 (no limit)"),
        (("alter", "old", "--delete-config", "retention"), Exit.FAILURE, "is not a setting of diskless topics"),
    ],
)
def test_settings_that_cannot_be_are_refused(service: Service, words: tuple[str, ...], status: Exit, says: str) -> None:
    run(service, "topics", "create", "old", "--if-not-exists")
    assert says in run(service, "topics", *words, status=status, output=False)
    assert {one["topic"] for one in run(service, "topics", "list")} >= {"old"}
    assert "never" not in {one["topic"] for one in run(service, "topics", "list")}


def test_kafkas_own_tool_alters_and_describes_settings_through_any_node(service: Service) -> None:
    run(service, "topics", "create", "tool", "--partitions", "2", "--config", "retention.ms=5000")
    tool = [*java_program("kafka.admin.ConfigCommand"), "--entity-type", "topics", "--entity-name", "tool"]

    def configs(node: int, *words: str) -> str:
        where = ["--bootstrap-server", service.addresses[node]]
        done = subprocess.run([*tool, *where, *words], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for node, value in ((0, "6000"), (1, "7000")):  # one of them does not lead the directory
        configs(node, "--alter", "--add-config", f"retention.ms={value},retention.bytes=9")
        assert settings(service, "tool") == f"retention.bytes=9,retention.ms={value}"
    assert "retention.ms=7000" in configs(0, "--describe")
    configs(1, "--alter", "--delete-config", "retention.bytes")
    described = configs(1, "--describe", "--all")
    assert "retention.bytes=-1" in described
    assert "cleanup.policy=delete" in described
    assert settings(service, "tool") == "retention.ms=7000"
