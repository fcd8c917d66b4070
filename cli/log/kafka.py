"""Reads the metadata topic for `diskless log`: messages of given partitions in order, nothing decided about them.

Control records, which the client leaves out, are messages without key and value, as for a replica.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cli.kafka.cluster import KafkaPlace, kafka_errors
from cli.log.entries import LogMessage
from cli.outcome import Exit, Failed
from coordinator.adapters.kafka.settings import KafkaPropertyRefused, client_properties
from coordinator.adapters.kafka.stats import KafkaStats

MESSAGES_PER_CALL = 500
CALL_S = 0.2


class LogConsumer:
    """A consumer that belongs to no group and moves no offsets. Use it as a context manager."""

    def __init__(self, place: KafkaPlace, timeout_s: float) -> None:
        self.topic = place.topic
        self._timeout_s = timeout_s
        try:
            properties = _properties(place)
            place.check()
            self._consumer = Consumer(properties)
            self._properties = properties
        except KafkaPropertyRefused as error:
            raise Failed(str(error), Exit.USAGE) from error
        except KafkaException as error:
            raise Failed(f"Kafka client: {error}", Exit.USAGE) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()

    def partitions(self) -> list[int]:
        """The partitions of the topic. Raises `Failed` when there is no such topic."""
        with kafka_errors():
            try:
                found = self._consumer.list_topics(self.topic, timeout=self._timeout_s).topics[self.topic]
            except KafkaException as error:
                raise Failed(f"Kafka does not answer: {error}; check the address and retry", Exit.UNAVAILABLE) from error
        if found.error is not None or not found.partitions:
            raise Failed(
                f"topic {self.topic} does not exist; name it with --metadata-topic, or create it with `diskless init`", Exit.NOT_FOUND
            )
        return sorted(found.partitions)

    def log_range(self, partition: int) -> tuple[int, int]:
        """Return the log start offset and the log end offset. Raises `Failed`."""
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(self.topic, partition), timeout=self._timeout_s)
        except KafkaException as error:
            raise Failed(f"cannot read the log range of {self.topic}-{partition}: {error}; retry", Exit.UNAVAILABLE) from error
        return low, high

    def offset_at(self, partition: int, time_ms: int, end: int) -> int:
        """Return the offset of the first entry at or after a time, `end` where there is none. Raises `Failed`."""
        asked = TopicPartition(self.topic, partition, time_ms)
        try:
            [found] = self._consumer.offsets_for_times([asked], timeout=self._timeout_s)
        except KafkaException as error:
            raise Failed(f"cannot look up a time in {self.topic}-{partition}: {error}; retry", Exit.UNAVAILABLE) from error
        return found.offset if found.offset >= 0 else end

    def read(self, starts: Mapping[int, int], ends: Mapping[int, int] | None) -> Iterator[LogMessage]:
        """Read from the given offsets up to the given ends (exclusive), or for ever without ends. Raises `Failed`."""
        open_partitions = {partition for partition in starts if ends is None or starts[partition] < ends[partition]}
        next_offsets = dict(starts)
        self._consumer.assign([TopicPartition(self.topic, partition, starts[partition]) for partition in sorted(open_partitions)])
        silent_since_s = time.monotonic()
        while open_partitions:
            messages = self._consumer.consume(MESSAGES_PER_CALL, CALL_S)
            if messages:
                silent_since_s = time.monotonic()
            elif ends is not None and time.monotonic() - silent_since_s > self._timeout_s:
                raise Failed(f"no entry of {self.topic} came within {self._timeout_s:g} s; retry", Exit.TIMEOUT)
            for message in messages:
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    if error.code() == KafkaError._AUTO_OFFSET_RESET:
                        raise Failed(f"offset {offset} of {self.topic}-{partition} is not in the log any more", Exit.NOT_FOUND)
                    if error.fatal():
                        raise Failed(f"reading {self.topic}-{partition} failed: {error}")
                    continue  # an outage, which the client survives
                if partition not in open_partitions:
                    continue
                # Between two messages, or before the end of the log, there are control records.
                stop = offset if ends is None else min(offset, ends[partition])
                yield from self._control_records(partition, next_offsets[partition], stop)
                next_offsets[partition] = max(stop, next_offsets[partition])
                if error is None and (ends is None or offset < ends[partition]):
                    yield LogMessage(partition, offset, int(message.timestamp()[1]), message.key(), message.value())
                    next_offsets[partition] = offset + 1
                if ends is not None and next_offsets[partition] >= ends[partition]:
                    open_partitions.discard(partition)

    def _control_records(self, partition: int, first: int, stop: int) -> Iterator[LogMessage]:
        """The control records at offsets without a message; none where something else is missing, or the login cannot ask."""
        if first >= stop:
            return
        from coordinator.adapters.kafka.reading.control_records import read_control_records

        try:
            found = read_control_records(self._properties, self.topic, partition, first, stop, self._timeout_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
                return
            where = f"offsets {first} to {stop - 1} of {self.topic}-{partition}"
            raise Failed(f"cannot examine {where}: {error}; retry", Exit.UNAVAILABLE) from error
        for entry in (found or ())[: stop - first]:
            yield LogMessage(partition, *entry)


def _properties(place: KafkaPlace) -> dict[str, Any]:
    return client_properties(
        bootstrap_servers=place.bootstrap_servers,
        client_id="diskless-cli",
        role="log-dump",
        defaults={"fetch.wait.max.ms": 100},
        fixed={
            "group.id": "diskless-cli-log",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "check.crcs": True,
        },
        user=place.properties,
        stats=KafkaStats(),
    )
