"""The schema level of a real service: a node that agrees to none above the old one holds it; without that it rises by itself."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from coordinator.client.client import DisklessClient
from integration_tests.final_state import Logs, dump_topic
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from records.codec import decode_entry
from records.history import schema_of_header
from records.levels import LEVEL_LATEST
from records.model import FeatureLevelSet

PARTITIONS = 2
REPOSITORY = Path(__file__).parents[1]


def diskless(service: Service, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `diskless coordinator` as people do."""
    command = [sys.executable, "-m", "cli.program", "coordinator", *args, "--bootstrap-server", ",".join(service.addresses)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DISKLESS_")}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=REPOSITORY, timeout=60, check=False)


def shown(service: Service) -> list[tuple[int, int, int, bool]]:
    """What the command says: (node, level in force, its highest level, whether it is gone)."""
    done = diskless(service, "level", "-o", "json")
    assert done.returncode == Exit.OK, done.stderr
    return [(row["node"], row["level_in_force"], row["highest_level"], row["gone"]) for row in json.loads(done.stdout)]


def create_topic(service: Service) -> None:
    """A topic with partitions in every coordinator: an entry in each."""

    async def create() -> None:
        async with DisklessClient(service.addresses) as client:
            await client.admin.create_topic(f"topic-{uuid.uuid4().hex}", 2 * PARTITIONS)

    asyncio.run(create())


def logs_of(service: Service, known: Logs | None = None) -> Logs:
    return dump_topic(service.bootstrap, service.topic, known=known)


def levels(logs: Logs, partition: int, start: int = 0) -> set[int]:
    """The schema levels of the entries of a partition from an offset on."""
    return {schema_of_header((message.value or b"")[:10]).level for message in logs[partition][start:]}


def test_a_node_holds_the_level_and_without_it_the_level_rises_by_itself(kafka: Kafka, tmp_path: Path) -> None:
    with Service(kafka.bootstrap, tmp_path, partitions=PARTITIONS, properties=UNDISTURBED) as service:
        held = service.add(1, schema_level_max="1")
        held.start()
        wait_until(lambda: service.is_shared() and shown(service) == [(1, 1, 1, False)], "the first node and its registration")
        service.add(2).start()
        wait_until(lambda: service.is_shared() and len(shown(service)) == 2, "the second node and its registration")
        assert shown(service) == [(1, 1, 1, False), (2, 1, LEVEL_LATEST, False)]

        refused = diskless(service, "raise-level", str(LEVEL_LATEST), "--yes")
        assert refused.returncode == Exit.FAILURE
        assert "node 1 supports levels up to 1" in refused.stderr
        create_topic(service)
        before = logs_of(service)
        assert levels(before, 0) | levels(before, 1) == {1}

        assert held.terminate() == 0
        del held.properties["schema.level.max"]
        held.start()
        wait_until(service.is_shared, "both nodes again")
        wait_until(
            lambda: all(f"schema level in force level={LEVEL_LATEST}" in node.log_text() for node in service.nodes.values()),
            "the newest level at both nodes",
        )
        assert shown(service) == [(1, LEVEL_LATEST, LEVEL_LATEST, False), (2, LEVEL_LATEST, LEVEL_LATEST, False)]

        raised = logs_of(service, before)
        create_topic(service)
        after = logs_of(service, raised)
        for partition in range(PARTITIONS):
            end = len(raised[partition])
            assert len(after[partition]) > end
            assert levels(after, partition, end) == {LEVEL_LATEST}
        changes = [record for message in after[0] for record in decode_entry(message.value or b"") if isinstance(record, FeatureLevelSet)]
        assert changes == [FeatureLevelSet(level=LEVEL_LATEST)]


def test_a_fresh_service_is_at_the_newest_level_at_once_and_stays_there_over_a_restart(service: Service) -> None:
    service.start(1)
    (node,) = service.nodes.values()
    wait_until(lambda: f"schema level in force level={LEVEL_LATEST}" in node.log_text(), "the newest level")
    assert node.terminate() == 0
    node.properties["schema.level.max"] = "1"  # too late
    node.start()
    node.wait_ready()
    wait_until(lambda: f"level {LEVEL_LATEST} is in force, which never goes back" in node.log_text(), "the warning")
    assert shown(service) == [(1, LEVEL_LATEST, LEVEL_LATEST, False)]
