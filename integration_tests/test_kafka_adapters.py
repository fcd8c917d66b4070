"""The Kafka adapter passes the contract of the Kafka ports against a real broker, and comes through a broker outage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, missing in its __all__
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from cli.dev.kafka import ExtraListener, KafkaCluster
from coordinator.adapters.kafka.cluster import KafkaAdmin
from coordinator.adapters.kafka.member.membership import KafkaMembership
from coordinator.adapters.kafka.producing.producer import KafkaTermProducers
from coordinator.adapters.kafka.reading.reader import KafkaLogReader
from coordinator.adapters.kafka.settings import KafkaPropertyRefused
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.core.assignor.member import GroupMember
from coordinator.runtime.pauses import TICK_S
from coordinator.runtime.ports import ClusterRefused, KafkaUnavailable, LogBroken, LogEntry, LogListener, Proof, Report, TopicMissing
from simulation.contracts.kafka import ALL, CHECKS, PARTITIONS, Assignments, Recorder, entry, key, prove_finally, send, write
from simulation.fakes.reports import noted_in

WAIT_S = 90.0
CLOSE_S = 30.0
TOPIC_CONFIG = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


class Closing(Protocol):
    async def close(self, timeout_s: float = 5.0) -> bool: ...


class RealWorld:
    """A fresh topic and group on a running broker."""

    def __init__(self, bootstrap: str, *, session_timeout_ms: int = 6_000) -> None:
        self.loop = asyncio.get_running_loop()
        self.bootstrap = bootstrap
        self.topic = f"__diskless_test_{os.urandom(5).hex()}"
        self.stats = KafkaStats()
        self._session_timeout_ms = session_timeout_ms
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producers: dict[str, KafkaTermProducers] = {}
        self._closing: list[Closing] = []
        self._silent: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._cluster = KafkaAdmin(
            bootstrap_servers=bootstrap, topic=self.topic, client_id="test-admin", group_id=self.topic, stats=self.stats
        )
        self._cluster.start()

    async def create(self) -> None:
        await self._cluster.create_topic(partitions=PARTITIONS, replication_factor=1, config=TOPIC_CONFIG)
        end_s = time.monotonic() + WAIT_S
        while True:  # the broker learns of a new topic a moment after the controller
            with contextlib.suppress(TopicMissing, KafkaUnavailable):
                facts = await self._cluster.describe_topic()
                if all(item.leader is not None for item in facts.partitions):
                    return
            assert time.monotonic() < end_s, "the topic did not come"

    async def until(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end_s, f"the condition did not come true within {WAIT_S} s; {self.stats}"
            await asyncio.sleep(0.001)

    async def settle(self) -> None:
        """A full turn through every thread: an entry written now is read by a new reader, after several polls."""
        recorder = Recorder()
        reader = KafkaLogReader(
            loop=self.loop, bootstrap_servers=self.bootstrap, topic=self.topic, client_id="test-settle", listener=recorder, stats=self.stats
        )
        reader.start()
        reader.hurry(PARTITIONS - 1, True)
        reader.follow(PARTITIONS - 1, (await self._cluster.log_range(PARTITIONS - 1))[1], 1)
        await write(self, PARTITIONS - 1, 1, text="settled")
        await self.until(lambda: len(recorder.entries) == 1)
        await reader.close()

    def reader(self, listener: LogListener, **settings: Any) -> KafkaLogReader:
        reader = KafkaLogReader(
            loop=self.loop,
            bootstrap_servers=self.bootstrap,
            topic=self.topic,
            client_id="test-reader",
            listener=listener,
            stats=self.stats,
            **settings,
        )
        reader.start()
        self._closing.append(reader)
        self._tick(reader)
        return reader

    def _tick(self, reader: KafkaLogReader) -> None:
        """Take what was read, as a node does with its ticks."""
        if reader in self._closing:
            reader.deliver()
            self.loop.call_later(TICK_S, self._tick, reader)

    def producers(self, node: str) -> KafkaTermProducers:
        if node not in self._producers:
            producers = KafkaTermProducers(
                loop=self.loop,
                bootstrap_servers=self.bootstrap,
                topic=self.topic,
                client_id=f"test-{node}",
                message_max_bytes=1_048_588,
                stats=self.stats,
            )
            producers.start()
            self._producers[node] = producers
            self._closing.append(producers)
        return self._producers[node]

    def membership(self, node: str) -> KafkaMembership:
        member = KafkaMembership(
            loop=self.loop,
            bootstrap_servers=self.bootstrap,
            topic=self.topic,
            group_id=self.topic,
            client_id=f"test-{node}",
            session_timeout_ms=self._session_timeout_ms,
            stats=self.stats,
        )
        member.tell(GroupMember(node_id=ord(node[0])), PARTITIONS)
        member.start()
        self._closing.insert(0, member)

        async def beat() -> None:
            while node not in self._silent:
                member.alive()
                await asyncio.sleep(0.5)

        self._tasks.append(self.loop.create_task(beat()))
        return member

    def silence(self, node: str) -> None:
        self._silent.add(node)

    def cluster(self) -> KafkaAdmin:
        return self._cluster

    async def append_control(self, partition: int) -> None:
        """Write an entry in a transaction: its control record stands behind it."""
        _, end = await self._cluster.log_range(partition)
        await asyncio.to_thread(self._commit_one, partition)
        end_s = time.monotonic() + WAIT_S
        # The broker answers a commit before it writes the control record.
        while (await self._cluster.log_range(partition))[1] < end + 2:
            assert time.monotonic() < end_s, "the control record did not come"

    def _commit_one(self, partition: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.topic})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce(self.topic, b"transactional", key(0), partition)
        producer.commit_transaction(WAIT_S)

    async def delete_records(self, partition: int, before_offset: int) -> None:
        target = TopicPartition(self.topic, partition, before_offset)
        await asyncio.to_thread(self._admin.delete_records([target])[target].result, WAIT_S)

    async def delete_topic(self) -> None:
        await asyncio.to_thread(self._admin.delete_topics([self.topic])[self.topic].result, WAIT_S)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ended = [await item.close(CLOSE_S) for item in self._closing]
        assert all(ended), f"a client did not close in time: {self._closing}"
        with contextlib.suppress(KafkaException):  # a check may have deleted it
            await self.delete_topic()
        await self._cluster.close(CLOSE_S)


@contextlib.asynccontextmanager
async def world(bootstrap: str, *, session_timeout_ms: int = 6_000) -> AsyncIterator[RealWorld]:
    made = RealWorld(bootstrap, session_timeout_ms=session_timeout_ms)
    try:
        await made.create()
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("name", CHECKS)
async def test_contract(bootstrap: str, name: str) -> None:
    async with world(bootstrap) as made:
        await CHECKS[name](made)


async def test_brokers_are_told_with_their_racks(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    kafka = kafka_cluster(properties={"broker.rack": "rack-a"})
    async with world(kafka.bootstrap) as made:
        [broker] = await made.cluster().brokers()
    assert broker.rack == "rack-a"
    assert f"{broker.host}:{broker.port}" in kafka.bootstrap.split(",")


async def test_a_spare_producer_claims_without_waiting_for_its_id(bootstrap: str) -> None:
    async with world(bootstrap) as made:
        producers = made.producers("a")
        recorder = Recorder()
        made.reader(recorder).follow(0, 0, 1)
        for claim in range(5):
            await made.until(lambda: producers.is_spare_ready)
            reports: list[Report] = []
            producer = producers.open(0, noted_in(reports))
            producer.produce([entry(0, b"claim")])
            await made.until(lambda count=claim + 1: len(recorder.entries) == count)  # type: ignore[misc]
            producer.abandon()
        assert made.stats.producers_opened_unready == 0
        await made.until(lambda: made.stats.producers_destroyed == 5)


async def test_many_reports_wake_the_loop_few_times(bootstrap: str) -> None:
    async with world(bootstrap) as made:
        reports: list[Report] = []
        producer = made.producers("a").open(0, noted_in(reports))
        count = 20_000
        send(producer, count)
        await made.until(lambda: len(reports) == count)
        assert reports == [Report(seq, seq, None) for seq in range(count)]
        assert made.stats.report_wakeups < count / 20


def keep_loop_busy_until(condition: Callable[[], bool]) -> None:
    """Block the thread of the event loop, giving way only to other threads."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, "the condition did not come true"
        time.sleep(0.001)


