"""All of Kafka is lost, the objects are left: a restored service goes on where the snapshots end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.dev.kafka import BrokerRuntime, KafkaCluster
from cli.kafka.cluster import find_kafka_place
from cli.kafka.metadata_topic import create_topic, expected_topic
from cli.outcome import Exit
from cli.restore.plan import Prover, find_logs, make_plan
from cli.restore.topic import write_entries
from coordinator.adapters.objectstore import open_store
from coordinator.config.values import StoreUrl
from integration_tests.conftest import KafkaFactory
from integration_tests.final_state import log_starts
from integration_tests.service import Service
from integration_tests.test_semantics_restart import go_on, note
from integration_tests.test_snapshots import lose, without_leaders
from integration_tests.waiting import wait_until
from integration_tests.wire import Batch, connected

PARTITIONS = 3
REPOSITORY = Path(__file__).parents[1]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("DISKLESS_")}
# A node that lost its disk waits for the session of its former self, of which it knows nothing.
ON_DEMAND = {"session.timeout.ms": "10000", "metadata.log.max.snapshot.interval.ms": "0"}


def diskless(*args: str, status: int = Exit.OK) -> subprocess.CompletedProcess[str]:
    """Run a command as people do, and see that it ends with `status`."""
    command = [sys.executable, "-m", "cli.program", *args]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=REPOSITORY, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return done


class Lost:
    """A service that was lost with its Kafka: what it answered, two snapshots of each coordinator, and the objects of all files but one."""

    def __init__(self, broker_runtime: BrokerRuntime, folder: Path) -> None:
        self.objects = folder / "objects"
        self.objects.mkdir()
        with KafkaCluster(1, runtime=broker_runtime, folder=folder / "kafka") as cluster:
            properties = {**ON_DEMAND, "object.store.url": f"file://{self.objects}"}
            with Service(cluster.bootstrap, folder / "nodes", partitions=PARTITIONS, properties=properties) as service:
                service.start(1)
                self.history, _ = asyncio.run(note(service))
                for _ in range(2):
                    diskless("snapshots", "take", "--bootstrap-server", service.addresses[0])
                self.answers = asyncio.run(note(service, self.history))[1]
                self.lost_key = asyncio.run(self._commit_once_more(service))
        shutil.rmtree(folder / "kafka")
        shutil.rmtree(folder / "nodes")

    async def _commit_once_more(self, service: Service) -> str:
        """Commit a file that no snapshot knows, and upload something under its key; returns the key."""
        async with connected(service.addresses[0]) as wire:
            self.history.wire = wire
            await self.history.send(Batch(self.history.topics[0], 5, count=9))
            request, _ = self.history.sent.pop()
        self._put(request.object_key)
        for one, _ in self.history.sent[:-1]:
            self._put(one.object_key)
        return request.object_key

    def _put(self, key: str) -> None:
        path = self.objects / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"bytes")


@pytest.fixture(scope="module")
def lost(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Lost:
    """A service whose Kafka is gone."""
    return Lost(broker_runtime, tmp_path_factory.mktemp("lost"))


class Restored:
    """A service in another Kafka, which nobody has started, with a copy of the objects."""

    def __init__(self, lost: Lost, bootstrap: str, folder: Path) -> None:
        self.lost = lost
        self.store = folder / "objects"
        shutil.copytree(lost.objects, self.store)
        properties = {**ON_DEMAND, "object.store.url": f"file://{self.store}"}
        self.service = Service(bootstrap, folder / "nodes", partitions=PARTITIONS, properties=properties)

    def start_restore(self, *more: str, status: int = Exit.OK) -> subprocess.CompletedProcess[str]:
        """Run `diskless restore start`."""
        service = self.service
        topic = ["--kafka-bootstrap-server", service.bootstrap, "--metadata-topic", service.topic, "--replication-factor", "1"]
        store = ["--min-insync-replicas", "1", "--object-store-url", f"file://{self.store}"]
        return diskless("restore", "start", *topic, *store, "-o", "json", *more, status=status)

    def on_node(self, *args: str, status: int = Exit.OK) -> subprocess.CompletedProcess[str]:
        """Run a command that asks the node."""
        return diskless(*args, "--bootstrap-server", self.service.addresses[0], status=status)

    def snapshots(self, partition: int) -> list[Path]:
        """The snapshots of a coordinator, the newest last."""
        return sorted(path for path in self.store.rglob("*.checkpoint") if path.parent.name == str(partition))

    def is_as_before(self) -> None:
        """Every answer is what it was before the loss."""
        answers = asyncio.run(note(self.service, self.lost.history))[1]
        assert without_leaders(answers) == without_leaders(self.lost.answers)

    async def begin_partition_0_only(self) -> None:
        """Do what `diskless restore start` has done when it is killed behind the first partition."""
        place = find_kafka_place(self.service.bootstrap, None, self.service.topic, None, ())
        store = open_store(StoreUrl.parse(f"file://{self.store}"), {})
        [log] = await find_logs(store, "snapshots")
        cluster = place.open(10.0)
        try:
            plan = await make_plan(Prover(store, "snapshots", log), log, partitions=None, accepted=(), begun={})
            await create_topic(cluster, place.topic, PARTITIONS, expected_topic(place, 1, 1), time.monotonic() + 60)
            await write_entries(place, cluster, plan.entries[:1], {}, 10.0)
        finally:
            await cluster.close()


@pytest.fixture
def restored(lost: Lost, kafka_cluster: KafkaFactory, data_folder: Path) -> Iterator[Restored]:
    """A service in another Kafka."""
    made = Restored(lost, kafka_cluster(1).bootstrap, data_folder / "restored")
    yield made
    made.service.stop()


def test_a_service_whose_kafka_is_lost_goes_on_in_another(restored: Restored) -> None:
    lost, service = restored.lost, restored.service
    planned = json.loads(restored.start_restore("--dry-run").stdout)
    assert [(row["coordinator"], row["state"]) for row in planned] == [(one, "to be written") for one in range(PARTITIONS)]
    written = json.loads(restored.start_restore().stdout)
    assert [row["state"] for row in written] == ["written"] * PARTITIONS
    assert [row["snapshot"] for row in written] == [row["snapshot"] for row in planned]
    assert [row["state"] for row in json.loads(restored.start_restore().stdout)] == ["there already"] * PARTITIONS
    service.start(1)
    restored.is_as_before()

    (restored.store / "wal" / "tab\t").write_bytes(b"of no service")
    found = restored.on_node("restore", "report", "--object-store-url", f"file://{restored.store}", "-o", "json", status=Exit.AUDIT)
    assert "not finished" in found.stderr
    assert r"1 objects have keys that no file can have, and stay: the first is 'wal/tab\t'" in found.stderr
    told = {(row["finding"], row["object_key"]) for row in json.loads(found.stdout) if row["finding"] != "partly known"}
    assert told == {("unknown", lost.lost_key), ("missing", lost.history.sent[-1][0].object_key)}
    for _ in range(2):
        assert json.loads(restored.on_node("restore", "finish", "-o", "json").stdout)["finished"]

    asyncio.run(go_on(service, lost.history))
    after = asyncio.run(note_everything(restored))
    for _ in range(2):
        restored.on_node("snapshots", "take")
    wait_until(lambda: all(log_starts(service.bootstrap, service.topic)), "the restored log to be pruned")
    shutil.rmtree(restored.store / "snapshots" / Path(written[0]["snapshot"]).parts[1])
    lose(service, 1)()
    service.wait_shared()
    assert asyncio.run(note_everything(restored)) == after


async def note_everything(restored: Restored) -> list[object]:
    """All batches of the first topic, with the ids that clients know them by."""
    async with connected(restored.service.addresses[0]) as wire:
        topic = restored.lost.history.topics[0]
        return [await wire.find((topic, partition, 0), max_bytes=1 << 20) for partition in range(6)]


def test_a_restore_that_was_killed_is_not_served_and_is_completed(restored: Restored) -> None:
    service = restored.service
    asyncio.run(restored.begin_partition_0_only())
    node = service.add(1)
    node.start()
    wait_until(lambda: node.readiness()[1].get("leading") == [0], "leadership of what is restored")
    refused = diskless("restore", "finish", "--bootstrap-server", node.address, "--timeout", "3", status=Exit.UNAVAILABLE)
    assert "coordinators 1, 2 are not restored" in refused.stderr
    rows = json.loads(restored.start_restore().stdout)
    assert [row["state"] for row in rows] == ["there already", "written", "written"]
    service.wait_shared()
    restored.is_as_before()


def test_damaged_snapshots_are_refused_and_older_ones_used(restored: Restored) -> None:
    older, newest = restored.snapshots(1)
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 4
    newest.write_bytes(data)
    done = restored.start_restore("--dry-run")
    assert f"{newest.name} is no good snapshot" in done.stderr
    assert "an older snapshot is used" in done.stderr
    assert json.loads(done.stdout)[1]["snapshot"].endswith(older.name)
    older.write_bytes(b"")
    refused = restored.start_restore(status=Exit.FAILURE)
    assert "--accept-loss 1" in refused.stderr
    assert not has_topic(restored)
    rows = json.loads(restored.start_restore("--accept-loss", "1").stdout)
    assert [row["state"] for row in rows] == ["written", "written, empty", "written"]
    restored.service.start(1)


def has_topic(restored: Restored) -> bool:
    """Whether the new topic was made."""
    options = ["--metadata-topic", restored.service.topic, "--dry-run", "-o", "json"]
    told = diskless("init", "--bootstrap-server", restored.service.bootstrap, *options)
    return json.loads(told.stdout)["action"] != "would create"


def test_a_topic_that_is_in_use_and_a_store_without_snapshots_are_refused(restored: Restored) -> None:
    service = restored.service
    service.start(1)
    assert "is in use" in restored.start_restore(status=Exit.FAILURE).stderr
    shutil.rmtree(restored.store / "snapshots")
    assert "has no snapshots" in restored.start_restore(status=Exit.NOT_FOUND).stderr
