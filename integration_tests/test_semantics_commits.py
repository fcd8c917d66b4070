"""CommitFile through the wire, on a real log: offsets and times, checks, rules per batch, files of several coordinators."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from coordinator.protocol import messages as m
from integration_tests.commit_answers import MANY, accepted, now_ms, spread_topic, ulid
from integration_tests.service import Service
from integration_tests.wire import (
    COMMIT_FILE,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_REQUEST,
    KIP_COMMIT_FILE,
    OK,
    OUT_OF_ORDER_SEQUENCE,
    RESOURCE_NOT_FOUND,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Batch,
    Topic,
    Wire,
    connected,
    file,
    new_key,
    refused,
)

MAX_AGE_MS = 900_000
TICK_MS = 5_000
"""How far clocks of the test and of the node may be apart: both are this machine's."""


# ---- offsets and times


@pytest.mark.parametrize("api_key", [KIP_COMMIT_FILE, COMMIT_FILE])
async def test_both_numbers_commit_and_offsets_are_dense(wire: Wire, api_key: int) -> None:
    topic = await wire.new_topic()
    request = file([Batch(topic, count=3, base=700), Batch(topic, count=2, base=0), Batch(topic)])
    assert await wire.send(request, api_key) == [accepted(0), accepted(3), accepted(5)]
    assert await wire.send(file([Batch(topic, count=4)]), api_key) == [accepted(6)]
    assert await wire.ends(topic) == (0, 10)


async def test_base_and_last_offset_count_only_as_their_difference(wire: Wire) -> None:
    topic = await wire.new_topic()
    largest = 2**31 - 1
    results = await wire.commit(Batch(topic, base=2**62, last=2**62 + largest), Batch(topic))
    assert results == [accepted(0), accepted(largest + 1)]
    assert await wire.ends(topic) == (0, largest + 2)


async def test_append_time_is_answered_for_log_append_time_only_and_is_one_per_file(wire: Wire) -> None:
    topic = await wire.new_topic()
    before = now_ms() - TICK_MS
    created, appended, again = await wire.commit(
        Batch(topic, timestamp=5), Batch(topic, is_append_time=True), Batch(topic, is_append_time=True, timestamp=-1)
    )
    assert created.time == -1
    assert before <= appended.time == again.time <= now_ms() + TICK_MS
    (later,) = await wire.commit(Batch(topic, is_append_time=True))
    assert later.time >= appended.time


async def test_the_log_start_is_part_of_the_answer(wire: Wire) -> None:
    topic = await wire.new_topic()
    assert await wire.commit(Batch(topic, count=10)) == [accepted(0)]
    assert await wire.truncate((topic, 0, 4)) == [(OK, 4)]
    assert await wire.commit(Batch(topic)) == [accepted(10, 4)]


async def test_an_empty_batch_list_is_answered_empty_and_registers_nothing(wire: Wire) -> None:
    key = new_key()
    assert await wire.send(file([], key)) == []
    assert await wire.files(key) == [(RESOURCE_NOT_FOUND, False)]


async def test_equal_partitions_of_different_topics_do_not_mix(wire: Wire) -> None:
    one, other = await wire.new_topic(), await wire.new_topic()
    owners = sorted({*one.coordinators, *other.coordinators})
    results = await wire.commit(Batch(one, count=2), Batch(other, count=3), Batch(one), Batch(other), owners=owners)
    assert results == [accepted(0), accepted(0), accepted(2), accepted(3)]


# ---- checks: the whole request is refused and nothing is written


BAD_BATCHES = {
    "size 0": {"size": 0},
    "negative size": {"size": -5, "at": 10},
    "negative byte offset": {"at": -1},
    "beyond the file": {"at": 1_000_000},
    "last before base": {"base": 5, "last": 4},
    "negative base": {"base": -1, "last": 3},
    "too many records": {"base": 0, "last": 2**31},
    "magic 1": {"magic": 1},
    "magic 3": {"magic": 3},
    "timestamp type 2": {"timestamp_type": 2},
    "timestamp type -1": {"timestamp_type": -1},
    "timestamp -2": {"timestamp": -2},
    "overlap": {"at": 50},
    "base and last that wrap": {"base": 2**63 - 1, "last": -(2**63)},
}


