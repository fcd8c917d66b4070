"""The records of a classic topic, through Kafka's own consumer: it follows leaders, undoes compressions and leaves aborted writes out.

Each reading has a consumer of its own, which joins no group, in the hands of one worker thread at a time. It cannot tell the name of a
header that is no UTF-8: from the first such record on, a reading goes on by requests of its own (`witness`). librdkafka ends a name at its
first zero byte; what follows in the name is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from operator import methodcaller
from typing import Any, Final, cast

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition

from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.client.errors import OffsetOutOfRange
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST
from migration.kafka.topic import KafkaClassicTopic
from migration.kafka.witness import KafkaClassicWitness
from records.record_batch import StoredRecord, TimestampType

MESSAGES_AT_ONCE: Final = 500
POLL_S: Final = 0.1
END_WAIT_MS: Final = 50
"""How long a broker waits for records behind the end before it says that this is the end."""
_WITHOUT_MEANING: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
"""Errors that a consumer reports and survives by itself."""


class KafkaClassicRecords:
    """`ClassicRecords` of a real Kafka. Its methods raise `KafkaException` when no broker answers within the timeout."""

    def __init__(
        self, topic: str, *, bootstrap_servers: str, client_id: str, kafka_properties: Mapping[str, Any], timeout_s: float = 30.0
    ) -> None:
        """`timeout_s` bounds a wait without progress. Raises `KafkaPropertyRefused`."""
        self._topic = topic
        self._timeout_s = timeout_s
        self._connect_own = partial(
            KafkaClassicTopic,
            topic,
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            kafka_properties=kafka_properties,
            is_fence_confirmed=True,
            request_timeout_s=timeout_s,
        )
        self._properties = client_properties(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            role="classic-records",
            defaults={"fetch.wait.max.ms": END_WAIT_MS},
            fixed={
                # A name is required although no group is ever joined.
                "group.id": f"{client_id}-classic",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                # Says that only markers of transactions are left before the end.
                "enable.partition.eof": True,
                "check.crcs": True,
                # Readers may take their time; without a group no other member could take over anyway.
                "max.poll.interval.ms": 86_400_000,
            },
            user=kafka_properties,
            stats=KafkaStats(),
        )

    async def log_start(self, partition: int) -> int:
        """Ask for the first offset that is still there."""
        found = await self._offset(partition, EARLIEST)
        return found.offset

    async def offset_for_time(self, partition: int, timestamp_ms: int) -> tuple[int, int] | None:
        """Ask for the first record that is at least so young. The timestamp is read from the record itself."""
        found = await self._offset(partition, timestamp_ms)
        if found.offset < 0:
            return None
        async for record in self.read(partition, found.offset, found.offset + 1):
            return record.offset, record.timestamp_ms
        return found.offset, timestamp_ms

    async def _offset(self, partition: int, timestamp: int) -> TopicPartition:
        consumer = Consumer(self._properties)
        try:
            asked = [TopicPartition(self._topic, partition, timestamp)]
            [found] = await asyncio.to_thread(consumer.offsets_for_times, asked, self._timeout_s)
        finally:
            await asyncio.to_thread(consumer.close)
        if found.error is not None:
            raise KafkaException(found.error)
        return found

    async def read(self, partition: int, start_offset: int, end_offset: int) -> AsyncGenerator[StoredRecord]:
        """Yield the records of ended, successful writes from `start_offset` to before `end_offset`, in order.

        Raises `OffsetOutOfRange`, also when the log ends before `end_offset`; `KafkaException`; as `KafkaClassicWitness` from the first
        record on of which the consumer cannot tell the headers.
        """
        if start_offset >= end_offset:
            return
        untold = -1
        async with aclosing(self._consume(partition, start_offset, end_offset)) as consumed:
            async for message in consumed:
                try:
                    record = _record(message)
                except _HeadersUntold:
                    untold = _offset_of(message)
                    break
                yield record
        if untold >= 0:
            async with aclosing(KafkaClassicWitness(self._connect_own()).records(partition, untold, end_offset)) as rest:
                async for record in rest:
                    yield record

    async def _consume(self, partition: int, start_offset: int, end_offset: int) -> AsyncGenerator[Message]:
        consumer = Consumer(self._properties)
        try:
            consumer.assign([TopicPartition(self._topic, partition, start_offset)])
            progress_s = asyncio.get_running_loop().time()
            while True:
                messages = await asyncio.to_thread(consumer.consume, MESSAGES_AT_ONCE, POLL_S)
                for message in messages:
                    error = message.error()
                    if error is None:
                        if _offset_of(message) >= end_offset:
                            return
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        self._check_end(partition, _offset_of(message), end_offset)
                        return
                    else:
                        self._check(partition, start_offset, end_offset, error)
                now_s = asyncio.get_running_loop().time()
                if messages:
                    progress_s = now_s
                elif now_s - progress_s >= self._timeout_s:
                    text = f"{self._topic}-{partition}: no broker has sent records for {self._timeout_s:g} s"
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text))
        finally:
            await asyncio.to_thread(consumer.close)

    def _check_end(self, partition: int, log_end: int, end_offset: int) -> None:
        if log_end < end_offset:
            text = f"{self._topic}-{partition}: the classic log ends at {log_end}, before {end_offset}"
            raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, text)

    def _check(self, partition: int, start_offset: int, end_offset: int, error: KafkaError) -> None:
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            text = f"{self._topic}-{partition}: the classic log has not all of offsets {start_offset} to {end_offset - 1} (any more)"
            raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        if error.code() not in _WITHOUT_MEANING:
            raise KafkaException(error)


def _offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a message or end of a partition that was read has an offset"
    return offset


class _HeadersUntold(Exception):
    """The consumer has a record whose headers it cannot tell."""


_ask_headers: Final = methodcaller("headers")
"""For a name that is no UTF-8 the method returns a list with holes while an exception is set. Called from C that is noticed at once; called
from Python, CPython's specialised calls do not look, and the exception is raised by a call that has nothing to do with it."""


def _record(message: Message) -> StoredRecord:
    """Return the record of a message, which must not be asked for its headers again. Raises `_HeadersUntold`."""
    key, value = message.key(), message.value()
    assert not isinstance(key, str), f"a key as a text: {key!r}"
    assert not isinstance(value, str), f"a value as a text: {value!r}"
    try:
        headers = _ask_headers(message)
    except (SystemError, UnicodeDecodeError) as error:
        raise _HeadersUntold from error
    kind, timestamp_ms = message.timestamp()
    return StoredRecord(
        offset=_offset_of(message),
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
        # The stubs know of a mapping, too, which headers that are given to a producer may be.
        headers=tuple(cast(list[tuple[str, bytes | None]], headers or [])),
        timestamp_type=TimestampType.LOG_APPEND_TIME if kind == TIMESTAMP_LOG_APPEND_TIME else TimestampType.CREATE_TIME,
    )