async def test_a_slow_loop_makes_the_reader_wait_and_loses_nothing(bootstrap: str) -> None:
    async with world(bootstrap) as made:
        await write(made, 0, 20_000)
        recorder = Recorder()
        reader = made.reader(recorder)
        reader.follow(0, 0, 1)
        waits = made.stats.reader_waits
        keep_loop_busy_until(lambda: made.stats.reader_waits > waits)
        assert made.stats.reader_chunks <= 9
        await made.until(lambda: len(recorder.entries) == 20_000)
        assert recorder.offsets(0, 1) == list(range(20_000))


async def test_entries_are_delivered_together_until_a_change_of_leader_waits_for_them(bootstrap: str) -> None:
    async with world(bootstrap) as made:
        recorder = Recorder()
        reader = made.reader(recorder, deliver_every_s=3_600)
        reader.follow(0, 0, 1)
        await write(made, 0, 1)
        await made.until(lambda: len(recorder.entries) == 1)
        await write(made, 0, 5)
        await made.settle()
        assert len(recorder.entries) == 1
        reader.hurry(0, is_urgent=True)
        await made.until(lambda: len(recorder.entries) == 6)
        await write(made, 0, 1)
        await made.until(lambda: recorder.offsets(0, 1) == list(range(7)))


@pytest.mark.parametrize("name", ["acks", "message.timeout.ms", "auto.offset.reset", "isolation.level", "enable.idempotence"])
async def test_a_property_that_safety_depends_on_is_refused(name: str) -> None:
    with pytest.raises(KafkaPropertyRefused, match=name):
        KafkaTermProducers(
            loop=asyncio.get_running_loop(),
            bootstrap_servers="127.0.0.1:1",
            topic="t",
            client_id="c",
            message_max_bytes=1_048_588,
            kafka_properties={name: "1"},
        )


