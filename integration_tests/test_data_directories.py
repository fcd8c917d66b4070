"""Several data directories under real processes and load: lost, read-only, full, refused, moved between; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from coordinator.client.routing.connection import ClientConnection
from coordinator.config.directories import read_meta_properties
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.log_dirs import WantedPlace, alter_outcomes, alter_request
from coordinator.protocol import messages as m
from coordinator.protocol.codec import Message
from integration_tests.checker import check
from integration_tests.final_state import read_final_state
from integration_tests.history import longest_gap_s
from integration_tests.load import Load
from integration_tests.service import Service
from integration_tests.test_refusals import run_to_end
from integration_tests.test_snapshot_kills import at_once, is_new, logged
from integration_tests.waiting import wait_until
from integration_tests.watched import Watched
from integration_tests.wire import Batch, connected
from tests.sqlite.disks import fill, small_disk

DISK_BYTES = 48 << 20
PARTITIONS = 3
ALL = set(range(PARTITIONS))
PATIENCE_S = 90
LARGE_FILES = 40
OUTAGE_MAX_S = 15.0
"""Of a replica that moves or is handed over, on a machine that stands still for seconds."""


def databases(folder: Path) -> set[int]:
    """The metadata partitions that have a database in a directory."""
    return {int(path.name[len("partition-") : -len(".db")]) for path in folder.glob("partition-*.db")}


def make_read_only(folder: Path) -> None:
    """Mount a folder over itself for reading: a file system with open files cannot be mounted anew as a whole."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)


def delete(folder: Path) -> None:
    """Delete a folder at one moment: what is being written there meanwhile goes as well."""
    shutil.rmtree(folder.rename(folder.with_name("gone")))


