"""Single entries of the log, read over one consumer: state databases are proven against them when a node starts.

Questions that are open at the same time are served together. Each has its partition assigned at the offset it asks for, and taken away when
it is answered or its time is over, so a partition that cannot be read delays no other. One thread owns the consumer and starts with the
first question. The consumer is closed when nothing was asked for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from coordinator.adapters.kafka.bridge import wait_for_end
from coordinator.adapters.kafka.settings import OF_THE_GROUP
from coordinator.runtime.ports import LogEntry

LOG = logging.getLogger("coordinator.kafka.entries")

POLL_S = 0.05
"""The longest that a new question waits while another partition does not answer."""
MESSAGES_MAX = 1_000
IDLE_S = 10.0
DEFAULTS: Mapping[str, Any] = {
    # A consumer asks a broker for one thing at a time: a partition at its end must not keep the others waiting.
    "fetch.wait.max.ms": 10,
    # One entry is wanted of each partition. A partition that has given it is not fetched again at once, others at that broker are.
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 20,
}
FIXED: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    # Tells a hole at the end of the log from an entry that is still to come.
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "check.crcs": True,
    "max.poll.interval.ms": 86_400_000,
}


class _Question:
    """One requested entry; `error` is the last one reported of its partition."""

    __slots__ = ("answer", "deadline_s", "error", "offset", "partition")

    def __init__(self, partition: int, offset: int, deadline_s: float) -> None:
        self.partition = partition
        self.offset = offset
        self.deadline_s = deadline_s
        self.error: KafkaError | None = None
        self.answer: Future[LogEntry | None] = Future()


class EntryReader:
    """See the module's text. `read` may be called in any thread."""

    def __init__(self, *, topic: str, properties: Mapping[str, Any]) -> None:
        self._topic = topic
        self._properties = dict(properties)
        # Shared, under the condition.
        self._condition = threading.Condition()
        self._waiting: list[_Question] = []
        self._closing = False
        self._thread: threading.Thread | None = None
        # Reading thread only.
        self._consumer: Consumer | None = None
        self._reading: dict[int, _Question] = {}

    def read(self, partition: int, offset: int, timeout_s: float) -> Future[LogEntry | None]:
        """Ask for the entry at an offset of the log; None when the log has none there.

        The offset must lie in the log: nothing is known of one that is still to come. The future raises `KafkaException`, and
        `TimeoutError` when nothing was heard of the partition within `timeout_s`.
        """
        question = _Question(partition, offset, time.monotonic() + timeout_s)
        with self._condition:
            if self._closing:
                raise KafkaException(KafkaError(KafkaError._DESTROY, "the client is closed"))
            self._waiting.append(question)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kafka-entries", daemon=True)
                self._thread.start()
            self._condition.notify_all()
        return question.answer

    async def close(self, timeout_s: float) -> bool:
        """Answer no more; False when the thread did not end in time (it is a daemon)."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        return self._thread is None or await wait_for_end(self._thread, timeout_s)

    # ---- in the thread

    def _run(self) -> None:
        while self._take_questions():
            try:
                self._serve()
            except Exception as error:
                LOG.exception("entries could not be read; the next question opens a new consumer")
                self._fail_all(error)
        self._fail_all(KafkaException(KafkaError(KafkaError._DESTROY, "the client was closed")))

    def _take_questions(self) -> bool:
        """Begin with the questions whose partitions are free. Without any, wait for one, but not for ever while a consumer is open.

        False when the reader is closed.
        """
        with self._condition:
            idle_s = None if self._consumer is None else IDLE_S
            self._condition.wait_for(lambda: self._closing or bool(self._waiting) or bool(self._reading), idle_s)
            if self._closing:
                return False
            asked, self._waiting = self._waiting, []
            for question in asked:
                if question.partition in self._reading:
                    self._waiting.append(question)
                elif question.answer.set_running_or_notify_cancel():
                    self._reading[question.partition] = question
        return True

    def _serve(self) -> None:
        if not self._reading:
            self._close_consumer()
            return
        consumer = self._consumer = self._consumer or Consumer(self._properties)
        assigned = {item.partition for item in consumer.assignment()}
        if new := [one for partition, one in self._reading.items() if partition not in assigned]:
            consumer.incremental_assign([TopicPartition(self._topic, one.partition, one.offset) for one in new])
        first = consumer.poll(POLL_S)
        if first is not None:
            for message in (first, *consumer.consume(MESSAGES_MAX, 0)):
                self._hear(message)
        now_s = time.monotonic()
        for question in [one for one in self._reading.values() if one.deadline_s <= now_s]:
            self._fail(question, TimeoutError("no answer in time") if question.error is None else KafkaException(question.error))
        if over := [item for item in consumer.assignment() if item.partition not in self._reading]:
            consumer.incremental_unassign(over)

    def _hear(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None and error.fatal():
            raise KafkaException(error)
        question = self._reading.get(partition) if partition is not None else None
        if question is None or (error is not None and error.code() == OF_THE_GROUP):
            return  # an entry after the wanted one, or nothing about entries
        if error is None:
            is_it = offset == question.offset
            self._answer(question, LogEntry(question.offset, message.timestamp()[1], message.key(), message.value()) if is_it else None)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._answer(question, None)  # deleted since the range was read
        elif error.code() != KafkaError._PARTITION_EOF:
            question.error = error
        elif offset is not None and offset > question.offset:
            self._answer(question, None)
        # Otherwise the leader that gave the end does not know yet how far its log counts; a later answer tells.

    def _answer(self, question: _Question, entry: LogEntry | None) -> None:
        del self._reading[question.partition]
        question.answer.set_result(entry)

    def _fail(self, question: _Question, error: Exception) -> None:
        del self._reading[question.partition]
        question.answer.set_exception(error)

    def _fail_all(self, error: Exception) -> None:
        for question in list(self._reading.values()):
            self._fail(question, error)
        with self._condition:
            waiting, self._waiting = self._waiting, []
        for question in waiting:
            if question.answer.set_running_or_notify_cancel():
                question.answer.set_exception(error)
        self._close_consumer()

    def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
