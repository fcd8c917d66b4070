"""Administration of the metadata topic: description, creation, log ranges, single entries, and who is in the group.

Blocking calls run in threads of this module's own, each with a deadline and one retry: after an idle disconnect the
first call of an admin client may fail with "no leaders found". An admin client sends descriptions to the broker it takes
for the controller; when that one dies it waits for it until its knowledge is renewed, which is done here for the topic's
id. Nothing here decides anything; what a fact means is `coordinator.runtime.topic_rules`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, missing in its __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from coordinator.adapters.kafka.group import describe_members
from coordinator.adapters.kafka.offsets import read_log_range
from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.runtime.ports import ClusterRefused, KafkaUnavailable, LogEntry, PartitionFacts, TopicFacts, TopicMissing

T = TypeVar("T")

RETRY_DELAY_S = 0.2
FIRST_WAIT_S = 1.0
"""How long a broker is waited for before the cluster's brokers are asked for anew. A claim waits for the topic's id."""
FIRST_WAITS = 3
UINT64 = (1 << 64) - 1

MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError._UNKNOWN_TOPIC})
NO_ANSWER = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._TRANSPORT})
REFUSED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_REQUEST, KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_VERSION, KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE,
    }
)  # fmt: skip


def topic_id_bytes(topic_id: Uuid) -> bytes:
    """Return the 16 bytes of a topic id; its text form is not the one Kafka's tools use."""
    # The stubs of the client do not know the two accessors.
    halves = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())  # type: ignore[attr-defined]
    return b"".join((int(half) & UINT64).to_bytes(8, "big") for half in halves)


