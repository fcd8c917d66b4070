"""Producers ask which brokers to send the batches of a partition to."""

from __future__ import annotations

import pytest

from coordinator.client.calls.gateways import GatewayBroker
from coordinator.client.errors import InvalidRequest, NotFound, Unavailable
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import DescribeGatewaysBroker, DescribeGatewaysCoordinator, DescribeGatewaysResponse
from tests.client.scripted import scripted
from tests.client.test_client import TOPIC, client_of

BROKERS = tuple(GatewayBroker(broker_id, "ab"[broker_id % 2], f"kafka-{broker_id}", 9092) for broker_id in range(4))
PLAN = DescribeGatewaysResponse(
    error_code=0,
    node_id=1,
    gateways_per_rack=1,
    brokers_age_ms=5,
    brokers=tuple(DescribeGatewaysBroker(broker_id=one.broker_id, rack=one.rack, host=one.host, port=one.port) for one in BROKERS),
    coordinators=tuple(
        DescribeGatewaysCoordinator(coordinator_id=i, leader_id=1, broker_ids=broker_ids) for i, broker_ids in enumerate([(0, 1), (2, 3)])
    ),
)


def refusal(error: ErrorCode) -> DescribeGatewaysResponse:
    return DescribeGatewaysResponse(error_code=error, error_message="no", node_id=1, brokers=(), coordinators=())


async def test_producers_are_told_the_gateways_of_their_partition() -> None:
    async with scripted(coordinators=2) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 3)
        cluster.gateways = [PLAN]
        for topic in ("t", TOPIC):
            told = [await client.admin.preferred_produce_brokers(topic, partition, "a") for partition in range(3)]
            assert told == [(BROKERS[0],), (BROKERS[2],), (BROKERS[0],)]
        assert await client.admin.preferred_produce_brokers("t", 1, "b") == (BROKERS[3],)
        # Nobody is near: any gateway is better than any broker.
        assert await client.admin.preferred_produce_brokers("t", 1, "elsewhere") == (BROKERS[2], BROKERS[3])
        assert await client.admin.preferred_produce_brokers("t", 1) == (BROKERS[2], BROKERS[3])
        with pytest.raises(NotFound, match="has no partition 3; it has 3"):
            await client.admin.preferred_produce_brokers("t", 3)
        with pytest.raises(NotFound, match="does not exist"):
            await client.admin.preferred_produce_brokers("other", 0)


async def test_a_node_that_has_no_plan_yet_is_asked_again() -> None:
    async with scripted(coordinators=2) as cluster, client_of(cluster) as client:
        cluster.gateways = [refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE), PLAN]
        described = await client.admin.describe_gateways()
        assert described.brokers == BROKERS
        assert [one.brokers for one in described.coordinators] == [BROKERS[:2], BROKERS[2:]]


async def test_a_final_refusal_and_the_deadline_end_the_asking() -> None:
    async with scripted(coordinators=2) as cluster, client_of(cluster) as client:
        cluster.gateways = [refusal(ErrorCode.INVALID_REQUEST)]
        with pytest.raises(InvalidRequest):
            await client.admin.describe_gateways()
        cluster.gateways = [refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        with pytest.raises(Unavailable):
            await client.admin.describe_gateways(timeout_ms=1_000)


async def test_a_coordinator_that_the_node_does_not_know_yet_has_no_gateways_to_tell() -> None:
    async with scripted(coordinators=4) as cluster, client_of(cluster) as client:
        cluster.add_topic(TOPIC, "t", 4)
        cluster.gateways = [PLAN]
        with pytest.raises(Unavailable, match="does not know coordinator 3 yet"):
            await client.admin.preferred_produce_brokers("t", 3)
