"""Kafka Streams, Kafka Connect, MirrorMaker and Spark keep their own topics classic and their data in diskless ones."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource

from cli.dev.kafka import BrokerRuntime
from cli.dev.kafka.prepare import LOCK_FILE
from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from cli.java.jars import resolve
from cli.spark.batch import batch_session
from coordinator.client.admin import DisklessAdmin
from integration_tests.gateway.stranger_clients import compiled
from integration_tests.gateway.world import World
from integration_tests.kafka_scripts import java_program
from integration_tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
CONNECT_LOCK = Path(__file__).parents[1] / "connect.lock"
OPTIONS = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
PROGRAM_WAIT_S = 240.0
MIRRORED = "origin.data-.*"


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("platforms"), broker_runtime) as made:
        made.start(1001, 1002, gateway_create_diskless=MIRRORED)
        yield made


@pytest.fixture(scope="module")
def at(world: World) -> str:
    """A gateway where topics are diskless on request, all but the copies of MirrorMaker."""
    return world.gateways[1001].address


def made_topics(world: World, *names: str, partitions: int = 2, is_diskless: bool = True) -> None:
    for name in names:
        world.create(world.gateways[1001], name, partitions, is_diskless=is_diskless)


async def diskless_topics(world: World) -> set[str]:
    async with DisklessAdmin(world.service.addresses) as admin:
        return {one.name for one in await admin.list_topics()}


def settings(world: World, topic: str) -> Mapping[str, str]:
    """The settings of a topic as clients see them."""
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = world.admin(world.gateways[1001])  # kept until the answer is there
    told = admin.describe_configs([asked])[asked].result(30)
    return {name: one.value for name, one in told.items()}


def write(at: str, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": at, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value.encode())
    assert producer.flush(60) == 0


class Reader:
    """All records of a topic that have been read so far."""

    def __init__(self, at: str, topic: str, group: str) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self._consumer = Consumer({"bootstrap.servers": at, "group.id": group, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic])

    def values(self) -> list[str]:
        """Read on; the values so far."""
        while (message := self._consumer.poll(0.2)) is not None:
            assert message.error() is None, message.error()
            self.records.append((message.key(), message.value()))
        return [(value or b"").decode() for _, value in self.records]

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def reader(at: str, unique_name: Callable[[str], str]) -> Iterator[Callable[[str], Reader]]:
    made: list[Reader] = []

    def make(topic: str) -> Reader:
        made.append(Reader(at, topic, unique_name("reader")))
        return made[-1]

    yield make
    for one in made:
        one.close()


@contextmanager
def java(folder: Path, main: str, *arguments: str, classes: Sequence[Path] = ()) -> Iterator[ChildProcess]:
    """Run a Java program in the background, and end it as an operator does. It must not have ended before."""
    log = folder / f"{main}.log"
    running = start_child([*java_program(main, *resolve(CONNECT_LOCK), *classes, options=OPTIONS), *arguments], marker=main, log=log)
    try:
        yield running
        assert running.is_running(), log.read_text()[-4000:]
        running.send(signal.SIGTERM)
        running.wait(60)
    except BaseException as error:
        error.add_note(log.read_text()[-6000:])
        raise
    finally:
        if running.is_running():
            running.kill()


def awaited(running: ChildProcess, condition: Callable[[], bool], what: str) -> None:
    """Wait for what a running program does."""
    wait_until(lambda: not running.is_running() or condition(), what, PROGRAM_WAIT_S)
    assert running.is_running(), f"it ended with {running.exit_status()}"


def properties(file: Path, /, **values: object) -> str:
    """Write a file of properties, underscores for dots, and return its path."""
    file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in values.items()), encoding="utf-8")
    return str(file)


# ---- Kafka Streams


def last_counts(read: Reader) -> dict[str, int]:
    read.values()
    return {(key or b"").decode(): int.from_bytes(value or b"", "big") for key, value in read.records}


async def test_streams_count_words_and_restore_their_counts(
    world: World, at: str, unique_name: Callable[[str], str], reader: Callable[[str], Reader], tmp_path: Path
) -> None:
    source, target, application = unique_name("lines"), unique_name("counts"), unique_name("application")
    made_topics(world, source, target)
    classes = compiled("streams", [*resolve(LOCK_FILE), *resolve(CONNECT_LOCK)])
    read, counts = reader(target), {}
    for turn in range(2):  # the second one finds its state in the changelog alone
        words = [f"word-{number % 7}" for number in range(100 + turn)]
        write(at, source, [" ".join(words[place : place + 3]) for place in range(0, len(words), 3)])
        counts = {word: counts.get(word, 0) + words.count(word) for word in sorted(set(words))}
        wanted = dict(counts)
        with java(tmp_path, "WordCount", at, application, source, target, str(tmp_path / f"state-{turn}"), classes=[classes]) as running:
            awaited(running, lambda: last_counts(read) == wanted, "the counts of all words")  # noqa: B023  awaited within the turn
    internal = {name for name in world.admin(world.gateways[1001]).list_topics(timeout=30).topics if name.startswith(application)}
    assert internal == {f"{application}-words-repartition", f"{application}-counts-changelog"}
    assert not internal & await diskless_topics(world)
    assert settings(world, f"{application}-counts-changelog")["cleanup.policy"] == "compact"


# ---- Kafka Connect


def ask(method: str, url: str, value: object = None) -> object:
    """Ask Connect's REST interface; the answer, None for none. Raises OSError."""
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = answer.read()
    return json.loads(body) if body else None


