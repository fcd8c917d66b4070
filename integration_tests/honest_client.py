"""A well-behaved client as a process of its own: `python -m integration_tests.honest_client HOST PORT SUMMARY_FILE [PROPERTIES]`.

Creates a topic, then commits files and reads them back until SIGTERM, and writes what it saw as JSON: operations, how long
they took, and every answer that was wrong. PROPERTIES is JSON with the security of its connection. It is a process so that
its times are not those of whoever attacks meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from coordinator.client.records.ulid import new_key
from coordinator.client.routing.connection import ClientConnection
from coordinator.protocol import messages as m
from coordinator.protocol.codec import Message
from coordinator.security.client_security import ClientSecurity
from tests.commit_batches import commit_batch

TIMEOUT_MS = 10_000
PACE_S = 0.005  # between rounds, to leave the machine to the attack
RECORDS = 10
SIZE_BYTES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of one partition, and the coordinator that owns it."""

    topic_id: bytes
    owner_id: int


def commit_request(topic: Topic, *, batches: int) -> m.CommitFileRequest:
    """A file of some batches of partition 0."""
    rows = tuple(commit_batch(topic.topic_id, 0, records=RECORDS, at=index * SIZE_BYTES, size=SIZE_BYTES) for index in range(batches))
    key = new_key(time.time_ns() // 1_000_000, os.urandom(10))
    return m.CommitFileRequest(
        object_key=key, object_format=1, file_size=batches * SIZE_BYTES, owner_ids=(topic.owner_id,), batches=rows, timeout_ms=TIMEOUT_MS
    )


def find_request(topic_id: bytes, offset: int) -> m.FindBatchesRequest:
    """Everything of partition 0 from an offset on."""
    wanted = m.FindBatchesPartition(partition_index=0, offset=offset, max_partition_fetch_bytes=2**31 - 1)
    topic = m.FindBatchesTopic(topic_id=topic_id, partitions=(wanted,))
    return m.FindBatchesRequest(fetch_max_bytes=2**31 - 1, max_batches_per_partition=0, topics=(topic,), timeout_ms=TIMEOUT_MS)


def latest_request(topic_id: bytes) -> m.ListOffsetsRequest:
    """The high watermark of partition 0."""
    topic = m.ListOffsetsTopic(topic_id=topic_id, partitions=(m.ListOffsetsPartition(partition_index=0, timestamp=-1),))
    return m.ListOffsetsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)


async def create_topic(connection: ClientConnection, name: str) -> Topic:
    """Create a topic of one partition."""
    topic_id = os.urandom(16)
    topic = m.CreatablePartitions(topic_id=topic_id, name=name, num_partitions=1)
    response = await connection.call(m.CreatePartitionsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS), TIMEOUT_MS / 1000)
    assert isinstance(response, m.CreatePartitionsResponse)
    assert response.topics[0].error_code == 0, response
    described = await connection.call(m.DescribeTopicsRequest(topics=(), timeout_ms=TIMEOUT_MS), TIMEOUT_MS / 1000)
    assert isinstance(described, m.DescribeTopicsResponse)
    (owner_id,) = (one.partitions[0].coordinator_id for one in described.topics if one.topic_id == topic_id)
    return Topic(topic_id=topic_id, owner_id=owner_id)


class Honest:
    """Rounds of commit, find and list; the offsets must follow each other without a hole."""

    def __init__(self, connection: ClientConnection, topic: Topic) -> None:
        self._connection = connection
        self._topic = topic
        self._next_offset = 0
        self.took_ms: list[float] = []
        self.wrong: list[str] = []

    async def round(self) -> None:
        """One round."""
        committed = await self._timed(commit_request(self._topic, batches=3))
        assert isinstance(committed, m.CommitFileResponse)
        offsets = [(batch.error_code, batch.assigned_base_offset) for batch in committed.batches]
        expected = [(0, self._next_offset + index * RECORDS) for index in range(3)]
        self._expect("commit", offsets, expected)
        found = await self._timed(find_request(self._topic.topic_id, self._next_offset))
        assert isinstance(found, m.FindBatchesResponse)
        partition = found.topics[0].partitions[0]
        self._expect("find", [(partition.error_code, batch.base_offset) for batch in partition.batches], expected)
        self._next_offset += 3 * RECORDS
        listed = await self._timed(latest_request(self._topic.topic_id))
        assert isinstance(listed, m.ListOffsetsResponse)
        answer = listed.topics[0].partitions[0]
        self._expect("list", (answer.error_code, answer.offset), (0, self._next_offset))

    async def _timed(self, request: Message) -> Message:
        start_s = time.monotonic()
        response = await self._connection.call(request, TIMEOUT_MS / 1000)
        self.took_ms.append((time.monotonic() - start_s) * 1000)
        return response

    def _expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.wrong.append(f"{what}: {found} instead of {expected}")


async def _run(host: str, port: int, summary: Path, security: ClientSecurity) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    connection = await ClientConnection.connect(host, port, client_id="honest", timeout_s=60, security=security)
    honest = Honest(connection, await create_topic(connection, f"honest-{os.urandom(4).hex()}"))
    while not stop.is_set():
        await honest.round()
        if len(honest.took_ms) == 3:
            print("running", flush=True)
        await asyncio.sleep(PACE_S)
    await connection.close()
    summary.write_text(json.dumps({"took_ms": honest.took_ms, "wrong": honest.wrong}), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), ClientSecurity(json.loads("".join(sys.argv[4:5]) or "{}"))))
