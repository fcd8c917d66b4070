"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch in all versions: what is asked of the coordinators, and what clients are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.adapters.objectstore import open_store
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.client.calls.partitions import DeletedRecords
from coordinator.client.errors import SERVED, ClientClosed, Refusal, ServiceError
from coordinator.client.model import FetchFrom, ListedOffset, PartitionBatches, PartitionId
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.find_batches import BatchLocation
from coordinator.security.principal import ANONYMOUS
from gateway.kafka_apis import KafkaApi, made
from gateway.offsets.exact import ExactOffsets
from gateway.offsets.migrated import MigratedOffsets
from gateway.offsets.takers import offsets_takers
from gateway.offsets.wire import DELETE_RECORDS, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, Wire
from gateway.ports import DisklessTopic, Session
from tests.gateway.classic.kafka import KafkaInMemory, numbered

LIST, DELETE, EPOCH = KafkaApi.LIST_OFFSETS, KafkaApi.DELETE_RECORDS, KafkaApi.OFFSET_FOR_LEADER_EPOCH
WIRES = {LIST: LIST_OFFSETS, DELETE: DELETE_RECORDS, EPOCH: OFFSET_FOR_LEADER_EPOCH}
VERSIONS = (
    [(LIST, version) for version in range(1, 12)] + [(DELETE, version) for version in range(3)] + [(EPOCH, 2), (EPOCH, 3), (EPOCH, 4)]
)
ORDERS, SECRET, AWAY, FRESH, BOTH = (bytes([number]) * 16 for number in (1, 2, 3, 4, 5))
END = 40
Point = tuple[str, int, int]
"""Topic, partition and timestamp, offset or epoch."""


class Topics:
    """The topic `fresh`, and further partitions of `orders`, are known from the next listing on."""

    def __init__(self) -> None:
        self.listings = 0
        self.is_lost = False

    def named(self, name: str) -> DisklessTopic | None:
        ids = {"orders": ORDERS, "secret": SECRET, "away": AWAY, "both": BOTH, **({"fresh": FRESH} if self.listings else {})}
        partitions = 5 if self.listings else 3
        return DisklessTopic(name, ids[name], partitions, {}, is_migrated=name == "both") if name in ids else None

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        raise AssertionError("these requests name topics")

    async def refreshed(self) -> None:
        if self.is_lost:
            raise ServiceError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator answers")
        self.listings += 1


