"""A node follows the directory, what it is told to and what it leads; what it lets go of stays on disk as a spare."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.directories.keeper import DirectoryKeeper
from coordinator.runtime.node.following import WARM_UPS_BUSY, WARM_UPS_IDLE, Following
from coordinator.runtime.node.repairs import ReplicaRepairs
from coordinator.runtime.node.standing import GroupStanding
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.cluster_view import UNKNOWN_EPOCH
from records.model import Endpoint
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.runtime.nodes import Running, context_of, in_memory, replicas_of, running

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))
NOTHING: frozenset[int] = frozenset()


@asynccontextmanager
async def nodes(kafka: FakeKafka, *stores: MemoryStateStores, **config: Any) -> AsyncIterator[list[Running]]:
    """Run nodes 1, 2, ... over these stores; the group assigns by itself until a test does."""
    async with AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(
                running(
                    kafka,
                    own,
                    name=str(number),
                    node_id=number,
                    endpoints=[Endpoint(listener="PLAINTEXT", host=f"node-{number}", port=9192)],
                    incarnation_id=bytes([number]) * 16,
                    **config,
                )
            )
            for number, own in enumerate(stores, 1)
        ]
        for one in started:
            await one.until(lambda node=one.node: node.is_joined and node.keeper.following.has_warmed_up, "the nodes to be warm")  # type: ignore[misc]
        yield started


def followed(node: Running) -> list[int]:
    return [one.partition for one in node.node.replicas.followed()]


async def follows(node: Running, partitions: Iterable[int]) -> None:
    """Wait until the node follows exactly these partitions, and has them loaded."""
    wanted = sorted(partitions)
    await node.until(lambda: followed(node) == wanted and len(node.node.replicas.loaded()) == len(wanted), f"following {wanted}")


async def test_three_nodes_follow_what_they_are_told_and_each_coordinator_has_one_standby() -> None:
    kafka = in_memory(partitions=6)
    async with nodes(kafka, *(MemoryStateStores() for _ in range(3))) as started:

        def is_settled() -> bool:
            told = [kafka.group.told(str(one.node.config.node_id)) | {DIRECTORY_PARTITION} for one in started]
            replicas = sum(partition in followed(one) for one in started for partition in range(1, 6))
            return (
                [len(one.node.replicas.led()) for one in started] == [2, 2, 2]
                and replicas == 2 * 5
                and list(map(set, map(followed, started))) == told
            )

        await started[0].until(is_settled, "every coordinator to have one standby, and every node to follow what it is told")


async def test_what_is_let_go_of_goes_on_from_its_spare_when_it_is_wanted_again() -> None:
    kafka, stores = in_memory(partitions=PARTITIONS), MemoryStateStores()
    async with nodes(kafka, MemoryStateStores(), stores) as [one, two]:
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": ALL})
        await one.leads()
        await one.ask(2, place())
        assert result_of(await one.ask(2, commit("a", [batch(0, 3)], owner_ids=[2]))).errors == [0]
        end = kafka.logs[2].end_offset
        await two.until(lambda: (view := two.node.replicas.shard(2)) is not None and view.next_offset == end, "the commit to be read")
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": frozenset({1})})
        await follows(two, {0, 1})
        await two.until(lambda: set(two.node.keeper.directories.spares()) == {2, 3}, "spares")
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": frozenset({1, 2})})
        await follows(two, {0, 1, 2})
        assert two.node.replicas[2].writer.written_offset == end - 1, "the state was loaded from the database"
        assert two.node.replicas[2].log_bytes == 0, "nothing was read again"
        assert set(two.node.keeper.directories.spares()) == {3}


async def test_spares_beyond_the_limit_are_removed() -> None:
    kafka, stores = in_memory(partitions=PARTITIONS), MemoryStateStores()
    async with nodes(kafka, MemoryStateStores(), stores, spare_percent_max=0) as [_, two]:
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": ALL})
        await follows(two, ALL)
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": frozenset({1})})
        await follows(two, {0, 1})
        await two.until(lambda: stores.partitions() == {0, 1}, "the databases to be removed")
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": ALL})
        await follows(two, ALL)


async def test_a_leader_follows_until_it_has_read_the_claim_of_its_successor() -> None:
    kafka = in_memory(partitions=PARTITIONS)
    async with nodes(kafka, MemoryStateStores(), MemoryStateStores()) as [one, two]:
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": ALL})
        await one.leads()
        await follows(two, ALL)
        kafka.set_unanswered(3)  # so that the successor cannot find the end of the log
        kafka.group.assign({0: "1", 1: "1", 2: "1", 3: "2"}, {"1": NOTHING, "2": NOTHING})
        await two.until(lambda: two.node.assignment == {3}, "the assignment")
        assert 3 in one.node.replicas.led()
        kafka.set_unanswered()
        await two.until(lambda: two.node.replicas.led() == [3], "the successor")
        await follows(one, {0, 1, 2})


async def test_a_node_that_is_no_member_any_longer_follows_as_before() -> None:
    kafka = in_memory(partitions=PARTITIONS)
    async with nodes(kafka, MemoryStateStores(), MemoryStateStores()) as [_, two]:
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": frozenset({1, 2})})
        await follows(two, {0, 1, 2})
        kafka.group.expire("2")
        await two.until(lambda: not two.node.standing.assignment, "the end of the session")
        two.node.keeper.following.look()
        assert followed(two) == [0, 1, 2]


@pytest.mark.parametrize(("leads", "at_a_time"), [(True, WARM_UPS_BUSY), (False, WARM_UPS_IDLE)])
async def test_a_few_replicas_warm_up_at_a_time_and_what_is_to_be_led_begins_at_once(leads: bool, at_a_time: int) -> None:
    led = SimpleNamespace(partition=0, is_warm=True, failure=None, view=SimpleNamespace(is_leading=leads))
    replicas = replicas_of([led])
    replicas.count = 30
    waiting: set[int] = set()

    def begin(partition: int) -> None:
        replicas.follow(cast(Replica, SimpleNamespace(partition=partition, is_warm=False, failure=None, view=None)))

    following = Following(
        context_of(replicas=replicas, view=SimpleNamespace(earlier_coordinators=lambda told: frozenset())),
        standing=cast(GroupStanding, SimpleNamespace(is_told=True, wanted=frozenset(range(30)), assignment=frozenset({28, 29}))),
        directories=cast(DirectoryKeeper, SimpleNamespace(spares_beyond=lambda percent: [])),
        repairs=cast(ReplicaRepairs, SimpleNamespace(is_waiting=waiting.__contains__)),
        begin=begin,
        spare_percent_max=10,
    )
    following.look()
    begun = {one.partition for one in replicas.followed()}
    assert begun == {0, 28, 29, *range(1, at_a_time + 1)}
    following.look()
    assert {one.partition for one in replicas.followed()} == begun, "those that warm up take the room"
    waiting |= {1, 28, 29}  # a broker does not answer
    following.look()
    assert {one.partition for one in replicas.followed()} - begun == {at_a_time + 1}


async def test_who_does_not_follow_knows_the_leader_from_the_group_and_says_so() -> None:
    kafka = in_memory(partitions=PARTITIONS)
    async with nodes(kafka, MemoryStateStores(), MemoryStateStores()) as [one, two]:
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": frozenset({1})})
        await one.leads()
        await follows(two, {0, 1})
        await two.until(lambda: two.node.view.leader(2) is not None, "the registration of the first node")
        named, claimed = two.node.view.leader(2), two.node.view.leader(1)
        assert named is not None
        assert claimed is not None
        assert (named.node_id, named.host, named.epoch) == (1, "node-1", UNKNOWN_EPOCH)
        assert (claimed.node_id, claimed.epoch) == (1, one.node.replicas[1].view.fence.epoch)  # type: ignore[union-attr]
        refused = two.node.router.not_led(2)
        assert refused.error is ErrorCode.NOT_COORDINATOR
        assert refused.message == "node 2 does not lead coordinator 2; ask node 1 and retry"


async def test_a_claim_that_is_read_outranks_the_word_of_the_group() -> None:
    kafka = in_memory(partitions=PARTITIONS)
    async with nodes(kafka, MemoryStateStores(), MemoryStateStores()) as [one, two]:
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": ALL})
        await one.leads()
        await follows(two, ALL)
        await two.until(lambda: two.node.replicas[1].is_warm and two.node.view.leader(1) is not None, "a warm replica")
        two.node.view.group_leaders = dict.fromkeys(ALL, 2)
        leader = two.node.view.leader(1)
        assert leader is not None
        assert leader.node_id == 1


async def test_a_partition_that_cannot_be_loaded_is_refused_alone_and_stays() -> None:
    kafka, stores = in_memory(partitions=PARTITIONS), MemoryStateStores()
    async with nodes(kafka, stores) as [one]:
        await one.leads()
        await one.ask(2, place())
    kafka.logs[2].cut(0)
    async with nodes(kafka, MemoryStateStores(), stores) as [other, one]:
        await one.until(lambda: one.node.standing.refusals.of(ALL) == {2}, "the refusal")
        await other.until(lambda: 2 in other.node.replicas.led(), "the other node")
        await one.until(lambda: bool(one.node.replicas.led()), "leadership of others")
        assert one.node.replicas[2].failure is not None
        assert 2 not in one.node.standing.tell().follows


@pytest.mark.parametrize("spare_percent_max", [0, 10])
async def test_what_is_told_as_soon_as_it_was_let_go_of_is_followed_again(spare_percent_max: int) -> None:
    kafka = in_memory(partitions=PARTITIONS)
    async with nodes(kafka, MemoryStateStores(), MemoryStateStores(), spare_percent_max=spare_percent_max) as [one, two]:
        for _ in range(20):
            kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": ALL})
            await two.until(lambda: two.node.standing.wanted == ALL, "the assignment")
            kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": frozenset({1})})
            await two.until(lambda: two.node.standing.wanted == {1}, "the assignment")
        kafka.group.assign(dict.fromkeys(ALL, "1"), {"2": ALL})
        await follows(two, ALL)
        await one.leads()
