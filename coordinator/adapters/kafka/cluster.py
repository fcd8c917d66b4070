"""Administration of the metadata topic: description, creation, log ranges, single entries, pruning, and who is in the group.

Every call has a deadline and one retry: after an idle disconnect the first call of an admin client may fail with "no
leaders found". Blocking calls run in threads of this module's own. Log ranges and single entries, which a start asks of
every partition, need no thread and wait for nothing but their own partition's leader.

An admin client sends descriptions to the broker it takes for the controller; when that one dies it waits for it until its
knowledge is renewed, which is done here for the topic's id. Nothing here decides anything; what a fact means is
`coordinator.core.topic_rules`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from coordinator.adapters.kafka.brokers import describe_brokers
from coordinator.adapters.kafka.group import describe_members
from coordinator.adapters.kafka.login_watch import LoginWatch
from coordinator.adapters.kafka.reading.control_records import read_control_records
from coordinator.adapters.kafka.reading.entries import DEFAULTS, FIXED, EntryReader
from coordinator.adapters.kafka.reading.offsets import ask_log_range, refresh_leaders
from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.runtime.ports import (
    ClusterRefused,
    KafkaBroker,
    KafkaUnavailable,
    LogEntry,
    LoginRefused,
    PartitionFacts,
    TopicFacts,
    TopicMissing,
)

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
        KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_REQUEST, KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_VERSION, KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE,
    }
)  # fmt: skip


def topic_id_bytes(topic_id: Uuid) -> bytes:
    """Return the 16 bytes of a topic id; its text form is not the one Kafka's tools use."""
    # The stubs of the client do not know the two accessors.
    halves = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())  # type: ignore[attr-defined]
    return b"".join((int(half) & UINT64).to_bytes(8, "big") for half in halves)