async def test_a_cluster_that_is_not_there_is_unavailable_within_a_bounded_time() -> None:
    cluster = KafkaAdmin(bootstrap_servers="127.0.0.1:1", topic="t", client_id="c", request_timeout_s=0.5)
    cluster.start()
    started_s = time.monotonic()
    with pytest.raises(KafkaUnavailable):
        await cluster.topic_id()
    assert time.monotonic() - started_s < 60
    assert cluster.stats.admin_retries == 1
    await cluster.close()


async def during_outage(made: RealWorld, kafka: KafkaCluster, end: Callable[[int], None]) -> None:
    recorder, reports, heard = Recorder(), list[Report](), Assignments()
    reader = made.reader(recorder)
    producers = made.producers("a")
    member = made.membership("a")
    member.join(heard)
    reader.follow(0, 0, 1)
    await made.until(lambda: heard.now == ALL and producers.is_spare_ready)
    producer = producers.open(0, noted_in(reports))
    send(producer, 10)
    await made.until(lambda: len(recorder.entries) == len(reports) == 10)
    await asyncio.to_thread(end, 1)
    send(producer, 10, first=10)
    await asyncio.to_thread(kafka.restart, 1)
    await made.until(lambda: len(recorder.entries) == len(reports) == 20)
    assert reports == [Report(seq, seq, None) for seq in range(20)]
    assert recorder.offsets(0, 1) == list(range(20))
    assert recorder.broken == []
    await made.until(lambda: heard.now == ALL)
    assert await prove_finally(made, member, 0) is Proof.MEMBER
    assert await made.cluster().log_range(0) == (0, 20)


@pytest.mark.parametrize("how", [pytest.param("terminate", marks=pytest.mark.long), "kill"])
async def test_reading_writing_and_membership_go_on_after_a_broker_outage(kafka_cluster: Callable[[], KafkaCluster], how: str) -> None:
    kafka = await asyncio.to_thread(kafka_cluster)
    ends: dict[str, Callable[[int], None]] = {"terminate": kafka.terminate, "kill": kafka.kill}
    async with world(kafka.bootstrap) as made:
        await during_outage(made, kafka, ends[how])


