"""CreatePartitions, DeleteTopics and discovery through the wire, on a real log.

What is refused and with which error is a table in `tests/core/test_directory.py`.
"""

from __future__ import annotations

import os
import uuid

import kio.schema.find_coordinator.v6 as find_coordinator
import kio.schema.metadata.v12 as metadata
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from kio.static.primitive import i8

from coordinator.kafka.names import topic_id_text
from coordinator.protocol import messages as m
from integration_tests.service import Service
from integration_tests.wire import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PARTITIONS,
    INVALID_REQUEST,
    INVALID_TOPIC,
    OK,
    TIMEOUT_MS,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Batch,
    Topic,
    Wire,
    properties_at,
    refused,
)


def new_id() -> bytes:
    return os.urandom(16)


def new_name() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


# ---- creating


@pytest.mark.parametrize("api_key", [93, 10093])
async def test_both_numbers_create_and_repeating_is_success(wire: Wire, api_key: int) -> None:
    wanted = (new_id(), new_name(), 4)
    assert await wire.create(wanted, api_key=api_key) == [OK]
    before = await wire.look_up(wanted[0])
    assert await wire.create(wanted, api_key=api_key) == [OK]
    assert await wire.look_up(wanted[0]) == before
    assert (before.name, len(before.coordinators)) == (wanted[1], 4)


async def test_the_number_is_a_total_so_growing_is_the_same_call(wire: Wire) -> None:
    topic = await wire.new_topic(2)
    assert await wire.commit(Batch(topic, 1, count=3)) == [(OK, 0, -1, 0, False)]
    assert await wire.create((topic.id, topic.name, 5)) == [OK]
    grown = await wire.look_up(topic.id)
    assert grown.coordinators[:2] == topic.coordinators
    assert len(grown.coordinators) == 5
    results = await wire.commit(*(Batch(grown, n) for n in range(5)))
    assert [one.base for one in results] == [0, 3, 0, 0, 0]
    # A smaller number is a success without effect.
    assert await wire.create((topic.id, topic.name, 1)) == [OK]
    assert await wire.look_up(topic.id) == grown


async def test_a_created_topic_can_be_used_as_soon_as_it_is_answered(wire: Wire) -> None:
    for _ in range(5):
        topic_id = new_id()
        assert await wire.create((topic_id, new_name(), 6)) == [OK]
        topic = await wire.look_up(topic_id)
        assert {one.error for one in await wire.commit(*(Batch(topic, n) for n in range(6)))} == {OK}
        assert {one.error for one in await wire.find(*((topic, n, 0) for n in range(6)))} == {OK}


async def test_the_metadata_topic_of_this_service_is_refused(wire: Wire, one_node: Service) -> None:
    assert one_node.topic != "__diskless_metadata"
    assert await wire.create((new_id(), one_node.topic, 1)) == [INVALID_TOPIC]


async def test_one_bad_topic_does_not_fail_the_others(wire: Wire) -> None:
    topic = await wire.new_topic()
    first, last = new_id(), new_id()
    asked = [(first, new_name(), 1), (new_id(), "..", 1), (new_id(), topic.name, 1), (new_id(), new_name(), 0), (last, new_name(), 2)]
    assert await wire.create(*asked) == [OK, INVALID_TOPIC, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, OK]
    assert len((await wire.look_up(last)).coordinators) == 2


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_no_time_is_an_invalid_request(wire: Wire, timeout_ms: int) -> None:
    topic = await wire.new_topic()
    assert await wire.create((new_id(), new_name(), 1), timeout_ms=timeout_ms) == [INVALID_REQUEST]
    assert await wire.delete(topic.id, timeout_ms=timeout_ms) == [INVALID_REQUEST]
    assert await wire.look_up(topic.id) == topic


async def test_empty_requests_get_empty_answers(wire: Wire) -> None:
    assert await wire.create() == []
    assert await wire.delete() == []


# ---- deleting


