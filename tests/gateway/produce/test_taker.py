"""Produce from the bytes of a request to the answer, on virtual time, with a service that decides as coordinators do."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from typing import Any

import pytest

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import StoreDenied
from coordinator.protocol.wire import MalformedMessage
from gateway.ports import NO_ANSWER
from gateway.produce.buffer import BufferLimits
from records.record_batch import ProducerSequence, Record, encode_batch, parse_headers
from simulation.fakes.objects import StoreFault
from tests.gateway.produce.kio_produce import ID_VERSIONS, VERSIONS, Result, batch
from tests.gateway.produce.world import ORDERS, OTHERS, START_MS, FakeCatalogue, LateTimers, World, every, results
from tests.virtual_loop import lived

LIMITS = BufferLimits(buffer_bytes=100_000, buffer_ms=250, file_gap_ms=25, files_per_second_max=40, batches_max=50)


def key(topic_id: bytes, partition: int) -> bytes:
    return topic_id + partition.to_bytes(4, "big")


def sequenced(first: int, count: int = 1, producer_id: int = 9) -> bytes:
    producer = ProducerSequence(producer_id=producer_id, producer_epoch=0, base_sequence=first)
    return encode_batch([Record(timestamp_ms=START_MS, value=b"%d" % (first + at)) for at in range(count)], producer=producer)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_answered_with_the_offsets_of_its_batches(version: int) -> None:
    async def work() -> None:
        world = World()
        client = world.client()
        topic = ORDERS if version >= ID_VERSIONS else "orders"
        first = await client.ask((topic, [(3, batch(2)), (0, batch(5))]), version=version)
        second = await client.ask((topic, [(3, batch(1))]), version=version)
        start = 0 if version >= 5 else -1
        assert first == {topic: [Result(3, 0, 0, -1, start), Result(0, 0, 0, -1, start)]}
        assert second == {topic: [Result(3, 0, 2, -1, start)]}
        assert world.memory.bytes_held == 0

    lived(work())


def test_a_file_has_the_bytes_of_its_batches_sorted_by_partition() -> None:
    async def work() -> None:
        world = World()
        clients = [world.client() for _ in range(3)]
        sent: list[Any] = []
        batches = [[sequenced(0, 1, 10 * who + p) for p in (5, 2, 7)] for who in range(3)]
        for client, [five, two, seven] in zip(clients, batches, strict=True):
            sent.append(client.send(("orders", [(5, five), (2, two)]), ("others", [(7, seven)])))
        await every(sent)
        [(name, data)] = world.stored
        assert world.objects.by_key[name].data == data
        expected = [found[1] for found in batches] + [found[0] for found in batches] + [found[2] for found in batches]
        assert data == b"".join(expected)
        [committed] = {one.object_key for one in world.committed}
        assert committed == name
        rows = [row for one in world.committed for row in one.rows]
        headers = {one.byte_offset: one for one in parse_headers(data)}
        assert len(rows) == len(headers) == 9
        for row in rows:
            header = headers[int(row["byte_offset"])]
            assert (header.size_bytes, header.producer_id) == (int(row["size"]), int(row["producer_id"]))

    lived(work())


def test_one_partition_is_refused_and_the_others_are_written() -> None:
    async def work() -> None:
        world = World(catalogue=FakeCatalogue(max_message_bytes="2000"))
        client = world.client()
        broken = batch()[:-1] + b"?"
        found = await client.ask(
            ("orders", [(0, batch()), (1, broken), (8, batch()), (2, batch(size=3000)), (-1, batch())]), ("others", [(2, batch(size=3000))])
        )
        assert [(one.partition, one.code) for one in found["orders"]] == [
            (0, 0),
            (1, ErrorCode.CORRUPT_MESSAGE),
            (8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (2, ErrorCode.MESSAGE_TOO_LARGE),
            (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert (
            found["orders"][3].message
            == f"orders-2: the record batch has {len(batch(size=3000))} bytes, max.message.bytes of the topic is 2000"
        )
        assert [one.code for one in found["others"]] == [0]
        assert world.stats.refused == {2: 1, 3: 2, 10: 1}

    lived(work())


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_that_are_not_known(version: int) -> None:
    async def work() -> None:
        world = World()
        topic = b"?" * 16 if version >= ID_VERSIONS else "nobody"
        found = await world.client().ask((topic, [(0, batch())]), version=version)
        code = ErrorCode.UNKNOWN_TOPIC_ID if version >= ID_VERSIONS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [one.code for one in found[topic]] == [code]
        assert not world.stored

    lived(work())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"transactional_id": "t"}, ErrorCode.INVALID_TXN_STATE),
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"acks": -2}, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_requests_that_are_refused_whole(options: dict[str, Any], code: ErrorCode) -> None:
    async def work() -> None:
        world = World()
        found = await world.client().ask(("orders", [(0, batch()), (1, batch())]), ("nobody", [(0, batch())]), **options)
        assert [one.code for results_of in found.values() for one in results_of] == [code] * 3
        assert (world.stored, world.memory.bytes_held) == ([], 0)

    lived(work())


def test_without_rights_a_topic_is_refused_alone() -> None:
    async def work() -> None:
        world = World()
        world.rights.forbidden_topics = frozenset({"orders"})
        found = await world.client().ask(("orders", [(0, batch())]), ("others", [(0, batch())]))
        assert [found[name][0].code for name in ("orders", "others")] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0]

    lived(work())


def test_no_request_overtakes_one_whose_rights_are_asked_for() -> None:
    async def work() -> None:
        world = World()
        client = world.client()
        world.rights.takes_s = 0.4
        sent = [client.send(("orders", [(0, sequenced(0))]))]
        await asyncio.sleep(0.1)
        world.rights.takes_s = None  # known from here on
        sent += [client.send(("orders", [(0, sequenced(number))])) for number in (1, 2)]
        assert [[one.base_offset for one in found] for found in await every(sent)] == [[0], [1], [2]]

    lived(work())


def test_a_topic_that_becomes_known_while_rights_are_asked_for_is_not_written() -> None:
    """Its rights were not asked for: whoever names it in time would write without any."""

    async def work() -> None:
        catalogue = FakeCatalogue()
        new = catalogue.topics.pop()
        world = World(catalogue=catalogue)
        world.rights.forbidden_topics = frozenset({new.name})
        world.rights.takes_s = 0.4
        world.loop.call_later(0.2, catalogue.topics.append, new)
        found = await world.client().ask(("orders", [(0, batch())]), (new.name, [(0, batch())]))
        assert [found[name][0].code for name in ("orders", new.name)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    lived(work())


def test_a_connection_whose_rights_cannot_be_asked_for_ends() -> None:
    async def work() -> None:
        world = World()
        client = world.client()
        world.rights.takes_s, world.rights.error = 0.1, BrokerLost("broker 1 is gone")
        sent = [client.send(("orders", [(0, batch())])) for _ in range(2)]
        assert await asyncio.gather(*sent) == [None, None]
        assert world.memory.bytes_held == 0

    lived(work())


def test_log_append_time_is_in_row_and_answer() -> None:
    async def work() -> None:
        world = World(catalogue=FakeCatalogue(message_timestamp_type="LogAppendTime"))
        old = batch(timestamp_ms=5)
        found = await world.client().ask(("orders", [(0, old)]), ("others", [(0, old)]))
        assert [found[name][0].append_time_ms for name in ("orders", "others")] == [START_MS + 77, -1]

    lived(work())


def test_timestamps_are_judged_by_the_clock_of_the_gateway() -> None:
    async def work() -> None:
        world = World(catalogue=FakeCatalogue(message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="500"))
        client = world.client()
        times = [START_MS - 1000, START_MS + 500, START_MS - 1001, START_MS + 501]
        found = await client.ask(("orders", [(place, batch(timestamp_ms=time)) for place, time in enumerate(times)]))
        assert [one.code for one in found["orders"]] == [0, 0, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_TIMESTAMP]
        assert [[place for place, _ in one.record_errors] for one in found["orders"]] == [[], [], [0], [0]]

    lived(work())


def test_acks_0_gets_no_answer_and_is_written() -> None:
    async def work() -> None:
        world = World()
        client = world.client()
        assert await client.send(("orders", [(0, batch())]), acks=0) is NO_ANSWER
        assert world.loop.time() == 0
        assert world.memory.bytes_held > 0
        assert await world.taker.drain(1)
        assert len(world.service.logs[key(ORDERS, 0)]) == 1
        assert world.memory.bytes_held == 0

    lived(work())


def test_acks_0_with_a_refused_batch_ends_the_connection() -> None:
    async def work() -> None:
        world = World()
        assert await world.client().send(("orders", [(0, batch()), (99, batch())]), acks=0) is None

    lived(work())


def test_acks_1_waits_as_all_does() -> None:
    async def work() -> None:
        world = World()
        found = await world.client().ask(("orders", [(0, batch())]), acks=1)
        assert found["orders"][0].base_offset == 0
        assert world.loop.time() > 0

    lived(work())


def test_a_malformed_request_is_raised_and_held_by_nobody() -> None:
    async def work() -> None:
        world = World()
        with pytest.raises(MalformedMessage):
            world.client().send_body(b"\0\0")
        assert world.memory.bytes_held == 0

    lived(work())


def test_a_stalled_client_does_not_wait_for_the_timer() -> None:
    async def work() -> None:
        world = World(LIMITS)
        client = world.client()
        for window in range(4):
            began = world.loop.time()
            await every([client.send(("orders", [(0, batch())])) for _ in range(5)])
            assert world.loop.time() - began <= (0.006 if window == 0 else 0.035)
        assert world.stats.files == 4

    lived(work())


def test_the_time_of_the_buffer_is_kept_where_long_timers_come_late() -> None:
    async def work() -> None:
        world = World(LIMITS)
        await asyncio.sleep(0.06)
        await world.client().ask(("orders", [(0, batch())]))
        assert 0.31 <= world.loop.time() < 0.32

    lived(work(), LateTimers)


def test_a_client_with_one_request_in_flight_is_learned() -> None:
    async def work() -> None:
        world = World(LIMITS)
        client = world.client()
        took = []
        for _ in range(6):
            began = world.loop.time()
            await client.ask(("orders", [(0, batch())]))
            took.append(world.loop.time() - began)
        assert min(took[:2]) > 0.2
        assert max(took[3:]) < 0.04

    lived(work())


def test_full_buffers_become_files_at_once_and_uploads_overlap() -> None:
    async def work() -> None:
        world = World(LIMITS)
        world.objects.delay_s = lambda: 0.1
        client = world.client()
        sent = [client.send(("orders", [(0, batch(size=30_000))])) for _ in range(12)]
        found = await every(sent)
        assert [one[0].base_offset for one in found] == list(range(12))
        assert world.stats.files == 4
        assert world.loop.time() < 0.2

    lived(work())


def test_a_request_larger_than_a_file_is_several() -> None:
    async def work() -> None:
        world = World(LIMITS, catalogue=FakeCatalogue(partitions=300))
        found = await world.client().ask(("orders", [(place, batch(size=1000)) for place in range(220)]))
        assert [(one.partition, one.base_offset) for one in found["orders"]] == [(place, 0) for place in range(220)]
        assert world.stats.files == 5
        assert all(len(data) <= 100_000 + 2_000 for _, data in world.stored)

    lived(work())


def test_a_file_has_no_more_coordinators_than_the_service_takes() -> None:
    async def work() -> None:
        world = World(catalogue=FakeCatalogue(coordinators=150, partitions=150))
        await world.client().ask(("orders", [(place, batch()) for place in range(150)]))
        assert world.stats.files == 3
        assert max(len(shares) for _, _, shares in world.service.calls) == 64

    lived(work())


def test_commits_of_a_partition_are_in_order_however_uploads_end() -> None:
    async def work() -> None:
        world = World(LIMITS)
        delays = iter([0.5, 0.01, 0.3, 0.01])
        world.objects.delay_s = lambda: next(delays, 0.0)
        client = world.client()
        sent = [client.send(("orders", [(0, sequenced(number * 20, 20)), (1, bytes(batch(size=99_000)))])) for number in range(4)]
        found = await every(sent)
        assert [one[0].base_offset for one in found] == [0, 20, 40, 60]
        assert world.stats.files == 4

    lived(work())


@pytest.mark.parametrize("fault", [StoreFault.REFUSED, StoreFault.UNKNOWN, StoreFault.LATE])
def test_uploads_are_repeated_under_the_same_key(fault: StoreFault) -> None:
    async def work() -> None:
        world = World()
        faults = iter([fault, fault])
        world.fault_of = lambda _call: next(faults, StoreFault.NONE)
        found = await world.client().ask(("orders", [(0, batch())]))
        assert found["orders"][0] == Result(0, 0, 0, -1, 0)
        assert len(world.objects.by_key) == 1
        assert world.stats.uploads_repeated >= 1

    lived(work())


def test_a_store_that_hangs_is_asked_again() -> None:
    async def work() -> None:
        world = World()
        faults = iter([StoreFault.STALLED])
        world.fault_of = lambda _call: next(faults, StoreFault.NONE)
        found = await world.client().ask(("orders", [(0, batch())]))
        assert found["orders"][0].code == 0
        assert world.loop.time() < 6

    lived(work())


def test_uploads_over_a_slow_link_get_longer_attempts() -> None:
    async def work() -> None:
        world = World()
        given_s: list[float] = []

        async def slow(*_: object, **__: object) -> None:
            begun_s = world.loop.time()
            try:
                await asyncio.sleep(12)
            finally:
                given_s.append(world.loop.time() - begun_s)

        world.store.put = slow  # type: ignore[method-assign]
        [one] = results(await world.client().send(("orders", [(0, batch())]), timeout_ms=60_000))
        assert one.code == 0
        assert given_s == pytest.approx([5, 10, 12], abs=0.01)

    lived(work())


def test_a_client_whose_time_is_over_is_told_so_and_its_file_goes_on() -> None:
    async def work() -> None:
        world = World()
        world.service.behave = lambda *_: "never" if world.loop.time() < 5 else "served"
        client, patient = world.client(), world.client()
        hurried = client.send(("orders", [(0, sequenced(0))]), timeout_ms=3_000)
        other = patient.send(("orders", [(1, batch())]), timeout_ms=60_000)
        [late] = results(await hurried)
        assert (late.code, world.loop.time()) == (ErrorCode.REQUEST_TIMED_OUT, 3.0)
        assert world.memory.bytes_held > 0
        again = client.send(("orders", [(0, sequenced(0))]))
        assert [one.base_offset for [one] in await every([other, again])] == [0, 0]
        assert world.stats.duplicates == 1
        assert len(world.service.logs[key(ORDERS, 0)]) == 1
        assert world.stats.timed_out == 1
        assert world.memory.bytes_held == 0

    lived(work())


def test_a_commit_whose_answer_is_lost_is_asked_for_again() -> None:
    async def work() -> None:
        world = World()
        world.service.behave = lambda _key, _coordinator, attempt: "lost" if attempt == 0 else "served"
        found = await world.client().ask(("orders", [(0, sequenced(0, 3)), (1, batch())]))
        assert [one.base_offset for one in found["orders"]] == [0, 0]
        assert world.stats.commits_repeated == 1
        assert world.service.next_offsets[key(ORDERS, 0)] == 3

    lived(work())


def test_a_coordinator_without_a_leader_holds_up_only_its_own_partitions() -> None:
    async def work() -> None:
        world = World(LIMITS)
        world.service.behave = lambda _key, coordinator, _attempt: "never" if coordinator == 1 and world.loop.time() < 20 else "served"
        sick, sound = world.client(), world.client()
        held = sick.send(("orders", [(1, sequenced(0))]))
        first = await sound.ask(("orders", [(0, batch())]))
        assert first["orders"][0].base_offset == 0
        assert world.loop.time() < 3
        for number in range(1, 4):
            later = sick.send(("orders", [(1, sequenced(number))]))
            began = world.loop.time()
            assert (await sound.ask(("orders", [(0, batch()), (2, batch())])))["orders"][0].base_offset == number
            assert world.loop.time() - began < 0.3
            assert not later.done()
        [one] = results(await held)
        assert one.base_offset == 0
        assert await world.taker.drain(30)
        assert world.service.next_offsets[key(ORDERS, 1)] == 4

    lived(work())


def test_a_batch_does_not_overtake_those_that_were_sent_to_where_its_partition_was() -> None:
    async def work() -> None:
        catalogue = FakeCatalogue()
        world = World(LIMITS, catalogue=catalogue)
        world.service.behave = lambda _key, coordinator, _attempt: "never" if coordinator == 1 and world.loop.time() < 20 else "served"
        one, other = world.client(), world.client()
        first = one.send(("orders", [(1, batch())]))
        assert (await other.ask(("orders", [(2, batch())])))["orders"][0].base_offset == 0
        topic = catalogue.topics[0]
        catalogue.topics[0] = topic._replace(coordinators=(0, 2, *topic.coordinators[2:]))
        later = one.send(("orders", [(1, batch())]))
        # Its coordinator goes on with other files meanwhile.
        assert (await other.ask(("orders", [(3, batch())])))["orders"][0].base_offset == 0
        assert not later.done()
        assert [results(await asked)[0].base_offset for asked in (first, later)] == [0, 1]
        assert await world.taker.drain(30)

    lived(work())


def test_a_deleted_partition_does_not_hold_up_the_others_of_its_share() -> None:
    async def work() -> None:
        world = World()
        world.service.gone = {key(ORDERS, 4)}
        partitions = [(0, batch()), (4, batch()), (1, batch())]
        by_name = await world.client().ask(("orders", partitions))
        assert [one.code for one in by_name["orders"]] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        by_id = await world.client().ask((ORDERS, partitions), version=ID_VERSIONS)
        assert [one.code for one in by_id[ORDERS]] == [0, ErrorCode.UNKNOWN_TOPIC_ID, 0]

    lived(work())


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ErrorCode.INVALID_REQUEST, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.KAFKA_STORAGE_ERROR),
        (12345, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_refusals_of_coordinators_are_told_as_a_broker_would(code: int, told: ErrorCode) -> None:
    async def work() -> None:
        world = World()
        world.service.refused = {key(ORDERS, 0): (int(code), "")}
        found = await world.client().ask(("orders", [(0, batch()), (1, batch())]))
        assert [one.code for one in found["orders"]] == [told, 0]
        assert "refused by 0" in (found["orders"][0].message or "")
        assert [len(one.rows) for one in world.committed] == [1]

    lived(work())


def test_the_object_of_a_file_that_is_refused_whole_is_removed() -> None:
    async def work() -> None:
        world = World()
        found = await world.client().ask(("orders", [(0, sequenced(7)), (1, sequenced(7))]))
        assert [one.code for one in found["orders"]] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2
        await asyncio.sleep(1)
        assert not world.objects.by_key
        assert {coordinator for _, coordinator in world.service.fenced} == {0, 1}
        assert world.stats.files_refused == 1

    lived(work())


def test_a_file_that_is_never_stored_is_given_up_when_all_its_clients_are_gone() -> None:
    async def work() -> None:
        world = World()
        world.fault_of = lambda _call: StoreFault.REFUSED
        client = world.client()
        lost = client.send(("orders", [(0, sequenced(0))]), timeout_ms=4_000)
        [one] = results(await lost)
        assert (one.code, world.loop.time()) == (ErrorCode.REQUEST_TIMED_OUT, 4.0)
        assert await world.taker.drain(5)
        assert (world.stats.uploads_given_up, world.memory.bytes_held) == (1, 0)
        world.fault_of = lambda _call: StoreFault.NONE
        again = await client.ask(("orders", [(0, sequenced(0))]))
        assert again["orders"][0].base_offset == 0

    lived(work())


def test_nothing_of_a_producer_is_written_before_its_first_batch_that_was_given_up() -> None:
    async def work() -> None:
        world = World()
        world.service.takes_unknown = True
        world.fault_of = lambda _call: StoreFault.STALLED if world.loop.time() < 1 else StoreFault.NONE
        client, other = world.client(), world.client()
        first = client.send(("orders", [(0, sequenced(0))]), timeout_ms=4_000)
        await asyncio.sleep(1)
        second = client.send(("orders", [(0, sequenced(1)), (1, sequenced(7))]), timeout_ms=20_000)
        third = other.send(("orders", [(0, sequenced(3, producer_id=4))]), timeout_ms=20_000)
        codes = [[one.code for one in results(found)] for found in (await first, await second, await third)]
        refused = int(ErrorCode.KAFKA_STORAGE_ERROR)
        assert codes == [[ErrorCode.REQUEST_TIMED_OUT], [refused, 0], [0]]
        again = await every([client.send(("orders", [(0, sequenced(number))])) for number in (1, 0, 1)])
        assert [found.code for [found] in again] == [refused, 0, 0]
        assert (world.taker.files_open, world.memory.bytes_held) == (0, 0)

    lived(work())


def test_nothing_of_a_producer_is_written_before_its_first_batch_that_came_where_the_partition_is_not() -> None:
    """A partition that moves is served elsewhere when the next batch comes, which its coordinator would take for the first one."""

    async def work() -> None:
        world = World()
        world.service.takes_unknown = True
        world.service.gone = {key(ORDERS, 0)}
        client = world.client()
        assert (await client.ask(("orders", [(0, sequenced(0))])))["orders"][0].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        world.service.gone.clear()
        again = await every([client.send(("orders", [(0, sequenced(number))])) for number in (1, 0, 1)])
        assert [found.code for [found] in again] == [ErrorCode.KAFKA_STORAGE_ERROR, 0, 0]

    lived(work())


@pytest.mark.parametrize("has_moved", [False, True])
def test_nothing_of_a_producer_is_out_of_order_behind_a_batch_that_came_where_the_partition_is_not(has_moved: bool) -> None:
    """librdkafka answers OUT_OF_ORDER_SEQUENCE_NUMBER with a new epoch, and doubles what timed out elsewhere."""

    async def work() -> None:
        catalogue = FakeCatalogue()
        world = World(LIMITS, catalogue=catalogue)
        client = world.client()
        assert [found.code for [found] in await every([client.send(("orders", [(1, sequenced(number))])) for number in (0, 1)])] == [0, 0]
        world.service.refused = {key(ORDERS, 1): (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), "it has moved")}
        lost = client.send(("orders", [(1, sequenced(2))]))
        behind = client.send(("orders", [(1, sequenced(3))]))
        assert [found.code for [found] in await every([lost, behind])] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        world.service.refused = {}
        if has_moved:
            topic = catalogue.topics[0]
            catalogue.topics[0] = topic._replace(coordinators=(0, 2, *topic.coordinators[2:]))
        other = world.client().send(("orders", [(1, sequenced(0, producer_id=4)), (2, sequenced(0))]))
        again = await every([client.send(("orders", [(1, sequenced(number))])) for number in (4, 3, 2, 3, 4)])
        assert [found.code for [found] in again] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2 + [0] * 3
        assert [one.code for one in results(await other)] == [0, 0]

    lived(work())


def test_a_beginning_that_was_repeated_elsewhere_is_not_missed_for_long() -> None:
    async def work() -> None:
        world = World()
        world.service.takes_unknown = True
        world.fault_of = lambda _call: StoreFault.REFUSED if world.loop.time() < 4.5 else StoreFault.NONE
        client = world.client()
        await client.ask(("orders", [(0, sequenced(0))]), timeout_ms=2_000)
        assert await world.taker.drain(5)
        await asyncio.sleep(3)
        assert (await client.ask(("orders", [(0, sequenced(1))])))["orders"][0].code == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(5)
        assert (await client.ask(("orders", [(0, sequenced(1))])))["orders"][0].code == 0

    lived(work())


def test_a_file_is_tried_for_as_long_as_one_of_its_clients_waits() -> None:
    async def work() -> None:
        world = World()
        world.fault_of = lambda _call: StoreFault.REFUSED if world.loop.time() < 8 else StoreFault.NONE
        hurried = world.client().send(("orders", [(0, batch())]), timeout_ms=2_000)
        patient = world.client().send(("orders", [(0, batch())]), timeout_ms=20_000)
        assert [found.code for [found] in await every([hurried, patient])] == [ErrorCode.REQUEST_TIMED_OUT, 0]
        assert 8 < world.loop.time() < 11

    lived(work())


def test_a_store_that_denies_is_not_asked_again() -> None:
    async def work() -> None:
        world = World()

        async def denied(*_: object, **__: object) -> None:
            raise StoreDenied("fake://: no permission")

        world.store.put = denied  # type: ignore[method-assign]
        found = await world.client().ask(("orders", [(0, batch())]))
        assert found["orders"][0].code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "no permission" in (found["orders"][0].message or "")
        assert world.stats.uploads_repeated == 0

    lived(work())


def test_records_are_held_once_while_a_store_hangs() -> None:
    async def work() -> None:
        world = World(LIMITS)
        world.fault_of = lambda _call: StoreFault.STALLED
        client = world.client()
        tracemalloc.start()
        try:
            sent = [client.send(("orders", [(number % 8, batch(size=99_000))]), ("others", [(0, batch())])) for number in range(50)]
            await asyncio.sleep(0.5)
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert world.memory.bytes_held < held < 1.2 * world.memory.bytes_held
        world.fault_of = lambda _call: StoreFault.NONE
        assert [[one.code for one in found] for found in await every(sent)] == [[0, 0]] * 50

    lived(work())


def test_what_is_left_is_given_up_at_the_end() -> None:
    async def work() -> None:
        world = World()
        world.service.behave = lambda _key, _coordinator, _attempt: "never"
        sent = world.client().send(("orders", [(0, batch())]))
        assert not await world.taker.drain(5)
        assert world.taker.files_open == 1
        await world.taker.close()
        assert not sent.done()

    lived(work())


def test_batch_sizes_are_counted_by_client_id() -> None:
    async def work() -> None:
        world = World()
        one, other = world.client(), world.client()
        await every([one.send(("orders", [(0, batch()), (1, batch())])), other.send(("orders", [(0, batch(size=500))]))])
        counted = {name: (found.batches, found.size_bytes) for name, found in world.stats.by_client.items()}
        assert counted == {"client-1": (2, 2 * len(batch())), "client-2": (1, len(batch(size=500)))}
        assert (world.stats.batches, world.stats.size_bytes) == (3, 2 * len(batch()) + len(batch(size=500)))

    lived(work())


def test_others_are_told_of_the_batches_that_are_new() -> None:
    async def work() -> None:
        world = World()
        client = world.client()
        await client.ask(("orders", [(0, sequenced(0, 3)), (1, batch())]))
        # A client that got no answer repeats a batch, beside new ones.
        found = await client.ask(("orders", [(0, sequenced(0, 3)), (1, batch()), (0, sequenced(3))]))
        assert [one.base_offset for one in found["orders"]] == [0, 1, 3]
        told = [
            (one.object_key, int(row["partition"]), int(base))
            for one in world.committed
            for row, base in zip(one.rows, one.base_offsets, strict=True)
        ]
        first, second = (name for name, _ in world.stored)
        assert told == [(first, 0, 0), (first, 1, 0), (second, 0, 3), (second, 1, 1)]
        assert (world.stats.batches, world.stats.duplicates) == (4, 1)

    lived(work())


@pytest.mark.parametrize("seed", range(25))
def test_whatever_fails_each_acknowledged_batch_is_there_once_and_in_order(seed: int) -> None:
    """Idempotent producers with retries, as clients do them, over a store and coordinators that fail."""

    async def work() -> None:
        chance = random.Random(seed)
        world = World(BufferLimits(buffer_bytes=2_000, buffer_ms=50, batches_max=9))
        world.objects.delay_s = lambda: chance.uniform(0, 0.2)
        until = chance.uniform(5, 40)
        store_faults = [StoreFault.NONE] * 6 + [StoreFault.REFUSED, StoreFault.UNKNOWN, StoreFault.LATE, StoreFault.STALLED]
        world.fault_of = lambda _call: chance.choice(store_faults) if world.loop.time() < until else StoreFault.NONE
        behaviours = ["served"] * 5 + ["lost", "never", "down"]
        world.service.behave = lambda *_: chance.choice(behaviours) if world.loop.time() < until else "served"
        producers = [produce(world, number, chance) for number in range(4)]
        acknowledged = await asyncio.gather(*producers)
        assert await world.taker.drain(200)
        assert world.memory.bytes_held == 0
        for number, offsets in enumerate(acknowledged):
            partition = number % 2
            assert len(offsets) == 30
            assert [offset for offset, _ in offsets] == sorted({offset for offset, _ in offsets})
            found = world.service.sequences[key(ORDERS, partition), number][1]
            assert {sequence: offset for offset, sequence in offsets} == found

    lived(work())


async def produce(world: World, number: int, chance: random.Random) -> list[tuple[int, int]]:
    """Write 30 batches with up to three requests in flight; what fails is sent again. Offset and sequence of each."""
    client, done = world.client(), list[tuple[int, int]]()
    while len(done) < 30:
        first = len(done)
        sequences = range(first, min(30, first + chance.randint(1, 3)))
        timeout_ms = chance.choice([1_500, 30_000])
        sent = [client.send(("orders", [(number % 2, sequenced(one, 1, number))]), timeout_ms=timeout_ms) for one in sequences]
        for sequence, [found] in zip(sequences, await every(sent), strict=True):
            if found.code:
                assert found.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.KAFKA_STORAGE_ERROR)
                break
            done.append((found.base_offset, sequence))
    return done


def test_others_are_not_touched() -> None:
    """The second topic of the catalogue has partitions of its own."""

    async def work() -> None:
        world = World()
        await world.client().ask(("others", [(0, batch())]))
        assert (len(world.service.logs[key(OTHERS, 0)]), len(world.service.logs[key(ORDERS, 0)])) == (1, 0)

    lived(work())