async def test_the_topic_is_known_again_soon_after_any_broker_has_died(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    """An admin client asks the broker it takes for the controller, which may be the dead one; claims wait for this answer."""
    kafka = kafka_cluster(nodes=3, session_timeout_ms=180_000, heartbeat_interval_ms=2_000)
    topic = f"__diskless_test_{os.urandom(5).hex()}"
    # Several clients, each of which may take another broker for the controller, and which learn nothing new by themselves.
    rarely = {"topic.metadata.refresh.interval.ms": "300000"}
    clusters = [
        KafkaAdmin(bootstrap_servers=kafka.bootstrap, topic=topic, client_id=f"test-{number}", kafka_properties=rarely)
        for number in range(9)
    ]
    try:
        for cluster in clusters:
            cluster.start()
        await clusters[0].create_topic(partitions=1, replication_factor=3, config=TOPIC_CONFIG)
        end_s = time.monotonic() + WAIT_S
        known = 0
        while known < len(clusters):
            assert time.monotonic() < end_s, "the topic did not come"
            with contextlib.suppress(TopicMissing, KafkaUnavailable):
                await clusters[known].topic_id()
                known += 1
        topic_id = await clusters[0].topic_id()
        kafka.kill(2)

        async def ask(cluster: KafkaAdmin) -> float:
            start_s = time.monotonic()
            while True:
                with contextlib.suppress(KafkaUnavailable):
                    assert await cluster.topic_id() == topic_id
                    return time.monotonic() - start_s

        took_s = await asyncio.wait_for(asyncio.gather(*(ask(cluster) for cluster in clusters)), WAIT_S)
        print(f"known again after {sorted(round(one, 2) for one in took_s)} s; the broker is missed only after 180 s")
    finally:
        await asyncio.gather(*(cluster.close() for cluster in clusters))


async def test_a_broker_that_hangs_delays_only_what_is_asked_of_its_own_partitions(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    """Ranges and entries of all others are there before the first request to it ends."""
    kafka = kafka_cluster(nodes=3, session_timeout_ms=60_000, heartbeat_interval_ms=2_000)
    timeout_s, count = 8.0, 12
    cluster = KafkaAdmin(
        bootstrap_servers=kafka.bootstrap, topic=f"__diskless_test_{os.urandom(5).hex()}", client_id="test", request_timeout_s=timeout_s
    )
    cluster.start()
    try:
        await cluster.create_topic(partitions=count, replication_factor=1, config=TOPIC_CONFIG)
        async with asyncio.timeout(WAIT_S):
            while True:
                with contextlib.suppress(TopicMissing, KafkaUnavailable):
                    facts = await cluster.describe_topic()
                    if all(item.leader is not None for item in facts.partitions):
                        break
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for partition in range(count):
            producer.produce(facts.topic, b"v", key(0), partition)
        assert producer.flush(WAIT_S) == 0
        hung = {item.partition for item in facts.partitions if item.leader == 3}
        others = set(range(count)) - hung
        assert hung
        assert others
        # Clients that know every leader, as those of a node that runs.
        assert all(await asyncio.gather(*(cluster.read_entry(partition, 0) for partition in range(count))))
        kafka.pause(3)
        start_s = time.monotonic()
        questions = {partition: asyncio.ensure_future(cluster.read_entry(partition, 0)) for partition in range(count)}
        found = await asyncio.gather(*(questions[partition] for partition in sorted(others)))
        took_s = time.monotonic() - start_s
        print(f"{len(others)} entries after {took_s:.3f} s beside {len(hung)} that a hung broker has")
        assert all(entry is not None and entry.value == b"v" for entry in found)
        assert not any(questions[partition].done() for partition in hung)
        kafka.resume(3)
        async with asyncio.timeout(WAIT_S):
            for partition in hung:
                with contextlib.suppress(KafkaUnavailable):
                    await questions[partition]
                entry = await when_available(cluster, partition)
                assert entry is not None
                assert entry.value == b"v"
    finally:
        kafka.resume(3)
        assert await cluster.close()


async def when_available(cluster: KafkaAdmin, partition: int) -> LogEntry | None:
    """The first entry of a partition as soon as its broker answers."""
    while True:
        with contextlib.suppress(KafkaUnavailable):
            return await cluster.read_entry(partition, 0)


async def test_a_reader_notices_that_the_log_lost_its_end_whatever_it_has_read_before(
    kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path
) -> None:
    """Of two partitions the reader has read everything, of two nothing: it only waits at their end. One of each has grown again."""
    kafka = await asyncio.to_thread(kafka_cluster)
    data = kafka.node(1).data_folder
    async with world(kafka.bootstrap) as made:
        for partition in ALL:
            await write(made, partition, 10)
        await asyncio.to_thread(kafka.kill, 1)
        for partition in ALL:
            shutil.copytree(data / f"{made.topic}-{partition}", tmp_path / str(partition))
        await asyncio.to_thread(kafka.restart, 1)
        recorder = Recorder()
        reader = made.reader(recorder)
        for partition in ALL:
            await write(made, partition, 1, text="lost")
            reader.follow(partition, 11 if partition in (0, 2) else 0, 1)
        await made.until(lambda: all(len(recorder.offsets(partition, 1)) == 11 for partition in (1, 3)))
        await made.settle()
        await asyncio.to_thread(kafka.kill, 1)
        for partition in ALL:
            shutil.rmtree(data / f"{made.topic}-{partition}")
            shutil.copytree(tmp_path / str(partition), data / f"{made.topic}-{partition}")
        await asyncio.to_thread(kafka.restart, 1)
        for partition in (2, 3):
            await write(made, partition, 40, text="others")
        await made.until(lambda: {broken[0] for broken in recorder.broken} == ALL)
        why = {broken[0]: broken[2] for broken in recorder.broken}
        assert (why[0], why[1]) == (LogBroken.PAST_END, LogBroken.PAST_END)
        # The reader may have looked before the others were written.
        assert {why[2], why[3]} <= {LogBroken.PAST_END, LogBroken.CUT}
        assert all(b"others" not in (found.value or b"") for _, _, found in recorder.entries)


@pytest.mark.long
async def test_a_reader_notices_another_log_of_older_leader_epochs(kafka_cluster: Callable[..., KafkaCluster], tmp_path: Path) -> None:
    """The log comes back from another history, longer than what was read: librdkafka asks where its epoch ended, and is content."""
    kafka = await asyncio.to_thread(kafka_cluster)
    async with world(kafka.bootstrap) as made:
        folder, common, other = kafka.node(1).data_folder / f"{made.topic}-0", tmp_path / "common", tmp_path / "other"

        def exchange(kept: Path, put: Path) -> None:
            kafka.kill(1)
            shutil.copytree(folder, kept)
            shutil.rmtree(folder)
            shutil.copytree(put, folder)
            kafka.restart(1)

        await write(made, 0, 10)
        await asyncio.to_thread(kafka.kill, 1)
        shutil.copytree(folder, common)
        await asyncio.to_thread(kafka.restart, 1)
        await write(made, 0, 40, text="others")
        await asyncio.to_thread(exchange, other, common)
        recorder = Recorder()
        reader = made.reader(recorder)
        reader.follow(0, 0, 1)
        await write(made, 0, 1, text="lost")
        await made.until(lambda: len(recorder.entries) == 11)
        await asyncio.to_thread(exchange, tmp_path / "lost", other)
        await made.until(lambda: bool(recorder.broken))
        assert [broken[:3] for broken in recorder.broken] == [(0, 1, LogBroken.CUT)]
        assert len(recorder.entries) == 11


async def test_members_are_described_over_a_listener_that_asks_for_a_login(kafka_cluster: Callable[..., KafkaCluster]) -> None:
    module = "org.apache.kafka.common.security"
    kafka = kafka_cluster(
        listeners=[ExtraListener(name="SECURE", security_protocol="SASL_PLAINTEXT")],
        properties={
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.secure.plain.sasl.jaas.config": f'{module}.plain.PlainLoginModule required user_u="secret";',
            "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        },
    )
    user = UserScramCredentialUpsertion("u", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})  # held: a client that nothing refers to ends, and its requests with it
    admin.alter_user_scram_credentials([user])["u"].result(WAIT_S)
    secure = f"127.0.0.1:{kafka.listener_port('SECURE')}"
    async with world(kafka.bootstrap) as made:
        made.membership("a").join(Assignments())
        for mechanism, password, expected in [
            ("PLAIN", "secret", {"test-a"}),
            ("SCRAM-SHA-256", "secret", {"test-a"}),
            ("PLAIN", "wrong", None),
            ("SCRAM-SHA-256", "wrong", None),
        ]:
            login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": password}
            cluster = KafkaAdmin(
                bootstrap_servers=secure, topic=made.topic, client_id="c", group_id=made.topic, kafka_properties=login, stats=made.stats
            )
            if expected is None:
                with pytest.raises(ClusterRefused):
                    await cluster.group_members()
            else:
                async with asyncio.timeout(WAIT_S):
                    while await cluster.group_members() != expected:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
            assert await cluster.close()
