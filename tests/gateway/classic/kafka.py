"""A Kafka in memory that has classic parts: brokers that lead partitions, answer, move, hang and die, and coordinators that know B0."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import kio.schema.delete_records.v2.response as delete_records
import kio.schema.fetch.v13.response as fetch
import kio.schema.list_offsets.v7.response as list_offsets
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from coordinator.adapters.kafka.link import BrokerLost, FindPlace, Place
from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.errors import Refusal
from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, MAX_TIMESTAMP
from gateway.classic.boundaries import Boundaries
from gateway.classic.leading import LeadingBrokers
from gateway.classic.parts import ClassicParts
from gateway.fetch.limits import MIB
from records.record_batch import Record, encode_batch, parse_headers

NOW: Any = i32Timedelta.parse(timedelta(0))
NOTHING = i32(-1)


class Piece(NamedTuple):
    """A batch of a classic log."""

    first: int
    last: int
    data: bytes


def numbered(first: int, values: Sequence[bytes], *, epoch: int = 5, time_ms: int = 0) -> Piece:
    """A batch as a broker has it, with its offsets and leader epoch; record times go up from `time_ms`."""
    data = bytearray(encode_batch([Record(timestamp_ms=time_ms + place, value=value) for place, value in enumerate(values)]))
    data[0:8] = first.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return Piece(first, first + len(values) - 1, bytes(data))


@dataclass(slots=True)
class ClassicLogInMemory:
    """The classic log of a partition."""

    batches: list[Piece] = field(default_factory=list)
    start: int = 0
    aborted: list[tuple[int, int]] = field(default_factory=list)
    leader: int = 1
    epoch: int = 5

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.start


class KafkaInMemory:
    """See the module. It has one topic."""

    def __init__(self, topic_id: bytes, partitions: int, *, name: str = "orders", brokers: int = 2) -> None:
        self.topic_id = topic_id
        self.name = TopicName(name)
        self.logs = [ClassicLogInMemory() for _ in range(partitions)]
        self.brokers = range(1, brokers + 1)
        self.hung: set[int] = set()
        self.dead: set[int] = set()
        self.refusing: KafkaError | None = None
        self.asked: list[tuple[int, Any]] = []
        self.states = [DisklessLogState(state="initialised", start_offset=0, prefix_start=0, suffix_start=0, high_watermark=0)] * partitions
        self.described = 0
        self.boundaries = Boundaries(self)
        self.parts = ClassicParts(LeadingBrokers(self, self._connect), 64 * MIB)

    def begin(self, partition: int, start: int, *, prefix: int = 0, suffix: int = -1, end: int = -1) -> None:
        """Set where the diskless log of a partition begins and ends."""
        suffix = start if suffix < 0 else suffix
        self.states[partition] = DisklessLogState(
            state="initialised", start_offset=start, prefix_start=prefix, suffix_start=suffix, high_watermark=max(suffix, end)
        )

    # ---- coordinators

    async def describe_diskless_logs(self, partitions: Sequence[PartitionId], *, timeout_ms: int | None = None) -> list[DisklessLogState]:
        self.described += 1
        return [self.states[one.partition] for one in partitions]

    # ---- any broker

    async def ask(self, request: Any, answer_type: type[Any]) -> Any:
        brokers = tuple(
            MetadataResponseBroker(node_id=BrokerId(one), host=f"b{one}", port=i32(1)) for one in self.brokers if one not in self.dead
        )
        rows = tuple(
            MetadataResponsePartition(
                error_code=KafkaError.none,
                partition_index=i32(index),
                leader_id=BrokerId(log.leader),
                leader_epoch=i32(log.epoch),
                replica_nodes=(),
                isr_nodes=(),
                offline_replicas=(),
            )
            for index, log in enumerate(self.logs)
        )
        topic = MetadataResponseTopic(error_code=KafkaError.none, name=self.name, topic_id=uuid.UUID(bytes=self.topic_id), partitions=rows)
        return MetadataResponse(throttle_time=NOW, brokers=brokers, topics=(topic,))

    # ---- leaders

    def _connect(self, find: FindPlace) -> Any:
        return LinkInMemory(self, find)

    async def answer(self, broker: int, request: Any) -> Any:
        if broker in self.dead:
            raise BrokerLost("it is dead")
        self.asked.append((broker, request))
        if broker in self.hung:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)
        match int(request.__api_key__):
            case 1:
                return self._fetch(broker, request)
            case 2:
                return self._list(broker, request)
            case _:
                return self._delete(broker, request)

    def _fault(self, broker: int, index: int) -> KafkaError | None:
        return self.refusing or (None if self.logs[index].leader == broker else KafkaError.not_leader_or_follower)

    def _fetch(self, broker: int, request: Any) -> Any:
        left = int(request.max_bytes)
        rows = []
        for one in request.topics[0].partitions:
            log, offset = self.logs[int(one.partition)], int(one.fetch_offset)
            error = self._fault(broker, int(one.partition)) or KafkaError.none
            if error is KafkaError.none and not log.start <= offset <= log.end:
                error = KafkaError.offset_out_of_range
            data, size_max = b"", int(one.partition_max_bytes)
            for batch in log.batches if error is KafkaError.none else ():
                if batch.last >= offset and (not data or len(data) + len(batch.data) <= min(left, size_max)):
                    data += batch.data
            left -= len(data)
            rows.append(
                fetch.PartitionData(
                    partition_index=one.partition,
                    error_code=error,
                    high_watermark=i64(log.end),
                    last_stable_offset=i64(log.end),
                    log_start_offset=i64(log.start),
                    aborted_transactions=tuple(
                        fetch.AbortedTransaction(producer_id=ProducerId(i64(each)), first_offset=i64(first)) for each, first in log.aborted
                    )
                    if request.isolation_level
                    else None,
                    records=data,
                )
            )
        topic = fetch.FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=tuple(rows))
        return fetch.FetchResponse(throttle_time=NOW, error_code=KafkaError.none, session_id=i32(0), responses=(topic,))

    def _found(self, log: ClassicLogInMemory, timestamp: int) -> tuple[int, int]:
        if timestamp == EARLIEST:
            return log.start, -1
        times = [(header.base_offset, header.max_timestamp_ms) for batch in log.batches for header in parse_headers(batch.data)]
        if timestamp == MAX_TIMESTAMP:
            return max(times, key=lambda one: one[1], default=(-1, -1))
        return next((one for one in times if one[1] >= timestamp), (-1, -1))

    def _list(self, broker: int, request: Any) -> Any:
        rows = []
        for one in request.topics[0].partitions:
            log = self.logs[int(one.partition_index)]
            error = self._fault(broker, int(one.partition_index)) or KafkaError.none
            offset, time_ms = self._found(log, int(one.timestamp))
            rows.append(
                list_offsets.ListOffsetsPartitionResponse(
                    partition_index=one.partition_index,
                    error_code=error,
                    timestamp=i64(time_ms),
                    offset=i64(offset),
                    leader_epoch=i32(log.epoch),
                )
            )
        topic = list_offsets.ListOffsetsTopicResponse(name=request.topics[0].name, partitions=tuple(rows))
        return list_offsets.ListOffsetsResponse(throttle_time=NOW, topics=(topic,))

    def _delete(self, broker: int, request: Any) -> Any:
        rows = []
        for one in request.topics[0].partitions:
            log = self.logs[int(one.partition_index)]
            error = self._fault(broker, int(one.partition_index)) or KafkaError.none
            if error is KafkaError.none:
                log.start = max(log.start, int(one.offset))
            rows.append(
                delete_records.DeleteRecordsPartitionResult(
                    partition_index=one.partition_index, low_watermark=i64(log.start), error_code=error
                )
            )
        topic = delete_records.DeleteRecordsTopicResult(name=request.topics[0].name, partitions=tuple(rows))
        return delete_records.DeleteRecordsResponse(throttle_time=NOW, topics=(topic,))


class LinkInMemory:
    """A connection to one broker."""

    def __init__(self, kafka: KafkaInMemory, find: FindPlace) -> None:
        self._kafka = kafka
        self._find = find
        self.is_lost = False

    async def ask(self, request: Any, answer_type: type[Any]) -> Any:
        place: Place = await self._find(())
        return await self._kafka.answer(int(place[0][1:]), request)

    def close(self, why: str = "") -> None:
        self.is_lost = True


def unknown() -> Refusal:
    """The refusal of a coordinator without a leader."""
    return Refusal(ErrorCode.NOT_COORDINATOR, "nobody leads it")
