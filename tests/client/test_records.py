"""Records through the client against a scripted cluster: written as one file, read back, followed, refused, undecided."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.client import DisklessClient
from coordinator.client.errors import ClientClosed, InvalidRequest, NotFound, OffsetOutOfRange, Unavailable
from coordinator.client.records import writing
from coordinator.client.records.wal_file import WalFileError
from coordinator.client.records.wal_manifest import TopicPartition
from coordinator.client.records.wal_objects import WrongObject
from coordinator.client.records.writing import WriteRefused, WriteUndecided
from coordinator.client.routing.retry import RetryPolicy
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.object_store import ObjectMissing, ObjectStore, StoreUnavailable
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from coordinator.protocol.commit_file import encode_commit_response
from coordinator.protocol.find_batches import decode_find_batches_response, encode_find_batches_response
from coordinator.store_mark import Mark, MarkedService, WrongStore, put_mark
from records.compression import Compression
from records.record_batch import Record, StoredRecord, header_name
from tests.client.scripted import ScriptedCluster, ScriptedNode, Trouble, scripted
from tests.commit_batches import commit_batch
from tests.objectstore.failing_store import FailingStore
from tests.waiting import stays, until

TOPIC = bytes(range(16))
OTHER = bytes(range(1, 17))


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted() as made:
        made.add_topic(TOPIC, "orders", 6)
        made.add_topic(OTHER, "clicks", 1)
        yield made


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://")


def client_of(cluster: ScriptedCluster, store: ObjectStore | None, *, api_timeout_ms: int = 20_000) -> DisklessClient:
    return DisklessClient(
        cluster.addresses, api_timeout_ms=api_timeout_ms, object_store=store, retry=RetryPolicy(backoff_ms=1, backoff_ms_max=8)
    )


def records(*values: str) -> list[Record]:
    return [Record(timestamp_ms=1_000 + place, key=b"k", value=value.encode()) for place, value in enumerate(values)]


async def read(client: DisklessClient, topic: str, partition: int, offset: int | None = None) -> list[tuple[int, str]]:
    return [shown(record) async for record in client.read(topic, partition, offset=offset)]


def shown(record: StoredRecord) -> tuple[int, str]:
    return record.offset, (record.value or b"").decode()


async def keys_in(store: ObjectStore) -> list[str]:
    return [one.key async for chunk in store.list("") for one in chunk]


def every(api: ApiKey, body: bytes | None, *, count: int = 1_000_000) -> Trouble:
    """Answer the first `count` requests of a kind with `body`; None hangs up."""
    left = [count]

    def trouble(_node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key != api or not left[0]:
            return False
        left[0] -= 1
        respond(body)
        return True

    return trouble


def found_nothing(partition: int, error: ErrorCode = ErrorCode.NONE) -> bytes:
    answer = m.FindBatchesPartitionResponse(partition_index=partition, error_code=error, log_start_offset=0, high_watermark=0, batches=())
    return encode(m.FindBatchesResponse(topics=(m.FindBatchesTopicResponse(topic_id=TOPIC, partitions=(answer,)),)))


async def test_records_of_several_partitions_are_one_object_of_all_coordinators(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        written = await client.write(
            {("orders", 3): records("a", "b"), ("clicks", 0): records("c"), ("orders", 0): records("d")}, compression=Compression.ZSTD
        )
        assert written.offsets == {("clicks", 0): [0], ("orders", 0): [0], ("orders", 3): [0, 1]}
        assert await keys_in(store) == [written.object_key]
        assert {file.object_key for _, file in cluster.commits} == {written.object_key}
        assert {frozenset(file.owner_ids) for _, file in cluster.commits} == {frozenset({0, 3})}
        assert await read(client, "orders", 3) == [(0, "a"), (1, "b")]
        assert await read(client, "clicks", 0) == [(0, "c")]
        assert await read(client, "orders", 1) == []


async def test_names_of_headers_that_are_no_text_end_no_reader(cluster: ScriptedCluster, store: ObjectStore) -> None:
    headers = ((header_name(b"\xff\xfe"), b"1"), ("h", None), ("h", b"\xff"), ("\u00fc\0", b""))
    async with client_of(cluster, store) as client:
        written = Record(timestamp_ms=-1, value=b"odd", headers=headers)
        await client.write({("orders", 0): [*records("before"), written, *records("after")]})
        read = [record async for record in client.read("orders", 0)]
    assert [record.value for record in read] == [b"before", b"odd", b"after"]
    assert (read[1].headers, read[1].timestamp_ms) == (headers, -1)


async def test_timestamps_too_far_ahead_are_refused_before_anything_is_uploaded(cluster: ScriptedCluster, store: ObjectStore) -> None:
    now_ms = time.time_ns() // 1_000_000
    cluster.topic_settings[TOPIC] = {"message.timestamp.after.max.ms": str(86_400_000)}
    for topic, ahead_ms, is_taken in (("clicks", 3_000_000, True), ("clicks", 4_000_000, False), ("orders", 80_000_000, True)):
        async with client_of(cluster, store) as client:
            before = len(await keys_in(store))
            given = [Record(timestamp_ms=1), Record(timestamp_ms=now_ms + ahead_ms)]
            if is_taken:
                await client.write({(topic, 0): given})
            else:
                with pytest.raises(InvalidRequest, match=f"{topic}-0: the timestamp {now_ms + ahead_ms} is .* ms ahead") as refused:
                    await client.write({(topic, 0): given})
                assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
            assert len(await keys_in(store)) == before + is_taken


async def test_a_topic_says_how_large_and_how_old_batches_may_be(cluster: ScriptedCluster, store: ObjectStore) -> None:
    now_ms = time.time_ns() // 1_000_000
    cluster.topic_settings[TOPIC] = {"message.timestamp.before.max.ms": "60000", "max.message.bytes": "1000"}
    refused = [
        ("orders", Record(timestamp_ms=now_ms - 70_000), ErrorCode.INVALID_TIMESTAMP, "ms behind"),
        ("orders", Record(value=b"x" * 1_000), ErrorCode.MESSAGE_TOO_LARGE, "max.message.bytes is 1000: write smaller"),
        ("clicks", Record(value=b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE, "max.message.bytes is 1048588"),
    ]
    async with client_of(cluster, store) as client:
        for topic, record, code, text in refused:
            with pytest.raises(InvalidRequest, match=f"{topic}-0: .*{text}") as error:
                await client.write({(topic, 0): [record]})
            assert error.value.code is code
        assert await keys_in(store) == []
        await client.write({("orders", 0): [Record(timestamp_ms=now_ms - 50_000, value=b"x" * 900)]})


async def test_records_of_a_topic_with_times_of_the_log_are_committed_with_that_type(cluster: ScriptedCluster, store: ObjectStore) -> None:
    cluster.topic_settings[TOPIC] = {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "0"}
    async with client_of(cluster, store) as client:
        # Times of producers are not kept there, so none is refused.
        await client.write({("orders", 0): [Record(timestamp_ms=2**62)]})
    assert [batch["timestamp_type"] for _, file in cluster.commits for batch in file.batches] == [1]


async def test_reading_begins_at_an_offset_within_a_batch_and_goes_over_many_rounds(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        for number in range(10):
            await client.write({("orders", 2): records(f"{number}-0", f"{number}-1", f"{number}-2")})
        expected = [(offset, f"{offset // 3}-{offset % 3}") for offset in range(30)]
        assert await read(client, "orders", 2) == expected
        assert await read(client, "orders", 2, 7) == expected[7:]
        assert await read(client, "orders", 2, 30) == []
        for outside in (-1, 31):
            with pytest.raises(OffsetOutOfRange, match=f"orders-2: offset {outside} is outside the log, which has offsets 0 to 30"):
                await read(client, "orders", 2, outside)


async def test_small_batches_of_one_write_keep_their_order(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        values = [f"value-{number}" for number in range(50)]
        written = await client.write({("orders", 5): records(*values)}, max_batch_bytes=100)
        assert written.offsets == {("orders", 5): list(range(50))}
        assert cluster.commits[0][1].batches.size > 10
        assert await read(client, "orders", 5) == list(enumerate(values))


async def test_a_follower_gets_what_is_written_while_it_waits(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        await client.write({("orders", 1): records("before", "also before")})
        following = client.read("orders", 1, offset=1, follow=True)
        assert shown(await anext(following)) == (1, "also before")
        waiting = asyncio.ensure_future(anext(following))
        await until(lambda: len(cluster.polls) == 1, "the reader to wait at a node")
        await stays(lambda: len(cluster.polls) == 1, "the reader at that node", 0.1)
        assert not waiting.done()
        await client.write({("orders", 1): records("after")})
        assert shown(await waiting) == (2, "after")


async def test_a_follower_asks_until_a_partition_that_a_node_does_not_serve_is_served(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        following = client.read("orders", follow=True)
        waiting = asyncio.ensure_future(anext(following))
        await until(lambda: len(cluster.polls) == 1, "the reader to wait at a node")
        refused = [3]

        def refuse_one(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
            """Serve all partitions but the last one, for a while."""
            if request.api_key != ApiKey.FIND_BATCHES or not refused[0]:
                return False
            refused[0] -= 1
            topics = decode_find_batches_response(node.answer(request)).topics
            topics[-1][1][-1] = topics[-1][1][-1]._replace(error_code=int(ErrorCode.NOT_COORDINATOR), batches=[])
            respond(encode_find_batches_response(topics))
            return True

        for node in cluster.nodes.values():
            node.trouble.append(refuse_one)
        cluster.wake()
        await until(lambda: not refused[0], "the refusals")
        await client.write({("orders", 5): records("after")})
        assert shown(await waiting) == (0, "after")


@pytest.mark.parametrize("partition", [2**31, 2**40, -(2**31) - 1])
async def test_a_partition_that_there_cannot_be_is_named(cluster: ScriptedCluster, store: ObjectStore, partition: int) -> None:
    async with client_of(cluster, store) as client:
        with pytest.raises(InvalidRequest, match=f":{partition}: the index of a partition is 0 to 2147483647"):
            await read(client, "orders", partition)


async def test_a_reader_waits_for_a_node_that_is_behind(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        await client.write({("orders", 0): records("a")})
        for node in cluster.nodes.values():
            node.trouble.append(every(ApiKey.FIND_BATCHES, found_nothing(0), count=2))
        assert await read(client, "orders", 0) == [(0, "a")]


async def test_a_reader_that_no_node_can_help_ends_at_its_timeout(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store, api_timeout_ms=1_500) as client:
        await client.write({("orders", 0): records("a")})
        for node in cluster.nodes.values():
            node.trouble.append(every(ApiKey.FIND_BATCHES, found_nothing(0)))
        with pytest.raises(Unavailable, match="orders-0: no node tells of the batches from offset 0 to the end 1"):
            await read(client, "orders", 0)


class _Unreachable(FailingStore):
    """A store that does not answer the first reads of ranges."""

    def __init__(self, store: ObjectStore, count: int) -> None:
        super().__init__(store)
        self.left = count

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        if self.left:
            self.left -= 1
            raise StoreUnavailable(f"get {key}: no answer")
        return await super().get_ranges(key, ranges)


async def test_a_reader_asks_a_store_again_that_does_not_answer_until_its_timeout(cluster: ScriptedCluster, store: ObjectStore) -> None:
    unreachable = _Unreachable(store, 3)
    async with client_of(cluster, unreachable) as client:
        await client.write({("orders", 0): records("a")})
        assert await read(client, "orders", 0) == [(0, "a")]
    unreachable.left = 1_000_000
    async with client_of(cluster, unreachable, api_timeout_ms=1_500) as client:
        with pytest.raises(StoreUnavailable, match="orders-0 offsets 0 to 0: wal/"):
            await read(client, "orders", 0)


async def test_a_reader_that_is_closed_leaves_no_read_under_way(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        for value in ("a", "b", "c"):
            await client.write({("orders", 0): records(value)})
        before = asyncio.all_tasks()
        reading = client.read("orders", 0)
        assert shown(await anext(reading)) == (0, "a")
        await reading.aclose()
        assert asyncio.all_tasks() <= before


async def test_a_damaged_object_is_named_and_nothing_of_its_batch_is_read(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        await client.write({("orders", 4): records("a")})
        damaged = await client.write({("orders", 4): records("b")})
        data = await store.get(damaged.object_key)
        await store.put(damaged.object_key, data[:-1] + bytes([data[-1] ^ 1]))
        reading = client.read("orders", 4)
        assert shown(await anext(reading)) == (0, "a")
        with pytest.raises(WrongObject, match=rf"orders-4 offsets 1 to 1: {damaged.object_key} \[0, .*CRC32C"):
            await anext(reading)


async def test_records_deleted_while_their_object_is_read_are_out_of_range(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        written = await client.write({("orders", 0): records("a")})
        gone = found_nothing(0, ErrorCode.OFFSET_OUT_OF_RANGE)

        def delete_then_tell(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
            if request.api_key != ApiKey.FIND_BATCHES:
                return False
            respond(node.answer(request))
            for one in cluster.nodes.values():
                one.trouble = [every(ApiKey.FIND_BATCHES, gone)]
            return True

        for node in cluster.nodes.values():
            node.trouble.append(delete_then_tell)
        await store.delete_many([written.object_key])
        with pytest.raises(OffsetOutOfRange):
            await read(client, "orders", 0)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({("absent", 0): records("a")}, NotFound, "absent"),
        ({("orders", 0): records("a"), ("orders", 6): records("b")}, NotFound, "topic orders has no partition 6; it has 6"),
        ({("orders", -1): records("a")}, WalFileError, "not negative"),
        ({("orders", 0): []}, WalFileError, "at least one record"),
        ({("orders", 0): [Record(timestamp_ms=2**63)]}, WalFileError, "timestamp 9223372036854775808; it must be"),
        ({("orders", 0): [Record(timestamp_ms=-2)]}, WalFileError, "timestamp -2; it must be"),
        ({}, WalFileError, "at least one record"),
    ],
)
async def test_a_write_that_cannot_be_leaves_no_object(
    cluster: ScriptedCluster, store: ObjectStore, given: Mapping[tuple[str, int], Sequence[Record]], error: type[Exception], text: str
) -> None:
    async with client_of(cluster, store) as client:
        with pytest.raises(error, match=text):
            await client.write(given)
    assert await keys_in(store) == []
    assert cluster.commits == []


async def test_all_partitions_of_a_topic_are_read_by_default_or_some_from_offsets(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        for number in range(4):
            await client.write(
                {("orders", index): records(f"{number}-{index}-0", f"{number}-{index}-1") for index in range(0, 6, number + 1)}
            )

        async def values(*which: Any, **more: Any) -> dict[int, list[tuple[int, str]]]:
            found: dict[int, list[tuple[int, str]]] = {}
            async for record in client.read("orders", *which, **more):
                found.setdefault(record.partition, []).append(shown(record))
            return found

        written = {index: [number for number in range(4) if index % (number + 1) == 0] for index in range(6)}
        expected = {
            index: list(enumerate(f"{number}-{index}-{place}" for number in numbers for place in (0, 1)))
            for index, numbers in written.items()
        }
        assert await values() == expected
        assert await values(fetch_bytes_max=1) == expected
        assert await values([3, 0]) == {index: expected[index] for index in (0, 3)}
        assert await values([3, 0], offset={0: 3}) == {0: expected[0][3:], 3: expected[3]}
        with pytest.raises(InvalidRequest, match="offset 1 is of one partition, and several are read"):
            client.read("orders", offset=1)
        with pytest.raises(NotFound, match="an offset is given for partition 5, which is not read"):
            await values([3], offset={5: 0})


async def test_a_follower_of_all_partitions_gets_what_is_written_to_any(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        following = client.read("orders", follow=True)
        for index in (4, 0, 5):
            waiting = asyncio.ensure_future(anext(following))
            await client.write({("orders", index): records(f"in {index}")})
            record = await waiting
            assert (record.partition, record.value) == (index, b"in %d" % index)
        waiting = asyncio.ensure_future(anext(following))
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting


async def test_a_migrated_partition_is_read_from_an_offset_of_its_diskless_part(cluster: ScriptedCluster, store: ObjectStore) -> None:
    cluster.starts[TOPIC + bytes(4)] = 2
    async with client_of(cluster, store) as client:
        await client.write({("orders", 0): records("a", "b", "c"), ("orders", 1): records("d")})
        assert await read(client, "orders", 0, 2) == [(2, "c")]
        remedy = r"it was migrated: `migration.hybrid.HybridReader` reads offsets from 0 on from Kafka, too, or read with offset=2"
        for partitions in (0, None):
            with pytest.raises(InvalidRequest, match=f"orders-0: the diskless log begins at offset 2; {remedy}"):
                await anext(client.read("orders", partitions))
        with pytest.raises(OffsetOutOfRange, match=r"offsets 2 to 3 .*it was migrated"):
            await read(client, "orders", 0, 1)


async def test_a_record_without_a_timestamp_gets_the_time_of_its_write(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        before_ms = time.time_ns() // 1_000_000
        await client.write({("orders", 0): [Record(value=b"now"), Record(timestamp_ms=-1, value=b"none")]})
        found = {record.value: record.timestamp_ms async for record in client.read("orders", 0)}
    assert found[b"none"] == -1
    assert before_ms <= found[b"now"] <= time.time_ns() // 1_000_000


async def test_values_of_wrong_types_are_named(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        offsets: dict[int, Any] = {0: "1"}
        made: tuple[tuple[Callable[[], object], str], ...] = (
            (lambda: Record(value="text"), "Record(value=...) is 'text' of type str; wanted: bytes or None"),
            (lambda: Record(key=7), "Record(key=...) is 7 of type int; wanted: bytes or None"),
            (lambda: Record(timestamp_ms=1.5), "Record(timestamp_ms=...) is 1.5 of type float; wanted: int"),
            (lambda: Record(headers=(("a", "b"),)), "Record(headers=...) is ('a', 'b') of type tuple; wanted: pairs"),
            (lambda: client.read("orders", 0, offset=1.5), "offset=1.5 has the type float; wanted: int"),
            (lambda: client.read("orders", "0"), "partition='0' has the type str; wanted: int"),
            (lambda: client.read(7), "topic=7 has the type int; wanted: str"),
            (lambda: client.read("orders", [0], offset=offsets), "offset of partition 0='1' has the type str; wanted: int"),
        )
        for make, text in made:
            with pytest.raises(TypeError, match=re.escape(text)):
                make()
        with pytest.raises(TypeError, match=r"records\['orders', 0\] has b'text' of type bytes; wanted: Record"):
            await client.write({("orders", 0): [b"text"]})
    assert await keys_in(store) == []


def marked(cluster: ScriptedCluster, **other: str) -> Mark:
    """The mark of the scripted service, or of one that differs."""
    service = MarkedService(**{"cluster_id": "c", "topic_id": topic_id_text(cluster.metadata_topic_id), **other})
    return Mark(service=service, wal_prefixes=("wal/",))


async def test_a_store_without_the_mark_of_the_service_gets_nothing(cluster: ScriptedCluster, store: ObjectStore) -> None:
    cluster.is_store_marked = True
    await put_mark(store, marked(cluster, topic_id="AAAAAAAAAAAAAAAAAAAAAw"))
    before = await keys_in(store)
    async with client_of(cluster, store, api_timeout_ms=1_000) as client:
        for _ in range(2):
            with pytest.raises(WrongStore, match=r"memory:// is not the object store of this service \(cluster c, metadata topic id AAA"):
                await client.write({("orders", 0): records("a")})
    assert await keys_in(store) == before
    assert cluster.commits == []


async def test_the_mark_is_looked_for_once_before_the_first_write(cluster: ScriptedCluster, store: ObjectStore) -> None:
    cluster.is_store_marked = True
    await put_mark(store, marked(cluster))
    asked = 0

    def count(_node: ScriptedNode, request: IncomingRequest, _respond: Respond) -> bool:
        nonlocal asked
        asked += request.api_key == ApiKey.DESCRIBE_COORDINATORS
        return False

    for node in cluster.nodes.values():
        node.trouble.append(count)
    async with client_of(cluster, store) as client:
        for _ in range(3):
            await client.write({("orders", 0): records("a")})
        assert asked == 1
        with pytest.raises(WrongStore):
            await client.check_store(open_store("memory://"), timeout_ms=300)


class _MarkedLater(FailingStore):
    """The leader marks the store when the mark has been looked for once."""

    def __init__(self, store: ObjectStore, mark: Mark) -> None:
        super().__init__(store)
        self._mark = mark

    async def get(self, key: str) -> bytes:
        try:
            return await super().get(key)
        except ObjectMissing:
            await put_mark(self._store, self._mark)
            raise


async def test_a_writer_waits_for_a_mark_that_is_about_to_be_written(cluster: ScriptedCluster, store: ObjectStore) -> None:
    cluster.is_store_marked = True
    async with client_of(cluster, _MarkedLater(store, marked(cluster))) as client:
        written = await client.write({("orders", 0): records("a")})
    assert written.object_key in await keys_in(store)


async def test_a_write_to_too_many_coordinators_is_refused_before_it_is_uploaded(store: ObjectStore) -> None:
    async with scripted(nodes=1, coordinators=65) as cluster:
        cluster.add_topic(TOPIC, "orders", 65)
        async with client_of(cluster, store) as client:
            with pytest.raises(InvalidRequest, match="65 coordinators, a file may have 64"):
                await client.write({("orders", partition): records("a") for partition in range(65)})
            assert await keys_in(store) == []
            await client.write({("orders", partition): records("a") for partition in range(64)})


class _TopicGoes(FailingStore):
    """A store during whose uploads the topic `orders` is deleted."""

    def __init__(self, store: ObjectStore, cluster: ScriptedCluster) -> None:
        super().__init__(store)
        self._cluster = cluster

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        await super().put(key, data, create_only=create_only)
        del self._cluster.topics[TOPIC]


async def test_a_file_that_is_refused_is_removed_when_its_owners_promise_never_to_take_it(
    cluster: ScriptedCluster, store: ObjectStore
) -> None:
    async with client_of(cluster, _TopicGoes(store, cluster)) as client:
        with pytest.raises(WriteRefused, match=r"orders-0: .* was removed") as caught:
            await client.write({("orders", 0): records("a"), ("clicks", 0): records("b")})
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert set(caught.value.refused) == {("orders", 0), ("clicks", 0)}
        assert caught.value.written.offsets == {}
    assert await keys_in(store) == []
    assert cluster.fenced == {(cluster.commits[-1][1].object_key, 0)}


async def test_a_file_that_an_owner_took_meanwhile_keeps_its_object(cluster: ScriptedCluster, store: ObjectStore) -> None:
    """The commit that was refused had a repetition under way, which arrives before the fence."""

    def commit_first(node: ScriptedNode, request: IncomingRequest, _respond: Respond) -> bool:
        if request.api_key == ApiKey.FENCE_FILES:
            cluster.files[cluster.commits[-1][1].object_key, 0] = (cluster.commits[-1][1], [(0, 0)])
        return False

    for node in cluster.nodes.values():
        node.trouble.append(commit_first)
    async with client_of(cluster, _TopicGoes(store, cluster)) as client:
        await client.commit_file("wal/earlier", 1, _one_batch())
        with pytest.raises(WriteRefused, match="left to the orphan scan: coordinator 0 made no promise, it is live there"):
            await client.write({("orders", 0): records("a")})
    assert len(await keys_in(store)) == 1


async def test_a_file_whose_owner_does_not_answer_keeps_its_object(cluster: ScriptedCluster, store: ObjectStore) -> None:
    for node in cluster.nodes.values():
        node.trouble.append(every(ApiKey.FENCE_FILES, None))
    async with client_of(cluster, _TopicGoes(store, cluster), api_timeout_ms=1_500) as client:
        await client.commit_file("wal/earlier", 1, _one_batch())
        with pytest.raises(WriteRefused, match="left to the orphan scan: coordinator 0 made no promise"):
            await client.write({("orders", 0): records("a")})
    assert len(await keys_in(store)) == 1
    assert cluster.fenced == set()


def process_and_hang_up(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
    if request.api_key != ApiKey.COMMIT_FILE:
        return False
    node.answer(request)
    respond(None)
    return True


async def test_a_write_whose_answer_is_lost_is_undecided_and_committed_once(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        for node in cluster.nodes.values():
            node.trouble.append(process_and_hang_up)
        with pytest.raises(WriteUndecided) as caught:
            await client.write({("orders", 0): records("a", "b")}, timeout_ms=1_500)
        for node in cluster.nodes.values():
            node.trouble.clear()
        written = await client.commit_uploaded(caught.value.uploaded)
        assert written.offsets == {("orders", 0): [0, 1]}
        assert await client.commit_uploaded(caught.value.uploaded) == written
        assert await read(client, "orders", 0) == [(0, "a"), (1, "b")]


async def test_the_outcome_of_an_undecided_write_is_learned_although_a_topic_is_deleted(
    cluster: ScriptedCluster, store: ObjectStore
) -> None:
    """Refused, it would be written once more under another key, by whoever believes that."""
    async with client_of(cluster, store) as client:
        for node in cluster.nodes.values():
            node.trouble.append(process_and_hang_up)
        with pytest.raises(WriteUndecided) as caught:
            await client.write({("orders", 1): records("a"), ("clicks", 0): records("b")}, timeout_ms=1_500)
        for node in cluster.nodes.values():
            node.trouble.clear()
    del cluster.topics[TOPIC]
    async with client_of(cluster, store) as client:
        written = await client.commit_uploaded(caught.value.uploaded)
        assert written.offsets == {("clicks", 0): [0], ("orders", 1): [0]}
        assert await read(client, "clicks", 0) == [(0, "b")]


async def test_an_undecided_upload_that_is_refused_is_removed_when_its_owners_promise_never_to_take_it(
    cluster: ScriptedCluster, store: ObjectStore
) -> None:
    async with client_of(cluster, store) as client:
        for node in cluster.nodes.values():
            node.trouble.append(every(ApiKey.COMMIT_FILE, None))
        with pytest.raises(WriteUndecided) as caught:
            await client.write({("orders", 0): records("a"), ("clicks", 0): records("b")}, timeout_ms=1_500)
        for node in cluster.nodes.values():
            node.trouble.clear()
    del cluster.topics[TOPIC]
    async with client_of(cluster, store) as client:
        with pytest.raises(WriteRefused, match="was removed"):
            await client.commit_uploaded(caught.value.uploaded)
    assert cluster.fenced == {(caught.value.uploaded.object_key, 0)}
    assert await keys_in(store) == []


class _PartitionMoves(FailingStore):
    """A store during whose uploads partition 0 of `orders` goes on in another coordinator: in each of those named, one after the other."""

    def __init__(self, store: ObjectStore, cluster: ScriptedCluster, *coordinators: int) -> None:
        super().__init__(store)
        self._cluster = cluster
        self._next = list(coordinators)

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        await super().put(key, data, create_only=create_only)
        if self._next:
            self._cluster.topics[TOPIC][1][0] = self._next.pop(0)


async def test_a_write_whose_partition_moves_meanwhile_goes_to_its_next_coordinator(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, _PartitionMoves(store, cluster, 2)) as client:
        written = await client.write({("orders", 0): records("a", "b"), ("orders", 4): records("c")}, max_batch_bytes=1)
        assert written.offsets == {("orders", 0): [0, 1], ("orders", 4): [0]}
        assert await read(client, "orders", 0) == [(0, "a"), (1, "b")]
        assert await read(client, "orders", 4) == [(0, "c")]
    refused = next(file for _, file in cluster.commits if file.object_key != written.object_key)
    assert cluster.fenced == {(refused.object_key, 0)}
    assert await keys_in(store) == [written.object_key]


async def test_a_batch_that_came_after_others_of_its_coordinator_is_written_in_another_file(
    cluster: ScriptedCluster, store: ObjectStore
) -> None:
    """A coordinator that was given a batch of a file by a move does not take its own share of that file any more."""
    refuse = every(ApiKey.COMMIT_FILE, encode_commit_response([6], [-1], [-1], [-1], [False]), count=1)
    async with client_of(cluster, store) as client:
        for node in cluster.nodes.values():
            node.trouble.append(refuse)
        written = await client.write({("orders", 0): records("a")})
        assert written.offsets == {("orders", 0): [0]}
        assert await read(client, "orders", 0) == [(0, "a")]
    assert await keys_in(store) == [written.object_key]


async def test_what_was_accepted_of_a_file_with_a_partition_that_moved_is_not_written_again(
    cluster: ScriptedCluster, store: ObjectStore
) -> None:
    """The coordinators that a file names decide their shares, also while a partition has left one of them and is at none."""

    def between(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key == ApiKey.LIST_OFFSETS:
            node.trouble.clear()
            cluster.topics[TOPIC][1][0] = 2
        if request.api_key != ApiKey.COMMIT_FILE:
            return False
        respond(encode_commit_response([6], [-1], [-1], [-1], [False]))
        return True

    async with client_of(cluster, store) as client:
        cluster.nodes[cluster.leaders[0]].trouble.append(between)
        written = await client.write({("orders", 0): records("a"), ("orders", 1): records("b")})
        assert written.offsets == {("orders", 0): [0], ("orders", 1): [0]}
        assert await read(client, "orders", 0) == [(0, "a")]
        assert await read(client, "orders", 1) == [(0, "b")]
    assert len(await keys_in(store)) == 2


async def test_a_second_file_without_an_outcome_is_committed_once_and_has_the_offsets_of_both(
    cluster: ScriptedCluster, store: ObjectStore
) -> None:
    async with client_of(cluster, _PartitionMoves(store, cluster, 2)) as client:

        def second(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
            return len(cluster.commits) > 0 and process_and_hang_up(node, request, respond)

        for node in cluster.nodes.values():
            node.trouble.append(second)
        with pytest.raises(WriteUndecided) as caught:
            await client.write({("orders", 0): records("a")}, timeout_ms=1_500)
        for node in cluster.nodes.values():
            node.trouble.clear()
        uploaded = replace(caught.value.uploaded, written={TopicPartition("clicks", 0): [7]})
        written = await client.commit_uploaded(uploaded)
        assert written.offsets == {("clicks", 0): [7], ("orders", 0): [0]}
        assert await read(client, "orders", 0) == [(0, "a")]


async def test_nodes_that_have_not_heard_of_a_move_are_asked_again_before_the_second_file(
    cluster: ScriptedCluster, store: ObjectStore
) -> None:
    behind = [0] * 3

    def stale(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key != ApiKey.DESCRIBE_TOPICS or not cluster.commits or not behind:
            return False
        now, cluster.topics[TOPIC][1][0] = cluster.topics[TOPIC][1][0], behind.pop()
        respond(node.answer(request))
        cluster.topics[TOPIC][1][0] = now
        return True

    async with client_of(cluster, _PartitionMoves(store, cluster, 2)) as client:
        for node in cluster.nodes.values():
            node.trouble.append(stale)
        written = await client.write({("orders", 0): records("a")})
        assert written.offsets == {("orders", 0): [0]}
    assert behind == []
    assert len({file.object_key for _, file in cluster.commits}) == 2


async def test_a_write_whose_partition_moves_on_and_on_comes_after_it(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, _PartitionMoves(store, cluster, 2, 3, 1)) as client:
        written = await client.write({("orders", 0): records("a")})
        assert written.offsets == {("orders", 0): [0]}
        assert await read(client, "orders", 0) == [(0, "a")]
    assert len({file.object_key for _, file in cluster.commits}) == 4
    assert await keys_in(store) == [written.object_key]


async def test_files_between_the_first_and_the_last_leave_no_objects(cluster: ScriptedCluster, store: ObjectStore) -> None:
    """The first has records of the other partition."""
    async with client_of(cluster, _PartitionMoves(store, cluster, 2, 3)) as client:
        written = await client.write({("orders", 0): records("a"), ("orders", 1): records("b")})
        assert written.offsets == {("orders", 0): [0], ("orders", 1): [0]}
        assert await read(client, "orders", 0) == [(0, "a")]
        assert await read(client, "orders", 1) == [(0, "b")]
    first, *others = dict.fromkeys(file.object_key for _, file in cluster.commits)
    assert others[-1] == written.object_key
    assert len(others) == 2
    assert sorted(await keys_in(store)) == sorted([first, written.object_key])


async def test_a_write_whose_partition_moves_for_too_long_leaves_nothing(cluster: ScriptedCluster, store: ObjectStore) -> None:
    moving = _PartitionMoves(store, cluster, 2, 3)
    async with client_of(cluster, moving) as client:
        packed = writing.pack({("orders", 0): records("a")}, compression=None, max_batch_bytes=1_000_000)
        uploaded = await writing.upload_file(client, moving, packed, prefix="wal/", timeout_ms=None)
        with pytest.raises(WriteRefused, match="was removed") as caught:
            await writing.commit_uploaded(client, moving, uploaded, second_prefix="wal/", timeout_ms=None, again_until_s=0.0)
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len({file.object_key for _, file in cluster.commits}) == 1
    assert await keys_in(store) == []


async def test_the_repetition_of_a_commit_writes_no_second_file(cluster: ScriptedCluster, store: ObjectStore) -> None:
    async with client_of(cluster, store) as client:
        for node in cluster.nodes.values():
            node.trouble.append(every(ApiKey.COMMIT_FILE, None))
        with pytest.raises(WriteUndecided) as caught:
            await client.write({("orders", 0): records("a")}, timeout_ms=1_500)
        for node in cluster.nodes.values():
            node.trouble.clear()
        cluster.topics[TOPIC][1][0] = 2
        with pytest.raises(WriteRefused, match="was removed") as refused:
            await client.commit_uploaded(caught.value.uploaded)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert {file.object_key for _, file in cluster.commits} == {caught.value.uploaded.object_key}
    assert await keys_in(store) == []


async def test_what_a_coordinator_took_meanwhile_is_not_written_a_second_time(cluster: ScriptedCluster, store: ObjectStore) -> None:
    """An earlier attempt of the commit was under way, to a node that had not heard of the move, and arrives before the fence."""

    def commit_first(node: ScriptedNode, request: IncomingRequest, _respond: Respond) -> bool:
        if request.api_key == ApiKey.FENCE_FILES:
            cluster.files[cluster.commits[-1][1].object_key, 0] = (cluster.commits[-1][1], [(0, 0), (0, 0)])
        return False

    for node in cluster.nodes.values():
        node.trouble.append(commit_first)
    async with client_of(cluster, _PartitionMoves(store, cluster, 2)) as client:
        with pytest.raises(WriteRefused, match=r"not written again \(coordinator 0 made no promise, it is live there"):
            await client.write({("orders", 0): records("a"), ("orders", 4): records("b")})
    assert len({file.object_key for _, file in cluster.commits}) == 1
    assert len(await keys_in(store)) == 1


async def test_a_partition_that_takes_nothing_yet_refuses_a_write_at_once(cluster: ScriptedCluster, store: ObjectStore) -> None:
    """A classic partition that is being migrated refuses like one that has moved, and has no other coordinator to go to."""
    offsets = m.ListOffsetsPartitionResponse(partition_index=0, error_code=6, timestamp=-1, offset=-1)
    pending = encode(m.ListOffsetsResponse(topics=(m.ListOffsetsTopicResponse(topic_id=TOPIC, partitions=(offsets,)),)))
    for node in cluster.nodes.values():
        node.trouble += [
            every(ApiKey.LIST_OFFSETS, pending),
            every(ApiKey.COMMIT_FILE, encode_commit_response([6], [-1], [-1], [-1], [False])),
        ]
    async with client_of(cluster, store) as client:
        with pytest.raises(WriteRefused, match="was removed"):
            await client.write({("orders", 0): records("a")})
    assert sum(node.count(ApiKey.COMMIT_FILE) for node in cluster.nodes.values()) == 1
    assert await keys_in(store) == []


async def test_a_client_without_a_store_says_what_it_needs(cluster: ScriptedCluster) -> None:
    async with client_of(cluster, None) as client:
        with pytest.raises(ValueError, match="object_store=open_store"):
            await client.write({("orders", 0): records("a")})
        with pytest.raises(ValueError, match="object_store=open_store"):
            client.read("orders", 0)


def _one_batch() -> list[m.CommitBatch]:
    return [commit_batch(TOPIC, 0, size=1)]
