"""DescribeProducers as nodes answer it: what the replica remembers of each producer of a partition."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.commands import CreateTopics, Outcome, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.producers import DESCRIBE_PRODUCERS, DescribedProducers, described_producers, producers_request
from coordinator.runtime.answers.serving import serve
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit, place
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running


async def described(node: Running, topic: str, partitions: Sequence[int]) -> list[DescribedProducers]:
    return described_producers(await serve(node.node, DESCRIBE_PRODUCERS, 0, producers_request(topic, partitions)))


async def test_every_producer_of_a_partition_is_told_with_its_newest_sequence() -> None:
    async with running(in_memory(), MemoryStateStores()) as node:
        await node.leads()
        wanted = WantedTopic(topic_id=TOPIC, name="orders", num_partitions=2)
        [created] = await node.node.replicas[0].ask(CreateTopics(topics=[wanted], eligible={0: 0}), TIMEOUT_MS)  # type: ignore[misc]
        assert isinstance(created, Outcome)
        await node.ask(0, place(TOPIC, 2))
        batches = [
            batch(0, 3, sequence=0),
            batch(0, 2, sequence=3),
            batch(0, 1, sequence=7, producer_id=9, producer_epoch=4),
            batch(0, 1),  # without idempotence
            batch(1, 1, sequence=0, producer_id=11),
        ]
        await node.node.replicas[0].ask(commit("wal/one", batches), TIMEOUT_MS)
        first, second = await described(node, "orders", [0, 1])
        assert [(one.producer_id, one.epoch, one.last_sequence) for one in first.producers] == [(5, 0, 4), (9, 4, 7)]
        assert [(one.producer_id, one.epoch, one.last_sequence) for one in second.producers] == [(11, 0, 0)]
        assert len({one.last_append_ms for one in [*first.producers, *second.producers]}) == 1


async def test_partitions_that_a_node_does_not_know_are_refused() -> None:
    async with running(in_memory(), MemoryStateStores()) as node:
        await node.leads()
        [unknown] = await described(node, "orders", [3])
        assert unknown.outcome.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert unknown.outcome.message == "this node knows no partition 3 of a topic orders"
