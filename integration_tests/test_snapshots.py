"""Snapshots on real parts: the log is pruned behind them, and a replica that has nothing is made from one (KIP-630)."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from integration_tests.final_state import log_starts
from integration_tests.service import Service
from integration_tests.test_semantics_restart import go_on, note
from integration_tests.waiting import wait_until
from integration_tests.wire import Batch, Topic, connected

PARTITIONS = 3
READY = re.compile(r"^ready node=1 ", re.MULTILINE)
OFTEN = {
    # A node that lost its disk waits for the session of its former self, of which it knows nothing.
    "session.timeout.ms": "10000",
    "metadata.log.max.record.bytes.between.snapshots": "1024",
    "metadata.snapshot.min.changed_records.ratio": "0",
    "metadata.log.max.snapshot.interval.ms": "2000",
}


def without_leaders(answers: list[object]) -> str:
    """Answers without the nodes that lead, which change."""
    return re.sub(r"leader_id=\d+", "", repr(answers))


def wait_pruned(service: Service, topic: Topic, behind: list[int]) -> list[int]:
    """Commit until every metadata partition begins behind an offset; returns where they begin."""

    async def commit() -> None:
        async with connected(service.addresses[0]) as wire:
            await wire.commit(*(Batch(topic, partition) for partition in range(6)), owners=[0, 1, 2])

    def is_pruned() -> bool:
        asyncio.run(commit())
        return all(start > before for start, before in zip(log_starts(service.bootstrap, service.topic), behind, strict=True))

    wait_until(is_pruned, f"the log of every metadata partition to begin behind {behind}")
    return log_starts(service.bootstrap, service.topic)


def lose(service: Service, node_id: int) -> Callable[[], None]:
    """End a node at once and take its data directory away; returns how to start it again."""
    node = service.nodes[node_id]
    node.kill()
    shutil.rmtree(node.data_folder)
    return node.start


def test_the_log_is_pruned_and_replicas_without_a_disk_are_made_from_snapshots(kafka: Kafka, data_folder: Path) -> None:
    with Service(kafka.bootstrap, data_folder, partitions=PARTITIONS, properties=OFTEN) as service:
        service.start(1)
        history, _ = asyncio.run(note(service))
        starts = wait_pruned(service, history.topics[1], [0] * PARTITIONS)
        answers = asyncio.run(note(service, history))[1]
        # It comes back with nothing but the object store and the rest of the log.
        lose(service, 1)()
        service.wait_shared()
        assert asyncio.run(note(service, history))[1] == answers
        starts = wait_pruned(service, history.topics[1], starts)
        # A node that never was there follows from a snapshot on, and leads alone then.
        answers = asyncio.run(note(service, history))[1]
        service.add(2).start()
        service.wait_shared()
        first = service.nodes.pop(1)
        first.terminate()
        first.close()
        service.wait_shared()
        assert without_leaders(asyncio.run(note(service, history))[1]) == without_leaders(answers)
        wait_pruned(service, history.topics[1], starts)
        asyncio.run(go_on(service, history))


def test_a_node_without_data_is_made_from_snapshots_of_another_when_the_object_store_lost_all(kafka: Kafka, data_folder: Path) -> None:
    with Service(kafka.bootstrap, data_folder, partitions=PARTITIONS, properties=OFTEN) as service:
        service.start(1)
        history, _ = asyncio.run(note(service))
        wait_pruned(service, history.topics[1], [0] * PARTITIONS)
        answers = asyncio.run(note(service, history))[1]
        first = service.nodes[1]
        # Snapshots below the prefix; nodes write none that the second one could load instead.
        shutil.rmtree(data_folder / "objects" / "snapshots")
        (data_folder / "objects" / "snapshots").write_bytes(b"a file where the folder was")
        service.add(2, snapshots_peers=first.address).start()
        service.wait_shared()
        service.nodes.pop(1)
        first.terminate()
        first.close()
        service.wait_shared()
        assert without_leaders(asyncio.run(note(service, history))[1]) == without_leaders(answers)
        asyncio.run(go_on(service, history))


@pytest.mark.long
def test_a_replica_without_a_good_snapshot_is_made_when_one_is_back_and_ready_is_said_then(kafka: Kafka, data_folder: Path) -> None:
    with Service(kafka.bootstrap, data_folder, partitions=PARTITIONS, properties=OFTEN) as service:
        node = service.start(1).nodes[1]
        history, _ = asyncio.run(note(service))
        wait_pruned(service, history.topics[1], [0] * PARTITIONS)
        answers = asyncio.run(note(service, history))[1]
        begin_again = lose(service, 1)
        good = {path: path.read_bytes() for path in (data_folder / "objects").rglob("*.checkpoint")}
        for path, content in good.items():
            path.write_bytes(content[:-80])
        begin_again()
        # The others wait for partition 0, which names further nodes that may have snapshots.
        wait_until(lambda: "0" in node.readiness()[1].get("failed", {}), "partition 0 to have failed")  # type: ignore[operator]
        assert "This node looks again by itself" in str(node.readiness()[1]["failed"])
        assert not READY.search(since_start(node))
        for path, content in good.items():
            path.write_bytes(content)
        service.wait_shared(120)
        wait_until(lambda: READY.search(since_start(node)) is not None, "the line `ready`")
        assert asyncio.run(note(service, history))[1] == answers
        made = re.findall(r"replica made from a snapshot partition=(\d) snapshot=(\S+) from=(\S+)", since_start(node))
        assert sorted(int(partition) for partition, _, _ in made) == list(range(PARTITIONS))
        assert {data_folder / "objects" / where for _, _, where in made} <= good.keys()


def since_start(node: CoordinatorProcess) -> str:
    """What a node has logged since its last start."""
    return node.log_text().rpartition(" starting node=")[2]
