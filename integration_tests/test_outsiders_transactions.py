"""Another program writes to the metadata topic in transactions: what Kafka puts behind them stops nobody, and a lost entry does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.kafka import Kafka, KafkaCluster
from cli.kafka.cluster import KafkaPlace
from cli.log.entries import LogMessage
from cli.log.kafka import LogConsumer
from coordinator.adapters.kafka.reading.control_records import read_control_records
from coordinator.adapters.kafka.reading.log_questions import LogQuestions
from coordinator.adapters.kafka.reading.offsets import read_log_range
from coordinator.adapters.kafka.reading.reader import KafkaLogReader
from coordinator.runtime.ports import LogBroken
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import WAIT_S, wait_until
from integration_tests.wire import OK, Batch, Wire, connected
from simulation.contracts.kafka import Recorder

READ_S = 10.0


class Outsider:
    """Writes entries that count for nobody, in transactions that it commits or aborts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._properties = {"bootstrap.servers": bootstrap, "client.id": "outsider"}
        self._topic = topic
        self._producer = Producer({**self._properties, "transactional.id": f"outsider-{topic}"})
        self._producer.init_transactions(WAIT_S)
        self._admin = AdminClient(self._properties)

    def write(self, *, aborts: bool = False) -> None:
        """Write an entry, and wait for the control record behind it."""
        written: list[int] = []
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"a stranger's", b"key", 0, on_delivery=lambda _, message: written.append(message.offset()))
        assert self._producer.flush(WAIT_S) == 0
        if aborts:
            self._producer.abort_transaction(WAIT_S)
        else:
            self._producer.commit_transaction(WAIT_S)
        # The broker answers before it writes the control record.
        wait_until(lambda: any(map(self.is_control, range(written[0] + 1, self.end()))), "the control record")

    def end(self) -> int:
        return read_log_range(self._admin, self._topic, 0, READ_S)[1]

    def is_control(self, offset: int) -> bool:
        return self.controls(offset, offset + 1) is not None

    def controls(self, first: int, stop: int) -> list[int] | None:
        found = read_control_records(self._properties, self._topic, 0, first, stop, READ_S)
        return None if found is None else [entry.offset for entry in found]


