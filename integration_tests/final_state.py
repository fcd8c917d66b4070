"""Asks a quiet service and Kafka for everything the checker compares with a history; also makes the topics of a run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.pool import ConnectionPool
from coordinator.protocol import messages as m
from integration_tests.history import FinalPartition, FinalState, FoundBatch, LogMessage, ReplicaDigest, UserPartition
from integration_tests.metadata_log import LogReader
from integration_tests.routes import Address, Routes, describe_coordinators, expect

DEADLINE_S: Final = 90.0
REPLY_TIMEOUT_S: Final = 30.0
"""More than any request may take by its TimeoutMs, on a machine that may stand still for seconds."""
RETRY_PAUSE_S: Final = 0.05
DIRECTORY: Final = 0
QUIET_WITHIN_S: Final = 240.0
"""Files that the last deletions emptied are removed behind their grace of a minute, and many take a while."""
NO_LIMIT_BYTES: Final = 2**31 - 1
OFFSET_OUT_OF_RANGE: Final = 1
Logs = Mapping[int, tuple[LogMessage, ...]]


class Observer:
    """Talks to the nodes of a service; `nodes` maps node ids to addresses."""

    def __init__(self, nodes: Mapping[int, Address]) -> None:
        self._nodes = nodes
        self._pool = ConnectionPool(client_id="observer")
        self._routes = Routes(self._pool, nodes)

    async def close(self) -> None:
        """Let every connection go."""
        await self._routes.close()
        await self._pool.close()

    async def _leader(self, coordinator_id: int) -> Address:
        await self._routes.refresh()
        leader = self._routes.leaders.get(coordinator_id)
        if leader is None:
            raise ConnectionLost(f"nobody is known to lead coordinator {coordinator_id}")
        return leader.address

    async def _informed_directory(self) -> Address:
        """The directory's leader. Raises ConnectionLost while it has not read of every leader: it would give the others no partitions."""
        directory = await self._leader(DIRECTORY)
        described = await describe_coordinators(self._pool, directory)
        unled = [one.coordinator_id for one in described.coordinators if one.leader_id < 0]
        if unled:
            raise ConnectionLost(f"the directory knows no leader of coordinators {unled}")
        return directory

    async def create_topic(self, name: str, partitions: int) -> dict[UserPartition, int]:
        """Create a diskless topic, in all coordinators; returns the coordinator of each partition."""
        topic_id = os.urandom(16)
        creating = m.CreatePartitionsRequest(
            topics=(m.CreatablePartitions(topic_id=topic_id, name=name, num_partitions=partitions),), timeout_ms=5_000
        )
        describing = m.DescribeTopicsRequest(topics=(m.DescribeTopicsTopic(topic_id=topic_id, name=None),), timeout_ms=5_000)
        end_s = time.monotonic() + DEADLINE_S
        while True:
            problem = "nobody leads the directory"
            try:
                lane = (await self._informed_directory()).lane("topics")
                created = expect(await self._pool.call(lane, creating, REPLY_TIMEOUT_S), m.CreatePartitionsResponse).topics[0]
                problem = f"error {created.error_code}: {created.error_message}"
                if created.error_code == 0:
                    described = expect(await self._pool.call(lane, describing, REPLY_TIMEOUT_S), m.DescribeTopicsResponse).topics[0]
                    return {UserPartition(topic_id, one.partition_index): one.coordinator_id for one in described.partitions}
            except (ConnectionLost, RequestTimedOut) as lost:
                problem = str(lost)
            assert time.monotonic() < end_s, f"topic {name} was not created within {DEADLINE_S:g} s: {problem}"
            await asyncio.sleep(RETRY_PAUSE_S)

    async def final_partition(self, where: UserPartition, coordinator_id: int) -> FinalPartition:
        """Everything the leader has of a partition."""
        end_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                found = await self._find(where, (await self._leader(coordinator_id)))
                latest = await self._latest(where, coordinator_id)
            except (ConnectionLost, RequestTimedOut):
                if time.monotonic() > end_s:
                    raise
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            return FinalPartition(
                coordinator_id=coordinator_id,
                log_start_offset=found.log_start_offset,
                high_watermark=found.high_watermark,
                latest_offset=latest,
                batches=_batches(found),
            )

    async def copy(self, where: UserPartition, node_id: int, log_start_offset: int) -> tuple[FoundBatch, ...]:
        """Everything one node, which may be a standby, has of a partition, once it can say; damage may only show when it is read."""
        end_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                return _batches(await self._find(where, self._nodes[node_id], log_start_offset))
            except (ConnectionLost, RequestTimedOut):
                if time.monotonic() > end_s:
                    raise
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _find(self, where: UserPartition, node: Address, offset: int = 0) -> m.FindBatchesPartitionResponse:
        asked = m.FindBatchesPartition(partition_index=where.partition, offset=offset, max_partition_fetch_bytes=NO_LIMIT_BYTES)
        request = m.FindBatchesRequest(
            fetch_max_bytes=NO_LIMIT_BYTES,
            max_batches_per_partition=0,
            topics=(m.FindBatchesTopic(topic_id=where.topic_id, partitions=(asked,)),),
            timeout_ms=5_000,
        )
        answer = expect(await self._pool.call(node.lane("reads"), request, REPLY_TIMEOUT_S), m.FindBatchesResponse).topics[0].partitions[0]
        if answer.error_code == OFFSET_OUT_OF_RANGE and offset < answer.log_start_offset:
            return await self._find(where, node, answer.log_start_offset)
        if answer.error_code != 0:
            raise ConnectionLost(f"FindBatches answered {answer.error_code}")
        return answer

    async def _latest(self, where: UserPartition, coordinator_id: int) -> int:
        asked = m.ListOffsetsPartition(partition_index=where.partition, timestamp=-1)
        request = m.ListOffsetsRequest(topics=(m.ListOffsetsTopic(topic_id=where.topic_id, partitions=(asked,)),), timeout_ms=5_000)
        lane = (await self._leader(coordinator_id)).lane("reads")
        answer = expect(await self._pool.call(lane, request, REPLY_TIMEOUT_S), m.ListOffsetsResponse).topics[0].partitions[0]
        if answer.error_code != 0:
            raise ConnectionLost(f"ListOffsets answered {answer.error_code}: {answer.error_message}")
        return answer.offset

    async def digests(self, reached: Mapping[int, int], node_ids: Iterable[int]) -> tuple[ReplicaDigest, ...]:
        """The digests of every replica of these nodes, once each has written its state at least up to the offset `reached`.

        Every coordinator has one at least: its leader's.
        """
        digests: list[ReplicaDigest] = []
        for node_id in node_ids:
            end_s = time.monotonic() + DEADLINE_S
            while True:
                behind = "no answer"
                try:
                    answer = await describe_coordinators(self._pool, self._nodes[node_id])
                    followed = [one for one in answer.coordinators if one.error_code == 0]
                    late = [one for one in followed if one.applied_offset < reached.get(one.coordinator_id, -1)]
                    behind = f"coordinators {[(one.coordinator_id, one.state, one.applied_offset) for one in late]} are behind"
                    if not late and followed:
                        break
                except (ConnectionLost, RequestTimedOut) as lost:
                    behind = str(lost)
                assert time.monotonic() < end_s, f"node {node_id} did not write its replicas within {DEADLINE_S:g} s: {behind}"
                await asyncio.sleep(RETRY_PAUSE_S)
            digests += [ReplicaDigest(node_id, one.coordinator_id, one.applied_offset, one.digest) for one in followed]
        unseen = reached.keys() - {one.coordinator_id for one in digests}
        assert not unseen, f"no node has a replica of coordinators {sorted(unseen)}"
        return tuple(digests)


