"""Orphans in a real store of a real service: found, deleted; late and delayed commits lose nothing."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.records.ulid import RANDOM_BYTES, new_key
from coordinator.client.records.wal_commit import commit_batches
from coordinator.client.records.wal_file import WalFileBuilder, wal_batches
from coordinator.client.records.wal_manifest import TopicPartition
from coordinator.client.records.writing import UploadedRecords, WriteRefused, pack, upload_file
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import CommitBatch
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from records.record_batch import Record, parse_headers

pytestmark = pytest.mark.timeout(300)

REPOSITORY = Path(__file__).parents[1]
PARTITIONS = 3
AGE_S, GRACE_S = 3, 1
THRESHOLD_S = AGE_S + GRACE_S + 0.5
PROPERTIES = {
    **UNDISTURBED,
    "clock.skew.max.ms": "2000",
    "file.commit.max.age.ms": str(AGE_S * 1000),
    "diskless.coordinator.orphan.scan.grace.period.ms": str(GRACE_S * 1000),
    "diskless.coordinator.orphan.scan.interval.ms": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Two nodes that share three coordinators, and the folder that is their store."""

    service: Service
    folder: Path

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def client(self) -> DisklessClient:
        return DisklessClient(self.service.addresses, object_store=open_store(self.url))

    def run(self, *arguments: str, status: int = Exit.OK) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cli.program", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=200, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def orphans(self, *arguments: str, status: int = Exit.OK) -> subprocess.CompletedProcess[str]:
        return self.run("orphans", *arguments, "--bootstrap-server", ",".join(self.service.addresses), status=status)

    def objects(self) -> set[str]:
        """The keys of all objects below the prefix of WAL files."""
        return {str(path.relative_to(self.folder)) for path in (self.folder / "wal").rglob("*") if path.is_file()}

    def plant(self, key: str) -> str:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"planted")
        return key


