"""A damaged database on a full disk, with a real process and a real broker: told, answered with retriable errors, healed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from coordinator.client.routing.connection import ConnectionLost
from coordinator.kafka.errors import ErrorCode
from integration_tests.service import Service
from integration_tests.test_semantics_restart import History, note
from integration_tests.waiting import wait_until
from integration_tests.wire import OK, Batch, connected
from tests.sqlite.disks import fill, small_disk

PATIENCE_S = 60
STARTS = 6
DISK_BYTES = 48 << 20
REFUSALS = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}


def starts(service: Service) -> bool:
    """Start the node of a service; whether it leads everything. One that ends has status 1 and says what to do in its last lines."""
    [node] = service.nodes.values()
    node.start()
    process = node.process
    assert process is not None
    wait_until(lambda: service.is_shared() or not process.is_running(), "the node to lead or to end", PATIENCE_S)
    if process.is_running():
        return True
    assert process.wait(1) == 1
    told = node.log_tail(3)
    assert "is full" in told, told
    assert "Remove something from it or enlarge it" in told, told
    assert "Traceback" not in node.log_text()
    return False


async def commit_until_the_end(node: CoordinatorProcess, history: History) -> None:
    """Commit files to a node whose only disk is full, until that ends the process; each answer until then is right, or to be retried."""
    process = node.process
    assert process is not None
    async with connected(node.address) as wire, asyncio.timeout(PATIENCE_S):
        history.wire = wire
        topic = history.topics[0]
        with suppress(ConnectionLost):
            while process.is_running():
                results = await wire.commit(*(Batch(topic, partition) for partition in range(6)), owners=[0, 1, 2])
                assert {one.error for one in results} <= {OK} | REFUSALS
    assert process.wait(PATIENCE_S) == 1
    told = node.log_tail(3)
    assert "no data directory can be used any more" in told
    assert "is full" in told
    assert "Remove something from it or enlarge it" in told


@pytest.mark.long
def test_a_node_with_a_damaged_database_on_a_full_disk_starts_or_says_what_to_do(kafka: Kafka, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk, Service(kafka.bootstrap, tmp_path, partitions=3) as service:
        node = service.add(1, data_dirs=str(disk / "data"))
        node.start()
        service.wait_shared()
        history, answers = asyncio.run(note(service))
        node.kill()
        database = disk / "data" / "partition-0.db"
        ballast = fill(disk)
        healed = 0
        for number in range(STARTS):
            if database.exists() and database.stat().st_size:
                # In place, for which a full disk has room.
                with database.open("r+b") as file:
                    file.write(bytes([number]) * 50)
            if starts(service):
                healed += 1
                node.kill()
                ballast.unlink()
                ballast = fill(disk)
            assert len(list(disk.glob("data/partition-0.db.failed-*[0-9]"))) <= 2
        ballast.unlink()
        assert starts(service)
        assert asyncio.run(note(service, history))[1] == answers

        ballast = fill(disk)
        asyncio.run(commit_until_the_end(node, history))
        ballast.unlink()
        assert starts(service)
        asyncio.run(note(service, history))
