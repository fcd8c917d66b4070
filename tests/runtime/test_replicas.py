"""A coordinator that exists and is not followed here is told from one that is loading and from one that does not exist."""

from __future__ import annotations

from typing import cast

from coordinator.core.commands import CommitResult, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.maintenance import DESCRIBE_SNAPSHOTS
from coordinator.protocol.messages import DescribeSnapshotsRequest, DescribeSnapshotsResponse
from coordinator.runtime.answers.descriptions import Descriptions
from coordinator.runtime.answers.serving import serve
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

HERE, ELSEWHERE, NOWHERE = 0, 1, 2
"""Coordinators of the service below: the first is followed here, the second only exists."""


async def with_one_elsewhere(started: Running) -> None:
    """Have the node know of a second coordinator, of which it has no replica, and which the group has given to another node."""
    await started.leads()
    started.node.replicas.count = 2
    started.node.view.group_leaders = {HERE: 1, ELSEWHERE: 2}


async def test_each_set_contains_the_next() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        replicas = started.node.replicas
        assert (replicas.count, replicas.followed(), replicas.loaded(), replicas.led()) == (0, [], [], [])
        assert replicas.is_loading(HERE)
        await with_one_elsewhere(started)
        assert [replicas.exists(one) for one in (-1, HERE, ELSEWHERE, NOWHERE)] == [False, True, True, False]
        assert list(replicas.ids()) == [HERE, ELSEWHERE]
        assert [one.partition for one in replicas.followed()] == replicas.led() == [HERE]
        assert replicas.loaded() == [replicas.shard(HERE)]
        assert [replicas.follows(one) for one in (HERE, ELSEWHERE)] == [True, False]
        assert [replicas.is_leading(one) for one in (HERE, ELSEWHERE)] == [True, False]


async def test_who_does_not_follow_a_coordinator_sends_its_callers_elsewhere_at_once() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await with_one_elsewhere(started)
        assert started.node.router.not_led(ELSEWHERE).error is ErrorCode.NOT_COORDINATOR
        # The topic may have grown: this node hears of it later.
        assert started.node.router.not_led(NOWHERE).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_topics_are_placed_on_coordinators_that_are_not_followed_here() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await with_one_elsewhere(started)
        wanted = WantedTopic(topic_id=TOPIC, name="orders", num_partitions=4)
        [outcome] = await started.node.directory.create_topics([wanted], 200)
        assert outcome.error is ErrorCode.REQUEST_TIMED_OUT, "the other owner cannot be told"
        directory = started.node.view.directory
        assert directory is not None
        assert {one.coordinator_id: one.num_partitions for one in directory.placements[TOPIC].ranges} == {HERE: 2, ELSEWHERE: 2}
        elsewhere = next(one.first_partition for one in directory.placements[TOPIC].ranges if one.coordinator_id == ELSEWHERE)
        answers: list[CommitResult] = []
        started.node.router.commit(
            commit("file", [batch(elsewhere, 1)], owner_ids=[ELSEWHERE]), TIMEOUT_MS, lambda answer: answers.append(answer.result()), 100
        )
        assert [answer.errors for answer in answers] == [[ErrorCode.NOT_COORDINATOR]]


async def test_descriptions_are_of_what_is_followed_here() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await with_one_elsewhere(started)
        for wanted in ([], [HERE, ELSEWHERE, NOWHERE]):
            here, elsewhere = Descriptions(started.node, "").coordinators(wanted)
            assert (here.coordinator_id, here.error_code, here.state) == (HERE, ErrorCode.NONE, "leading")
            assert (elsewhere.coordinator_id, elsewhere.error_code, elsewhere.state) == (
                ELSEWHERE,
                ErrorCode.NOT_COORDINATOR,
                "not followed",
            )
        request = DescribeSnapshotsRequest(coordinator_ids=())
        response = cast(DescribeSnapshotsResponse, await serve(started.node, DESCRIBE_SNAPSHOTS, 0, request))
        assert [one.coordinator_id for one in response.coordinators] == [HERE, ELSEWHERE]
        assert ErrorCode(response.coordinators[ELSEWHERE].error_code) is ErrorCode.NOT_COORDINATOR
        assert "does not follow coordinator 1; ask another node" in str(response.coordinators[ELSEWHERE].error_message)