@pytest.fixture(scope="module")
def scene(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("orphans")
    with Service(kafka.bootstrap, folder, partitions=PARTITIONS, properties=PROPERTIES) as service:
        service.start(2)
        yield Scene(service=service, folder=folder / "objects")


def old_key(number: int) -> str:
    return new_key(time.time_ns() // 1_000_000, number.to_bytes(RANDOM_BYTES, "big"), rack="r")


def records(*values: str) -> list[Record]:
    return [Record(timestamp_ms=1000, value=value.encode()) for value in values]


async def upload(client: DisklessClient, scene: Scene, topic: str, value: str, partitions: Sequence[int]) -> UploadedRecords:
    packed = pack({(topic, partition): records(value) for partition in partitions}, compression=None, max_batch_bytes=1024)
    return await upload_file(client, open_store(scene.url), packed, prefix="wal/", timeout_ms=None)


async def values_of(client: DisklessClient, topic: str, partitions: int) -> list[str]:
    """Every value of a topic, read from the store with all checks."""
    return [(record.value or b"").decode() for partition in range(partitions) async for record in client.read(topic, partition)]


async def test_planted_orphans_go_and_nothing_that_is_known_or_young(scene: Scene) -> None:
    async with scene.client() as client:
        await client.admin.create_topic("orders", 6)
        live = await client.write({("orders", partition): records(f"live {partition}") for partition in range(6)})
        planted = [scene.plant(old_key(number)) for number in range(5)]
        # Its uploader stands still until the scan is over.
        paused = await upload(client, scene, "orders", "late", range(6))
        of_a_stranger = scene.plant("wal/of-a-stranger")
        await asyncio.sleep(THRESHOLD_S)
        orphans = {*planted, of_a_stranger, paused.object_key}

        dry = [json.loads(line) for line in scene.orphans("scan", "--dry-run", "-o", "jsonl").stdout.splitlines()]
        assert [row["object_key"] for row in dry] == sorted(orphans)
        assert {row["reason"] for row in dry} == {"never committed"}
        young = scene.plant(old_key(9))
        state = json.loads(scene.orphans("scan", "-o", "json").stdout)
        gone = orphans | ({young} - scene.objects())
        assert scene.objects() == {live.object_key, young} - gone
        assert (state["orphans"], state["deleted"], state["running"], state["error"]) == (len(gone), len(gone), False, None)
        assert sorted(await values_of(client, "orders", 6)) == [f"live {partition}" for partition in range(6)]

        with pytest.raises(WriteRefused) as late:
            await client.commit_uploaded(paused)
        assert {refused.code for refused in late.value.refused.values()} == {ErrorCode.INVALID_REQUEST}
        told = {str(refused) for refused in late.value.refused.values()}
        assert all("upload the data under a new key" in one or "old" in one for one in told), told
        # A key without a time is never too old: only the fence keeps it out.
        refused = await client.commit_file(of_a_stranger, 100, await batches(client, of_a_stranger))
        assert {one.error for one in refused.batches} == {ErrorCode.INVALID_REQUEST}
        assert sorted(await values_of(client, "orders", 6)) == [f"live {partition}" for partition in range(6)]


async def batches(client: DisklessClient, key: str) -> Sequence[CommitBatch]:
    builder = WalFileBuilder(max_batch_bytes=1024)
    for partition in range(6):
        for record in records("stranger"):
            builder.add(TopicPartition("orders", partition), record)
    data, manifest = builder.build(created_ms=0)
    packed = wal_batches(manifest, parse_headers(data, verify=False))
    batches = commit_batches(key, packed, {"orders": await client.describe_topic("orders")}, manifest.created_ms)
    return batches


async def test_nothing_goes_while_a_coordinator_cannot_answer(scene: Scene) -> None:
    planted = scene.plant(old_key(20))
    await asyncio.sleep(THRESHOLD_S)
    led = {node_id: node.readiness()[1]["leading"] for node_id, node in scene.service.nodes.items()}
    [other] = [scene.service.nodes[node_id] for node_id, partitions in led.items() if 0 not in partitions]  # type: ignore[operator]
    other.pause()
    try:
        failed = scene.orphans("scan", "--timeout", "60", "-o", "json", status=Exit.FAILURE)
        assert "cannot answer" in failed.stderr
        assert json.loads(failed.stdout)["deleted"] == 0
        assert planted in scene.objects()
    finally:
        other.resume()
    scene.service.wait_shared()
    scene.orphans("scan", "--timeout", "60")
    assert planted not in scene.objects()


async def test_commits_that_are_delayed_beside_scans_lose_nothing(scene: Scene) -> None:
    """Uploads wait up to the age limit and beyond; whatever is accepted is read back, whatever is refused is gone in the end."""
    rng = random.Random(7)
    accepted: list[str] = []
    given_up: list[str] = []

    async def write(client: DisklessClient, number: int) -> None:
        value = f"delayed {number}"
        uploaded = await upload(client, scene, "delayed", value, rng.sample(range(4), 2))
        await asyncio.sleep(rng.uniform(0, AGE_S + GRACE_S + 1))
        try:
            await client.commit_uploaded(uploaded)
        except WriteRefused as refused:
            # The age limit may fall between the commits to two coordinators.
            accepted.extend([value] * len(refused.written.offsets))
            if not refused.written.offsets:
                given_up.append(uploaded.object_key)
        else:
            accepted.extend([value] * 2)

    async with scene.client() as client:
        await client.admin.create_topic("delayed", 4)
        writing = asyncio.gather(*(write(client, number) for number in range(60)))
        while not writing.done():
            await client.admin.begin_orphan_scan()
            await asyncio.sleep(0.2)
        await writing
        assert accepted
        assert given_up
        await asyncio.sleep(THRESHOLD_S)
        scene.orphans("scan")
        assert sorted(await values_of(client, "delayed", 4)) == sorted(accepted)
        assert not set(given_up) & scene.objects()


def place_of(folder: Path) -> str:
    """The last key that a round under way has looked at, as the store tells; empty without one."""
    try:
        return str(json.loads((folder / "orphan-scan" / "wal" / "record.json").read_text())["after"])
    except FileNotFoundError:
        return ""


@pytest.mark.long
def test_a_scan_whose_node_is_killed_goes_on_where_it_was(kafka: Kafka, tmp_path: Path) -> None:
    disturbed = {name: value for name, value in PROPERTIES.items() if name not in UNDISTURBED}
    service = Service(kafka.bootstrap, tmp_path, partitions=1, properties=disturbed)
    scene = Scene(service=service, folder=tmp_path / "objects")

    async def scan() -> None:
        async with scene.client() as client:
            await client.admin.begin_orphan_scan()

    try:
        node = service.start(1).nodes[1]
        planted = [f"wal/k{number:06}" for number in range(20_000)]

        def is_amid_round() -> bool:
            return planted[0] < place_of(scene.folder) < planted[-1]

        while not is_amid_round():
            if not scene.objects():  # at first, and where a round was over before it told of such a place
                for key in planted:
                    scene.plant(key)
                time.sleep(THRESHOLD_S)
                asyncio.run(scan())
            wait_until(lambda: is_amid_round() or not scene.objects(), "a place amid the round, or its end")
            node.pause()
            if not is_amid_round():
                node.resume()
        place = place_of(scene.folder)
        node.kill()
        assert not scene.objects() & set(planted[: planted.index(place)])
        passed = scene.plant("wal/k000000-again")
        old_s = time.time() - 60
        os.utime(scene.folder / passed, (old_s, old_s))
        node.start()
        wait_until(lambda: not place_of(scene.folder), "the round to end")
        # Looked at by the next round: this one had passed it.
        assert scene.objects() == {passed}
        asyncio.run(scan())
        wait_until(lambda: not scene.objects(), "the next round")
    finally:
        service.stop()