def mount_over(folder: Path) -> None:
    """Mount an empty file system over a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "read-only": (make_read_only, "mounted read-only: see the kernel's log"),
    "deleted": (delete, "No such file or directory"),
    "full": (lambda folder: fill(folder.parent), "is full"),
    "mounted over": (mount_over, "any more: it has no meta.properties; mount it, or correct data.dirs"),
}


OFTEN = ("full",)
"""Harms for every run of the tests; the keeper of directories is tried with all of them without Kafka."""


def longest_gaps_s(load: Load, start_s: float, end_s: float) -> dict[int, float]:
    """The longest time without an acknowledgement between two moments, by coordinator."""
    return {coordinator_id: longest_gap_s(load.history.acknowledged_at_s(coordinator_id), start_s, end_s) for coordinator_id in ALL}


def show(what: str, gaps_s: dict[int, float]) -> None:
    print(f"{what}: longest time without an acknowledgement " + ", ".join(f"{c}: {gap:.2f} s" for c, gap in sorted(gaps_s.items())))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("harm", [pytest.param(one, marks=[] if one in OFTEN else [pytest.mark.long]) for one in HARMS])
def test_a_directory_that_fails_under_load_and_then_the_last_one(kafka: Kafka, tmp_path: Path, harm: str) -> None:
    harming, reason = HARMS[harm]
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk, small_disk(tmp_path / "last", DISK_BYTES) as last:
        first, second = disk / "data", last / "data"
        with Service(kafka.bootstrap, tmp_path, partitions=PARTITIONS) as service:
            node = service.add(1, data_dirs=f"{first},{second}")
            node.start()
            service.wait_shared()
            assert (databases(first), databases(second)) == ({0, 2}, {1})
            run = Watched(service, "orders", 6)
            with run.load() as load:
                load.wait_flowing()
                start_s = time.monotonic()
                harming(first)
                wait_until(lambda: databases(second) == ALL and service.is_shared(), "the replicas in the other directory", PATIENCE_S)
                load.wait_flowing()
                end_s = time.monotonic()
            show(harm, longest_gaps_s(load, start_s, end_s))
            run.check()
            assert f"data directory failed path={first}" in node.log_text()
            assert reason in node.log_text()
            harming(second)
            process = node.process
            assert process is not None
            wait_until(lambda: not process.is_running(), "the end of the process", PATIENCE_S)
            assert process.wait(1) == 1
            told = node.log_tail(1)
            for words in ("no data directory can be used any more", f"{first}: ", f"{second}: ", reason, "start the node again"):
                assert words in told
            assert "Traceback" not in node.log_text()


async def make_large(service: Service) -> None:
    """Make a state that takes megabytes, and a snapshot of it: every batch has a producer of its own."""
    rng = random.Random(1)
    async with connected(service.addresses[0]) as wire:
        topic = await wire.new_topic()
        for _ in range(LARGE_FILES):
            results = await wire.commit(*(Batch(topic, producer=rng.getrandbits(62), epoch=0, sequence=0) for _ in range(2_500)))
            assert {one.error for one in results} == {ErrorCode.NONE}
        taken = await wire.call(m.TakeSnapshotRequest(coordinator_ids=(0,), timeout_ms=60_000))
        assert isinstance(taken, m.TakeSnapshotResponse)
        assert [one.error_message for one in taken.results] == [None]


@pytest.mark.timeout(600)
def test_a_start_with_a_directory_that_is_too_small_builds_its_replicas_in_the_other(kafka: Kafka, tmp_path: Path) -> None:
    with Service(kafka.bootstrap, tmp_path, partitions=1) as service:
        service.start(1)
        asyncio.run(make_large(service))
        [stored] = (tmp_path / "objects").rglob("*.checkpoint")
        size_bytes = stored.stat().st_size * 3 // 2  # the snapshot fits, and the database of its rows does not
        with small_disk(tmp_path / "disk", size_bytes) as disk:
            small, plain = disk / "data", tmp_path / "plain"
            node = service.add(2, data_dirs=f"{small},{plain}")
            try:
                node.start()
                node.wait_ready()
                assert databases(plain) == {0}
                offline = node.readiness()[1]["offline_directories"]
                assert isinstance(offline, dict)
                assert list(offline) == [str(small)]
                assert "is full" in offline[str(small)]
                assert f"data directory failed path={small}" in node.log_text()
                assert "replica made from a snapshot partition=0" in node.log_text()
                # At the next start the replica has its home, whatever the small directory has kept.
                assert node.terminate() == 0
                node.start()
                node.wait_ready()
                assert databases(plain) == {0}
                assert "Traceback" not in node.log_text()
            finally:
                node.kill()


@pytest.mark.timeout(600)
def test_leaders_in_a_directory_that_fails_hand_over_to_another_node(kafka: Kafka, tmp_path: Path) -> None:
    with Service(kafka.bootstrap, tmp_path, partitions=PARTITIONS) as service:
        folders = {node_id: [tmp_path / f"disk-{node_id}-{name}" for name in "ab"] for node_id in (1, 2)}
        for node_id, paths in folders.items():
            service.add(node_id, data_dirs=",".join(map(str, paths))).start()
        service.wait_shared()
        run = Watched(service, "orders", 6)
        with run.load() as load:
            load.wait_flowing()
            broken = run.broken_terms()
            start_s = time.monotonic()
            delete(folders[1][0])
            wait_until(lambda: databases(folders[1][1]) == ALL and service.is_shared(), "the replicas in the other directory", PATIENCE_S)
            load.wait_flowing()
            end_s = time.monotonic()
        gaps_s = longest_gaps_s(load, start_s, end_s)
        show("handed over", gaps_s)
        run.check()
        assert run.broken_terms() == broken, "leaders lead on until another node has claimed"
        assert max(gaps_s.values()) < OUTAGE_MAX_S


def move(service: Service, node: CoordinatorProcess, partition: int, path: Path) -> None:
    """Order a move as Kafka's tools do."""

    async def order() -> Message:
        host, _, port = node.address.rpartition(":")
        connection = await ClientConnection.connect(host, int(port), client_id="test", timeout_s=30)
        try:
            return await connection.call(alter_request([WantedPlace(str(path), service.topic, partition)]), 30)
        finally:
            await connection.close()

    assert alter_outcomes(asyncio.run(order())) == {partition: ErrorCode.NONE}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_replicas_move_under_load_and_nodes_are_killed_at_every_step(kafka: Kafka, tmp_path: Path) -> None:
    with Service(kafka.bootstrap, tmp_path, partitions=PARTITIONS) as service:
        a, b = tmp_path / "a", tmp_path / "b"
        node = service.add(1, data_dirs=f"{a},{b}")
        node.start()
        service.wait_shared()
        run = Watched(service, "orders", 6)
        with run.load() as load:
            load.wait_flowing()
            assert (databases(a), databases(b)) == ({0, 2}, {1})
            for partition in ALL:
                target, source = (b, a) if partition in databases(a) else (a, b)
                start_s = time.monotonic()
                move(service, node, partition, target)
                wait_until(lambda p=partition, s=source: p not in databases(s) and service.is_shared(), "the end of the move", PATIENCE_S)
                load.wait_flowing(coordinators=[partition])
                gaps_s = longest_gaps_s(load, start_s, time.monotonic())
                show(f"moved {partition}", gaps_s)
                assert gaps_s[partition] < OUTAGE_MAX_S
            steps: dict[str, Callable[[], Callable[[], bool]]] = {
                "copy": lambda: is_new(lambda: set(tmp_path.glob("[ab]/*.moving*"))),
                "adopt": lambda: is_new(lambda: {a} if 0 in databases(a) & databases(b) else set()),
                "load": lambda: logged(node, "term ended partition=0"),
                "end": lambda: logged(node, "replica moved partition=0"),
            }
            for begin in steps.values():
                is_killed = False
                while not is_killed:
                    seen, is_past = begin(), logged(node, "further state database removed partition=0")
                    move(service, node, 0, b if 0 in databases(a) else a)
                    is_killed = at_once(node, seen, is_past)
                    if not is_killed:
                        load.wait_flowing(coordinators=[0])
                node.start()
                load.wait_flowing(timeout_s=120)
                wait_until(lambda: len([folder for folder in (a, b) if 0 in databases(folder)]) == 1, "one home", PATIENCE_S)
                assert not list(tmp_path.glob("[ab]/*.moving*"))
            service.wait_shared()
        final = read_final_state(run.nodes, run.owners, bootstrap=service.bootstrap, metadata_topic=service.topic)
        problems = check(load.history, final)
        assert not problems, f"{len(problems)} contradictions:\n" + "\n".join(problems[:20])