class KafkaCluster:
    """`Cluster` over one admin client and one consumer for single entries."""

    def __init__(
        self,
        *,
        bootstrap_servers: str,
        topic: str,
        client_id: str,
        group_id: str | None = None,
        request_timeout_s: float = 3.0,
        kafka_properties: Mapping[str, Any] | None = None,
        stats: KafkaStats | None = None,
    ) -> None:
        self._topic = topic
        self._group_id = group_id
        self._timeout_s = request_timeout_s
        self.stats = stats if stats is not None else KafkaStats()
        user = kafka_properties or {}
        self._admin_properties = client_properties(
            bootstrap_servers=bootstrap_servers, client_id=client_id, role="admin", defaults={}, fixed={}, user=user, stats=self.stats
        )
        self._entry_properties = client_properties(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            role="entry-reader",
            defaults={"fetch.wait.max.ms": 100, "queued.min.messages": 1},
            fixed={
                "group.id": f"{client_id}-entry-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_uncommitted",
                "check.crcs": True,
                "max.poll.interval.ms": 86_400_000,
            },
            user=user,
            stats=self.stats,
        )
        self._admin: AdminClient | None = None
        self._admin_lock = threading.Lock()
        self._entry_consumer: Consumer | None = None  # entry thread only
        self._workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="kafka-admin")
        self._entry_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-entry")

    def start(self) -> None:
        """Create the admin client (no connection is waited for)."""
        self._open_admin()

    async def close(self, timeout_s: float = 5.0) -> bool:
        """End the threads; False when a call under way did not end in time."""
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(self._entry_worker, self._close_entry_consumer)
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._entry_worker.shutdown(wait=False)
        try:
            await asyncio.wait_for(closing, timeout_s)
        except TimeoutError:
            return False
        return True

    # ---- the port

    async def describe_topic(self) -> TopicFacts:
        """Describe the topic and its effective configuration. Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask("describe the topic", self._describe)

    async def create_topic(self, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Create the topic; one that exists already is left as it is. Raises `KafkaUnavailable`, `ClusterRefused`."""
        new = NewTopic(self._topic, num_partitions=partitions, replication_factor=replication_factor, config=dict(config))
        await self._ask("create the topic", lambda: self._create(new))

    async def topic_id(self) -> bytes:
        """Ask only for the topic id (under 1 ms). Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask("read the topic id", lambda: topic_id_bytes(self._describe_by_whoever_lives().topic_id))

    async def log_range(self, partition: int) -> tuple[int, int]:
        """Return (log start offset, log end offset). Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask("read the log range", lambda: self._log_range(partition))

    async def read_entry(self, partition: int, offset: int) -> LogEntry | None:
        """Read one entry; None when that offset is not in the log. Raises as `log_range` does."""
        return await self._ask("read an entry", lambda: self._read_entry(partition, offset), self._entry_worker)

    async def group_members(self) -> frozenset[str]:
        """Return the client ids of the members of the group. Raises `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask("describe the consumer group of", self._group_members)

    # ---- one call, its retry and its errors

    async def _ask(self, what: str, call: Callable[[], T], worker: ThreadPoolExecutor | None = None) -> T:
        return await asyncio.get_running_loop().run_in_executor(worker or self._workers, self._retrying, what, call)

    def _retrying(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except (KafkaException, FutureTimeoutError) as first:
            if _is_refusal(first):
                raise self._translated(what, first) from first
            self.stats.admin_retries += 1
        time.sleep(RETRY_DELAY_S)  # a worker thread's wait, not the loop's
        try:
            return call()
        except (KafkaException, FutureTimeoutError) as second:
            raise self._translated(what, second) from second

    def _translated(self, what: str, error: BaseException) -> Exception:
        code = _code(error)
        self.stats.admin_failures[what] += 1
        message = f"could not {what} {self._topic}: {error or 'no answer in time'}"
        if code in MISSING:
            return TopicMissing(message)
        return ClusterRefused(message) if _is_refusal(error) else KafkaUnavailable(message)

    # ---- blocking, in worker threads

    def _open_admin(self) -> AdminClient:
        with self._admin_lock:
            if self._admin is None:
                self._admin = AdminClient(self._admin_properties)
            self._admin.poll(0)  # serves what the client logs
            return self._admin

    def _describe_by_whoever_lives(self) -> TopicDescription:
        for _ in range(FIRST_WAITS):
            try:
                return self._describe_topic_only(min(FIRST_WAIT_S, self._timeout_s))
            except (KafkaException, FutureTimeoutError) as error:
                if isinstance(error, KafkaException) and _code(error) not in NO_ANSWER:
                    raise
            # The answer names any broker that is not missed yet, perhaps the dead one again; without it that one is waited for.
            self._open_admin().list_topics(timeout=self._timeout_s)
        return self._describe_topic_only(self._timeout_s)

    def _describe_topic_only(self, timeout_s: float) -> TopicDescription:
        futures = self._open_admin().describe_topics(TopicCollection([self._topic]), request_timeout=timeout_s)
        description: TopicDescription = futures[self._topic].result(timeout_s + 1.0)
        return description

    def _describe(self) -> TopicFacts:
        admin = self._open_admin()
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        configs = admin.describe_configs([resource], request_timeout=self._timeout_s)
        description = self._describe_topic_only(self._timeout_s)
        entries = next(iter(configs.values())).result(self._timeout_s + 1.0)
        # Not `describe_cluster`: its answer without any broker, which is what brokers give that are missed themselves at the
        # moment, ends the whole process by an assertion of librdkafka.
        cluster = admin.list_topics(self._topic, timeout=self._timeout_s)
        return TopicFacts(
            cluster_id=cluster.cluster_id or "",
            topic=self._topic,
            topic_id=topic_id_bytes(description.topic_id),
            partitions=tuple(
                PartitionFacts(
                    partition=item.id,
                    leader=item.leader.id if item.leader is not None else None,
                    replicas=tuple(node.id for node in item.replicas),
                    in_sync=tuple(node.id for node in item.isr),
                )
                for item in sorted(description.partitions, key=lambda item: int(item.id))
            ),
            config={name: entry.value for name, entry in entries.items() if entry.value is not None},
        )

    def _create(self, new: NewTopic) -> None:
        try:
            self._create_once(new)
        except KafkaException as error:
            if _code(error) != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            # Brokers that only just start are registered and fenced. While all are, the controller refuses every replication factor by this
            # code; with one in service it counts the fenced ones in, and its answer is final.
            if not self._open_admin().list_topics(timeout=self._timeout_s).brokers:
                raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, f"no broker is in service yet: {error}")) from error
            self._create_once(new)

    def _create_once(self, new: NewTopic) -> None:
        try:
            self._open_admin().create_topics([new], request_timeout=self._timeout_s)[self._topic].result(self._timeout_s + 1.0)
        except KafkaException as error:
            if _code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _log_range(self, partition: int) -> tuple[int, int]:
        return read_log_range(self._open_admin(), self._topic, partition, self._timeout_s)

    def _group_members(self) -> frozenset[str]:
        if self._group_id is None:
            raise AssertionError("this administration was not told which group the service has")
        return describe_members(self._admin_properties, self._group_id, self._timeout_s)

    def _read_entry(self, partition: int, offset: int) -> LogEntry | None:
        low, high = self._log_range(partition)
        if not low <= offset < high:
            return None
        if self._entry_consumer is None:
            self._entry_consumer = Consumer(self._entry_properties)
        consumer = self._entry_consumer
        consumer.assign([TopicPartition(self._topic, partition, offset)])
        try:
            end_s = time.monotonic() + self._timeout_s
            while (rest_s := end_s - time.monotonic()) > 0:
                message = consumer.poll(rest_s)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._AUTO_OFFSET_RESET:
                        return None  # deleted since the range was read
                    if error.fatal():
                        self._close_entry_consumer()
                        raise KafkaException(error)
                    continue
                if message.offset() != offset:
                    return None
                return LogEntry(offset, message.timestamp()[1], message.key(), message.value())
            raise FutureTimeoutError(f"no entry within {self._timeout_s} s")
        finally:
            if self._entry_consumer is not None:
                consumer.unassign()

    def _close_entry_consumer(self) -> None:
        consumer, self._entry_consumer = self._entry_consumer, None
        if consumer is not None:
            consumer.close()


def _is_refusal(error: BaseException) -> bool:
    """Whether asking again is in vain."""
    return _code(error) in REFUSED


def _code(error: BaseException) -> int | None:
    reason = error.args[0] if error.args else None
    return reason.code() if isinstance(reason, KafkaError) else None
