"""Spans of topics become Arrow's rows: whole, in order, each once, whatever happens to nodes, objects and batches meanwhile."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.client import DisklessClient
from coordinator.client.errors import NotFound, ServiceError, Unavailable
from coordinator.client.records.wal_objects import WrongObject
from coordinator.client.routing.retry import RetryPolicy
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import ObjectMissing, ObjectStore, StoreError, StoreUnavailable
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.find_batches import BatchLocation, FoundPartition, decode_find_batches_response, encode_find_batches_response
from records.compression import Compression
from records.record_batch import Record, header_name
from tables.reading.arrow import schema_of
from tables.reading.reader import read_spans
from tables.reading.span import COLUMNS, BelowMigration, Damage, OffsetsDeleted, ReadCounts, ReadOptions, Span
from tests.client.scripted import ScriptedCluster, ScriptedNode, Trouble, scripted
from tests.objectstore.failing_store import FailingStore
from tests.waiting import until

TOPIC = bytes(range(16))
OTHER = bytes(range(1, 17))
NAMES = {TOPIC: "orders", OTHER: "clicks"}
END = 1 << 40


class CountingStore(FailingStore):
    """Notes what is read, and fails as often as it is told."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.read_keys: list[str] = []
        self.unavailable = 0
        self.under_way = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        self.read_keys.append(key)
        if self.unavailable:
            self.unavailable -= 1
            raise StoreUnavailable(f"get {key}: no answer")
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            return await super().get_ranges(key, ranges)
        finally:
            self.under_way -= 1


class VanishingStore(CountingStore):
    """Loses an object once a read of it failed."""

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        try:
            return await super().get_ranges(key, ranges)
        except StoreError:
            await self.delete_many([key])
            raise


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted() as made:
        made.add_topic(TOPIC, "orders", 6)
        made.add_topic(OTHER, "clicks", 1)
        yield made


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(open_store("memory://"))


@pytest.fixture
async def client(cluster: ScriptedCluster, store: CountingStore) -> AsyncIterator[DisklessClient]:
    retry = RetryPolicy(backoff_ms=1, backoff_ms_max=8)
    async with DisklessClient(cluster.addresses, object_store=store, retry=retry) as made:
        yield made


def span(partition: int = 0, first: int = 0, stop: int = END, topic: bytes = TOPIC) -> Span:
    return Span(topic=NAMES[topic], topic_id=topic, partition=partition, from_offset=first, to_offset=stop)


def values(*texts: str) -> list[Record]:
    return [Record(timestamp_ms=1_000 + place, key=b"k", value=text.encode()) for place, text in enumerate(texts)]


async def batches(client: DisklessClient, store: ObjectStore, *spans: Span, **options: Any) -> list[pa.RecordBatch]:
    counts = options.pop("counts", None)
    return [one async for one in read_spans(client, store, spans, ReadOptions(**options), counts=counts)]


async def rows(client: DisklessClient, store: ObjectStore, *spans: Span, **options: Any) -> list[tuple[int, int, str]]:
    """(partition, offset, value) of each row."""
    found = await batches(client, store, *spans, **options)
    listed = [row for one in found for row in one.to_pylist()]
    return [(row["partition"], row["offset"], (row["value"] or b"").decode()) for row in listed]


