"""Metadata transactions on a real log: a request that needs more than one message takes effect whole, also when leaders die.

The topic allows small messages, so that a deletion from all partitions needs several. Deletions move all log starts by one
at a time; whoever reads all of them at once must find them equal, whatever was killed meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from cli.outcome import Exit
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.client.records.ulid import new_key
from coordinator.core.topic_rules import TopicExpectations, wanted_config
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST
from coordinator.protocol.messages import CommitBatch
from integration_tests.final_state import dump_topic
from integration_tests.metadata_log import read_log
from integration_tests.service import Service
from integration_tests.waiting import WAIT_S, wait_until
from records.codec import decode_entry
from records.levels import LEVEL_LATEST
from records.model import RecordsDeleted, TransactionBegan, TransactionEnded
from tests.commit_batches import commit_batch

REPOSITORY = Path(__file__).parents[1]
MESSAGE_BYTES_MAX = 8192
PARTITIONS = 1500
FILE_BATCHES = 300
RECORDS = 60
KILLS = 2
STEPS_BETWEEN = 6


@pytest.fixture
def small_messages(kafka: Kafka, tmp_path: Path) -> Iterator[Service]:
    """Two nodes over a topic of one partition that allows small messages only."""
    made = Service(kafka.bootstrap, tmp_path, partitions=1)
    config = wanted_config(TopicExpectations(replication_factor=1, min_insync_replicas=1)) | {"max.message.bytes": str(MESSAGE_BYTES_MAX)}
    topic = NewTopic(made.topic, num_partitions=1, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([topic])[made.topic].result(60)
    try:
        for node_id in (1, 2):
            made.add(node_id).start()
        wait_until(lambda: leader_of(made) is not None, "a leader")
        text = f"schema level in force level={LEVEL_LATEST}"
        wait_until(lambda: all(text in node.log_text() for node in made.nodes.values()), "the newest schema level at both nodes")
        yield made
    finally:
        made.stop()


def leader_of(service: Service) -> CoordinatorProcess | None:
    for node in service.nodes.values():
        if node.process is not None and node.process.is_running() and node.readiness()[1].get("leading") == [0]:
            return node
    return None


def batch(topic_id: bytes, partition: int, place: int) -> CommitBatch:
    return commit_batch(topic_id, partition, records=RECORDS, at=100 * place, request_id=place)


class Deleter:
    """Moves the log starts of all partitions forward together, one record at a time, and remembers how far that was acknowledged."""

    def __init__(self, client: DisklessClient, topic_id: bytes) -> None:
        self.client = client
        self.partitions = [PartitionId(topic_id, partition) for partition in range(PARTITIONS)]
        self.acknowledged = 0

    async def fill(self) -> None:
        for first in range(0, PARTITIONS, FILE_BATCHES):
            rows = [batch(one.topic_id, one.partition, place) for place, one in enumerate(self.partitions[first : first + FILE_BATCHES])]
            outcome = await self.client.commit_file(new_key(time.time_ns() // 1_000_000, os.urandom(10)), 100 * FILE_BATCHES, rows)
            assert {one.error for one in outcome.batches} == {ErrorCode.NONE}

    async def step(self) -> None:
        wanted = self.acknowledged + 1
        answers = await self.client.admin.delete_records([(one, wanted) for one in self.partitions], timeout_ms=60_000)
        assert {(one.error, one.low_watermark) for one in answers} == {(ErrorCode.NONE, wanted)}
        self.acknowledged = wanted

    async def look(self) -> int:
        """Where all partitions start; they start alike, and not before what was acknowledged when the question was put."""
        acknowledged = self.acknowledged
        found = await self.client.list_offsets([(one, EARLIEST) for one in self.partitions], timeout_ms=60_000)
        assert {one.error for one in found} == {ErrorCode.NONE}
        [start] = {one.offset for one in found}
        assert start >= acknowledged
        return start


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_a_deletion_of_many_messages_is_seen_whole_though_leaders_are_killed(small_messages: Service) -> None:
    service = small_messages
    async with DisklessClient(service.addresses, api_timeout_ms=60_000) as client:
        topic = await client.admin.create_topic(f"topic-{os.urandom(4).hex()}", PARTITIONS)
        deleter = Deleter(client, topic.topic_id)
        await deleter.fill()
        assert await deleter.look() == 0
        looks = 0
        for _ in range(KILLS):
            goal = deleter.acknowledged + STEPS_BETWEEN
            while deleter.acknowledged < goal:
                step = asyncio.create_task(deleter.step())
                while not step.done():
                    await deleter.look()
                    looks += 1
                await step
            leader = leader_of(service)
            assert leader is not None
            step = asyncio.create_task(deleter.step())
            await asyncio.sleep(0)
            leader.kill()
            leader.start()
            await step
            await asyncio.to_thread(wait_until, lambda: leader_of(service) is not None, "a leader", WAIT_S)
        assert looks > 2 * STEPS_BETWEEN
        assert await deleter.look() == deleter.acknowledged == KILLS * (STEPS_BETWEEN + 1)

    entries = [decode_entry(message.value or b"") for message in dump_topic(service.bootstrap, service.topic)[0]]
    chunks = [len(records) for records in entries if isinstance(records[0], RecordsDeleted)]
    assert max(chunks) < PARTITIONS
    assert sum(isinstance(records[0], TransactionBegan) for records in entries) >= deleter.acknowledged
    assert sum(isinstance(records[0], TransactionEnded) for records in entries) >= deleter.acknowledged
    check_by_others(service, deleter.acknowledged)


def check_by_others(service: Service, log_start: int) -> None:
    """What two independent readers of the log make of it: the checker of the run under faults, and `diskless monitor verify`."""
    log = read_log(dump_topic(service.bootstrap, service.topic)[0])
    assert set(log.log_starts.values()) == {log_start}
    nodes = ",".join(service.addresses)
    command = [sys.executable, "-m", "cli.program", "monitor", "verify", "--kafka-bootstrap-server", service.bootstrap]
    command += ["--metadata-topic", service.topic, "--bootstrap-server", nodes, "-o", "json"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert json.loads(done.stdout)["agree"] is True
