"""CommitFile through the wire, on a real log: each kind of answer once, and what a node does for several coordinators.

The rules of single batches and of whole requests are tables in `tests/core` (`test_commit_rules`, `test_whole_requests`).
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from coordinator.protocol import messages as m
from integration_tests.commit_answers import MANY, accepted, duplicate, errors, now_ms, spread_topic, ulid
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


async def test_an_empty_batch_list_is_answered_empty_and_registers_nothing(wire: Wire) -> None:
    key = new_key()
    assert await wire.send(file([], key)) == []
    assert await wire.files(key) == [(RESOURCE_NOT_FOUND, False)]


# ---- checks: the whole request is refused and nothing is written


@pytest.mark.parametrize("padding", [0, MANY])
async def test_a_bad_batch_of_one_coordinator_refuses_the_shares_of_the_others(wire: Wire, padding: int) -> None:
    topic = await spread_topic(wire)
    here, there = topic.partition_at(0), topic.partition_at(1)
    key = new_key()
    batches = [Batch(topic, here), *[Batch(topic, here)] * padding, Batch(topic, there, magic=1)]
    assert await wire.send(file(batches, key)) == [refused(INVALID_REQUEST)] * (padding + 2)
    assert await wire.files(key) == [(RESOURCE_NOT_FOUND, False)]
    assert await wire.ends(topic, here) == await wire.ends(topic, there) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"object_key": ""}, INVALID_REQUEST),
        ({"timeout_ms": 0}, INVALID_REQUEST),
        ({"owner_ids": [0, 1, 2, 3]}, COORDINATOR_NOT_AVAILABLE),
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


# ---- idempotence


async def test_duplicates_within_the_last_five_batches_get_their_original_answer(wire: Wire) -> None:
    topic = await wire.new_topic()
    batches = [Batch(topic, count=2, producer=9, epoch=1, sequence=2 * n, is_append_time=n == 3) for n in range(6)]
    first = [(await wire.commit(one))[0] for one in batches]
    assert [one.base for one in first] == [0, 2, 4, 6, 8, 10]
    assert await wire.truncate((topic, 0, 1)) == [(OK, 1)]
    again = await wire.commit(*batches)
    assert again[0] == refused(OUT_OF_ORDER_SEQUENCE)
    assert again[1:] == [duplicate(one.base, 1, time_ms=one.time) for one in first[1:]]
    assert first[3].time > 0
    assert await wire.ends(topic) == (1, 12)


# ---- the same key again


async def test_the_same_key_and_content_gets_exactly_the_first_answer(wire: Wire) -> None:
    topic = await wire.new_topic()
    known = Batch(topic, producer=9, epoch=1, sequence=0)
    await wire.commit(known)
    batches = [known, Batch(topic, count=3, is_append_time=True), replace(known, epoch=0), replace(known, sequence=1, count=2)]
    request = file(batches)
    first = await wire.send(request)
    assert errors(first) == [OK, OK, INVALID_PRODUCER_EPOCH, OK]
    assert [one.is_duplicate for one in first] == [True, False, False, False]
    # Whatever happens to the batches and the producer since.
    assert await wire.commit(replace(known, epoch=7)) == [accepted(6)]
    assert await wire.truncate((topic, 0, -1)) == [(OK, 7)]
    renumbered = file([replace(one, request_id=5) for one in batches], request.object_key)
    assert await wire.send(request) == first
    assert await wire.send(renumbered) == first
    assert await wire.send(request, KIP_COMMIT_FILE) == first
    assert await wire.ends(topic) == (7, 7)


async def test_the_same_key_is_answered_after_its_topic_was_deleted(wire: Wire) -> None:
    gone, stays = await wire.new_topic(), await wire.new_topic()
    both = file([Batch(gone, count=2), Batch(stays)], owners=[0, 1, 2])
    alone = file([Batch(gone, count=4)], owners=[0, 1, 2])
    first = await wire.send(both), await wire.send(alone)
    assert await wire.delete(gone.id) == [OK]
    assert (await wire.send(both), await wire.send(alone)) == first
    # A key that is not known meets the deletion.
    assert await wire.commit(Batch(gone), Batch(stays), owners=[0, 1, 2]) == [
        refused(UNKNOWN_TOPIC_ID),
        refused(COORDINATOR_NOT_AVAILABLE),
    ]


async def test_timeout_is_looked_at_before_a_known_key(wire: Wire) -> None:
    topic = await wire.new_topic()
    request = file([Batch(topic)])
    assert await wire.send(request) == [accepted(0)]
    assert await wire.send(request._replace(timeout_ms=0)) == [refused(INVALID_REQUEST)]