def create(bootstrap: str, topic: str, **config: str) -> None:
    """Create a topic of one partition."""
    new = NewTopic(topic, 1, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(WAIT_S)


@asynccontextmanager
async def reading(bootstrap: str, topic: str, recorder: Recorder) -> AsyncIterator[KafkaLogReader]:
    """A reader of a topic that runs."""
    loop = asyncio.get_running_loop()
    reader = KafkaLogReader(loop=loop, bootstrap_servers=bootstrap, topic=topic, client_id="test", listener=recorder)
    reader.start()
    try:
        yield reader
    finally:
        assert await reader.close()


async def delivered(reader: KafkaLogReader, condition: Callable[[], bool]) -> None:
    """Have the reader deliver until the condition holds."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            reader.deliver()
            await asyncio.sleep(0.05)


def messages_of(place: KafkaPlace) -> list[LogMessage]:
    """The messages of partition 0, as `diskless log` reads them."""
    with LogConsumer(place, READ_S) as log:
        start, end = log.log_range(0)
        return list(log.read({0: start}, {0: end}))


async def leader_of_0(*wires: Wire) -> Wire:
    """The one whose node leads coordinator 0."""
    [found] = [wire for wire in wires if any(one.coordinator_id == 0 and one.is_local for one in await wire.coordinators())]
    return found


@pytest.mark.parametrize("aborts", [pytest.param(False, id="committed", marks=pytest.mark.long), pytest.param(True, id="aborted")])
async def test_nodes_read_over_the_transactions_of_an_outsider(kafka: Kafka, data_folder: Path, aborts: bool) -> None:
    service = Service(kafka.bootstrap, data_folder, partitions=2, properties=UNDISTURBED)
    place = KafkaPlace(bootstrap_servers=kafka.bootstrap, topic=service.topic, properties={}, settings=None)
    try:
        nodes = service.start(2).nodes
        first, second = nodes[1], nodes[2]
        outsider = await asyncio.to_thread(Outsider, kafka.bootstrap, service.topic)
        async with connected(first.address) as one, connected(second.address) as two:
            wire = await leader_of_0(one, two)
            topic = await wire.new_topic(4)
            batch = Batch(topic, partition=topic.partition_at(0), count=3)
            for round_ in range(4):
                assert [(answer.error, answer.base) for answer in await wire.commit(batch)] == [(OK, 3 * round_)]
                await asyncio.to_thread(outsider.write, aborts=aborts)
        read = messages_of(place)
        assert [message.offset for message in read] == list(range(len(read)))
        assert sum(message.key is None and message.value is None for message in read) == 4
        # The last of the log is a control record, behind which nothing comes by itself; a leader takes it with its next entry.
        wait_until(lambda: len(read) in [node.metric("log_end_offset", partition="0") for node in (first, second)], "it to be applied")
        # Restarted, both compare what they applied last with the log: a control record.
        for node in (first, second):
            node.terminate()
        for node in (first, second):
            node.start()
        service.wait_shared()
        async with connected(first.address) as one, connected(second.address) as two:
            wire = await leader_of_0(one, two)
            assert [(answer.error, answer.base) for answer in await wire.commit(batch)] == [(OK, 12)]
        for node in (first, second):
            assert node.metric("replica_failures_total", partition="0") == 0
            assert "set aside" not in node.log_text()
    finally:
        service.stop()


def test_only_control_records_are_taken_for_such(kafka: Kafka, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    create(kafka.bootstrap, topic)
    plain = Producer({"bootstrap.servers": kafka.bootstrap})
    plain.produce(topic, b"plain", None, 0)
    assert plain.flush(WAIT_S) == 0
    outsider = Outsider(kafka.bootstrap, topic)
    for aborts in (False, True):
        outsider.write(aborts=aborts)
    plain.produce(topic, b"plain", None, 0)
    assert plain.flush(WAIT_S) == 0
    # 0 plain, 1 in a transaction, 2 its end, 3 in a transaction, 4 its end, 5 plain
    assert [outsider.controls(offset, offset + 1) for offset in range(6)] == [None, None, [2, 4], None, [4], None]
    assert [outsider.controls(*bounds) for bounds in ((1, 3), (2, 4), (2, 5), (4, 6), (0, 6))] == [None] * 5


async def test_a_segment_that_a_broker_lost_is_a_gap(kafka_cluster: Callable[..., KafkaCluster], unique_name: Callable[[str], str]) -> None:
    """Entries of the middle of a log vanish with a file; nothing says so but the offsets."""
    kafka, topic = kafka_cluster(), unique_name("topic")
    create(kafka.bootstrap, topic, segment_ms="1")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for _ in range(4):
        producer.produce(topic, b"?", None, 0)
        assert producer.flush(WAIT_S) == 0
    kafka.kill(1)
    folder = kafka.node(1).data_folder / f"{topic}-0"
    segments = sorted(folder.glob("*.log"))
    assert len(segments) == 4
    for file in folder.glob(f"{segments[1].stem}.*"):
        file.unlink()
    kafka.restart(1)
    recorder = Recorder()
    async with reading(kafka.bootstrap, topic, recorder) as reader:
        reader.follow(0, 0, 1)
        await delivered(reader, lambda: bool(recorder.broken))
    [(partition, generation, why, detail)] = recorder.broken
    assert (partition, generation, why) == (0, 1, LogBroken.GAP)
    assert "expected offset 1, read 2 (no transaction ended there" in detail
    assert recorder.offsets(0, 1) == [0]


async def test_very_many_transactions_cost_one_question(
    kafka: Kafka, unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outsider that wrote for long: a reader asks once for each piece of the log, not for each transaction."""
    topic = unique_name("topic")
    create(kafka.bootstrap, topic)
    outsider = await asyncio.to_thread(Outsider, kafka.bootstrap, topic)
    for _ in range(30):
        await asyncio.to_thread(outsider.write)
    end = outsider.end()
    recorder = Recorder()
    async with reading(kafka.bootstrap, topic, recorder) as reader:
        asked, ask = [], LogQuestions.ask_skipped

        def counted(questions: LogQuestions, *what: Any) -> None:
            asked.append(what)
            ask(questions, *what)

        monkeypatch.setattr(LogQuestions, "ask_skipped", counted)
        reader.follow(0, 0, 1)
        await delivered(reader, lambda: len(recorder.offsets(0, 1)) == end)
    assert recorder.offsets(0, 1) == list(range(end))
    assert recorder.broken == []
    assert len(asked) == 1