class Allowed:
    """Everything but the use of `secret`, which has to be asked for."""

    def __init__(self) -> None:
        self.asked: list[AclOperation] = []
        self.is_lost = False

    def known(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str] | None:
        return None if "secret" in topics or self.is_lost else frozenset()

    async def forbidden(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
        self.asked.append(operation)
        if self.is_lost:
            raise BrokerLost("the broker went away")
        return frozenset({"secret"} & set(topics))


class Logs:
    """Logs from 5 to 40, with a record a millisecond; the coordinator of `away` is not to be found."""

    def __init__(self) -> None:
        self.timeouts: list[int | None] = []
        self.is_closed = False

    async def list_offsets(self, queries: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[ListedOffset]:
        self.timeouts.append(timeout_ms)
        if self.is_closed:
            raise ClientClosed
        return [self._listed(partition, timestamp) for partition, timestamp in queries]

    def _listed(self, partition: PartitionId, timestamp: int) -> ListedOffset:
        if partition.topic_id == AWAY:
            return ListedOffset(refusal=Refusal(ErrorCode.NOT_COORDINATOR, "not here"))
        if timestamp >= 0:
            offset = max(5, timestamp) if timestamp < END else -1
            return ListedOffset(refusal=SERVED, timestamp_ms=offset, offset=offset)
        late = 0 if partition.topic_id == BOTH else 5  # where the classic part began once
        offset = {-1: END, -2: late, -3: END - 1, -4: 5}[timestamp]
        return ListedOffset(refusal=SERVED, timestamp_ms=END - 1 if timestamp == -3 else -1, offset=offset)

    async def find_batches(self, fetches: Sequence[FetchFrom], **_: Any) -> list[PartitionBatches]:
        """A batch of one record at each offset, with LogAppendTime."""
        return [
            PartitionBatches(
                refusal=SERVED,
                log_start_offset=5,
                high_watermark=END,
                batches=(BatchLocation(1, "k", 2, 0, 1, offset, offset, offset, offset, 1),),
            )
            for _, offset, _ in fetches
        ]

    async def delete_records(self, points: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[DeletedRecords]:
        self.timeouts.append(timeout_ms)
        return [self._deleted(partition, offset) for partition, offset in points]

    def _deleted(self, partition: PartitionId, offset: int) -> DeletedRecords:
        if partition.topic_id == AWAY:
            return DeletedRecords(refusal=Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "gone"))
        if offset > END or offset < -1:
            return DeletedRecords(refusal=Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "outside"))
        return DeletedRecords(refusal=SERVED, low_watermark=END if offset == -1 else offset)


class OneSession:
    connection_id = 7
    address, listener, relayed_broker_id, client_id, zone = "10.0.0.1:5", "PLAINTEXT", None, "app", None
    upstream: Any = None


def request_of(key: KafkaApi, version: int, points: Iterable[Point], *, epoch: int = -1, timeout_ms: int = 3_000) -> Any:
    wire: Wire = WIRES[key]
    module = key.request_parts(version)
    partition_name = {LIST: "ListOffsetsPartition", DELETE: "DeleteRecordsPartition", EPOCH: "OffsetForLeaderPartition"}[key]
    topic_name = {LIST: "ListOffsetsTopic", DELETE: "DeleteRecordsTopic", EPOCH: "OffsetForLeaderTopic"}[key]
    topics: dict[str, list[Any]] = {}
    for name, index, value in points:
        fields_of = {wire.partition: index, wire.value: value, "current_leader_epoch": epoch}
        topics.setdefault(name, []).append(made(getattr(module, partition_name), **fields_of))
    named = tuple(getattr(module, topic_name)(**{wire.topic: name}, partitions=tuple(found)) for name, found in topics.items())
    whole = {"topics": named, "replica_id": -1, "isolation_level": 0, "timeout": timedelta(milliseconds=timeout_ms)}
    return made(key.request_type(version), **whole)


class Desk:
    def __init__(self) -> None:
        self.logs, self.rights, self.topics = Logs(), Allowed(), Topics()
        self.kafka = KafkaInMemory(BOTH, 3, name="both")
        exact = ExactOffsets(self.logs, open_store(f"file://{Path(__file__).parent}"))
        migrated = MigratedOffsets(self.topics, self.kafka.boundaries, self.kafka.parts)
        self.takers = offsets_takers(self.topics, self.rights, self.logs, self.logs, exact, migrated)

    async def ask(self, key: KafkaApi, version: int, *points: Point, **wanted: int) -> list[tuple[Any, ...]] | None:
        """The fields of each partition's answer in the order of the version, with its topic; None when there is none."""
        body = encode(request_of(key, version, points, **wanted))
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        request = IncomingRequest(key, version, 1, "app", b"head" + body, 4, key, 0.0, Peer(7, "PLAINTEXT", "peer", ANONYMOUS))
        self.takers[key].take(OneSession(), request, answered.set_result)
        answer = await answered
        if answer is None:
            return None
        wire = WIRES[key]
        response: Any = decode(key.answer_type(version), answer)
        assert encode(response) == answer
        return [
            (getattr(topic, wire.topic), getattr(one, wire.partition), int(one.error_code), *self._rest(one))
            for topic in response.topics
            for one in topic.partitions
        ]

    @staticmethod
    def _rest(one: Any) -> Iterable[Any]:
        names = ("timestamp", "offset", "low_watermark", "leader_epoch", "end_offset")
        return [int(getattr(one, name)) for name in names if hasattr(one, name)]


async def test_offsets_are_listed_as_a_broker_without_tiered_storage_lists_them() -> None:
    desk = Desk()
    at = {-1: (-1, END, 0), -2: (-1, 5, 0), -3: (END - 1, END - 1, 0), -4: (-1, 5, 0), -5: (-1, -1, -1), -6: (-1, -1, -1), 9: (9, 9, 0)}
    at[END] = (-1, -1, -1)
    for timestamp, expected in at.items():
        assert await desk.ask(LIST, 11, ("orders", 0, timestamp)) == [("orders", 0, 0, *expected)]
    assert await desk.ask(LIST, 11, ("orders", 0, -7)) == [("orders", 0, ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)]


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
async def test_versions_know_the_timestamps_that_they_brought(timestamp: int, first: int) -> None:
    desk = Desk()
    for version in range(1, 12):
        [(_, _, error, *_)] = await desk.ask(LIST, version, ("orders", 0, timestamp))
        assert (error == 0) is (version >= first)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
async def test_partitions_are_answered_one_by_one_in_their_order(key: KafkaApi, version: int) -> None:
    desk = Desk()
    value = {LIST: -1, DELETE: -1, EPOCH: 0}[key]
    points = [("orders", 2, value), ("orders", 0, value), ("orders", 5, value), ("orders", -1, value)]
    points += [("secret", 0, value), ("unknown", 0, value), ("away", 1, value), ("away", 1, value), ("away", 2, value)]
    answers = await desk.ask(key, version, *points)
    assert answers is not None
    assert [one[:2] for one in answers] == [one[:2] for one in points]
    away = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if key == DELETE else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [one[2] for one in answers] == [0, 0, 3, 3, 29, 3, 42, 42, away]
    assert all(END in one[3:] for one in answers[:2])
    assert all(set(one[3:]) == {-1} for one in answers[2:])
    assert desk.rights.asked == [AclOperation.DELETE if key == DELETE else AclOperation.DESCRIBE]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
async def test_what_another_gateway_made_a_moment_ago_is_looked_up(key: KafkaApi, version: int) -> None:
    desk, value = Desk(), {LIST: -1, DELETE: -1, EPOCH: 0}[key]
    await desk.ask(key, version, ("orders", 0, value))
    assert desk.topics.listings == 0
    desk.topics.is_lost = True
    answers = await desk.ask(key, version, ("fresh", 0, value), ("orders", 0, value), ("orders", 4, value))
    assert answers is not None
    assert [one[2] for one in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    desk.topics.is_lost = False
    answers = await desk.ask(key, version, ("fresh", 0, value), ("orders", 4, value))
    assert answers is not None
    assert [(one[2], END in one[3:]) for one in answers] == [(0, True), (0, True)]
    assert desk.topics.listings == 1


@pytest.mark.parametrize(("offset", "expected"), [(7, (0, 7)), (-1, (0, END)), (END, (0, END)), (END + 1, (1, -1)), (-2, (1, -1))])
async def test_records_are_deleted_up_to_an_offset(offset: int, expected: tuple[int, int]) -> None:
    assert await Desk().ask(DELETE, 2, ("orders", 0, offset)) == [("orders", 0, *expected)]


@pytest.mark.parametrize(("epoch", "expected"), [(0, (0, END)), (1, (-1, -1)), (-1, (-1, -1))])
async def test_the_only_epoch_ends_at_the_high_watermark(epoch: int, expected: tuple[int, int]) -> None:
    assert await Desk().ask(EPOCH, 4, ("orders", 0, epoch)) == [("orders", 0, 0, *expected)]


@pytest.mark.parametrize(("key", "version"), [(LIST, 4), (LIST, 11), (EPOCH, 2), (EPOCH, 4)])
async def test_a_client_that_knows_a_later_epoch_is_refused(key: KafkaApi, version: int) -> None:
    desk, value = Desk(), -1 if key == LIST else 0
    for epoch, error in ((1, ErrorCode.UNKNOWN_LEADER_EPOCH), (0, ErrorCode.NONE)):
        [(_, _, found, *_)] = await desk.ask(key, version, ("orders", 0, value), epoch=epoch)
        assert found == error


@pytest.mark.parametrize(
    ("key", "version", "timeout_ms", "expected"),
    [(LIST, 9, 1, 20_000), (LIST, 10, 700, 700), (DELETE, 0, 700, 700), (DELETE, 1, -5, 100), (DELETE, 2, 1 << 30, 20_000)],
)
async def test_coordinators_are_asked_for_as_long_as_the_client_waits(key: KafkaApi, version: int, timeout_ms: int, expected: int) -> None:
    desk = Desk()
    await desk.ask(key, version, ("orders", 0, -1), timeout_ms=timeout_ms)
    assert desk.logs.timeouts == [expected]


async def test_without_an_answer_the_connection_ends() -> None:
    desk = Desk()
    desk.rights.is_lost = True
    assert await desk.ask(LIST, 1, ("orders", 0, -1)) is None
    desk.rights.is_lost = False
    desk.logs.is_closed = True
    assert await desk.ask(LIST, 1, ("orders", 0, -1)) is None
    assert await desk.ask(LIST, 1) == []


# ---- topics of two parts: the classic one below B0 = 10, the diskless one from 10 (or later) to END


def both_parts(*, suffix: int = 10) -> Desk:
    """Partition 0 has classic records 2 to 9 with times from 102 on."""
    desk = Desk()
    log = desk.kafka.logs[0]
    log.batches, log.start = [numbered(offset, [b"v"], time_ms=100 + offset) for offset in range(2, 10)], 2
    desk.kafka.begin(0, 10, suffix=suffix, end=END)
    return desk


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-2, (-1, 2, 5)), (-4, (-1, 2, 5)), (-1, (-1, END, 0)), (0, (102, 2, 5)), (105, (105, 5, 5)), (-3, (109, 9, 5)), (-5, (-1, -1, -1))],
)
async def test_offsets_of_a_migrated_topic_are_those_of_one_log(timestamp: int, expected: tuple[int, int, int]) -> None:
    assert await both_parts().ask(LIST, 11, ("both", 0, timestamp)) == [("both", 0, 0, *expected)]


