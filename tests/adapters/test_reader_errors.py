"""An error that a broker answers to a fetch passes: the reader reads on behind it. Over librdkafka's own broker."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import threading
from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, Producer, cimpl

from coordinator.adapters.kafka.producing.librdkafka import handle_of
from coordinator.adapters.kafka.reading.log_questions import LogQuestions
from coordinator.adapters.kafka.reading.reader import KafkaLogReader
from coordinator.runtime.ports import LogBroken, LogEntry
from tests.waiting import attempts, until

FETCH = 1
"""The number of the request."""
TOPIC = "t"


class MockBroker:
    """librdkafka's own broker, and a producer to it."""

    def __init__(self) -> None:
        self._producer = Producer({"bootstrap.servers": "its own", "test.mock.num.brokers": 1, "log_level": 0, "linger.ms": 0})
        self._library = ctypes.CDLL(cimpl.__file__)
        self._library.rd_kafka_handle_mock_cluster.argtypes = [ctypes.c_void_p]
        self._library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_handle_mock_cluster(handle_of(self._producer)))
        self.bootstrap = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def write(self) -> None:
        self._producer.produce(TOPIC, key=b"key", value=b"value", partition=0)
        assert not self._producer.flush(10)

    def fail_next_fetch(self, error: int) -> None:
        self._library.rd_kafka_mock_push_request_errors_array.argtypes = [
            ctypes.c_void_p, ctypes.c_int16, ctypes.c_size_t, ctypes.c_void_p,
        ]  # fmt: skip
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, FETCH, 1, (ctypes.c_int * 1)(error))


class Listener:
    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.breaks: list[str] = []

    def on_entries(self, _partition: int, _generation: int, entries: Sequence[LogEntry], _size_bytes: int) -> None:
        self.offsets += [entry.offset for entry in entries]

    def on_log_broken(self, _partition: int, _generation: int, why: LogBroken, detail: str) -> None:
        self.breaks.append(f"{why}: {detail}")


async def reach(reader: KafkaLogReader, listener: Listener, count: int) -> None:
    async for _ in attempts(f"{count} entries", 20, every_s=0.02):
        if len(listener.offsets) >= count or listener.breaks:
            return
        reader.deliver()


@pytest.mark.parametrize("error", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN, KafkaError.INVALID_MSG])
async def test_a_broker_that_refuses_a_fetch_is_asked_again(error: int) -> None:
    broker, listener = MockBroker(), Listener()
    broker.write()
    reader = KafkaLogReader(
        loop=asyncio.get_running_loop(), bootstrap_servers=broker.bootstrap, topic=TOPIC, client_id="c", listener=listener
    )
    reader.start()
    try:
        reader.follow(0, 0, 1)
        await reach(reader, listener, 1)
        broker.fail_next_fetch(error)
        await until(reader.stats.reader_partition_errors.total, "the error to be counted by the reader's thread")
        broker.write()
        await reach(reader, listener, 2)
    finally:
        await reader.close()
    assert (listener.offsets, listener.breaks) == ([0, 1], [])


def test_a_question_that_fails_unforeseen_is_asked_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    answered = threading.Event()
    failures = [ValueError("not enough values to unpack")]

    def read(*_: object) -> list[LogEntry]:
        if failures:
            raise failures.pop()
        return []

    monkeypatch.setattr("coordinator.adapters.kafka.reading.log_questions.read_control_records", read)
    questions = LogQuestions(TOPIC, {}, lambda call: call(), ask_again_s=0.01)
    try:
        with caplog.at_level(logging.ERROR):
            questions.ask_skipped(0, 5, 6, lambda: True, lambda _found: answered.set())
            assert answered.wait(10)
    finally:
        questions.close()
    assert "asked for again" in caplog.text
