"""ListTopics as nodes answer it: all topics, what changed since an answer, and never less than an earlier answer had."""

from __future__ import annotations

from typing import cast

from coordinator.core.commands import CreateTopics, DeleteTopics, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.topic_configs import INCREMENTAL_ALTER_CONFIGS, alter_request
from coordinator.operations.topics import LIST_TOPICS
from coordinator.protocol.messages import ListTopicsRequest, ListTopicsResponse
from coordinator.runtime.answers.serving import serve
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.runtime.test_topic_config_answers import change

OTHER = b"o" * 16


async def ask(node: Running, since: int = -1, *, is_current: bool = True, timeout_ms: int = TIMEOUT_MS) -> ListTopicsResponse:
    request = ListTopicsRequest(since_offset=since, is_current=is_current, timeout_ms=timeout_ms)
    return cast(ListTopicsResponse, await serve(node.node, LIST_TOPICS, 0, request))


async def create(node: Running, topic_id: bytes, name: str, count: int = 1) -> None:
    wanted = WantedTopic(topic_id=topic_id, name=name, num_partitions=count, settings=(("retention.ms", "5"),))
    await node.node.replicas[0].ask(CreateTopics(topics=[wanted], eligible={0: 0}), TIMEOUT_MS)  # type: ignore[arg-type]


def topics(answer: ListTopicsResponse) -> list[tuple[str, int, dict[str, str]]]:
    assert answer.error_code == ErrorCode.NONE
    return [
        (one.name, sum(each.num_partitions for each in one.ranges), {each.name: each.value for each in one.configs})
        for one in answer.topics
    ]


async def test_a_listing_goes_on_from_an_earlier_one() -> None:
    async with running(in_memory(), MemoryStateStores()) as node:
        await node.leads()
        await create(node, TOPIC, "orders", 3)
        whole = await ask(node)
        assert whole.is_whole
        assert topics(whole) == [("orders", 3, {"retention.ms": "5"})]
        assert not (await ask(node, whole.offset)).topics
        await create(node, OTHER, "clicks")
        await serve(node.node, INCREMENTAL_ALTER_CONFIGS, 1, alter_request([change(retention_ms="6", retention_bytes="7")]))
        changed = await ask(node, whole.offset)
        assert not changed.is_whole
        assert topics(changed) == [("clicks", 1, {"retention.ms": "5"}), ("orders", 3, {"retention.bytes": "7", "retention.ms": "6"})]
        await node.node.replicas[0].ask(DeleteTopics(topic_ids=[OTHER]), TIMEOUT_MS)  # type: ignore[arg-type]
        gone = await ask(node, changed.offset)
        assert (gone.topics, gone.deleted_topic_ids, gone.is_whole) == ((), (OTHER,), False)
        assert [one[0] for one in topics(await ask(node))] == ["orders"]


async def test_a_node_that_has_less_takes_nothing_back_unless_it_is_current() -> None:
    async with running(in_memory(), MemoryStateStores()) as node:
        await node.leads()
        await create(node, TOPIC, "orders")
        ahead = await ask(node, 1_000_000, is_current=False)
        assert (ahead.offset, ahead.is_whole, ahead.topics) == (1_000_000, False, ())
        current = await ask(node, 1_000_000)
        assert current.is_whole
        assert current.offset < 1_000_000
        assert [one[0] for one in topics(current)] == ["orders"]


async def test_a_node_that_does_not_know_the_end_of_its_log_refuses_to_be_current() -> None:
    async with running(in_memory(), MemoryStateStores()) as node:
        await node.leads()
        await create(node, TOPIC, "orders")
        node.kafka.set_available(False)
        refused = await ask(node, timeout_ms=50)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [one[0] for one in topics(await ask(node, is_current=False))] == ["orders"]