async def test_the_coordinators_answer_where_the_classic_part_has_nothing() -> None:
    desk = both_parts()
    desk.kafka.logs[0].batches = [numbered(9, [b"v"], time_ms=20), numbered(10, [b"past B0"], time_ms=1_000)]
    [latest, by_time] = await desk.ask(LIST, 11, ("both", 0, -3)), await desk.ask(LIST, 11, ("both", 0, 30))
    assert latest == [("both", 0, 0, END - 1, END - 1, 0)], "what stands in the classic log from B0 on does not count"
    assert by_time == [("both", 0, 0, 30, 30, 0)]
    desk.kafka.logs[0].batches, desk.kafka.logs[0].start = [], 10
    assert await desk.ask(LIST, 11, ("both", 0, -2)) == [("both", 0, 0, -1, 5, 0)]
    desk.kafka.begin(1, 10, prefix=10, end=END)
    assert await desk.ask(LIST, 11, ("both", 1, -2)) == [("both", 1, 0, -1, 5, 0)]
    assert all(broker == 1 for broker, _ in desk.kafka.asked)
    asked = len(desk.kafka.asked)
    await desk.ask(LIST, 11, ("both", 1, -2))
    assert len(desk.kafka.asked) == asked, "a classic part that is gone needs no broker"


async def test_a_broker_that_does_not_answer_costs_its_own_partitions_their_answer() -> None:
    desk = both_parts()
    desk.kafka.dead.add(1)
    answers = await desk.ask(LIST, 11, ("both", 0, 0), ("orders", 0, 9), timeout_ms=300)
    assert answers == [("both", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1), ("orders", 0, 0, 9, 9, 0)]


