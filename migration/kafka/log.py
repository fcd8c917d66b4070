"""The log of a classic partition as a migration needs it: where it begins and ends, its producers, and their last batches.

A consumer is not shown where the log ends, which is behind the high watermark while replicas are late: the end is asked for as the
"debugging consumer" of Kafka's own tools. Blocks: used in worker threads.
"""

from __future__ import annotations

from typing import Final

import kio.schema.describe_producers.v0 as describe_producers
import kio.schema.list_offsets.v7 as list_offsets
from kio.schema.types import TopicName
from kio.static.primitive import i32

from coordinator.adapters.kafka.broker import BrokerConnection
from coordinator.adapters.kafka.partition_leaders import Leadership
from coordinator.adapters.kafka.partition_log import CONSUMER, READ_UNCOMMITTED, PartitionLog, offsets_request
from coordinator.kafka.timestamps import EARLIEST, LATEST
from migration.classic import ClassicState, ClassicTransaction, ProducerBatches, count_from
from migration.producers import LastBatches
from records.record_batch import BatchHeader

DEBUGGING_CONSUMER: Final = -2
FIRST_WINDOW: Final = 2_000
"""Offsets of the first piece of a log that is read backwards; each further piece is four times as long."""
WINDOW_GROWTH: Final = 4
SCAN_BYTES_MAX: Final = 256 * 1024 * 1024
"""How far back batches of producers are looked for."""


class ClassicLog(PartitionLog):
    """Reads one partition. Made with `ClassicLeaders`, so its methods raise `ClassicTopicMissing`, too."""

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
