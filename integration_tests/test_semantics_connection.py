"""One connection: requests take effect and are answered in order, versions are negotiated, unknown tagged fields skipped."""

from __future__ import annotations

import asyncio
import os
import struct
import uuid

import kio.schema.api_versions.v3 as api_versions
import pytest

from coordinator.protocol import messages as m
from coordinator.protocol.codec import encode
from coordinator.protocol.commit_file import encode_commit_file
from coordinator.protocol.framing import request_frame
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from integration_tests.wire import (
    COMMIT_FILE,
    OK,
    RESOURCE_NOT_FOUND,
    TIMEOUT_MS,
    TIMEOUT_S,
    UNKNOWN_TOPIC_ID,
    Batch,
    Topic,
    Wire,
    exchange,
    file,
    open_raw,
)

KIP_KEYS = {93, 94, 95, 96, 97, 98, 100}
API_VERSIONS = 18
DESCRIBE_FILES = 10100


async def test_reads_see_exactly_the_writes_before_them(wire: Wire) -> None:
    topic = await wire.new_topic()
    steps = []
    for n in range(20):
        steps += [wire.commit(Batch(topic, count=1 + n % 3)), wire.offsets(topic, -1, -2), wire.find((topic, 0, 0))]
        if n % 5 == 4:
            steps += [wire.truncate((topic, 0, -1)), wire.offsets(topic, -1, -2)]
    answers = iter(await asyncio.gather(*steps))
    start = end = 0
    for n in range(20):
        ((error, base, *_),) = next(answers)
        assert (error, base) == (OK, end)
        end += 1 + n % 3
        assert next(answers) == [(OK, -1, end), (OK, -1, start)]
        (found,) = next(answers)
        expected = (OK, start, end) if start == 0 else (1, start, end)
        assert found[:3] == expected
        if n % 5 == 4:
            start = end
            assert next(answers) == [(OK, start)]
            assert next(answers) == [(OK, -1, end), (OK, -1, start)]


async def test_pipelined_commits_take_effect_in_order_whatever_coordinators_they_span(wire: Wire) -> None:
    topic = await wire.new_topic(6)
    here, there = topic.partition_at(0), topic.partition_at(1)
    commits = []
    for n in range(60):
        batches = [Batch(topic, here, producer=1, epoch=0, sequence=n)]
        if n % 3:
            batches.insert(n % 2, Batch(topic, there, producer=1, epoch=0, sequence=n - n // 3 - 1))
        commits.append(wire.commit(*batches, owners=[0, 1]))
    results = await asyncio.gather(*commits)
    assert {one.error for answer in results for one in answer} == {OK}
    assert await wire.ends(topic, here) == (0, 60)
    assert await wire.ends(topic, there) == (0, 40)


async def test_topics_come_and_go_in_the_order_of_requests(wire: Wire) -> None:
    topic = Topic(os.urandom(16), f"topic-{uuid.uuid4().hex}")
    owners = [0, 1, 2]
    idempotent = [Batch(topic, producer=3, epoch=0, sequence=n) for n in range(2)]
    before, created, first, second, found, deleted, after = await asyncio.gather(
        wire.commit(Batch(topic), owners=owners),
        wire.create((topic.id, topic.name, 2)),
        wire.commit(idempotent[0], owners=owners),
        wire.commit(idempotent[1], owners=owners),
        wire.find((topic, 0, 0)),
        wire.delete(topic.id),
        wire.commit(Batch(topic), owners=owners),
    )
    assert [one.error for one in (*before, *after)] == [UNKNOWN_TOPIC_ID] * 2
    assert created == deleted == [OK]
    assert [(one.error, one.base) for one in (*first, *second)] == [(OK, 0), (OK, 1)]
    assert [one.ranges for one in (*found,)] == [[(0, 0), (1, 1)]]


async def test_the_same_file_sent_many_times_at_once_is_committed_once(wire: Wire) -> None:
    topic = await wire.new_topic(6)
    request = file([Batch(topic, n, count=2) for n in range(6)])
    answers = await asyncio.gather(*(wire.send(request) for _ in range(20)))
    assert answers == [answers[0]] * 20
    assert [await wire.ends(topic, n) for n in range(6)] == [(0, 2)] * 6


async def test_replies_leave_in_request_order(wire: Wire, one_node: Service) -> None:
    topic = await wire.new_topic()
    describe = encode(m.DescribeCoordinatorsRequest(coordinator_ids=(), timeout_ms=TIMEOUT_MS))
    frames = []
    for n in range(0, 90, 3):
        commit = encode_commit_file(file([Batch(topic)]))
        frames.append(request_frame(COMMIT_FILE, 0, n, "test", commit, flexible=True))
        frames.append(request_frame(10201, 0, n + 1, "test", describe, flexible=True))
        frames.append(request_frame(API_VERSIONS, 0, n + 2, "test", b"", flexible=False))
    reader, writer = await open_raw(one_node.addresses[0])
    writer.write(b"".join(frames))
    order = []
    async with asyncio.timeout(TIMEOUT_S):
        for _ in frames:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            order.append(struct.unpack(">i", (await reader.readexactly(size))[:4])[0])
    writer.close()
    await writer.wait_closed()
    assert order == list(range(90))


# ---- versions


async def test_api_versions_lists_both_numbers_of_every_operation(wire: Wire) -> None:
    request = api_versions.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = await wire.call(request)
    ranges = {int(one.api_key): (int(one.min_version), int(one.max_version)) for one in response.api_keys}
    assert set(ranges) >= KIP_KEYS
    assert all(ranges[10_000 + key] == ranges[key] == (0, 0) for key in KIP_KEYS)
    assert {3, 10, 18, 10200, 10201, 10202} <= set(ranges)


@pytest.mark.parametrize(("api_key", "version"), [(95, 1), (10095, 1), (3, 99), (99, 0), (0, 9), (10093, -1)])
async def test_anything_else_unknown_closes_the_connection_and_says_why(one_node: Service, api_key: int, version: int) -> None:
    assert await exchange(one_node.addresses[0], request_frame(api_key, version, 1, "test", b"\0" * 40, flexible=True)) == b""
    node = one_node.nodes[1]
    wait_until(lambda: f"request {api_key} version {version};" in node.log_text(), "the reason in the log")


async def test_a_malformed_body_closes_the_connection_only(wire: Wire, one_node: Service) -> None:
    body = encode_commit_file(file([Batch(await wire.new_topic())]))
    for damaged in (body[:-3], body + b"\0", b""):
        assert await exchange(one_node.addresses[0], request_frame(COMMIT_FILE, 0, 1, "test", damaged, flexible=True)) == b""
    assert await wire.files("x") == [(RESOURCE_NOT_FOUND, False)]


async def test_tags_of_a_commit_are_read_beside_unknown_ones(wire: Wire) -> None:
    topic = await wire.new_topic()
    prefix = f"~{uuid.uuid4().hex}"
    request = encode_commit_file(file([Batch(topic)], prefix, uploader_broker_id=12))
    assert request.endswith(b"\1\0\4" + struct.pack(">i", 12))
    with_unknown = request[:-7] + b"\2\0\4" + struct.pack(">i", 12) + b"\x63\1x"
    await wire.connection.request(COMMIT_FILE, 0, with_unknown, TIMEOUT_S)
    listed = await wire.call(
        m.ListFilesRequest(coordinator_ids=(), after_key=prefix[:-1], max_files=1, states=(), object_keys=(), timeout_ms=TIMEOUT_MS)
    )
    assert [(one.object_key, one.uploader_broker_id) for one in listed.files] == [(prefix, 12)]