@pytest.mark.parametrize("api_key", [94, 10094])
async def test_deleting_again_is_success_and_the_id_never_comes_back(wire: Wire, api_key: int) -> None:
    topic = await wire.new_topic(3)
    assert await wire.delete(topic.id, topic.id, api_key=api_key) == [OK, OK]
    assert await wire.delete(topic.id, api_key=api_key) == [OK]
    assert await wire.create((topic.id, topic.name, 3)) == [UNKNOWN_TOPIC_ID]
    assert await wire.create((topic.id, new_name(), 3)) == [UNKNOWN_TOPIC_ID]
    assert await wire.create((new_id(), topic.name, 1)) == [OK]


async def test_a_deleted_topic_is_unknown_everywhere_as_soon_as_it_is_answered(wire: Wire) -> None:
    topic = await wire.new_topic(3)
    key = f"wal/{uuid.uuid4()}"
    await wire.commit(*(Batch(topic, n, count=2) for n in range(3)), key=key)
    assert await wire.files(key) == [(OK, True)]
    assert await wire.delete(topic.id) == [OK]
    assert await wire.files(key) == [(OK, False)]
    for partition in (0, 2, 7):
        assert await wire.offsets(topic, -1, 0, partition=partition) == [(UNKNOWN_TOPIC_ID, -1, -1)] * 2
        assert await wire.truncate((topic, partition, -1)) == [(UNKNOWN_TOPIC_ID, -1)]
        assert await wire.find((topic, partition, 0)) == [(UNKNOWN_TOPIC_ID, -1, -1, ())]
        assert await wire.commit(Batch(topic, partition), owners=[0, 1, 2]) == [refused(UNKNOWN_TOPIC_ID)]


async def test_other_topics_keep_everything_when_one_is_deleted(wire: Wire) -> None:
    stays, goes = await wire.new_topic(), await wire.new_topic()
    key = f"wal/{uuid.uuid4()}"
    idempotent = Batch(stays, producer=5, epoch=0, sequence=0)
    await wire.commit(idempotent, Batch(goes), key=key, owners=[0, 1, 2])
    assert await wire.delete(goes.id) == [OK]
    assert await wire.files(key) == [(OK, True)]
    assert (await wire.commit(idempotent))[0].is_duplicate
    (found,) = await wire.find((stays, 0, 0))
    assert found.ranges == [(0, 0)]


# ---- discovery


async def find_coordinators(wire: Wire, *keys: str, key_type: int = 100) -> list[find_coordinator.response.Coordinator]:
    request = find_coordinator.FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=keys)
    response = await wire.call(request)
    assert [one.key for one in response.coordinators] == list(keys)
    return list(response.coordinators)


async def test_find_coordinator_by_partition_and_by_id(wire: Wire, one_node: Service) -> None:
    topic = await wire.new_topic(3)
    host, _, port = one_node.addresses[0].rpartition(":")
    text = topic_id_text(topic.id)
    for found in await find_coordinators(wire, "0", "2", f"{text}:0", f"{text}:2"):
        assert (int(found.error_code.value), found.node_id, found.host, found.port) == (OK, 1, host, int(port))
    unknown = await find_coordinators(wire, "3", f"{text}:3", f"{topic_id_text(new_id())}:0", "0")
    assert [int(one.error_code.value) for one in unknown] == [COORDINATOR_NOT_AVAILABLE] * 3 + [OK]
    assert [(one.node_id, one.host, one.port) for one in unknown[:3]] == [(-1, "", -1)] * 3


async def test_find_coordinator_refuses_keys_it_cannot_read(wire: Wire) -> None:
    for found in await find_coordinators(wire, "nonsense", ":", "abc:0", ""):
        assert (int(found.error_code.value), found.node_id) == (INVALID_REQUEST, -1)
        assert found.error_message
    (group,) = await find_coordinators(wire, "my-group", key_type=0)
    assert (int(group.error_code.value), group.node_id) == (INVALID_REQUEST, -1)


