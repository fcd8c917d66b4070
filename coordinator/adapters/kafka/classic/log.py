"""The log of a classic partition as its leader has it: bounds, producers, and batches as they stand there, with their headers.

A consumer is not shown where the log ends, which is behind the high watermark while replicas are late: the end is asked for as the
"debugging consumer" of Kafka's own tools. Blocks: used in worker threads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

import kio.schema.describe_producers.v0 as describe_producers
import kio.schema.fetch.v12 as fetch
import kio.schema.list_offsets.v7 as list_offsets
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode as KafkaCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from coordinator.adapters.kafka.broker import BrokerConnection, refused
from coordinator.adapters.kafka.classic.leaders import Leaders, Leadership
from coordinator.client.errors import OffsetOutOfRange
from coordinator.client.migration.classic import ClassicState, ClassicTransaction, ProducerBatches, count_from
from coordinator.client.migration.producers import LastBatches
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, LATEST
from records.record_batch import MAGIC, BatchHeader, CorruptBatch, parse_header

CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
FETCH_BYTES: Final = 4 * 1024 * 1024
FETCH_WAIT: Final = i32Timedelta.parse(timedelta(milliseconds=500))
FIRST_WINDOW: Final = 2_000
"""Offsets of the first piece of a log that is read backwards; each further piece is four times as long."""
WINDOW_GROWTH: Final = 4
SCAN_BYTES_MAX: Final = 256 * 1024 * 1024
"""How far back batches of producers are looked for."""

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


class ClassicLogReader:
    """Reads one partition."""

    def __init__(self, leaders: Leaders, partition: int) -> None:
        self._leaders = leaders
        self._partition = partition

    def look(self) -> ClassicState:
        """Return the state of the log, all of one leadership. Raises `KafkaException`."""
        return self._leaders.ask(self._partition, self._state)

    def _state(self, broker: BrokerConnection, leader: Leadership) -> ClassicState:
        start = self._offset(broker, leader, EARLIEST, CONSUMER)
        # In this order: if the end that is read last is the watermark read first, nothing was written and nothing began in between.
        watermark = self._offset(broker, leader, LATEST, CONSUMER)
        producers = self._producers(broker)
        end = self._offset(broker, leader, LATEST, DEBUGGING_CONSUMER)
        return ClassicState(
            leader_epoch=leader.epoch,
            log_start_offset=start,
            high_watermark=watermark,
            log_end_offset=end,
            open_transactions=tuple(
                ClassicTransaction(int(one.producer_id), int(one.current_txn_start_offset))
                for one in producers
                if one.current_txn_start_offset >= 0
            ),
        )

    def log_start(self) -> int:
        """Return the first offset that is still there. Raises `KafkaException`."""
        return self._leaders.ask(self._partition, lambda broker, leader: self._offset(broker, leader, EARLIEST, CONSUMER))

    def last_batches(self, end_offset: int) -> ProducerBatches:
        """Return the last batches of producers below an offset, read backwards from there. Raises as `pieces`."""
        producers = self._leaders.ask(self._partition, lambda broker, _leader: self._producers(broker))
        found = LastBatches({int(one.producer_id): int(one.producer_epoch) for one in producers})
        start, upper, window, scanned = self.log_start(), end_offset, FIRST_WINDOW, 0
        while upper > start and not found.is_complete and scanned < SCAN_BYTES_MAX:
            lower = max(start, upper - window)
            headers: list[BatchHeader] = []
            for piece in self.pieces(lower, upper):
                headers += piece.headers
                scanned += len(piece.data)
            found.add_older([header for header in headers if header.base_offset < upper])
            # The first batch may begin before the piece.
            upper, window = min([lower, *(header.base_offset for header in headers[:1])]), window * WINDOW_GROWTH
        return found.result(is_whole_log=upper <= start)

    def count_records(self, start_offset: int, end_offset: int) -> int:
        """Count the records between two offsets, those of open transactions too, and no markers. Raises as `pieces`."""
        pieces = self.pieces(start_offset, end_offset, isolation=READ_UNCOMMITTED)
        return count_from((header for piece in pieces for header in piece.headers if header.base_offset < end_offset), start_offset)

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
            text = f"{self._leaders.topic}-{self._partition}: the classic log does not have offset {offset} (any more)"
            raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, text) from error

    def _offset(self, broker: BrokerConnection, leader: Leadership, timestamp: int, replica_id: int) -> int:
        request = offsets_request({self._leaders.topic: {self._partition: leader.epoch}}, timestamp, replica_id)
        [topic] = broker.ask(request, list_offsets.ListOffsetsResponse).topics
        [found] = topic.partitions
        self._check(found.error_code)
        return int(found.offset)

    def _producers(self, broker: BrokerConnection) -> tuple[describe_producers.response.ProducerState, ...]:
        asked = describe_producers.request.TopicRequest(name=TopicName(self._leaders.topic), partition_indexes=(i32(self._partition),))
        [topic] = broker.ask(
            describe_producers.DescribeProducersRequest(topics=(asked,)), describe_producers.DescribeProducersResponse
        ).topics
        [found] = topic.partitions
        self._check(found.error_code)
        return found.active_producers

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