@pytest.mark.parametrize(
    ("offset", "low", "classic_start", "asked"),
    [(4, 4, 4, False), (1, 2, 2, False), (10, 10, 10, False), (12, 10, 10, True), (-1, 10, 10, True)],
)
async def test_records_of_both_parts_are_deleted_in_both(offset: int, low: int, classic_start: int, asked: bool) -> None:
    desk = both_parts()
    assert await desk.ask(DELETE, 2, ("both", 0, offset)) == [("both", 0, 0, low)]
    assert desk.kafka.logs[0].start == classic_start
    assert bool(desk.logs.timeouts) is asked


@pytest.mark.parametrize("offset", [END + 1, -2])
async def test_nothing_is_deleted_before_an_offset_that_is_not_in_the_log(offset: int) -> None:
    desk = both_parts()
    assert await desk.ask(DELETE, 2, ("both", 0, offset)) == [("both", 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    assert (desk.kafka.logs[0].start, desk.logs.timeouts) == (2, [])


async def test_records_that_a_broker_does_not_delete_are_not_deleted_in_the_other_part_either() -> None:
    desk = both_parts()
    desk.kafka.refusing = KafkaError.topic_authorization_failed
    assert await desk.ask(DELETE, 2, ("both", 0, 12)) == [("both", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)]
    assert desk.logs.timeouts == []


@pytest.mark.parametrize(("epoch", "expected"), [(0, (0, END)), (5, (5, END)), (-1, (-1, -1))])
async def test_no_epoch_of_a_migrated_topic_ends_before_its_log(epoch: int, expected: tuple[int, int]) -> None:
    assert await both_parts().ask(EPOCH, 4, ("both", 0, epoch), epoch=7) == [("both", 0, 0, *expected)]
