"""The log of a partition of Kafka as its leader has it: batches as they stand there, with their headers.

Blocks: used in worker threads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

import kio.schema.fetch.v12 as fetch
import kio.schema.list_offsets.v7 as list_offsets
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode as KafkaCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from coordinator.adapters.kafka.broker import BrokerConnection, refused
from coordinator.adapters.kafka.partition_leaders import Leadership, PartitionLeaders
from coordinator.client.errors import OffsetOutOfRange
from coordinator.kafka.errors import ErrorCode
from records.record_batch import MAGIC, BatchHeader, CorruptBatch, parse_header

CONSUMER: Final = -1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
FETCH_BYTES: Final = 4 * 1024 * 1024
FETCH_WAIT: Final = i32Timedelta.parse(timedelta(milliseconds=500))

_LENGTH: Final = struct.Struct(">i")
_BASE_OFFSET: Final = struct.Struct(">q")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16


class AbortedTransaction(NamedTuple):
    """A transaction whose records count as never written."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Whole batches of a log: headers, the bytes they lie in, and transactions that were aborted there.

    `old_batches` counts those of the formats before version 2, which have no such header.
    """

    headers: tuple[BatchHeader, ...]
    data: bytes
    aborted: tuple[AbortedTransaction, ...]
    old_batches: int
    next_offset: int


def offsets_request(topics: Mapping[str, Mapping[int, int]], timestamp: int, replica_id: int) -> list_offsets.ListOffsetsRequest:
    """Make a question for the offsets at a time; each partition is named with the epoch of its leadership."""
    asked = (
        list_offsets.request.ListOffsetsTopic(
            name=TopicName(name),
            partitions=tuple(
                list_offsets.request.ListOffsetsPartition(
                    partition_index=i32(index), current_leader_epoch=i32(epoch), timestamp=i64(timestamp)
                )
                for index, epoch in led.items()
            ),
        )
        for name, led in topics.items()
    )
    return list_offsets.ListOffsetsRequest(replica_id=BrokerId(replica_id), isolation_level=i8(READ_UNCOMMITTED), topics=tuple(asked))


class PartitionLog:
    """Reads one partition. Its methods raise `NoSuchTopic`, too."""

    def __init__(self, leaders: PartitionLeaders, partition: int) -> None:
        self._leaders = leaders
        self._partition = partition

    def pieces(self, start_offset: int, end_offset: int, *, isolation: int = READ_COMMITTED) -> Iterator[LogPiece]:
        """Yield the batches with offsets from `start_offset` to before `end_offset`, in order.

        Raises `OffsetOutOfRange` when the log does not reach from one to the other, `KafkaException`.
        """
        offset = start_offset
        while offset < end_offset:
            piece = self._piece(offset, isolation)
            if piece.next_offset == offset:
                raise refused(
                    KafkaError._TIMED_OUT,
                    f"{self._leaders.topic}-{self._partition}: the leader has no records at {offset}, below {end_offset}",
                )
            yield piece
            offset = piece.next_offset

    def _piece(self, offset: int, isolation: int) -> LogPiece:
        try:
            return self._leaders.ask(self._partition, lambda broker, leader: self._fetch(broker, leader, offset, isolation))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.OFFSET_OUT_OF_RANGE:
                raise
            text = f"{self._leaders.topic}-{self._partition}: its log in Kafka does not have offset {offset} (any more)"
            raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, text) from error

    def _fetch(self, broker: BrokerConnection, leader: Leadership, offset: int, isolation: int) -> LogPiece:
        asked = fetch.request.FetchPartition(
            partition=i32(self._partition),
            current_leader_epoch=i32(leader.epoch),
            fetch_offset=i64(offset),
            partition_max_bytes=i32(FETCH_BYTES),
        )
        request = fetch.FetchRequest(
            max_wait=FETCH_WAIT,
            min_bytes=i32(1),
            max_bytes=i32(FETCH_BYTES),
            isolation_level=i8(isolation),
            topics=(fetch.request.FetchTopic(topic=TopicName(self._leaders.topic), partitions=(asked,)),),
            forgotten_topics_data=(),
        )
        answer = broker.ask(request, fetch.FetchResponse)
        self._check(answer.error_code)
        if not answer.responses:
            # So a broker answers whose quota the client has used up.
            raise refused(KafkaError._TIMED_OUT, f"the answer to a fetch of {self._leaders.topic}-{self._partition} does not have it")
        [topic] = answer.responses
        [found] = topic.partitions
        self._check(found.error_code)
        data = bytes(found.records or b"")
        headers, old_batches, next_offset = self._headers(data, offset)
        aborted = tuple(AbortedTransaction(int(one.producer_id), int(one.first_offset)) for one in found.aborted_transactions or ())
        return LogPiece(headers, data, aborted, old_batches, next_offset)

    def _headers(self, data: bytes, offset: int) -> tuple[tuple[BatchHeader, ...], int, int]:
        """Return headers of whole batches, the number of old ones, and the offset behind the last; a broker may cut the last one off."""
        headers, old_batches, position, next_offset = [], 0, 0, offset
        while position + _MAGIC_AT < len(data):
            size = _LENGTH.unpack_from(data, position + _LENGTH_AT)[0] + _LENGTH_AT + _LENGTH.size
            if position + size > len(data):
                break
            if data[position + _MAGIC_AT] == MAGIC:
                try:
                    header = parse_header(data, position)
                except CorruptBatch as error:
                    raise refused(KafkaError._BAD_MSG, f"{self._leaders.topic}-{self._partition} from offset {offset}: {error}") from error
                headers.append(header)
                next_offset = header.last_offset + 1
            else:  # of Kafka before 0.11, which knew no producers; its offset is that of its last record
                old_batches += 1
                next_offset = _BASE_OFFSET.unpack_from(data, position)[0] + 1
            position += size
        return tuple(headers), old_batches, next_offset

    def _check(self, code: KafkaCode) -> None:
        if code is not KafkaCode.none:
            raise refused(int(code.value), f"{self._leaders.topic}-{self._partition}: the broker answers {code.name}")