def answers(url: str) -> bool:
    try:
        ask("GET", url)
    except OSError:
        return False
    return True


CONVERTERS = dict.fromkeys(("key_converter", "value_converter"), "org.apache.kafka.connect.storage.StringConverter")


def file_connectors(topic: str, source: Path, sink: Path) -> dict[str, dict[str, str]]:
    shared = {"tasks.max": "1"}
    kinds = "org.apache.kafka.connect.file.FileStream"
    return {
        "source": {**shared, "connector.class": f"{kinds}SourceConnector", "file": str(source), "topic": topic},
        "sink": {**shared, "connector.class": f"{kinds}SinkConnector", "file": str(sink), "topics": topic},
    }


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def append(file: Path, begin: int, end: int) -> None:
    with file.open("a", encoding="utf-8") as written:
        written.writelines(f"line {number}\n" for number in range(begin, end))


async def test_connect_carries_files_and_keeps_its_own_topics_classic(
    world: World, at: str, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group = unique_name("lines"), unique_name("connect")
    made_topics(world, topic, partitions=1)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    [port] = lease_ports(1)
    worker = {
        "bootstrap_servers": at,
        "group_id": group,
        **CONVERTERS,
        **{f"{kind}_storage_topic": f"{group}-{kind}" for kind in ("offset", "config", "status")},
        **dict.fromkeys(("offset_storage_replication_factor", "config_storage_replication_factor", "status_storage_replication_factor"), 1),
        "offset_storage_partitions": 2,
        "status_storage_partitions": 2,
        "offset_flush_interval_ms": 1000,
        "listeners": f"http://127.0.0.1:{port.port}",
    }
    url = f"http://127.0.0.1:{port.port}/connectors"
    port.close()
    for turn in range(2):  # the second worker has the first one's offsets
        append(source, turn * 200, (turn + 1) * 200)
        with java(
            tmp_path, "org.apache.kafka.connect.cli.ConnectDistributed", properties(tmp_path / "worker.properties", **worker)
        ) as running:
            awaited(running, lambda: answers(url), "Connect to answer")
            if turn == 0:
                for name, config in file_connectors(topic, source, sink).items():
                    ask("POST", url, {"name": name, "config": config})
            count = (turn + 1) * 200
            awaited(running, lambda: len(lines(sink)) >= count, "all lines in the file")  # noqa: B023  awaited within the turn
            committed = [{"partition": {"filename": str(source)}, "offset": {"position": source.stat().st_size}}]
            awaited(running, lambda: ask("GET", f"{url}/source/offsets") == {"offsets": committed}, "the source's offset")  # noqa: B023
    assert lines(sink) == lines(source)
    own = {f"{group}-{kind}" for kind in ("offset", "config", "status")}
    assert own <= set(world.admin(world.gateways[1001]).list_topics(timeout=30).topics)
    assert not own & await diskless_topics(world)


def test_connect_alone_carries_files(
    world: World, at: str, unique_name: Callable[[str], str], reader: Callable[[str], Reader], tmp_path: Path
) -> None:
    topic = unique_name("lines")
    made_topics(world, topic, partitions=1)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    append(source, 0, 300)
    worker = properties(
        tmp_path / "worker.properties",
        bootstrap_servers=at,
        offset_storage_file_filename=tmp_path / "offsets",
        listeners="http://127.0.0.1:0",
        **CONVERTERS,
    )
    connectors = [
        properties(tmp_path / f"{name}.properties", name=f"{topic}-{name}", **config)
        for name, config in file_connectors(topic, source, sink).items()
    ]
    read = reader(topic)
    with java(tmp_path, "org.apache.kafka.connect.cli.ConnectStandalone", worker, *connectors) as running:
        awaited(running, lambda: len(lines(sink)) >= 300, "all lines in the file")
    assert lines(sink) == lines(source)
    wait_until(lambda: sorted(read.values()) == sorted(lines(source)), "all lines in the topic")


# ---- MirrorMaker


def committed(at: str, group: str, topic: str) -> int:
    """The sum of a group's offsets in a topic of two partitions."""
    asking = Consumer({"bootstrap.servers": at, "group.id": group})
    found = asking.committed([TopicPartition(topic, place) for place in range(2)], 30)
    asking.close()
    return sum(max(one.offset, 0) for one in found)


async def test_mirrormaker_copies_a_classic_topic_to_a_diskless_one_with_its_groups(
    world: World, at: str, unique_name: Callable[[str], str], reader: Callable[[str], Reader], tmp_path: Path
) -> None:
    topic, group = unique_name("data"), unique_name("group")
    made_topics(world, topic, is_diskless=False)
    values = [f"value-{number}" for number in range(400)]
    write(at, topic, values[:200])
    first = Reader(at, topic, group)
    wait_until(lambda: len(first.values()) == 200, "the first records")
    first.close()  # commits
    copy = f"origin.{topic}"
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"""clusters = origin, copy
origin.bootstrap.servers = {world.kafka.bootstrap}
copy.bootstrap.servers = {world.gateways[1002].address}
origin->copy.enabled = true
origin->copy.topics = {topic}
origin->copy.groups = {group}
copy->origin.enabled = false
emit.heartbeats.enabled = false
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.topics.interval.seconds = 5
offset.lag.max = 0
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
offset.storage.partitions = 2
status.storage.partitions = 2
""",
        encoding="utf-8",
    )
    with java(tmp_path, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)) as running:
        awaited(running, lambda: copy in world.admin(world.gateways[1001]).list_topics(timeout=30).topics, "the copy's topic")
        read = reader(copy)
        awaited(running, lambda: len(read.values()) >= 200, "the first records in the copy")
        write(at, topic, values[200:])
        awaited(running, lambda: len(read.values()) >= 400, "all records in the copy")
        awaited(running, lambda: 0 < committed(at, group, copy) <= 200, "the group's offsets in the copy")
    assert sorted(read.values()) == sorted(values)
    topics = await diskless_topics(world)
    assert copy in topics
    assert topic not in topics
    assert not [one for one in topics if one.startswith("mm2-") or one.endswith(".internal")]


