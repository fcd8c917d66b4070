"""The monitor and every Spark job on a Kafka with SASL_SSL, SCRAM and ACLs, with a user who may only read the metadata topic."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cli.outcome import Exit
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.secured_kafka import LOGIN, SecuredKafka, monitor_rights, node_rights, write_properties
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from records.record_batch import Record
from simulation.fakes.certificates import Authority
from spark_jobs.monitor.report import open_report

pytestmark = pytest.mark.timeout(900)  # Spark starts several times

PARTITIONS = 6
FILES = 10
RECORDS = 3
JOB_TIMEOUT_S = 400
SECRET = "a secret that nobody may print"


NODES_IN_PLAIN_TEXT = {"node.security.protocol": "PLAINTEXT"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A service on the secured Kafka, which goes on running."""

    kafka: SecuredKafka
    service: Service

    @property
    def store_url(self) -> str:
        return self.service.properties["object.store.url"]

    def write(self, files: int) -> None:
        """Write files with a batch in each partition."""

        async def work() -> None:
            async with DisklessClient(self.service.addresses, object_store=open_store(self.store_url)) as client:
                for _ in range(files):
                    records = [Record(timestamp_ms=time.time_ns() // 1_000_000, value=b"x")] * RECORDS
                    await client.write({("orders", partition): records for partition in range(PARTITIONS)})

        asyncio.run(work())

    def job(self, name: str, *options: str) -> list[str]:
        """The command line of a job over the service's log."""
        place = ("--kafka-bootstrap-server", self.kafka.address(LOGIN), "--metadata-topic", self.service.topic)
        return [sys.executable, "-m", "cli.program", "monitor", name, *place, *options]

    def config(self, folder: Path) -> str:
        """A file with the properties of the user who may only read."""
        return str(write_properties(folder / "client.properties", self.kafka.login("monitor", SECRET) | NODES_IN_PLAIN_TEXT))

    def finish(self, name: str, *options: str, folder: Path) -> str:
        """Run a job as that user; returns its output."""
        command = self.job(name, *options, "--command-config", self.config(folder))
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False)
        assert done.returncode == Exit.OK, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def scene(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    secured_kafka.add_users(coordinator="the secret", monitor=SECRET, stranger=SECRET)
    properties = {f"kafka.{name}": value for name, value in secured_kafka.login("coordinator", "the secret").items()}
    service = Service(secured_kafka.address(LOGIN), tmp_path_factory.mktemp("secured"), partitions=2, properties=properties)
    secured_kafka.allow("coordinator", node_rights(service.topic, service.properties["group.id"]))
    secured_kafka.allow("monitor", monitor_rights(service.topic))
    try:
        service.start(1)

        async def create() -> None:
            async with DisklessClient(service.addresses) as client:
                await client.admin.create_topic("orders", PARTITIONS)

        asyncio.run(create())
        made = Scene(secured_kafka, service)
        made.write(FILES)
        yield made
    finally:
        service.stop()


def test_the_monitor_follows_the_log_and_has_it_verified(scene: Scene, tmp_path: Path) -> None:
    verify = ("--verify-every", "10s", "--verify-server", ",".join(scene.service.addresses))
    with MonitorProcess(scene.kafka.address(LOGIN), scene.service.topic, tmp_path) as monitor:
        monitor.start_ready("--trigger-interval", "0.2", "--command-config", scene.config(tmp_path), *verify)
        with open_report(monitor.folder) as report:
            files = report.totals().get("files", 0)
        scene.write(2)
        monitor.wait_total("files", max(files, FILES) + 2)
        assert monitor.total("batches") == monitor.total("files") * PARTITIONS
        assert monitor.total("records") == monitor.total("files") * PARTITIONS * RECORDS
        wait_until(lambda: verified(monitor.folder) is not None, "the outcome of the job", JOB_TIMEOUT_S)
        with open_report(monitor.folder) as report:
            assert report.findings(10) == []
        assert monitor.terminate() == 0, monitor.said()
        assert SECRET not in monitor.said()
    outcome = verified(monitor.folder)
    assert outcome is not None
    assert outcome["agree"] is True


def verified(folder: Path) -> dict[str, object] | None:
    """What the comparison of log and replicas has found, if there was one."""
    with open_report(folder) as report:
        kept = report.job().get("last_verify")
    return json.loads(kept) if kept else None


@pytest.mark.long
def test_the_archive_holds_the_log(scene: Scene, tmp_path: Path) -> None:
    table = tmp_path / "table"
    scene.finish("archive", "--once", "--to", str(table), folder=tmp_path)
    rows = DeltaTable(table).to_pyarrow_table(columns=["record", "batches"]).to_pylist()
    assert sum(row["batches"] or 0 for row in rows if row["record"] == "FileCommitted") >= FILES * PARTITIONS


@dataclass(frozen=True, slots=True)
class Refusal:
    """A client that is not let in or may do nothing, and what it is told."""

    user: str
    password: str
    authority: str
    said: str


WRONG_PASSWORD = Refusal(
    "monitor", "a wrong " + SECRET, "ca", "the login was refused, check sasl.mechanism, sasl.username and sasl.password: "
)
UNKNOWN_AUTHORITY = Refusal("monitor", SECRET, "other", "no connection by TLS, check ssl.ca.location, and the client's certificate")
NO_RIGHT = Refusal("stranger", SECRET, "ca", "the user has no right to the topic, give it the ACLs READ and DESCRIBE of it")


def test_a_job_that_is_refused_says_so_in_one_line(scene: Scene, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").ca_file
    jobs: dict[str, Sequence[str]] = {
        "run": ("--once", "--dir", str(tmp_path / "monitor")),
        "verify": ("--bootstrap-server", ",".join(scene.service.addresses)),
        "archive": ("--once", "--to", str(tmp_path / "table")),
    }
    asked = [(name, WRONG_PASSWORD) for name in jobs] + [("verify", UNKNOWN_AUTHORITY), ("archive", NO_RIGHT)]
    running = []
    for number, (name, refusal) in enumerate(asked):
        given = scene.kafka.login(refusal.user, refusal.password)
        if refusal.authority == "other":
            given["ssl.ca.location"] = str(other)
        config = write_properties(tmp_path / f"{number}.properties", given | NODES_IN_PLAIN_TEXT)
        command = scene.job(name, *jobs[name], "--command-config", str(config))
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    for (name, refusal), process in zip(asked, running, strict=True):
        out, err = process.communicate(timeout=START_TIMEOUT_S)
        assert (process.returncode, out) == (Exit.FAILURE, ""), f"{name}: {err}"
        (line,) = err.splitlines()
        assert line.startswith(f"diskless: Kafka: {refusal.said}"), f"{name}: {line}"
        assert SECRET not in line
