"""Answers are rewritten by the view, in every version that is offered."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from coordinator.protocol.codec import decode, encode
from gateway.kafka_apis import KafkaApi, converted
from gateway.ports import DisklessTopic
from gateway.view import rewrite
from gateway.view.model import NO_LEADER
from gateway.view.view import View, view_of
from integration_tests.gateway.samples import sample
from tests.gateway.view.test_view import LISTENER, broker, gateway

TOPIC = uuid.UUID(int=77)


def view(*broker_ids: int) -> View:
    """Return a view of two gateways."""
    return view_of([broker(one) for one in broker_ids], [gateway(1001), gateway(1002)], [], listener=LISTENER, zone="")


def answer(key: KafkaApi, version: int, **known: object) -> Any:
    """Return an answer as a broker gives it."""
    return sample(key.answer_type(version), {"host": "broker-1", "port": 9092, "rack": None, **known})


def from_wire(told: Any) -> Any:
    """Return a message as a client reads it."""
    return decode(type(told), encode(told))


@pytest.mark.parametrize("version", range(10, KafkaApi.METADATA.last + 1))
def test_metadata_names_gateways_and_relayed_brokers(version: int) -> None:
    told = answer(KafkaApi.METADATA, version, node_id=1, controller_id=1, leader_id=1, topic_id=TOPIC, name="t", partition_index=2)
    diskless = {TOPIC.bytes: DisklessTopic("t", TOPIC.bytes, 3, {})}
    seen = from_wire(rewrite.metadata(told, view(1, 2), diskless))
    assert [int(one.node_id) for one in seen.brokers] == [1, 2, 1001, 1002]
    assert all(one.host.startswith("gateway-") for one in seen.brokers)
    [row] = seen.topics[0].partitions
    assert row.leader_id in (1001, 1002)
    assert (row.leader_epoch, row.replica_nodes, row.isr_nodes, row.offline_replicas) == (0, (row.leader_id,), (row.leader_id,), ())


def test_a_diskless_topic_has_leaders_though_its_shadow_has_none_and_never_more_partitions_than_the_coordinators_know() -> None:
    told = answer(KafkaApi.METADATA, 13, leader_id=-1, error_code=ErrorCode.leader_not_available, topic_id=TOPIC, partition_index=2)
    for partitions, shown in ((3, 1), (2, 0)):
        seen = rewrite.metadata(told, view(1), {TOPIC.bytes: DisklessTopic("t", TOPIC.bytes, partitions, {})})
        rows = seen.topics[0].partitions
        assert len(rows) == shown
        assert all(row.error_code is ErrorCode.none and row.leader_id in (1001, 1002) for row in rows)


def test_a_classic_partition_keeps_its_leader_unless_nobody_relays_it() -> None:
    told = answer(KafkaApi.METADATA, 13, leader_id=1, leader_epoch=7, error_code=ErrorCode.none, topic_id=TOPIC, controller_id=1)
    assert rewrite.metadata(told, view(1), {}).topics == told.topics
    [row] = rewrite.metadata(told, view(2), {}).topics[0].partitions
    assert (row.leader_id, row.error_code) == (NO_LEADER, ErrorCode.leader_not_available)
    assert rewrite.metadata(told, view(2), {}).controller_id == NO_LEADER


def test_a_shadow_whose_creation_is_not_finished_is_no_classic_topic() -> None:
    told = answer(KafkaApi.METADATA, 13, leader_id=1, topic_id=TOPIC)
    [topic] = rewrite.metadata(told, view(1), {}, frozenset([TOPIC.bytes])).topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.leader_not_available, ())


@pytest.mark.parametrize("version", range(10))
def test_an_early_answer_has_what_a_later_one_told(version: int) -> None:
    told = answer(KafkaApi.METADATA, 10, node_id=1, leader_id=1, topic_id=TOPIC, name="t", partition_index=0, cluster_id="c")
    diskless = {TOPIC.bytes: DisklessTopic("t", TOPIC.bytes, 1, {})}
    seen = from_wire(converted(rewrite.metadata(told, view(1), diskless), KafkaApi.METADATA.answer_type(version)))
    assert [(int(one.node_id), one.host) for one in seen.brokers] == [(one.node_id, one.host) for one in view(1).nodes.values()]
    assert seen.topics[0].partitions[0].leader_id in (1001, 1002)


@pytest.mark.parametrize("version", range(KafkaApi.FIND_COORDINATOR.last + 1))
def test_a_coordinator_is_found_at_its_relay_port(version: int) -> None:
    told = answer(KafkaApi.FIND_COORDINATOR, version, node_id=1, error_code=ErrorCode.none)
    seen, lost = (from_wire(rewrite.find_coordinator(told, one)) for one in (view(1), view(2)))
    rows = [getattr(one, "coordinators", (one,))[0] for one in (seen, lost)]
    assert rows[0].host.startswith("gateway-")
    assert rows[0].port == 10_001
    assert (rows[1].node_id, rows[1].host, rows[1].error_code) == (NO_LEADER, "", ErrorCode.coordinator_not_available)


@pytest.mark.parametrize("version", range(KafkaApi.DESCRIBE_CLUSTER.last + 1))
def test_a_cluster_is_described_by_the_view(version: int) -> None:
    told = answer(KafkaApi.DESCRIBE_CLUSTER, version, broker_id=1, controller_id=3)
    seen = from_wire(rewrite.describe_cluster(told, view(1)))
    assert [(int(one.broker_id), one.host) for one in seen.brokers] == [(one.node_id, one.host) for one in view(1).nodes.values()]
    assert seen.controller_id == NO_LEADER


@pytest.mark.parametrize("key", [KafkaApi.SHARE_FETCH, KafkaApi.SHARE_ACKNOWLEDGE])
def test_addresses_of_new_leaders_are_those_of_relays(key: KafkaApi) -> None:
    for version in range(key.first, key.last + 1):
        told = answer(key, version, node_id=1)
        assert [one.host.startswith("gateway-") for one in from_wire(rewrite.node_endpoints(told, view(1))).node_endpoints] == [True]
        assert rewrite.node_endpoints(told, view(2)).node_endpoints == ()
