"""Produces a made log into a topic of its own, as fast as Kafka takes it or at a rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from integration_tests.made_log import Entry, MadeLog
from integration_tests.waiting import wait_until

TIMEOUT_S = 60


class LogProducer:
    """Writes entries into a metadata topic, in order per partition; a failure to write is raised."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.written = 0
        self._failed: KafkaError | None = None
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 200_000}
        )

    def create_topic(self, partitions: int) -> None:
        """Make the topic; one of the name that is being deleted is waited for."""
        config = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
        wait_until(lambda: self._is_created(NewTopic(self.topic, partitions, 1, config=config)), f"topic {self.topic} to be created")

    def _is_created(self, topic: NewTopic) -> bool:
        try:
            self._admin.create_topics([topic])[self.topic].result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def delete_topic(self) -> None:
        """Delete the topic."""
        self._admin.delete_topics([self.topic])[self.topic].result(TIMEOUT_S)

    def prune(self, ends: dict[int, int]) -> None:
        """Delete the entries of each partition before an offset."""
        asked = self._admin.delete_records([TopicPartition(self.topic, partition, offset) for partition, offset in ends.items()])
        for future in asked.values():
            future.result(TIMEOUT_S)

    def write(self, entries: Iterable[tuple[int, Entry]]) -> None:
        """Hand entries to the producer."""
        for partition, (key, value) in entries:
            while True:
                try:
                    self._producer.produce(self.topic, value, key, partition, on_delivery=self._on_delivery)
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self.written += 1
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until everything is written."""
        assert self._producer.flush(TIMEOUT_S) == 0, "Kafka did not take every entry"
        if self._failed is not None:
            raise AssertionError(f"an entry was not written: {self._failed}")

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        self._failed = self._failed or error

    def write_at(self, log: MadeLog, files_per_s: float, until: Callable[[], bool], *, chunk_s: float = 0.2) -> None:
        """Write files at a rate until told to end; made in the thread that calls."""
        start_s = time.monotonic()
        done = 0
        while not until():
            due = int((time.monotonic() - start_s) * files_per_s)
            self.write(log.files(due - done))
            done = due
            self._producer.poll(chunk_s)
        self.flush()
