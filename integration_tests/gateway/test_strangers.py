"""Clients that nobody here wrote use a diskless topic through the gateway, and read what the others wrote.

Every acknowledged record is read back by an independent reader, from the objects, and by the library itself in a group.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from cli.dev.kafka import BrokerRuntime
from coordinator.client import DisklessClient, open_store
from integration_tests.gateway.stranger_clients import JAVA, KAFKA_PYTHON, LIBRDKAFKA, OTHERS, Row, Stranger
from integration_tests.gateway.world import World

PARTITIONS = 3
COUNT = 60
STRANGERS = [*(pytest.param(one, id=one.name) for one in (LIBRDKAFKA, JAVA, KAFKA_PYTHON))]
STRANGERS += [pytest.param(one, id=one.name, marks=pytest.mark.long) for one in OTHERS]
"""Those of the first line run with every change."""
EVERY = pytest.mark.parametrize("stranger", STRANGERS)


GATEWAY = 1001


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("strangers"), broker_runtime) as made:
        made.start(GATEWAY)
        yield made


@pytest.fixture
def bootstrap(world: World) -> str:
    return world.gateways[GATEWAY].address


def expected(number: int, first_ms: int) -> Row:
    """What a reader tells of a record, but for its offset."""
    headers = [["name", base64.b64encode(b"\x00\xff").decode()], ["other", base64.b64encode(b"again").decode()]]
    return {
        "partition": number % PARTITIONS,
        "key": None if number % 5 == 0 else base64.b64encode(f"key-{number % 7}".encode()).decode(),
        "value": f"value-{number}",
        "headers": headers if number % 3 == 0 else [],
        "timestamp": first_ms + number,
    }


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


async def records(world: World, topic: str) -> list[Row]:
    """What the topic holds, read from the objects."""
    found = []
    async with DisklessClient(world.service.addresses, object_store=open_store(world.service.properties["object.store.url"])) as client:
        async for one in client.read(topic):
            assert one.value is not None
            found.append(
                {
                    "partition": one.partition,
                    "offset": one.offset,
                    "key": None if one.key is None else base64.b64encode(one.key).decode(),
                    "value": one.value.decode(),
                    "headers": [[name, base64.b64encode(value or b"").decode()] for name, value in one.headers],
                    "timestamp": one.timestamp_ms,
                }
            )
    return in_order(found)


def made_topic(bootstrap: str, stranger: Stranger, name: str) -> str:
    """A diskless topic, made by the library itself where it can name settings of topics."""
    maker = stranger if stranger.has_settings else LIBRDKAFKA
    maker.run("create", bootstrap, name, PARTITIONS)
    return name


@pytest.mark.timeout(900)
@EVERY
async def test_what_it_writes_is_read_by_all(world: World, bootstrap: str, unique_name: Callable[[str], str], stranger: Stranger) -> None:
    topic = made_topic(bootstrap, stranger, unique_name("topic"))
    acknowledged: list[Row] = []
    for turn, codec in enumerate(stranger.codecs):
        first_ms = int(time.time() * 1000) - 60_000 + len(acknowledged)
        told = stranger.run("produce", bootstrap, topic, PARTITIONS, COUNT, codec, turn % 2 if stranger.is_idempotent else 0, first_ms)
        assert sorted(row["number"] for row in told) == list(range(COUNT))
        acknowledged += [{**expected(row["number"], first_ms), "offset": row["offset"]} for row in told]
    kept = await records(world, topic)
    assert kept == in_order(acknowledged)
    for place in range(PARTITIONS):
        assert [row["offset"] for row in kept if row["partition"] == place] == list(range(len(acknowledged) // PARTITIONS))
    for reader in {stranger.name: stranger, LIBRDKAFKA.name: LIBRDKAFKA}.values():
        for protocol in reader.protocols:
            group = unique_name(f"{reader.name}-{protocol}")
            read = reader.run("consume", bootstrap, topic, len(kept), group, environment={"STRANGER_GROUP_PROTOCOL": protocol})
            assert in_order(read) == kept


@pytest.mark.timeout(600)
@EVERY
def test_its_group_goes_on_where_it_was(bootstrap: str, unique_name: Callable[[str], str], stranger: Stranger) -> None:
    if not stranger.has_groups:
        pytest.skip(f"{stranger.name} has no groups")
    topic, group = made_topic(bootstrap, stranger, unique_name("topic")), unique_name("group")
    first_ms = int(time.time() * 1000) - 60_000
    seen: list[Row] = []
    for turn in range(2):
        stranger.run("produce", bootstrap, topic, PARTITIONS, COUNT, "none", int(stranger.is_idempotent), first_ms + turn * COUNT)
        seen += stranger.run("consume", bootstrap, topic, COUNT, group)
    wanted = [expected(number, first_ms + turn * COUNT) for turn in range(2) for number in range(COUNT)]
    by_time = sorted(({name: value for name, value in row.items() if name != "offset"} for row in seen), key=lambda row: row["timestamp"])
    assert by_time == wanted


@pytest.mark.timeout(300)
@EVERY
def test_it_seeks_by_time_and_deletes(world: World, bootstrap: str, unique_name: Callable[[str], str], stranger: Stranger) -> None:
    topic = made_topic(bootstrap, stranger, unique_name("topic"))
    first_ms = int(time.time() * 1000) - 60_000
    stranger.run("produce", bootstrap, topic, PARTITIONS, COUNT, "none", 0, first_ms)
    for asked, offset in ((first_ms + 30, 10), (first_ms + 10 * COUNT, -1)):
        found = {row["partition"]: row["offset"] for row in stranger.run("seek", bootstrap, topic, asked)}
        assert found == dict.fromkeys(range(PARTITIONS), offset)
    stranger.run("delete", bootstrap, topic)
    assert topic not in world.admin(world.gateways[GATEWAY]).list_topics(timeout=30).topics