class KafkaAdmin:
    """`Cluster` over one admin client and one reader of single entries."""

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
        properties = client_properties(
            bootstrap_servers=bootstrap_servers, client_id=client_id, role="admin", defaults={}, fixed={}, user=user, stats=self.stats
        )
        self._logins = LoginWatch(properties["error_cb"])
        self._admin_properties = {**properties, "error_cb": self._logins}
        entry_properties = client_properties(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            role="entry-reader",
            defaults=DEFAULTS,
            fixed={**FIXED, "group.id": f"{client_id}-entry-reader"},
            user=user,
            stats=self.stats,
        )
        self._admin: AdminClient | None = None
        self._admin_lock = threading.Lock()
        self._entries = EntryReader(topic=topic, properties=entry_properties)
        self._workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="kafka-admin")

    def start(self) -> None:
        """Create the admin client (no connection is waited for)."""
        self._open_admin()

    async def close(self, timeout_s: float = 5.0) -> bool:
        """End the threads; False when the reading of entries did not end in time."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        return await self._entries.close(timeout_s)

    # ---- the port

    async def describe_topic(self) -> TopicFacts:
        """Describe the topic and its effective configuration. Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask("describe the topic", self._in_thread(self._describe))

    async def create_topic(self, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Create the topic; one that exists already is left as it is. Raises `KafkaUnavailable`, `ClusterRefused`."""
        new = NewTopic(self._topic, num_partitions=partitions, replication_factor=replication_factor, config=dict(config))
        await self._ask("create the topic", self._in_thread(lambda: self._create(new)))

    async def grow_topic(self, partitions: int) -> None:
        """Have the topic have so many partitions, if it has fewer. Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        await self._ask("add partitions to", self._in_thread(lambda: self._grow(partitions)))

    async def topic_id(self) -> bytes:
        """Ask only for the topic id (under 1 ms). Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        description = await self._ask("read the topic id", self._in_thread(self._describe_by_any_broker))
        return topic_id_bytes(description.topic_id)

    async def log_range(self, partition: int) -> tuple[int, int]:
        """Return (log start offset, log end offset). Raises `TopicMissing`, `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask("read the log range", lambda: self._log_range(partition))

    async def read_entry(self, partition: int, offset: int) -> LogEntry | None:
        """Read one entry, as a `LogReader` reads it; None when that offset is not in the log. Raises as `log_range` does."""
        start, end = await self.log_range(partition)
        if not start <= offset < end:
            return None
        found = await self._ask("read an entry", lambda: asyncio.wrap_future(self._entries.read(partition, offset, self._timeout_s)))
        return found or await self._ask("read a control record", self._in_thread(lambda: self._control_record(partition, offset)))

    async def delete_before(self, partition: int, offset: int) -> int:
        """Delete the entries below `offset`; returns the log's start. Raises as `log_range` does; `ClusterRefused` beyond the log's end."""
        return await self._ask("delete records of", self._in_thread(lambda: self._delete_before(partition, offset)))

    async def group_members(self) -> frozenset[str]:
        """Return the client ids of the members of the group. Raises `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask("describe the consumer group of", self._in_thread(self._group_members))

    async def brokers(self) -> tuple[KafkaBroker, ...]:
        """Return the brokers in service, by id. Raises `KafkaUnavailable`, `ClusterRefused`."""
        return await self._ask(
            "list the brokers of the cluster with", self._in_thread(lambda: describe_brokers(self._admin_properties, self._timeout_s))
        )

    def _control_record(self, partition: int, offset: int) -> LogEntry | None:
        try:
            found = read_control_records(self._admin_properties, self._topic, partition, offset, offset + 1, self._timeout_s)
        except KafkaException as failure:
            # Deleted since the range was read; or own connections do not support the login, so the offset cannot be examined.
            if failure.args[0].code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._UNSUPPORTED_FEATURE):
                return None
            raise
        return found[0] if found else None

    # ---- one call, its retry and its errors

    async def _ask(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._answered(call)
        except (KafkaException, TimeoutError) as first:
            if _is_refusal(first):
                raise self._translated(what, first) from first
            self.stats.admin_retries += 1
        await asyncio.sleep(RETRY_DELAY_S)
        try:
            return await self._answered(call)
        except (KafkaException, TimeoutError) as second:
            raise self._translated(what, second) from second

    async def _answered(self, call: Callable[[], Awaitable[T]]) -> T:
        answer = await call()
        self._logins.succeeded()
        return answer

    def _in_thread(self, call: Callable[[], T]) -> Callable[[], Awaitable[T]]:
        return lambda: asyncio.get_running_loop().run_in_executor(self._workers, call)

    async def _log_range(self, partition: int) -> tuple[int, int]:
        admin = self._open_admin()
        try:
            return await ask_log_range(admin, self._topic, partition, self._timeout_s)
        except KafkaException:
            await self._in_thread(lambda: refresh_leaders(admin, self._topic, self._timeout_s))()
            raise

    def _translated(self, what: str, error: BaseException) -> Exception:
        code = _code(error)
        self.stats.admin_failures[what] += 1
        if code is None or code in NO_ANSWER:
            self._open_admin()  # hands over why no broker has answered
            if self._logins.refusal is not None:
                return LoginRefused(f"could not {what} {self._topic}: {self._logins.refusal}")
        message = f"could not {what} {self._topic}: {error or 'no answer in time'}"
        if code in MISSING:
            return TopicMissing(message)
        return ClusterRefused(message) if _is_refusal(error) else KafkaUnavailable(message)

    # ---- blocking, in worker threads

    def _open_admin(self) -> AdminClient:
        with self._admin_lock:
            if self._admin is None:
                self._admin = AdminClient(self._admin_properties)
            self._admin.poll(0)  # serves what the client logs, and its errors
            return self._admin

    def _describe_by_any_broker(self) -> TopicDescription:
        for _ in range(FIRST_WAITS):
            try:
                return self._describe_topic_only(min(FIRST_WAIT_S, self._timeout_s))
            except (KafkaException, TimeoutError) as error:
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
        # Not `describe_cluster`: a broker that is cut off from the others may answer it without any broker, and such an answer ends the
        # whole process by an assertion of librdkafka.
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

    def _grow(self, partitions: int) -> None:
        admin = self._open_admin()
        try:
            admin.create_partitions([NewPartitions(self._topic, partitions)], request_timeout=self._timeout_s)[self._topic].result(
                self._timeout_s + 1.0
            )
        except KafkaException as error:
            # What an earlier attempt has done, whose answer was lost, is refused for being done.
            if _code(error) != KafkaError.INVALID_PARTITIONS or len(self._describe_topic_only(self._timeout_s).partitions) < partitions:
                raise

    def _delete_before(self, partition: int, offset: int) -> int:
        if offset < 0:  # Kafka takes -1 for "all there is"
            raise ValueError(f"offset {offset} of {self._topic}-{partition}: no log has negative offsets")
        place = TopicPartition(self._topic, partition, offset)
        # The broker waits for its replicas until the operation's timeout.
        deleting = self._open_admin().delete_records([place], request_timeout=self._timeout_s, operation_timeout=self._timeout_s)
        return int(next(iter(deleting.values())).result(self._timeout_s + 1.0).low_watermark)

    def _group_members(self) -> frozenset[str]:
        if self._group_id is None:
            raise AssertionError("this administration does not know the group of the service")
        return describe_members(self._admin_properties, self._group_id, self._timeout_s)


def _is_refusal(error: BaseException) -> bool:
    """Whether asking again is useless."""
    return _code(error) in REFUSED


def _code(error: BaseException) -> int | None:
    reason = error.args[0] if error.args else None
    return reason.code() if isinstance(reason, KafkaError) else None
