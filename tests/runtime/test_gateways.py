"""DescribeGateways as a node answers it, and how it comes to know the brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import cast

import pytest

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.nodes import DESCRIBE_GATEWAYS
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.messages import DescribeGatewaysRequest, DescribeGatewaysResponse
from coordinator.runtime.answers.gateway_plan import Broker, CoordinatorPlace, plan_gateways
from coordinator.runtime.answers.gateways import places_of
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.node.kafka_brokers import KEPT_S, WAIT_S, KafkaBrokers
from coordinator.runtime.ports import KafkaBroker, KafkaUnavailable
from coordinator.runtime.routing.cluster_view import KnownNode
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import Running, in_memory, running
from tests.virtual_loop import lived
from tests.waiting import virtual_time

FOUR = tuple(KafkaBroker(broker_id, f"rack-{broker_id % 2}", f"kafka-{broker_id}", 9092) for broker_id in range(4))


async def gateways(started: Running, timeout_ms: int = 5_000) -> DescribeGatewaysResponse:
    answer = cast(DescribeGatewaysResponse, await serve(started.node, DESCRIBE_GATEWAYS, 0, DescribeGatewaysRequest(timeout_ms=timeout_ms)))
    assert decode(DescribeGatewaysResponse, encode(answer)) == answer
    return answer


async def test_a_node_answers_with_the_plan_of_its_brokers_and_leaders() -> None:
    kafka = in_memory(partitions=3)
    kafka.brokers = FOUR
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        answer = await gateways(started)
    plan = plan_gateways(
        [Broker(one.broker_id, one.rack) for one in FOUR],
        [CoordinatorPlace(coordinator_id=i, node_id=started.node.config.node_id) for i in range(3)],
    )
    assert (answer.error_code, answer.gateways_per_rack) == (ErrorCode.NONE, 1)
    assert [KafkaBroker(one.broker_id, one.rack or "", one.host, one.port) for one in answer.brokers] == list(FOUR)
    assert {one.coordinator_id: one.broker_ids for one in answer.coordinators} == {i: plan.gateways_of(i) for i in range(3)}
    assert {one.leader_id for one in answer.coordinators} == {started.node.config.node_id}


async def test_a_node_that_cannot_plan_says_why() -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, MemoryStateStores()) as started:
        starting = await gateways(started)
        assert (starting.error_code, starting.coordinators) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
        await started.leads()
        assert (await gateways(started, timeout_ms=0)).error_code == ErrorCode.INVALID_REQUEST
        kafka.set_available(False)
        unknown = await gateways(started)
        assert unknown.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "does not know the brokers of the Kafka cluster: no broker answered" in (unknown.error_message or "")
        kafka.set_available(True)
        assert (await gateways(started)).error_code == ErrorCode.NONE


def leader(node_id: int, host: str) -> KnownNode:
    return KnownNode(node_id, 1, 1, host, 9192)


@pytest.mark.parametrize(
    ("hosts", "broker_id"),
    [(("a", "b", "c"), 1), (("a", "b", "b"), None), (("a", "c", "d"), None)],
    ids=["one broker there", "two brokers there", "none there"],
)
def test_a_coordinator_is_where_the_only_broker_of_its_leaders_host_is(hosts: tuple[str, ...], broker_id: int | None) -> None:
    brokers = [KafkaBroker(number, "", host, 9092) for number, host in enumerate(hosts)]
    found = places_of({0: leader(7, "b"), 1: None}, brokers)
    assert [(one.node_id, one.broker_id) for one in found] == [(7, broker_id), (-1, None)]


class Asked:
    """Kafka as it is asked for its brokers."""

    def __init__(self) -> None:
        self.count = 0
        self.brokers = FOUR
        self.is_silent = False
        self.failure: KafkaUnavailable | None = None

    async def __call__(self) -> tuple[KafkaBroker, ...]:
        self.count += 1
        await virtual_time(0.1)
        if self.is_silent:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        return self.brokers


def asking(story: Callable[[Asked, KafkaBrokers], Coroutine[None, None, None]]) -> None:
    """Live a story on virtual time."""

    async def told() -> None:
        asked = Asked()
        await story(asked, KafkaBrokers(asked))

    lived(told())


def test_many_askers_cost_kafka_one_question_in_a_while() -> None:
    async def story(asked: Asked, known: KafkaBrokers) -> None:
        assert known.age_ms == -1
        assert await asyncio.gather(*(known.known(5.0) for _ in range(20))) == [FOUR] * 20
        assert asked.count == 1
        asked.brokers = FOUR[1:]
        await virtual_time(KEPT_S / 2)
        assert await known.known(5.0) == FOUR
        assert known.age_ms == KEPT_S / 2 * 1000
        await virtual_time(KEPT_S / 2)
        assert await known.known(5.0) == FOUR[1:]
        assert asked.count == 2

    asking(story)


@pytest.mark.parametrize("is_silent", [True, False])
def test_earlier_brokers_serve_while_kafka_gives_no_answer(is_silent: bool) -> None:
    async def story(asked: Asked, known: KafkaBrokers) -> None:
        await known.known(5.0)
        asked.is_silent, asked.failure = is_silent, KafkaUnavailable("gone")
        await virtual_time(KEPT_S)
        began_s = asyncio.get_running_loop().time()
        assert [await known.known(5.0) for _ in range(9)] == [FOUR] * 9
        # One question in vain is enough for a while.
        assert asyncio.get_running_loop().time() - began_s <= WAIT_S
        assert asked.count == 2
        assert known.age_ms > KEPT_S * 1000
        asked.is_silent, asked.failure, asked.brokers = False, None, FOUR[:2]
        await virtual_time(KEPT_S)
        assert await known.known(5.0) == FOUR[:2]

    asking(story)


@pytest.mark.parametrize(("is_silent", "text"), [(True, "did not answer in time"), (False, "gone")])
def test_without_any_answer_the_failure_is_told(is_silent: bool, text: str) -> None:
    async def story(asked: Asked, known: KafkaBrokers) -> None:
        asked.is_silent, asked.failure = is_silent, KafkaUnavailable("gone")
        with pytest.raises(KafkaUnavailable, match=text):
            await known.known(5.0)
        asked.is_silent, asked.failure = False, None
        assert await known.known(5.0) == FOUR

    asking(story)
