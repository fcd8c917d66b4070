"""Single entries of the log, read from Kafka when their page is opened: the store has only what they did."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

READ_SECONDS_MAX = 4.0
KEPT_MAX = 32
KEPT_BYTES_MAX = 1 << 20


class RawEntry(NamedTuple):
    """The bytes of an entry; `why` says why there are none."""

    key: bytes | None = None
    value: bytes | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntries:
    """A Kafka to read from. `properties` are librdkafka's; nothing is committed, and no group is joined."""

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict)
    _kept: OrderedDict[tuple[str, int, int], RawEntry] = field(default_factory=OrderedDict)

    async def read(self, topic: str, partition: int, offset: int) -> RawEntry:
        """Return an entry, within seconds; those read last are kept."""
        place = (topic, partition, offset)
        found = self._kept.get(place)
        if found is None:
            found = await asyncio.to_thread(self._read, *place)
        if not found.why and len(found.value or b"") <= KEPT_BYTES_MAX:
            self._kept[place] = found
            self._kept.move_to_end(place)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return found

    def _read(self, topic: str, partition: int, offset: int) -> RawEntry:
        own: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": "diskless-dashboard",
            "group.id": "diskless-dashboard",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
        try:
            consumer = Consumer({**self.properties, **own})
        except KafkaException as error:
            return RawEntry(why=f"Kafka cannot be asked: {error.args[0].str()}")
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            return self._polled(consumer, offset)
        finally:
            consumer.close()

    @staticmethod
    def _polled(consumer: Consumer, offset: int) -> RawEntry:
        end_s = time.monotonic() + READ_SECONDS_MAX
        while (left_s := end_s - time.monotonic()) > 0:
            message = consumer.poll(left_s)
            if message is None:
                continue
            error = message.error()
            if error is None:
                if message.offset() != offset:
                    return RawEntry(why=f"the log has none at that offset; the next one is at {message.offset()}")
                return RawEntry(message.key(), message.value())
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                return RawEntry(why="it is not in the log any more, or not yet")
            if error.code() == KafkaError._PARTITION_EOF:
                return RawEntry(why="the log ends before it")
            if not error.retriable() and error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                return RawEntry(why=f"Kafka refuses: {error.str()}")
        return RawEntry(why=f"Kafka did not answer within {READ_SECONDS_MAX:g} s")