@pytest.mark.long
def test_directories_that_cannot_be_used_together_are_refused(service: Service, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    node = service.add(1, data_dirs=f"{a},{b}")
    node.start()
    node.wait_ready()
    # The same directories for another process.
    rival = service.add(2, data_dirs=f"{b},{tmp_path}/c", **{"node.id": "1"})
    status, text = run_to_end(rival)
    assert status == 1
    assert f"{b} is in use by another process: stop it, or give this one its own data.dirs" in text
    assert node.terminate() == 0
    shutil.copy(a / "meta.properties", b / "meta.properties")
    status, text = run_to_end(node)
    assert status == 1
    assert f"{a} and {b} have the same directory.id" in text
    (b / "meta.properties").write_text(
        (a / "meta.properties").read_text().partition("directory.id=")[0] + "directory.id=AAAAAAAAAAAAAAAAAAAAAg\n"
    )
    status, text = run_to_end(node)
    assert status == 1
    assert f"{b}/meta.properties has directory.id=AAAAAAAAAAAAAAAAAAAAAg: this directory.id is reserved by Kafka" in text
    shutil.rmtree(b)
    b.write_text("not a folder")
    node.start()
    node.wait_ready()  # offline, which is no reason not to start
    assert f"data directory is offline path={b}" in node.log_text()
    assert node.terminate() == 0
    meta = read_meta_properties(a)
    shutil.rmtree(a)
    a.write_text("not a folder")
    status, text = run_to_end(node)
    assert status == 1
    for path in (a, b):
        assert f"{path} is unusable" in text
    os.unlink(a)
    node.start()
    node.wait_ready()
    made = read_meta_properties(a)
    assert made is not None
    assert meta is not None
    assert made.directory_id != meta.directory_id
