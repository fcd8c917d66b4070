"""Two nodes that share the coordinators: split files, requests for what another node leads, and standbys that serve reads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Iterator

import kio.schema.find_coordinator.v6 as find_coordinator_v6
import pytest
from kio.static.primitive import i8

from cli.dev.kafka import Kafka
from coordinator.client.client import DisklessClient
from coordinator.client.routing.connection import ConnectionLost
from coordinator.kafka.names import topic_id_text
from coordinator.protocol import messages as m
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import LOOK_EVERY_S
from integration_tests.wire import (
    COORDINATOR_NOT_AVAILABLE,
    DUPLICATE_RESOURCE,
    FENCED_LEADER_EPOCH,
    INVALID_REQUEST,
    KIP_COMMIT_FILE,
    NOT_COORDINATOR,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    OK,
    RESOURCE_NOT_FOUND,
    TIMEOUT_S,
    UNKNOWN_TOPIC_ID,
    Batch,
    Found,
    Result,
    Topic,
    Wire,
    connected,
    file,
    new_key,
    refused,
)

COORDINATORS = 4


@pytest.fixture(scope="module")
def two_nodes(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two nodes with four coordinators; the second one does not serve the KIP's own numbers."""
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("two-nodes"), partitions=COORDINATORS, properties=UNDISTURBED) as made:
        made.add(1, node_rack="red").start()
        made.add(2, node_rack="blue", wire_kip_keys_enabled="false").start()
        made.wait_shared()
        yield made


class Nodes:
    """A connection to each node; `one` leads the directory (coordinator 0), `two` does not."""

    def __init__(self, one: Wire, two: Wire, led_by_one: set[int]) -> None:
        self.one = one
        self.two = two
        self.led_by_one = led_by_one
        self.led_by_two = set(range(COORDINATORS)) - led_by_one

    async def topic(self) -> tuple[Topic, int, int]:
        """A topic, a partition of it that `one` leads and one that `two` leads."""
        topic = await self.one.new_topic(2 * COORDINATORS)
        return topic, topic.partition_at(max(self.led_by_one)), topic.partition_at(min(self.led_by_two))


@pytest.fixture
async def nodes(two_nodes: Service) -> AsyncIterator[Nodes]:
    async with connected(two_nodes.addresses[0]) as first, connected(two_nodes.addresses[1]) as second:
        led = {one.coordinator_id for one in await first.coordinators() if one.is_local}
        assert 0 < len(led) < COORDINATORS
        yield Nodes(first, second, led) if 0 in led else Nodes(second, first, set(range(COORDINATORS)) - led)


