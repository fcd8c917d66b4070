"""When a reader delivers what it has read: together every so often, and at once while a partition is urgent."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import TopicPartition

from coordinator.adapters.kafka.reading import reader as module
from coordinator.adapters.kafka.reading.reader import KafkaLogReader
from coordinator.runtime.ports import LogBroken, LogEntry
from tests.waiting import attempts, stays, until

PATIENCE_S = 20.0
NEVER_S = 3600.0


class Message:
    """An entry as the client library gives it out."""

    def __init__(self, partition: int, offset: int) -> None:
        self._partition = partition
        self._offset = offset

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"

    def leader_epoch(self) -> int:
        return 0


class Topic:
    """Partitions to which entries are appended; it is the consumer, too."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._ends = {0: 0, 1: 0}
        self._messages: deque[Message] = deque()

    def append(self, partition: int) -> None:
        with self._condition:
            self._messages.append(Message(partition, self._ends[partition]))
            self._ends[partition] += 1
            self._condition.notify_all()

    def poll(self, timeout_s: float) -> Message | None:
        with self._condition:
            self._condition.wait_for(lambda: bool(self._messages), timeout_s)
            return self._messages.popleft() if self._messages else None

    def consume(self, count: int, _timeout_s: float) -> list[Message]:
        with self._condition:
            return [self._messages.popleft() for _ in range(min(count, len(self._messages)))]

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """All is read from the beginning."""

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing more is appended."""

    def close(self) -> None:
        """Nothing to let go of."""


class Listener:
    """Keeps the offsets that come together."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[int, list[int]]] = []

    def on_entries(self, partition: int, generation: int, entries: list[LogEntry], size_bytes: int) -> None:
        del generation, size_bytes
        self.deliveries.append((partition, [entry.offset for entry in entries]))

    def on_log_broken(self, partition: int, generation: int, why: LogBroken, detail: str) -> None:
        raise AssertionError(f"{partition} {generation} {why} {detail}")

    async def until(self, deliveries: int, tick: Callable[[], None] = lambda: None) -> None:
        async for _ in attempts(f"{deliveries} deliveries"):
            if len(self.deliveries) >= deliveries:
                return
            tick()


@asynccontextmanager
async def reading(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, partitions: Sequence[int] = (0,)
) -> AsyncIterator[tuple[KafkaLogReader, Listener]]:
    """A reader whose second delivery never comes unless something wakes it."""
    monkeypatch.setattr(module, "Consumer", lambda _properties: topic)
    listener = Listener()
    reader = KafkaLogReader(
        loop=asyncio.get_running_loop(),
        bootstrap_servers="127.0.0.1:1",
        topic="t",
        client_id="c",
        listener=listener,
        deliver_every_s=NEVER_S,
    )
    for partition in partitions:
        reader.follow(partition, 0, 1)
    reader.start()
    try:
        yield reader, listener
    finally:
        assert await reader.close()


async def was_read(reader: KafkaLogReader) -> None:
    """Wait until the reader's thread has left something for the event loop."""
    await until(lambda: reader.stats.reader_chunks, "entries from the reader's thread")


async def test_entries_come_together_until_one_is_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    async with reading(topic, monkeypatch) as (reader, listener):
        topic.append(0)
        await listener.until(1, reader.deliver)
        for _ in range(3):
            topic.append(0)
        await stays(lambda: listener.deliveries == [(0, [0])], "the only delivery", 0.3)
        reader.deliver()
        assert listener.deliveries == [(0, [0])]
        reader.hurry(0, True)
        await listener.until(2)
        assert listener.deliveries == [(0, [0]), (0, [1, 2, 3])]
        topic.append(0)
        await listener.until(3)
        reader.hurry(0, False)
        topic.append(0)
        await listener.until(4, reader.deliver)
        topic.append(0)
        await stays(lambda: len(listener.deliveries) == 4, "the number of deliveries", 0.3)
        reader.deliver()
        assert len(listener.deliveries) == 4


async def test_what_is_not_urgent_waits_for_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    async with reading(topic, monkeypatch) as (reader, listener):
        topic.append(0)
        await was_read(reader)
        await stays(lambda: listener.deliveries == [], "no delivery", 0.05)
        reader.deliver()
        assert listener.deliveries == [(0, [0])]


async def test_what_waits_for_the_tick_is_delivered_once_a_partition_is_urgent(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    async with reading(topic, monkeypatch) as (reader, listener):
        topic.append(0)
        await was_read(reader)
        assert listener.deliveries == []
        reader.hurry(0, True)
        await listener.until(1)


async def test_a_full_chunk_does_not_wait_for_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    for _ in range(module.CHUNK_ENTRIES_MAX):
        topic.append(0)
    async with reading(topic, monkeypatch) as (_reader, listener):
        await listener.until(1)
        assert listener.deliveries == [(0, list(range(module.CHUNK_ENTRIES_MAX)))]


async def test_entries_that_are_not_taken_hold_up_no_other_partition(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic()
    async with reading(topic, monkeypatch, (0, 1)) as (reader, listener):
        take, broken = listener.on_entries, []

        def on_entries(partition: int, generation: int, entries: list[LogEntry], size_bytes: int) -> None:
            if partition == 0 and not broken:
                raise OSError("not taken")
            take(partition, generation, entries, size_bytes)

        monkeypatch.setattr(listener, "on_entries", on_entries)
        monkeypatch.setattr(listener, "on_log_broken", lambda *told: broken.append(told))
        for partition in (0, 1, 0):
            topic.append(partition)
        reader.hurry(1, True)
        await listener.until(1)
        assert broken == [(0, 1, LogBroken.FAILED, "entries were not taken: OSError('not taken')")]
        topic.append(0)
        topic.append(1)
        await listener.until(2)
        assert listener.deliveries == [(1, [0]), (1, [1])]
    assert "entries were not taken partition=0" in caplog.text


async def test_a_partition_that_is_followed_no_more_hurries_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    async with reading(topic, monkeypatch) as (reader, listener):
        reader.hurry(1, True)
        topic.append(0)
        await listener.until(1)
        reader.unfollow(1)
        # Up to two deliveries come at once: the reader waits for an entry already, and the command wakes it for another.
        for _ in range(4):
            topic.append(0)
            await stays(lambda: len(listener.deliveries) <= 3, "the number of deliveries", 0.15)
            reader.deliver()
        assert len(listener.deliveries) <= 3