# ---- Spark


def rows_of(frame: DataFrame) -> list[tuple[str | None, str]]:
    taken = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
    return sorted(((row[0], row[1]) for row in taken), key=lambda row: row[1])


def test_sparks_own_source_and_sink(world: World, at: str, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    topic, copy = unique_name("numbers"), unique_name("copy")
    made_topics(world, topic, copy, partitions=3)
    expected = [(None if number % 5 == 0 else f"key-{number % 3}", f"value-{number:04d}") for number in range(1000)]
    with batch_session("gateway", None, ()) as spark:

        def whole(name: str) -> DataFrame:
            made = spark.read.format("kafka").option("kafka.bootstrap.servers", at).option("subscribe", name)
            return made.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()

        def streamed() -> None:
            source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", at).option("subscribe", topic)
            sink = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 400).load().writeStream.format("kafka")
            target = sink.option("kafka.bootstrap.servers", at).option("topic", copy)
            running = target.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            assert running.awaitTermination(180)

        for turn in range(2):  # the second stream goes on where the first ended
            part = spark.createDataFrame(expected[turn * 500 : (turn + 1) * 500], "key STRING, value STRING")
            part.write.format("kafka").option("kafka.bootstrap.servers", at).option("topic", topic).save()
            assert rows_of(whole(topic)) == expected[: (turn + 1) * 500]
            streamed()
            assert rows_of(whole(copy)) == expected[: (turn + 1) * 500]
