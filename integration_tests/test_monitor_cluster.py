"""The monitor's jobs on a standalone cluster of Spark, whose workers have what docs/monitor-on-a-cluster.md tells to install."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake import DeltaTable

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from integration_tests.monitor_process import MonitorProcess
from integration_tests.s3 import RealS3
from integration_tests.service import Service
from integration_tests.spark_cluster.cluster import MASTER, SparkCluster
from integration_tests.spark_cluster.environment import make_environment
from integration_tests.test_monitor_pruned import WITHOUT_A_CLOCK
from integration_tests.test_monitor_verify import diskless
from integration_tests.test_semantics_restart import note
from integration_tests.test_snapshots import PARTITIONS, wait_pruned
from integration_tests.wire import Batch, Topic, connected
from spark_jobs.monitor.report import open_report
from spark_jobs.store.engine import PostgresPlace
from tests.helm.chart_tools import changed, find, render
from tests.helm.pods import containers
from tests.spark.postgres_server import running_postgres

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

CHART = "diskless-diskless-coordinator"
TABLES = ("total", "file", "producer", "finding", "note")
"""What the monitor keeps and that no clock has a part in but that of the log."""


class Pruned(NamedTuple):
    """A service whose logs begin behind snapshots in S3, and how commands reach it."""

    service: Service
    topic: Topic
    config: Path


@pytest.fixture(scope="module")
def pruned(kafka: Kafka, s3: RealS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pruned]:
    folder = tmp_path_factory.mktemp("pruned")
    store = {"object.store.url": s3.url("monitor")}
    store |= {f"object.store.option.{name.replace('_', '.')}": value for name, value in s3.options().items()}
    with Service(kafka.bootstrap, folder, partitions=PARTITIONS, properties={**WITHOUT_A_CLOCK, **store}) as service:
        service.start(1)
        history, _ = asyncio.run(note(service))
        wait_pruned(service, history.topics[1], [0] * PARTITIONS)
        yield Pruned(service, history.topics[1], folder / "node-1/coordinator.properties")


class Cluster(NamedTuple):
    """A cluster, and the words by which jobs run on it."""

    cluster: SparkCluster
    words: list[str]
    used: Path
    """A file that is there when the Python of workers was run."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    own, used = make_environment(folder / "environment", "spark"), folder / "used"
    python = folder / "python"
    python.write_text(f'#!/bin/sh\ntouch {used}\nexec {own} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    with SparkCluster(folder, own) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", str(python))
        properties = [f"--spark-property={key}={value}" for key, value in cluster.settings.items()]
        yield Cluster(cluster, ["--master", cluster.master, *properties], used)


def kept(monitor: MonitorProcess) -> dict[str, list[tuple[object, ...]]]:
    """What a monitor's database holds, but for numbers of rows and times of the monitor's own clock."""
    with open_report(monitor.place) as report:
        found = {}
        for table in TABLES:
            rows = [dict(row) for row in report.connection.execute(f"SELECT * FROM {table}")]
            columns = [name for name in (rows[0] if rows else ()) if name not in ("id", "at_ms", "seen_ms")]
            found[table] = sorted((tuple(row[name] for name in columns) for row in rows), key=repr)
        return found


def test_a_monitor_keeps_what_a_local_one_does_also_in_postgres(pruned: Pruned, spark: Cluster, tmp_path: Path) -> None:
    """From snapshots on, which it gets from S3."""
    where, node = ["--config", str(pruned.config)], pruned.service.nodes[1]
    made = []
    with running_postgres() as postgres:
        place = postgres.place()
        node.pause()  # no newer snapshot comes between the runs
        try:
            for name, words, kept_at in (("local", [], None), ("cluster", spark.words, None), ("postgres", spark.words, place)):
                with MonitorProcess(pruned.service.bootstrap, pruned.service.topic, tmp_path / name, kept_at) as monitor:
                    monitor.run_once(*where, *words)
                    made.append(kept(monitor))
        finally:
            node.resume()
        check_jobs(pruned, place)
    assert made[1] == made[0]
    assert made[2] == made[0], "PostgreSQL has what SQLite has"
    assert made[1]["file"]
    assert made[1]["note"], "it began with snapshots"
    assert spark.used.exists(), "workers run the Python that PYSPARK_PYTHON names"
    assert spark.cluster.executors_of_tasks()["diskless-monitor"] == {"0", "1"}


def check_jobs(pruned: Pruned, place: PostgresPlace) -> None:
    """What other jobs find is kept in the database, too."""
    asked = ["--bootstrap-server", ",".join(pruned.service.addresses), "--config", pruned.config, "--store", place.url]
    compared = diskless("monitor", "verify", *asked)
    assert compared.status == Exit.OK, compared.out + compared.err
    reported = diskless("restore", "report", *asked)
    assert reported.status == Exit.AUDIT, "files of this service have no objects"
    with open_report(place) as report:
        said = report.job()
    assert len(json.loads(said["last_verify"])["partitions"]) == PARTITIONS
    assert json.loads(said["last_objects"])["missing_files"] > 0


def test_a_monitor_follows_the_log_and_stops(pruned: Pruned, spark: Cluster, tmp_path: Path) -> None:
    with MonitorProcess(pruned.service.bootstrap, pruned.service.topic, tmp_path) as monitor:
        monitor.start_ready("--config", str(pruned.config), *spark.words)

        async def commit() -> None:
            async with connected(pruned.service.addresses[0]) as wire:
                await wire.commit(*(Batch(pruned.topic, partition) for partition in range(6)), owners=[0, 1, 2])

        before = monitor.total("files")
        for number in range(1, 4):
            asyncio.run(commit())
            monitor.wait_total("files", before + number)
        assert monitor.terminate() == 0
        assert monitor.total("findings") == 0


def test_log_and_service_agree(pruned: Pruned, spark: Cluster) -> None:
    asked = ["--bootstrap-server", ",".join(pruned.service.addresses), "--state", pruned.service.nodes[1].data_folder]
    compared = diskless("monitor", "verify", "--config", pruned.config, *asked, *spark.words)
    assert compared.status == Exit.OK, compared.out + compared.err
    assert "from snapshots on" in compared.err
    assert spark.cluster.executors_of_tasks()["diskless-verify"] == {"0", "1"}


def test_an_archive_on_s3_has_what_a_local_one_has(
    pruned: Pruned, spark: Cluster, s3: RealS3, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    remote, options = s3.url(unique_name("archive")), {**s3.options(), "aws_allow_http": "true"}
    given = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
    words = ["monitor", "archive", "--once", "--config", pruned.config]
    for more in (["--to", tmp_path / "archive"], ["--to", remote, *given, *spark.words]):
        done = diskless(*words, *more)
        assert done.status == Exit.OK, done.err
    expected, found = (
        sorted(map(repr, table.to_pyarrow_table().to_pylist()))
        for table in (DeltaTable(tmp_path / "archive"), DeltaTable(remote, storage_options=options))
    )
    assert found == expected
    assert found


class ChartCluster(SparkCluster):
    """Master and workers by the command lines of the chart, on addresses of this machine."""

    def __init__(self, folder: Path, python: Path) -> None:
        super().__init__(folder, python)
        self._objects = render(changed({"monitor": {"enabled": True, "spark": {"enabled": True}}}))
        self._work = (self.folder / f"work-{number}" for number in range(self.workers))

    def words(self, component: str, container: str, changes: Mapping[str, str]) -> list[str]:
        """The arguments of a container."""
        owner = find(self._objects, "Deployment", f"{CHART}-{component}")
        found = containers(self._objects, owner, {}, self.folder)[container].arguments
        places = {"$(POD_IP)": "127.0.0.1", f"spark://{CHART}-spark-master:7077": self.master, **changes}
        for written, meant in places.items():
            found = [word.replace(written, meant) for word in found]
        return list(found)

    def command(self, program: str, words: Sequence[str]) -> Sequence[str]:
        """See `SparkCluster`. The image begins with Spark's own script."""
        del words
        begin = f"{self.environment['SPARK_HOME']}/bin/spark-class"
        if program == MASTER:
            return [begin, *self.words("spark-master", "spark", {"7077": self.master.rpartition(":")[2]})]
        found = self.words("spark-worker", "spark", {str(self.folder / f"{CHART}-spark-worker/tmp/work"): str(next(self._work))})
        return [begin, *("0" if word == "7077" else word for word in found)]


def test_the_cluster_of_the_chart_runs_the_monitor(pruned: Pruned, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with ChartCluster(folder, make_environment(folder / "environment", "spark")) as cluster:
        given = cluster.words("monitor", "monitor", {})
        given = [word for place, word in enumerate(given) if "--spark-property" in given[max(0, place - 1) : place + 1]]
        assert {"spark.driver.port=7078", "spark.driver.blockManager.port=7079"} < set(given)  # taken here, perhaps
        ports = ["--spark-property", "spark.driver.port=0", "--spark-property", "spark.driver.blockManager.port=0"]
        more = [f"--spark-property={key}={value}" for key, value in cluster.settings.items() if "eventLog" in key or "Registered" in key]
        with MonitorProcess(pruned.service.bootstrap, pruned.service.topic, tmp_path) as monitor:
            monitor.run_once("--config", str(pruned.config), *given, *ports, *more)
            # From snapshots, whatever a newer one has left in the log.
            assert kept(monitor)["file"]
        assert cluster.executors_of_tasks()["diskless-monitor"] == {"0", "1"}