def find_batches(cluster: ScriptedCluster, *troubles: Trouble) -> None:
    """The first requests of FindBatches meet one trouble each, whichever nodes they go to."""
    left = list(troubles)

    def trouble(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        return request.api_key == ApiKey.FIND_BATCHES and bool(left) and left.pop(0)(node, request, respond)

    for node in cluster.nodes.values():
        node.trouble.append(trouble)


def answer(error: ErrorCode = ErrorCode.NONE, log_start: int = 0, high_watermark: int = 0, keeps: bool = False) -> Trouble:
    """Answer the question with an error or without batches, or with those that there are and other bounds."""

    def trouble(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        topics = [
            (
                topic_id,
                [
                    one._replace(
                        error_code=int(error),
                        log_start_offset=log_start,
                        high_watermark=high_watermark,
                        batches=one.batches if keeps else [],
                    )
                    for one in partitions
                ],
            )
            for topic_id, partitions in decode_find_batches_response(node.answer(request)).topics
        ]
        respond(encode_find_batches_response(topics))
        return True

    return trouble


def pass_by(_node: ScriptedNode, _request: IncomingRequest, _respond: Respond) -> bool:
    return False


async def test_rows_have_the_columns_of_sparks_kafka_source(client: DisklessClient, store: CountingStore) -> None:
    headers = ((header_name(b"h\xff"), b"1"), ("n", None))
    written = [Record(timestamp_ms=1_500, key=None, value=b"a"), Record(timestamp_ms=-1, key=b"", value=None, headers=headers)]
    await client.write({("orders", 3): written})
    [found] = await batches(client, store, span(3, stop=2), include_headers=True)
    assert found.schema == schema_of(ReadOptions(include_headers=True))
    time = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    same = {"topic": "orders", "partition": 3, "timestampType": 0}
    assert found.to_pylist() == [
        {"key": None, "value": b"a", "offset": 0, "timestamp": time, "headers": None, **same},
        {
            "key": b"",
            "value": None,
            "offset": 1,
            "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC),
            "headers": [{"key": "h�", "value": b"1"}, {"key": "n", "value": None}],
            **same,
        },
    ]
    [chosen] = await batches(client, store, span(3, stop=2), columns=("offset", "topic"))
    assert chosen.to_pydict() == {"offset": [0, 1], "topic": ["orders", "orders"]}


@pytest.mark.parametrize("codec", Compression)
async def test_spans_begin_and_end_within_batches_of_every_codec(client: DisklessClient, store: CountingStore, codec: Compression) -> None:
    for number in range(10):
        await client.write({("orders", 2): values(*(f"{number}-{place}" for place in range(3)))}, compression=codec)
    expected = [(2, offset, f"{offset // 3}-{offset % 3}") for offset in range(30)]
    assert await rows(client, store, span(2, stop=30)) == expected
    assert await rows(client, store, span(2, 7, 23)) == expected[7:23]
    assert await rows(client, store, span(2, 7, 8)) == expected[7:8]
    assert await rows(client, store, span(2, 7, 7)) == []


async def test_batches_of_rows_are_bounded(client: DisklessClient, store: CountingStore) -> None:
    await client.write({("orders", 0): values(*map(str, range(100)))})
    await client.write({("orders", 0): values("x" * 50, "y" * 9, "z" * 9)})
    found = await batches(client, store, span(stop=100), batch_rows=30)
    assert [one.num_rows for one in found] == [30, 30, 30, 10]
    found = await batches(client, store, span(first=100, stop=103), batch_bytes=40)
    assert [one.column("offset").to_pylist() for one in found] == [[100], [101, 102]]


async def test_partitions_of_the_same_objects_are_read_object_by_object(client: DisklessClient, store: CountingStore) -> None:
    for number in range(7):
        await client.write({(topic, index): values(f"{number}") for topic, index in (("orders", 0), ("orders", 4), ("clicks", 0))})
    store.read_keys.clear()
    found = await rows(client, store, span(0, stop=7), span(4, 2, 7), span(0, stop=7, topic=OTHER))
    assert len(store.read_keys) == len(set(store.read_keys)) == 7
    assert [row for row in found if row[0] == 4] == [(4, offset, str(offset)) for offset in range(2, 7)]
    assert sorted(row for row in found if row[0] == 0) == sorted([(0, offset, str(offset)) for offset in range(7)] * 2)
    assert 1 < store.most <= 8


async def test_a_node_that_does_not_know_the_end_yet_is_asked_again(
    cluster: ScriptedCluster, client: DisklessClient, store: CountingStore
) -> None:
    await client.write({("orders", 0): values("a")})
    find_batches(cluster, answer(), answer(), answer(ErrorCode.NOT_COORDINATOR))
    assert await rows(client, store, span(stop=1)) == [(0, 0, "a")]
    with pytest.raises(Unavailable, match=r"orders-0 offsets \[0, 2\): no node tells of the batches from offset 1 on"):
        await rows(client, store, span(stop=2), timeout_s=0.2)


async def test_a_store_that_does_not_answer_is_asked_until_the_timeout(client: DisklessClient, store: CountingStore) -> None:
    await client.write({("orders", 0): values("a")})
    store.unavailable = 3
    assert await rows(client, store, span(stop=1)) == [(0, 0, "a")]
    store.unavailable = 1_000_000
    with pytest.raises(StoreUnavailable, match="orders-0 offsets 0 to 0: wal/"):
        await rows(client, store, span(stop=1), timeout_s=0.2)


async def test_an_object_that_is_missing_is_looked_for_once_more(
    cluster: ScriptedCluster, client: DisklessClient, store: CountingStore
) -> None:
    kept = await client.write({("orders", 0): values("a", "b")})
    moved = await client.write({("orders", 0): values("c")})
    data = await store.get(moved.object_key)
    await store.delete_many([moved.object_key])
    with pytest.raises(ObjectMissing, match=f"orders-0 offsets 2 to 2: {moved.object_key}"):
        await rows(client, store, span(stop=3))

    def move(_node: ScriptedNode, _request: IncomingRequest, _respond: Respond) -> bool:
        log = cluster.logs[TOPIC + bytes(4)]
        log[1] = type(log[1])(**{name: getattr(log[1], name) for name in log[1].__slots__} | {"object_key": "wal/merged"})
        return False

    await store.put("wal/merged", data)
    find_batches(cluster, pass_by, move)
    store.read_keys.clear()
    assert await rows(client, store, span(stop=3)) == [(0, 0, "a"), (0, 1, "b"), (0, 2, "c")]
    assert store.read_keys == [kept.object_key, moved.object_key, "wal/merged"]


@pytest.mark.parametrize("is_loss_allowed", [False, True])
async def test_deleted_records_are_an_error_or_are_left_out_and_counted(
    cluster: ScriptedCluster, client: DisklessClient, store: CountingStore, caplog: pytest.LogCaptureFixture, is_loss_allowed: bool
) -> None:
    for value in "abcdef":
        await client.write({("orders", 0): values(value)})
    # The first page is found, and its objects are deleted meanwhile with the records up to offset 5.
    find_batches(cluster, pass_by, answer(ErrorCode.OFFSET_OUT_OF_RANGE, 5, 6), answer(ErrorCode.OFFSET_OUT_OF_RANGE, 5, 6))
    await store.delete_many([one.object_key for one in cluster.logs[TOPIC + bytes(4)][:5]])
    counts = ReadCounts()
    reading = rows(client, store, span(stop=6), fail_on_data_loss=not is_loss_allowed, counts=counts)
    text = r"orders-0: the records with offsets \d to 5 \(exclusive\) are not there, the log has 5 to 6 \(exclusive\)"
    if is_loss_allowed:
        with caplog.at_level(logging.WARNING):
            assert await reading == [(0, 5, "f")]
        assert counts.deleted_offsets == 5
        assert "records left out: orders-0" in caplog.text
    else:
        with pytest.raises(OffsetsDeleted, match=text):
            await reading


async def test_a_log_that_begins_within_a_batch_gives_the_rows_that_exist(
    cluster: ScriptedCluster, client: DisklessClient, store: CountingStore
) -> None:
    await client.write({("orders", 0): values(*"abcdef")})
    counts = ReadCounts()
    find_batches(cluster, answer(ErrorCode.OFFSET_OUT_OF_RANGE, 4, 6))
    assert await rows(client, store, span(stop=6), fail_on_data_loss=False, counts=counts) == [(0, 4, "e"), (0, 5, "f")]
    assert counts.deleted_offsets == 4


async def test_a_log_that_ends_before_the_span_is_told(cluster: ScriptedCluster, client: DisklessClient, store: CountingStore) -> None:
    await client.write({("orders", 0): values("a")})
    with pytest.raises(OffsetsDeleted, match=r"offsets 5 to 9 \(exclusive\) are not there, the log has 0 to 1"):
        await rows(client, store, span(first=5, stop=9))
    assert await rows(client, store, span(first=5, stop=9), fail_on_data_loss=False) == []


async def test_the_classic_part_of_a_migrated_partition_is_refused(
    cluster: ScriptedCluster, client: DisklessClient, store: CountingStore
) -> None:
    cluster.starts[TOPIC + bytes(4)] = 100
    for is_loss_allowed in (False, True):
        find_batches(cluster, answer(ErrorCode.OFFSET_OUT_OF_RANGE, 100, 120))
        with pytest.raises(BelowMigration, match=r"orders-0: offset 40 is in the classic part .* offsets 0 to 100 .*begin at 100"):
            await rows(client, store, span(first=40, stop=110), fail_on_data_loss=not is_loss_allowed)


@pytest.mark.parametrize(
    ("move", "text"),
    [
        (lambda page: page[:1] * 2, "batches from offset 2 on are due; the answer has offsets 0 to 1"),
        (lambda page: [page[0]._replace(last_offset=-1)], "batches from offset 0 on are due; the answer has offsets 0 to -1"),
        (lambda page: [page[0], page[1]._replace(base_offset=1)], "batches from offset 2 on are due; the answer has offsets 1 to 3"),
        (lambda page: page[::-1], "batches from offset 4 on are due; the answer has offsets 0 to 1"),
        (lambda page: page[:1], "batches from offset 2 on are due; the answer has offsets 0 to 1"),
    ],
    ids=["a batch twice", "no offsets", "overlap", "backwards", "a page twice"],
)
async def test_a_node_whose_batches_do_not_go_forward_ends_the_read(
    cluster: ScriptedCluster,
    client: DisklessClient,
    store: CountingStore,
    move: Callable[[list[BatchLocation]], list[BatchLocation]],
    text: str,
) -> None:
    for value in ("ab", "cd"):
        await client.write({("orders", 0): values(*value)})
    whole: list[BatchLocation] = []

    def trouble(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if not whole:
            [(_, [found])] = decode_find_batches_response(node.answer(request)).topics
            whole.extend(BatchLocation(*one) for one in found.batches)
        respond(encode_find_batches_response([(TOPIC, [FoundPartition(0, 0, 0, 4, move(whole))])]))
        return True

    find_batches(cluster, *[trouble] * 9)
    with pytest.raises(ServiceError, match=rf"orders-0 offsets \[0, 9\): .*its reply cannot be read .*{text}"):
        await rows(client, store, span(stop=9))


async def test_a_topic_that_is_deleted_is_named(cluster: ScriptedCluster, client: DisklessClient, store: CountingStore) -> None:
    await client.write({("orders", 0): values("a")})
    find_batches(cluster, answer(ErrorCode.UNKNOWN_TOPIC_ID))
    with pytest.raises(NotFound, match=r"orders-0 offsets \[0, 1\): its topic was deleted before these records were read"):
        await rows(client, store, span(stop=1))


@pytest.mark.parametrize("damage", ["a bit", "the end"])
async def test_a_damaged_batch_is_named_or_left_out_and_counted(
    client: DisklessClient, store: CountingStore, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    keys = [(await client.write({("orders", 0): values(value)})).object_key for value in "abc"]
    data = await store.get(keys[1])
    await store.put(keys[1], data[:-1] if damage == "the end" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(WrongObject if damage == "a bit" else StoreError, match=rf"orders-0 offsets 1 to 1: {keys[1]} "):
        await rows(client, store, span(stop=3))
    counts = ReadCounts()
    with caplog.at_level(logging.WARNING):
        assert await rows(client, store, span(stop=3), on_damage=Damage.SKIP, counts=counts) == [(0, 0, "a"), (0, 2, "c")]
    assert counts.damaged_batches == 1
    assert f"damaged batch left out: orders-0 offsets 1 to 1: {keys[1]}" in caplog.text


async def test_a_damaged_batch_that_is_fetched_again_is_counted_once(
    cluster: ScriptedCluster, client: DisklessClient, store: CountingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """An object before it is missing for a moment, so that what was fetched behind it is fetched anew; and a read is repeated."""
    keys = [(await client.write({("orders", 0): values(value)})).object_key for value in "abcde"]
    for key, cut in ((keys[1], 1), (keys[2], 0)):
        data = await store.get(key)
        await store.put(key, data[:-1] if cut else data[:-1] + bytes([data[-1] ^ 1]))
    first = await store.get(keys[0])
    await store.delete_many([keys[0]])

    async def put_back(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> None:
        await store.put(keys[0], first)
        respond(node.answer(request))

    def puts_back(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        tasks.append(asyncio.create_task(put_back(node, request, respond)))
        return True

    tasks: list[asyncio.Task[None]] = []
    counts = ReadCounts()
    find_batches(cluster, pass_by, pass_by, puts_back)
    wanted = [(0, 0, "a"), (0, 3, "d"), (0, 4, "e")]
    with caplog.at_level(logging.WARNING):
        assert await rows(client, store, span(stop=5), on_damage=Damage.SKIP, counts=counts) == wanted
        assert store.read_keys.count(keys[1]) > 1
        assert await rows(client, store, span(stop=5), on_damage=Damage.SKIP, counts=counts) == wanted
    await tasks[0]
    assert counts.damaged_batches == 2
    assert caplog.text.count("damaged batch left out") == 2


async def test_of_an_object_that_is_cut_the_whole_batches_are_read(client: DisklessClient, store: CountingStore) -> None:
    written = await client.write({("orders", 0): values(*"abcdef")}, max_batch_bytes=100)
    data = await store.get(written.object_key)
    await store.put(written.object_key, data[:-1])
    counts = ReadCounts()
    found = await rows(client, store, span(stop=6), on_damage=Damage.SKIP, counts=counts)
    assert counts.damaged_batches == 1
    assert [value for _, _, value in found] == [*"abcdef"][: len(found)]
    assert 0 < len(found) < 6


async def test_an_object_that_goes_while_its_batches_are_fetched_alone_is_told(client: DisklessClient, store: CountingStore) -> None:
    written = await client.write({("orders", 0): values(*"abcdef")}, max_batch_bytes=100)
    await store.put(written.object_key, (await store.get(written.object_key))[:-1])
    with pytest.raises(ObjectMissing, match="orders-0 offsets 0 to "):
        await rows(client, VanishingStore(store), span(stop=6), on_damage=Damage.SKIP)
    # A coroutine that nothing awaited would warn when it is collected.
    gc.collect()


async def test_the_next_page_is_asked_for_while_objects_are_read(
    cluster: ScriptedCluster, client: DisklessClient, store: CountingStore
) -> None:
    for value in "abcdef":
        await client.write({("orders", 0): values(value)})
    store.gate.clear()
    reading = asyncio.ensure_future(rows(client, store, span(stop=6)))
    await until(lambda: sum(node.count(ApiKey.FIND_BATCHES) for node in cluster.nodes.values()) == 2, "the second page")
    assert store.under_way == 3
    store.gate.set()
    assert [offset for _, offset, _ in await reading] == [*range(6)]


async def test_rows_of_many_pages_and_groups_keep_their_order(client: DisklessClient, store: CountingStore) -> None:
    texts = [str(number) for number in range(300)]
    await client.write({("orders", 1): values(*texts[:200])}, max_batch_bytes=100)
    await client.write({("orders", 1): values(*texts[200:])}, max_batch_bytes=100, compression=Compression.ZSTD)
    for limits in ({}, {"fetch_bytes": 1}, {"batch_rows": 7}, {"batch_bytes": 200, "fetch_bytes": 400}):
        assert await rows(client, store, span(1, stop=300), **limits) == [(1, offset, text) for offset, text in enumerate(texts)]


async def test_a_reader_that_is_closed_leaves_nothing_under_way(client: DisklessClient, store: CountingStore) -> None:
    for value in "abcdefghijkl":
        await client.write({("orders", 0): values(value)})
    before = asyncio.all_tasks()
    reading = read_spans(client, store, [span(stop=12)], ReadOptions(batch_rows=1))
    await anext(reading)
    await reading.aclose()
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"columns": ("value", "headers")}, "columns value, headers: .*key, value, topic.*or with headers included headers"),
        ({"columns": ("value", "value")}, "each is there once"),
        ({"batch_rows": 0}, "batch_rows=0: it must be 1 to"),
        ({"batch_bytes": 1 << 31}, "batch_bytes=2147483648: it must be 1 to"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, Any], text: str) -> None:
    assert ReadOptions(columns=("value", "headers"), include_headers=True).names == ("value", "headers")
    assert ReadOptions(include_headers=True).names == (*COLUMNS, "headers")
    with pytest.raises(ValueError, match=text):
        ReadOptions(**given)


def test_a_span_has_offsets_in_order() -> None:
    with pytest.raises(ValueError, match="offsets are 0 to"):
        span(first=4, stop=3)