def _batches(found: m.FindBatchesPartitionResponse) -> tuple[FoundBatch, ...]:
    return tuple(FoundBatch(one.object_key, one.byte_offset, one.byte_size, one.base_offset, one.last_offset) for one in found.batches)


def create_topic(nodes: Mapping[int, Address], name: str, partitions: int) -> dict[UserPartition, int]:
    """Create a diskless topic; returns the coordinator of each partition."""

    async def create() -> dict[UserPartition, int]:
        observer = Observer(nodes)
        try:
            return await observer.create_topic(name, partitions)
        finally:
            await observer.close()

    return asyncio.run(create())


def read_final_state(
    nodes: Mapping[int, Address], owners: Mapping[UserPartition, int], *, bootstrap: str, metadata_topic: str, known: Logs | None = None
) -> FinalState:
    """Everything a quiet service and its log have, as of one moment; `nodes` are those that run.

    `known` is what was read before of a log whose beginning may be gone.

    A request that its client has given up may still be on its way through a network that was cut, and take effect between
    the reading of the log and that of the state, and files are removed after their last batch. Then everything is read once more.
    """
    logs = dump_topic(bootstrap, metadata_topic, known)
    readers = {coordinator_id: LogReader() for coordinator_id in logs}
    last_changes = _last_changes(readers, logs)
    end_s = time.monotonic() + QUIET_WITHIN_S
    while time.monotonic() < end_s:
        final = asyncio.run(_read_state(nodes, owners, logs, last_changes))
        logs = dump_topic(bootstrap, metadata_topic, known=logs)
        before, last_changes = last_changes, _last_changes(readers, logs)
        if before == last_changes:
            return final
    raise AssertionError(f"the log was changed during each reading within {QUIET_WITHIN_S:g} s, though no client works any more")