async def test_metadata_shows_nodes_as_brokers_and_partitions_with_leaders(wire: Wire, one_node: Service) -> None:
    topic = await wire.new_topic(4)
    by_name = metadata.MetadataRequest(
        topics=(
            metadata.request.MetadataRequestTopic(topic_id=None, name=topic.name),  # type: ignore[arg-type]
            metadata.request.MetadataRequestTopic(topic_id=None, name="no-such-topic"),  # type: ignore[arg-type]
            metadata.request.MetadataRequestTopic(topic_id=uuid.UUID(bytes=topic.id), name=None),
            metadata.request.MetadataRequestTopic(topic_id=uuid.uuid4(), name=None),
        ),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    response = await wire.call(by_name)
    assert [(one.node_id, f"{one.host}:{one.port}") for one in response.brokers] == [(1, one_node.addresses[0])]
    assert response.controller_id == 1
    known, unknown_name, by_id, unknown_id = response.topics
    assert known == by_id
    assert [(one.partition_index, one.leader_id) for one in known.partitions] == [(n, 1) for n in range(4)]
    assert (known.topic_id, known.name) == (uuid.UUID(bytes=topic.id), topic.name)
    assert [int(one.error_code.value) for one in (unknown_name, unknown_id)] == [UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID]


async def test_generic_tools_can_connect(wire: Wire, one_node: Service) -> None:
    topic = await wire.new_topic(2)
    admin = AdminClient({"bootstrap.servers": one_node.addresses[0], **properties_at(one_node.addresses[0])})
    described = admin.list_topics(timeout=20)
    assert {node: f"{broker.host}:{broker.port}" for node, broker in described.brokers.items()} == {1: one_node.addresses[0]}
    assert sorted(described.topics[topic.name].partitions) == [0, 1]
    # librdkafka asks in version 1, whose answers have a header without tagged fields.
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name)
    (settings,) = [asked.result(60) for asked in admin.describe_configs([resource]).values()]
    assert "retention.ms" in settings


async def test_describe_topics_by_id_by_name_and_all(wire: Wire) -> None:
    topic = await wire.new_topic(2)
    await wire.commit(Batch(topic, 1, count=7))
    await wire.truncate((topic, 1, 3))
    by_id = await wire.describe_topic(topic.id)
    assert by_id == await wire.describe_topic(bytes(16), topic.name)
    ends = [(one.partition_index, one.leader_id, one.log_start_offset, one.high_watermark) for one in by_id.partitions]
    assert ends == [(0, 1, 0, 0), (1, 1, 3, 7)]
    unknown = await wire.describe_topic(bytes(16), "no-such-topic")
    assert (unknown.error_code, unknown.name, unknown.partitions) == (UNKNOWN_TOPIC_OR_PARTITION, "no-such-topic", ())
    assert (await wire.describe_topic(new_id())).error_code == UNKNOWN_TOPIC_ID
    response = await wire.call(m.DescribeTopicsRequest(topics=(), timeout_ms=TIMEOUT_MS))
    assert by_id in response.topics
    assert len({one.topic_id for one in response.topics}) == len(response.topics)


async def test_describe_coordinators(wire: Wire, one_node: Service) -> None:
    described = await wire.coordinators()
    assert [one.coordinator_id for one in described] == [0, 1, 2]
    for one in described:
        assert (one.error_code, one.state, one.leader_id, one.is_local) == (OK, "leading", 1, True)
        assert f"{one.host}:{one.port}" == one_node.addresses[0]
        assert one.leader_epoch >= 1
        assert one.term != 0
        assert 0 <= one.applied_offset < one.log_end_offset
        assert len(one.digest) == 16
    response = await wire.call(m.DescribeCoordinatorsRequest(coordinator_ids=(2, 0), timeout_ms=TIMEOUT_MS))
    assert [one.coordinator_id for one in response.coordinators] == [2, 0]
    assert [(one.node_id, f"{one.host}:{one.port}") for one in response.nodes] == [(1, one_node.addresses[0])]
    assert response.node_id == 1
    assert response.cluster_id


async def test_unknown_partitions_of_known_topics(wire: Wire) -> None:
    topic = await wire.new_topic(2)
    for partition in (2, -1, 2**31 - 1):
        assert await wire.offsets(topic, -1, partition=partition) == [(UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]
        assert await wire.truncate((topic, partition, 0)) == [(UNKNOWN_TOPIC_OR_PARTITION, -1)]
        assert await wire.find((topic, partition, 0)) == [(UNKNOWN_TOPIC_OR_PARTITION, -1, -1, ())]
    assert await wire.commit(Batch(topic, -1), Batch(Topic(new_id(), "x")), owners=[0, 1, 2]) == [
        refused(UNKNOWN_TOPIC_OR_PARTITION),
        refused(UNKNOWN_TOPIC_ID),
    ]