@pytest.mark.parametrize("padding", [0, MANY])
@pytest.mark.parametrize("what", BAD_BATCHES)
async def test_a_bad_batch_refuses_the_whole_request(wire: Wire, what: str, padding: int) -> None:
    topic = await wire.new_topic()
    key = new_key()
    good = Batch(topic, producer=1, epoch=0, sequence=0)
    batches = [good, *[Batch(topic)] * padding, replace(Batch(topic), **BAD_BATCHES[what])]
    request = file(batches, key, file_size=100 * len(batches) + 500)
    assert await wire.send(request) == [refused(INVALID_REQUEST)] * (padding + 2)
    assert await wire.files(key) == [(RESOURCE_NOT_FOUND, False)]
    assert await wire.ends(topic) == (0, 0)
    assert await wire.commit(good, key=key) == [accepted(0)]


@pytest.mark.parametrize("padding", [0, MANY])
@pytest.mark.parametrize("what", BAD_BATCHES)
async def test_a_bad_batch_of_one_coordinator_refuses_the_shares_of_the_others(wire: Wire, what: str, padding: int) -> None:
    topic = await spread_topic(wire)
    here, there = topic.partition_at(0), topic.partition_at(1)
    key = new_key()
    batches = [Batch(topic, here), *[Batch(topic, here)] * padding, replace(Batch(topic, there), **BAD_BATCHES[what])]
    request = file(batches, key, file_size=100 * len(batches) + 500)
    assert await wire.send(request) == [refused(INVALID_REQUEST)] * (padding + 2)
    assert await wire.files(key) == [(RESOURCE_NOT_FOUND, False)]
    assert await wire.ends(topic, here) == await wire.ends(topic, there) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"file_size": -1}, INVALID_REQUEST),
        ({"file_size": 99}, INVALID_REQUEST),
        ({"object_format": 0}, INVALID_REQUEST),
        ({"object_format": 2}, INVALID_REQUEST),
        ({"object_key": ""}, INVALID_REQUEST),
        ({"object_key": "k" * 1025}, INVALID_REQUEST),
        ({"object_key": "ö" * 513}, INVALID_REQUEST),
        ({"timeout_ms": 0}, INVALID_REQUEST),
        ({"timeout_ms": -1}, INVALID_REQUEST),
        ({"owner_ids": []}, INVALID_REQUEST),
        ({"owner_ids": [-1]}, INVALID_REQUEST),
        ({"owner_ids": [0, 1, 2, 1]}, INVALID_REQUEST),
        ({"owner_ids": list(range(65))}, INVALID_REQUEST),
        ({"owner_ids": [0, 1, 2, 3]}, COORDINATOR_NOT_AVAILABLE),
        ({"owner_ids": list(range(64))}, COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_bad_fields_of_the_file_refuse_the_whole_request(wire: Wire, fields: dict[str, object], error: int) -> None:
    topic = await wire.new_topic()
    batches = [Batch(topic), Batch(topic)]
    request = file(batches, **fields)
    assert await wire.send(request) == [refused(error)] * 2
    assert await wire.ends(topic) == (0, 0)
    if request.object_key and error != COORDINATOR_NOT_AVAILABLE:
        assert await wire.files(request.object_key) == [(RESOURCE_NOT_FOUND, False)]


async def test_the_owner_list_must_contain_the_owning_coordinator(wire: Wire) -> None:
    topic = await wire.new_topic()
    others = [one for one in range(3) if one not in topic.coordinators]
    assert await wire.commit(Batch(topic), owners=others) == [refused(INVALID_REQUEST)]
    assert await wire.commit(Batch(topic), owners=[*others, *topic.coordinators]) == [accepted(0)]


async def test_a_key_of_1024_bytes_is_accepted(wire: Wire) -> None:
    topic = await wire.new_topic()
    key = (new_key() + "/").ljust(1024, "k")
    assert await wire.commit(Batch(topic), key=key) == [accepted(0)]
    assert await wire.files(key) == [(OK, True)]


async def test_the_uploader_comes_from_the_tag_else_from_the_client_id(one_node: Service) -> None:
    async def uploader(client_id: str | None, **fields: int) -> int:
        async with connected(one_node.addresses[0], client_id) as wire:
            topic = await wire.new_topic()
            prefix = f"wal/{uuid.uuid4().hex}/"
            assert await wire.commit(Batch(topic), key=prefix + "a", **fields) == [accepted(0)]
            request = m.ListFilesRequest(
                coordinator_ids=topic.coordinators, after_key=prefix, max_files=1, states=(), object_keys=(), timeout_ms=1000
            )
            listed = await wire.call(request)
            (found,) = listed.files
            assert found.object_key == prefix + "a"
            return int(found.uploader_broker_id)

    assert await uploader("broker-17") == 17
    assert await uploader("broker-17", uploader_broker_id=4) == 4
    assert await uploader("broker-17x") == -1
    assert await uploader(None) == -1


# ---- age


async def test_files_older_than_the_limit_are_refused_by_tag_or_by_the_ulid_of_their_key(wire: Wire) -> None:
    topic = await wire.new_topic()
    old, young = now_ms() - MAX_AGE_MS - TICK_MS, now_ms() - MAX_AGE_MS + 60_000
    old_key, young_key = (f"wal/7-{ulid(when)}" for when in (old, young))
    assert await wire.commit(Batch(topic), created_ms=old) == [refused(INVALID_REQUEST)]
    assert await wire.commit(Batch(topic), key=old_key) == [refused(INVALID_REQUEST)]
    assert await wire.commit(Batch(topic), key=new_key(), created_ms=young) == [accepted(0)]
    assert await wire.commit(Batch(topic), key=young_key) == [accepted(1)]
    # The time in the key stands: fences end by it, too.
    assert await wire.commit(Batch(topic), key=f"wal/8-{ulid(old)}", created_ms=young) == [refused(INVALID_REQUEST)]
    assert await wire.commit(Batch(topic), key=f"wal/8-{ulid(young)}", created_ms=old) == [accepted(2)]
    # Unknown is never too old.
    assert await wire.commit(Batch(topic)) == [accepted(3)]


async def test_a_known_key_is_answered_before_its_age_is_looked_at(wire: Wire) -> None:
    topic = await wire.new_topic()
    request = file([Batch(topic, count=3)], created_ms=now_ms())
    assert await wire.send(request) == [accepted(0)]
    assert await wire.send(request._replace(created_ms=1)) == [accepted(0)]


# ---- rules per batch


@pytest.mark.parametrize("padding", [0, MANY])
async def test_each_batch_is_accepted_or_rejected_alone(wire: Wire, padding: int) -> None:
    topic, other = await wire.new_topic(1), await wire.new_topic(1)
    await wire.commit(Batch(topic, producer=1, epoch=5, sequence=0))
    results = await wire.commit(
        Batch(topic, count=2),
        Batch(topic, producer=1, epoch=4, sequence=1),
        Batch(topic, count=3, producer=2, epoch=0, sequence=0, last_sequence=7),
        Batch(topic, producer=3, epoch=0, sequence=-1),
        Batch(topic, count=2, producer=1, epoch=5, sequence=1),
        Batch(topic, producer=1, epoch=5, sequence=9),
        Batch(topic),
        *[Batch(other, producer=1, epoch=0, sequence=n) for n in range(padding)],
        owners=[0, 1, 2],
    )
    assert results[7:] == [accepted(n) for n in range(padding)]
    assert results[:7] == [
        accepted(1),
        refused(INVALID_PRODUCER_EPOCH),
        refused(INVALID_REQUEST),
        refused(INVALID_REQUEST),
        accepted(3),
        refused(OUT_OF_ORDER_SEQUENCE),
        accepted(5),
    ]
    assert await wire.ends(topic) == (0, 6)


async def test_a_file_without_an_accepted_batch_is_known_and_empty(wire: Wire) -> None:
    topic = await wire.new_topic()
    key = new_key()
    await wire.commit(Batch(topic, producer=1, epoch=5, sequence=0))
    assert await wire.commit(Batch(topic, producer=1, epoch=4, sequence=1), key=key) == [refused(INVALID_PRODUCER_EPOCH)]
    assert await wire.files(key) == [(OK, False)]


async def test_unknown_topics_and_partitions_log_nothing_of_the_request(wire: Wire) -> None:
    topic = await wire.new_topic(2)
    nowhere = Topic(uuid.uuid4().bytes, "nowhere")
    key = new_key()
    good = Batch(topic, producer=1, epoch=0, sequence=0)
    owners = [0, 1, 2]
    results = await wire.commit(good, Batch(nowhere), Batch(topic, 2), Batch(topic, 1), key=key, owners=owners)
    away = refused(COORDINATOR_NOT_AVAILABLE)
    assert results == [away, refused(UNKNOWN_TOPIC_ID), refused(UNKNOWN_TOPIC_OR_PARTITION), away]
    assert await wire.files(key) == [(RESOURCE_NOT_FOUND, False)]
    # They may heal: the same key with the same content is accepted once the topic exists.
    request = file([good, Batch(nowhere)], key, owners=owners)
    assert await wire.send(request) == [away, refused(UNKNOWN_TOPIC_ID)]
    assert await wire.create((nowhere.id, "nowhere-" + uuid.uuid4().hex, 1)) == [OK]
    assert await wire.send(request) == [accepted(0), accepted(0)]


async def test_a_negative_partition_is_unknown(wire: Wire) -> None:
    topic = await wire.new_topic()
    assert await wire.commit(Batch(topic, -1), owners=[0, 1, 2]) == [refused(UNKNOWN_TOPIC_OR_PARTITION)]


async def test_checks_come_before_unknown_topics(wire: Wire) -> None:
    topic = await wire.new_topic()
    nowhere = Topic(uuid.uuid4().bytes, "nowhere")
    assert await wire.commit(Batch(nowhere), Batch(topic, magic=1), owners=[0, 1, 2]) == [refused(INVALID_REQUEST)] * 2
    assert await wire.commit(Batch(nowhere), owners=[0, 0]) == [refused(INVALID_REQUEST)]


# ---- files of several coordinators


async def test_a_file_of_several_coordinators_is_decided_by_share(wire: Wire) -> None:
    topic = await spread_topic(wire)
    order = [topic.partition_at(c) for c in (2, 0, 1, 0, 2)]
    batches = [Batch(topic, partition, count=n + 1) for n, partition in enumerate(order)]
    request = file(batches)
    results = await wire.send(request)
    assert results == [accepted(0), accepted(0), accepted(0), accepted(2), accepted(1)]
    assert await wire.files(request.object_key) == [(OK, True)]
    found = await wire.find(*((topic, partition, 0) for partition in sorted(set(order))))
    places = sorted((one.byte_offset, one.object_key) for part in found for one in part.batches)
    assert places == [(100 * n, request.object_key) for n in range(5)]


async def test_a_retry_that_is_split_differently_meets_the_same_shares(wire: Wire) -> None:
    topic = await spread_topic(wire)
    here, there = topic.partition_at(0), topic.partition_at(1)
    batches = [Batch(topic, here, at=0), Batch(topic, there, at=100, count=2), Batch(topic, here, at=200, count=3)]
    request = file(batches, owners=[0, 1], file_size=300)
    first = await wire.send(request)
    assert first == [accepted(0), accepted(0), accepted(1)]
    share_here = file([batches[0], batches[2]], request.object_key, owners=[0, 1], file_size=300)
    share_there = file([batches[1]], request.object_key, owners=[0, 1], file_size=300)
    assert await wire.send(share_here) == [first[0], first[2]]
    assert await wire.send(share_there) == [first[1]]
    # The other way round: shares first, the whole file afterwards.
    key = new_key()
    split = [await wire.send(one._replace(object_key=key)) for one in (share_there, share_here)]
    assert split == [[accepted(2)], [accepted(4), accepted(5)]]
    assert await wire.send(request._replace(object_key=key)) == [split[1][0], split[0][0], split[1][1]]


async def test_shares_of_a_known_key_answer_for_themselves(wire: Wire) -> None:
    topic = await spread_topic(wire)
    here, there = topic.partition_at(0), topic.partition_at(1)
    key = new_key()
    one = Batch(topic, here, at=0)
    assert await wire.commit(one, key=key, owners=[0, 1], file_size=200) == [accepted(0)]
    # One coordinator knows the key with this share, the other does not know it yet.
    results = await wire.commit(one, Batch(topic, there, at=100), key=key, owners=[0, 1], file_size=200)
    assert results == [accepted(0), accepted(0)]
    assert await wire.ends(topic, here) == await wire.ends(topic, there) == (0, 1)


async def test_one_share_may_be_refused_while_another_is_accepted(wire: Wire) -> None:
    topic = await spread_topic(wire)
    here, there = topic.partition_at(0), topic.partition_at(1)
    await wire.commit(Batch(topic, here, producer=1, epoch=2, sequence=0))
    results = await wire.commit(Batch(topic, here, producer=1, epoch=1, sequence=0), Batch(topic, there))
    assert results == [refused(INVALID_PRODUCER_EPOCH), accepted(0)]


async def test_a_share_whose_coordinator_is_not_an_owner_refuses_the_whole_request(wire: Wire) -> None:
    topic = await spread_topic(wire)
    here, there = topic.partition_at(0), topic.partition_at(1)
    assert await wire.commit(Batch(topic, here), Batch(topic, there), owners=[0]) == [refused(INVALID_REQUEST)] * 2
    assert await wire.ends(topic, here) == await wire.ends(topic, there) == (0, 0)


async def test_many_batches_in_one_file(wire: Wire) -> None:
    topic = await spread_topic(wire)
    batches = [Batch(topic, n % 6, count=1 + n % 3) for n in range(3_000)]
    results = await wire.commit(*batches)
    ends = dict.fromkeys(range(6), 0)
    for one, result in zip(batches, results, strict=True):
        assert result == accepted(ends[one.partition])
        ends[one.partition] += one.count
    assert [await wire.ends(topic, n) for n in range(6)] == [(0, ends[n]) for n in range(6)]
