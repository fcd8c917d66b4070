"""The real Kafka the integration tests share, and names that do not collide on it.

`kafka` is one broker (or an existing cluster, see `find_kafka`) for the whole run. `kafka_cluster` makes clusters of a
test's own, whose nodes it may kill. No test here is ever skipped for want of a Kafka: that is a failure.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.dev.kafka import BrokerRuntime, Kafka, KafkaCluster, find_kafka, find_runtime
from cli.dev.kafka.prepare import RuntimeUnavailableError
from cli.java.jars import JarError
from cli.java.java import NoJavaError
from cli.outcome import Failed
from cli.spark.session import prepare_spark
from integration_tests.s3 import RealS3, find_gateway
from integration_tests.secured_kafka import SecuredKafka
from integration_tests.secured_service import SecuredService
from integration_tests.service import Service
from integration_tests.wire import Wire, connected
from tests.properties import use_any_time

use_any_time()

HERE = Path(__file__).parent

LONGEST_FIRST = (
    "test_monitoring.py",
    "test_kafka_adapters.py",
    "test_snapshots.py",
    "test_leadership_faults.py",
    "test_restore.py",
    "test_secured_gateway.py",
    "test_secure_nodes_page.py",
    "test_gateways.py",
    "test_source.py",
    "test_refusals.py",
    "test_monitor_secured.py",
    "test_dev_up.py",
    "test_long_polls.py",
    "test_monitor_pruned.py",
    "test_export.py",
    "test_strangers.py",
    "test_file_life.py",
    "test_kafka_tools.py",
    "test_retention_enforced.py",
    "test_clocks_and_doubles.py",
    "test_monitor.py",
    "test_migrated.py",
    "test_data_directories.py",
    "test_outsiders_transactions.py",
    "test_secured_gateway_sessions.py",
    "test_dashboard_service.py",
    "test_broker_faults.py",
    "test_monitor_verify.py",
    "test_hostile_wire.py",
    "test_protections.py",
    "test_term_producer.py",
)
"""Files that take minutes: begun first, so that no worker is left alone with one of them at the end."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below this folder, so that `-m "not integration"` leaves them all out, and put the longest files first.

    Those without Kafka come last: the shared broker, which costs something even when it is idle, ends before them.
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: (not item.path.is_relative_to(HERE), rank.get(item.path.name, len(rank))))


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One running Kafka for all tests of this folder; use `unique_name` for everything created on it."""
    with find_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="package")
def bootstrap(kafka: Kafka) -> str:
    """`bootstrap.servers` of the shared Kafka."""
    return kafka.bootstrap


@pytest.fixture(scope="session")
def broker_runtime() -> BrokerRuntime:
    """Kafka's program, found (and, the first time, fetched and prepared) once per run."""
    return find_runtime()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch and prepare the broker before the first test: done once per machine, it may take longer than a test may."""
    used = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if any(item.path.name.startswith("test_monitor") or item.path.parent == HERE / "tables" for item in session.items):
        try:
            prepare_spark()
        except Failed as failed:
            pytest.exit(f"tests of the monitor and of tables have no Spark: {failed}", returncode=pytest.ExitCode.USAGE_ERROR)
    starts_here = not os.environ.get("KAFKA_BOOTSTRAP_SERVERS") and not os.environ.get("DISKLESS_KAFKA")
    if "broker_runtime" in used or ("kafka" in used and starts_here):
        try:
            find_runtime()
        except (NoJavaError, JarError, RuntimeUnavailableError) as error:
            pytest.exit(f"the integration tests have no Kafka: {error}", returncode=pytest.ExitCode.USAGE_ERROR)


KafkaFactory = Callable[..., KafkaCluster]


@pytest.fixture
def kafka_cluster(broker_runtime: BrokerRuntime, data_folder: Path) -> Iterator[KafkaFactory]:
    """Make started clusters of this test's own: `kafka_cluster(nodes=3, **arguments of KafkaCluster)`; all are stopped afterwards."""
    made: list[KafkaCluster] = []

    def make(nodes: int = 1, **arguments: Any) -> KafkaCluster:
        arguments.setdefault("folder", data_folder / f"kafka-{len(made) + 1}")
        cluster = KafkaCluster(nodes, runtime=broker_runtime, **arguments)
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Make names for topics, groups and the like that no other test and no earlier run used: `unique_name("topic")`."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:60]

    def name(kind: str) -> str:
        return f"{kind}-{test}-{uuid.uuid4().hex[:8]}"

    return name


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    """An empty folder for data directories of coordinators and brokers of one test."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def service(kafka: Kafka, data_folder: Path) -> Iterator[Service]:
    """A service without nodes yet, on the shared Kafka: `service.start(2)`."""
    with Service(kafka.bootstrap, data_folder) as made:
        yield made


@pytest.fixture(scope="module")
def one_node(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One node that leads three coordinators, shared by all tests of a file that neither stop nor disturb it.

    Idle, it and what it asks of the broker cost a twentieth of a processor: over a whole run, far more than its starts.
    With DISKLESS_TEST_LISTENER=SASL_SSL it lets nobody in without a login, and tests connect to it as a user who may do everything.
    """
    is_secured = os.environ.get("DISKLESS_TEST_LISTENER") == "SASL_SSL"
    with (SecuredService if is_secured else Service)(kafka.bootstrap, tmp_path_factory.mktemp("one-node"), partitions=3) as made:
        yield made.start(1)


@pytest.fixture(scope="module")
def secured_kafka(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker that lets in only clients that prove who they are, and lets them do only what ACLs say."""
    with SecuredKafka(tmp_path_factory.mktemp("secured"), broker_runtime) as running:
        yield running


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealS3]:
    """A real S3 with an empty bucket."""
    with RealS3(find_gateway(), tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
async def wire(one_node: Service) -> AsyncIterator[Wire]:
    """A connection to the shared node."""
    async with connected(one_node.addresses[0]) as made:
        yield made