async def find_until(wire: Wire, point: tuple[Topic, int, int], high_watermark: int) -> Found:
    """Ask a standby until it has heard of a watermark."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            (found,) = await wire.find(point)
            if found.high_watermark == high_watermark:
                return found
            assert found.error in (OK, OFFSET_NOT_AVAILABLE)
            await asyncio.sleep(LOOK_EVERY_S)


# ---- files of coordinators on two nodes


async def test_each_node_commits_its_shares_and_the_rest_is_not_its_own(nodes: Nodes) -> None:
    topic, here, there = await nodes.topic()
    batches = [Batch(topic, here, count=2), Batch(topic, there, count=3), Batch(topic, here), Batch(topic, there)]
    request = file(batches)
    elsewhere = refused(NOT_COORDINATOR)
    assert await nodes.one.send(request) == [Result(OK, 0, -1, 0, False), elsewhere, Result(OK, 2, -1, 0, False), elsewhere]
    assert await nodes.two.ends(topic, there) == (0, 0)
    assert await nodes.two.send(request) == [elsewhere, Result(OK, 0, -1, 0, False), elsewhere, Result(OK, 3, -1, 0, False)]
    assert await nodes.one.ends(topic, here) == (0, 3)
    assert await nodes.two.ends(topic, there) == (0, 4)


async def test_a_retry_that_is_split_differently_meets_the_same_shares(nodes: Nodes) -> None:
    topic, here, there = await nodes.topic()
    batches = [Batch(topic, here, at=0), Batch(topic, there, at=100, count=3), Batch(topic, here, at=200)]
    whole = file(batches, file_size=300)
    first = await nodes.one.send(file([batches[0], batches[2]], whole.object_key, owners=whole.owner_ids, file_size=300))
    assert [one.base for one in first] == [0, 1]
    assert await nodes.one.send(whole) == [first[0], refused(NOT_COORDINATOR), first[1]]
    (second,) = await nodes.two.send(file([batches[1]], whole.object_key, owners=whole.owner_ids, file_size=300))
    assert (second.error, second.base) == (OK, 0)
    assert await nodes.two.send(whole) == [refused(NOT_COORDINATOR), second, refused(NOT_COORDINATOR)]
    assert await nodes.one.ends(topic, here) == (0, 2)
    assert await nodes.two.ends(topic, there) == (0, 3)


async def test_a_repeated_commit_is_answered_after_its_topic_was_deleted_wherever_its_coordinators_are(
    nodes: Nodes, two_nodes: Service
) -> None:
    gone, here, there = await nodes.topic()
    stays = (await nodes.topic())[0]
    batches = [Batch(gone, here), Batch(gone, there, count=2), Batch(stays, here), Batch(stays, there, count=3)]
    key, rows = new_key(), file(batches).batches
    async with DisklessClient(two_nodes.addresses) as first:
        before = await first.commit_file(key, 400, rows)
    assert before.error_codes.tolist() == [OK] * 4
    owners = list(before.owner_ids)
    assert await nodes.one.delete(gone.id) == [OK]
    # A client of another process knows neither the placement of the deleted topic nor who leads it.
    async with DisklessClient(two_nodes.addresses) as second:
        again = await second.commit_file(key, 400, rows)
        fresh = await second.commit_file(new_key(), 400, rows)
    assert (again.error_codes.tolist(), again.base_offsets.tolist()) == ([OK] * 4, before.base_offsets.tolist())
    assert fresh.error_codes.tolist()[:2] == [UNKNOWN_TOPIC_ID] * 2
    # Each node answers its shares; of the others it says that it does not lead, or, once it knows that their topic is gone, to look.
    whole = file(batches, key, owners=owners, file_size=400)
    told = await nodes.one.send(whole), await nodes.two.send(whole)
    assert [one.error for one in told[0][::2] + told[1][1::2]] == [OK] * 4
    assert {told[0][1].error, told[1][0].error} <= {NOT_COORDINATOR, FENCED_LEADER_EPOCH}
    assert [told[0][3].error, told[1][2].error] == [NOT_COORDINATOR] * 2
    assert [told[n % 2][n].base for n in range(4)] == before.base_offsets.tolist()


async def test_a_share_that_is_not_known_yet_is_committed_although_the_topic_of_another_one_was_deleted(nodes: Nodes) -> None:
    gone = await nodes.one.new_topic(2 * COORDINATORS)
    stays = await nodes.one.new_topic(2 * COORDINATORS)
    one, other = sorted(nodes.led_by_one)[:2]
    owners, key = [one, other], new_key()
    lost, kept = Batch(gone, gone.partition_at(one), at=0), Batch(stays, stays.partition_at(other), at=100, count=2)
    assert [one.error for one in await nodes.one.commit(lost, key=key, owners=owners, file_size=200)] == [OK]
    assert await nodes.one.delete(gone.id) == [OK]
    for _ in range(2):
        results = await nodes.one.commit(lost, kept, key=key, owners=owners, file_size=200)
        assert [(one.error, one.base) for one in results] == [(OK, 0), (OK, 0)]
    assert await nodes.one.ends(stays, stays.partition_at(other)) == (0, 2)


async def test_a_known_key_with_batches_of_topics_that_never_were_is_known(nodes: Nodes) -> None:
    topic, here, _ = await nodes.topic()
    never = Topic(os.urandom(16), "never")
    key, owner = new_key(), topic.coordinators[here]
    first = await nodes.one.commit(Batch(topic, here, at=0), key=key, owners=[owner], file_size=200)
    assert [one.error for one in first] == [OK]
    more = await nodes.one.commit(Batch(topic, here, at=0), Batch(never, at=100), key=key, owners=[owner], file_size=200)
    assert more == [refused(DUPLICATE_RESOURCE)] * 2
    several = sorted({owner, min(nodes.led_by_one)} | {max(nodes.led_by_one)})
    more = await nodes.one.commit(Batch(topic, here, at=0), Batch(never, at=100), key=key, owners=several, file_size=200)
    assert more == [refused(DUPLICATE_RESOURCE)] * 2
    unknown = await nodes.one.commit(Batch(topic, here, at=0), Batch(never, at=100), owners=several, file_size=200)
    assert [one.error for one in unknown] == [COORDINATOR_NOT_AVAILABLE, UNKNOWN_TOPIC_ID]


async def test_the_coordinators_of_a_deleted_topic_are_told(nodes: Nodes) -> None:
    topic, _, _ = await nodes.topic()
    text = topic_id_text(topic.id)
    assert await nodes.one.delete(topic.id) == [OK]
    for wire in (nodes.one, nodes.two):
        described = await wire.describe_topic(topic.id)
        assert described.error_code == UNKNOWN_TOPIC_ID
        assert described.error_message == f"topic {topic.name} (id {text}) was deleted"
        assert tuple(one.coordinator_id for one in described.partitions) == topic.coordinators
        request = find_coordinator_v6.FindCoordinatorRequest(key_type=i8(100), coordinator_keys=(f"{text}:0", f"{text}:999"))
        found = (await wire.call(request)).coordinators
        assert [int(one.error_code.value) for one in found] == [OK, COORDINATOR_NOT_AVAILABLE]


async def test_a_bad_batch_of_another_nodes_share_refuses_this_nodes_share(nodes: Nodes) -> None:
    topic, here, there = await nodes.topic()
    results = await nodes.one.commit(Batch(topic, here), Batch(topic, there, magic=1))
    assert results[0] == refused(INVALID_REQUEST)
    assert results[1].error in (INVALID_REQUEST, NOT_COORDINATOR)
    assert await nodes.one.ends(topic, here) == (0, 0)


async def test_files_are_described_by_the_coordinators_of_a_node(nodes: Nodes) -> None:
    topic, here, there = await nodes.topic()
    mine, yours, both = new_key(), new_key(), new_key()
    await nodes.one.commit(Batch(topic, here), key=mine)
    await nodes.two.commit(Batch(topic, there), key=yours)
    for wire in (nodes.one, nodes.two):
        await wire.commit(Batch(topic, here), Batch(topic, there), key=both)
    assert await nodes.one.files(mine, yours, both) == [(OK, True), (RESOURCE_NOT_FOUND, False), (OK, True)]
    assert await nodes.two.files(mine, yours, both) == [(RESOURCE_NOT_FOUND, False), (OK, True), (OK, True)]
    assert await nodes.one.truncate((topic, here, -1)) == [(OK, 2)]
    assert await nodes.one.files(both) == [(OK, False)]
    assert await nodes.two.files(both) == [(OK, True)]


# ---- requests for what another node leads


async def test_strict_reads_and_writes_are_refused_element_by_element(nodes: Nodes) -> None:
    topic, here, there = await nodes.topic()
    for wire, led, foreign in ((nodes.one, here, there), (nodes.two, there, here)):
        assert await wire.offsets(topic, -1, 0, -99, partition=foreign) == [(NOT_COORDINATOR, -1, -1)] * 3
        assert await wire.truncate((topic, foreign, 0), (topic, led, 0)) == [(NOT_COORDINATOR, -1), (OK, 0)]
        assert await wire.commit(Batch(topic, foreign)) == [refused(NOT_COORDINATOR)]


async def test_topics_are_created_and_deleted_by_the_leader_of_the_directory_only(nodes: Nodes) -> None:
    topic = await nodes.one.new_topic()
    asked = [(os.urandom(16), f"topic-{uuid.uuid4().hex}", 1) for _ in range(2)]
    assert await nodes.two.create(*asked) == [NOT_COORDINATOR] * 2
    assert await nodes.two.delete(topic.id, os.urandom(16)) == [NOT_COORDINATOR] * 2
    assert (await nodes.one.describe_topic(asked[0][0])).error_code == UNKNOWN_TOPIC_ID
    assert await nodes.one.look_up(topic.id) == topic


async def test_topics_are_unknown_only_after_the_directory_was_read_to_its_end(nodes: Nodes) -> None:
    for _ in range(10):
        topic, here, there = await nodes.topic()
        # Node two follows the directory; it must not say "unknown" because it lags.
        committed, offsets, (found,) = await asyncio.gather(
            nodes.two.commit(Batch(topic, there)),
            nodes.two.offsets(topic, -2, partition=there),
            nodes.two.find((topic, here, 0)),
        )
        assert (committed[0].error, offsets) == (OK, [(OK, -1, 0)])
        assert found.error in (OK, OFFSET_NOT_AVAILABLE)
        assert (await nodes.two.describe_topic(topic.id)).error_code == OK


async def test_a_deleted_topic_is_unknown_to_every_leader_when_the_deletion_is_answered(nodes: Nodes) -> None:
    for _ in range(5):
        topic, here, there = await nodes.topic()
        assert await nodes.one.delete(topic.id) == [OK]
        for wire, partition in ((nodes.one, here), (nodes.two, there)):
            assert await wire.offsets(topic, -1, partition=partition) == [(UNKNOWN_TOPIC_ID, -1, -1)]
            owners = list(range(COORDINATORS))
            assert await wire.commit(Batch(topic, partition), owners=owners) == [refused(UNKNOWN_TOPIC_ID)]
        assert await nodes.one.create((topic.id, topic.name, 1)) == [UNKNOWN_TOPIC_ID]


# ---- standbys


async def test_a_standby_serves_find_batches_with_the_same_batches(nodes: Nodes) -> None:
    topic, _, there = await nodes.topic()
    for n in range(5):
        await nodes.two.commit(Batch(topic, there, count=10, size=50), Batch(topic, there, count=5, is_append_time=n % 2 == 0))
    (leaders,) = await nodes.two.find((topic, there, 0))
    assert len(leaders.batches) == 10
    assert await find_until(nodes.one, (topic, there, 0), 75) == leaders
    limited = await nodes.one.find((topic, there, 12, 60), (topic, there, 0, 0), max_batches=3)
    assert [one.ranges for one in limited] == [[(10, 14)], []]


async def test_a_standby_never_resets_a_consumer(nodes: Nodes) -> None:
    topic, _, there = await nodes.topic()
    await nodes.two.commit(Batch(topic, there, count=10))
    assert await nodes.two.truncate((topic, there, 4)) == [(OK, 4)]
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            (found,) = await nodes.one.find((topic, there, 10))
            if found.log_start == 4:
                break
            await asyncio.sleep(LOOK_EVERY_S)
    points = [(topic, there, offset) for offset in (3, 10, 11)]
    below, end, past = await nodes.one.find(*points)
    assert (below.error, end.error, past.error) == (OFFSET_OUT_OF_RANGE, OK, OFFSET_NOT_AVAILABLE)
    assert {one[1:3] for one in (below, end, past)} == {(4, 10)}
    assert [one.ranges for one in (below, end, past)] == [[], [], []]
    assert [one.error for one in await nodes.two.find(*points)] == [OFFSET_OUT_OF_RANGE, OK, OFFSET_OUT_OF_RANGE]


async def test_one_request_is_served_for_coordinators_led_and_followed(nodes: Nodes) -> None:
    topic, here, there = await nodes.topic()
    await nodes.one.commit(Batch(topic, here, count=2))
    await nodes.two.commit(Batch(topic, there, count=3))
    await find_until(nodes.one, (topic, there, 0), 3)
    unknown = Topic(os.urandom(16), "unknown")
    found = await nodes.one.find((topic, there, 0), (unknown, 0, 0), (topic, here, 0), (topic, there, 9), (topic, here, 9))
    assert [one.error for one in found] == [OK, UNKNOWN_TOPIC_ID, OK, OFFSET_NOT_AVAILABLE, OFFSET_OUT_OF_RANGE]
    assert [one.ranges for one in found] == [[(0, 2)], [], [(0, 1)], [], []]


# ---- what both nodes know


async def test_both_nodes_tell_the_same_of_the_service(nodes: Nodes, two_nodes: Service) -> None:
    topic, _, _ = await nodes.topic()
    told = []
    for wire in (nodes.one, nodes.two):
        described = await wire.coordinators()
        leaders = {one.coordinator_id: (one.leader_id, one.leader_epoch, one.term, one.host, one.port) for one in described}
        response = await wire.call(m.DescribeCoordinatorsRequest(coordinator_ids=(), timeout_ms=1000))
        brokers = sorted((one.node_id, one.rack, f"{one.host}:{one.port}") for one in response.nodes)
        placed = [(one.partition_index, one.coordinator_id, one.leader_id) for one in (await wire.describe_topic(topic.id)).partitions]
        told.append((leaders, brokers, placed))
    assert told[0] == told[1]
    assert told[0][1] == [(1, "red", two_nodes.addresses[0]), (2, "blue", two_nodes.addresses[1])]
    local = [{one.coordinator_id for one in await wire.coordinators() if one.is_local} for wire in (nodes.one, nodes.two)]
    assert local == [nodes.led_by_one, nodes.led_by_two]


async def test_the_kips_own_numbers_can_be_hidden(two_nodes: Service) -> None:
    async with connected(two_nodes.addresses[1]) as wire:
        request = file([Batch(Topic(os.urandom(16), "unknown"))])
        assert [one.error for one in await wire.send(request)] == [UNKNOWN_TOPIC_ID]
        with contextlib.suppress(ConnectionLost):
            await wire.send(request, KIP_COMMIT_FILE)
            raise AssertionError("request 95 was answered")
    async with connected(two_nodes.addresses[0]) as wire:
        assert [one.error for one in await wire.send(request, KIP_COMMIT_FILE)] == [UNKNOWN_TOPIC_ID]


async def digests(wire: Wire) -> dict[int, tuple[int, bytes]]:
    """(applied offset, digest) of each coordinator as last written, once everything is written."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            described = await wire.coordinators()
            if all(one.applied_offset == one.log_end_offset - 1 for one in described):
                return {one.coordinator_id: (one.applied_offset, one.digest) for one in described}
            await asyncio.sleep(LOOK_EVERY_S)


async def test_leader_and_standby_have_the_same_digest_at_the_same_offset(nodes: Nodes) -> None:
    topic, here, there = await nodes.topic()
    gone, gone_here, gone_there = await nodes.topic()
    for wire, partition, gone_partition in ((nodes.one, here, gone_here), (nodes.two, there, gone_there)):
        for n in range(5):
            idempotent = Batch(topic, partition, count=3, producer=n % 2, epoch=0, sequence=3 * (n // 2))
            await wire.commit(idempotent, idempotent, Batch(gone, gone_partition), owners=list(range(COORDINATORS)))
        # Only the leader answers this, and remembers the timestamp it had to look for.
        await wire.truncate((topic, partition, 4))
        assert (await wire.offsets(topic, -3, partition=partition))[0][0] == OK
    assert await nodes.one.delete(gone.id) == [OK]
    async with asyncio.timeout(2 * TIMEOUT_S):
        while True:
            one, two = await asyncio.gather(digests(nodes.one), digests(nodes.two))
            if {c: offset for c, (offset, _) in one.items()} == {c: offset for c, (offset, _) in two.items()}:
                break
            await asyncio.sleep(LOOK_EVERY_S)
    assert one == two
    assert len({digest for _, digest in one.values()}) == COORDINATORS