def _last_changes(readers: Mapping[int, LogReader], logs: Logs) -> dict[int, int]:
    """Read on in every log; returns where each was changed last."""
    for coordinator_id, reader in readers.items():
        for message in logs[coordinator_id]:
            if message.offset > reader.read.last_offset:
                reader.take(message)
    return {coordinator_id: reader.read.last_change for coordinator_id, reader in readers.items()}


async def _read_state(
    nodes: Mapping[int, Address], owners: Mapping[UserPartition, int], logs: Logs, last_changes: Mapping[int, int]
) -> FinalState:
    observer = Observer(nodes)
    try:
        partitions = {where: await observer.final_partition(where, owner) for where, owner in owners.items()}
        digests = await observer.digests(last_changes, nodes)
        followed = {(one.node_id, one.coordinator_id) for one in digests}
        copies = {
            node_id: {
                where: await observer.copy(where, node_id, one.log_start_offset)
                for where, one in partitions.items()
                if (node_id, owners[where]) in followed
            }
            for node_id in nodes
        }
    finally:
        await observer.close()
    return FinalState(partitions=partitions, logs=logs, digests=digests, copies=copies)


def dump_topic(bootstrap: str, topic: str, known: Logs | None = None) -> Logs:
    """Every message of a topic, by partition, up to its last one now; `known` is an earlier dump, which is continued."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "dump", "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    )
    try:
        logs: dict[int, tuple[LogMessage, ...]] = {}
        for partition in sorted(consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions):
            earlier = () if known is None else known[partition]
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S, cached=False)
            if earlier:
                assert start <= earlier[-1].offset + 1, f"{topic}-{partition}: known up to {earlier[-1].offset}, the log starts at {start}"
                start = earlier[-1].offset + 1
            messages: list[LogMessage] = []
            consumer.assign([TopicPartition(topic, partition, start)])
            end_s = time.monotonic() + DEADLINE_S
            while len(messages) < end - start:
                assert time.monotonic() < end_s, f"{topic}-{partition}: {len(messages)} of {end - start} messages read"
                for message in consumer.consume(500, 0.05):
                    error = message.error()
                    assert error is None, f"{topic}-{partition}: {error}"
                    messages.append(LogMessage(message.offset() or 0, message.key(), message.value(), message.timestamp()[1]))
            logs[partition] = (*earlier, *messages[: end - start])
            consumer.unassign()
        return logs
    finally:
        consumer.close()


def log_starts(bootstrap: str, topic: str) -> list[int]:
    """The first offset of each partition of a topic."""
    return [start for start, _ in _watermarks(bootstrap, topic).values()]


def log_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """The next offset of each partition of a topic."""
    return {partition: end for partition, (_, end) in _watermarks(bootstrap, topic).items()}


def _watermarks(bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks only"})
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions)
        return {one: consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=DEADLINE_S) for one in partitions}
    finally:
        consumer.close()
