"""A node that drains: the group hears of it at once, and the plan gives its coordinators to nodes that are warm."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from coordinator.app.readiness import readiness
from coordinator.core.assignor.member import AssignorRules, GroupMember
from coordinator.core.commands import OK, Outcome
from coordinator.core.drains import Drain
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.entity import blank
from coordinator.protocol.messages import BalanceLeadersRequest, BalanceLeadersResponse, DescribeCoordinatorsRequest
from coordinator.runtime.answers.maintenance import balance_leaders, describe_coordinators
from coordinator.runtime.ports import group_client_id
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_group import FakeMembership
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

WARM = GroupMember(node_id=2, started_ms=1, follows={0: 0, 1: 0})
"""Another member, which has a warm replica of everything and claims nothing."""


async def join_second_node(kafka: FakeKafka, started: Running) -> None:
    """Register another node, and make it a member of the group."""
    await started.leads()
    await started.until(lambda: 1 in started.node.view.directory.nodes, "the registration")  # type: ignore[union-attr]
    other = replace(started.node.config.registration(), node_id=2, incarnation_id=b"2" * 16, log_dirs=(b"d" * 16,))
    assert cast(Outcome, await started.node.replicas[0].ask(other, TIMEOUT_MS)) == OK
    member = FakeMembership(group=kafka.group, node="2", client_id=group_client_id(2))
    member.tell(WARM, 2)
    kafka.group.add(member)


async def test_a_node_that_drains_gives_up_its_assignment_to_warm_nodes_and_takes_its_share_again() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        node = started.node
        await join_second_node(kafka, started)
        assert await node.directory.drain_node(1, Drain.PROCESS, TIMEOUT_MS) == OK
        await started.until(lambda: not node.assignment, "the other node to be assigned everything")
        assert node.replicas.led() == [0, 1], "it leads on until the claims of the other are in the log"
        assert readiness(node)[1]["draining"]
        described = await describe_coordinators(node, 0, blank(DescribeCoordinatorsRequest, timeout_ms=1), "")
        assert [(one.node_id, one.drain) for one in described.nodes] == [(1, Drain.PROCESS), (2, Drain.NONE)]  # type: ignore[attr-defined]
        assert await node.directory.drain_node(1, Drain.NONE, TIMEOUT_MS) == OK
        await started.until(lambda: len(node.assignment) == 1, "half of them")
        assert not readiness(node)[1]["draining"]


async def test_a_node_that_the_directory_does_not_know_is_given_nothing_while_others_lead() -> None:
    """Nobody could find it, and it may be cut off from the node with which it has to register."""
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await join_second_node(kafka, started)
    async with running(kafka, MemoryStateStores(), name="3", node_id=3) as joined:
        standing = joined.node.standing
        await joined.until(lambda: standing.is_told, "an assignment")
        assert (standing.tell().drains, standing.is_draining, standing.assignment) == (True, False, frozenset())
        is_ready, detail = readiness(joined.node)
        assert (is_ready, detail["unregistered"]) == (False, True)
        kafka.group.remove("2")
        await joined.leads()
        await joined.until(lambda: not standing.tell().drains, "the registration")
        await joined.until(lambda: readiness(joined.node)[0], "the node to be ready")


async def test_a_node_that_the_directory_knows_is_given_its_share_at_once() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await join_second_node(kafka, started)
    async with running(kafka, MemoryStateStores(), name="1") as again:
        await again.until(lambda: again.node.standing.is_joined, "the group")
        assert not again.node.standing.tell().drains


async def test_the_only_member_is_not_drained_and_nobody_else_decides_it() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        await started.until(lambda: 1 in started.node.view.directory.nodes, "the registration")  # type: ignore[union-attr]
        refused = await started.node.directory.drain_node(1, Drain.LASTING, TIMEOUT_MS)
        assert (refused.error, "is the last one that leads" in str(refused.message)) == (ErrorCode.INVALID_REQUEST, True)
        kafka.set_available(False)
        unknown = await started.node.directory.drain_node(1, Drain.LASTING, TIMEOUT_MS)
        assert (unknown.error, "members of the group are not known" in str(unknown.message)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
        kafka.set_available(True)
    elsewhere = await started.node.directory.drain_node(1, Drain.LASTING, TIMEOUT_MS)
    assert elsewhere.error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_a_node_tells_its_settings_and_asks_for_a_round_when_an_operator_wants_one() -> None:
    kafka, rules = in_memory(), AssignorRules(standbys=0, leader_racks=("a",))
    async with running(kafka, MemoryStateStores(), rules=rules, only=frozenset({1, 7})) as started:
        await started.leads()
        told = started.node.standing.tell()
        assert (told.rules, told.only) == (rules, {1, 7})
        described = await describe_coordinators(started.node, 0, blank(DescribeCoordinatorsRequest, timeout_ms=1), "")
        assert described.placement_rules == "standby.replicas=0 leader.racks=a"  # type: ignore[attr-defined]
        assert described.reserved_ids == (1, 7)  # type: ignore[attr-defined]
        before = kafka.group.generation
        answer = await balance_leaders(started.node, 0, BalanceLeadersRequest(timeout_ms=1_000))
        assert isinstance(answer, BalanceLeadersResponse)
        assert answer.error_code == 0
        await started.until(lambda: kafka.group.generation > before, "a round")
        late = await balance_leaders(started.node, 0, BalanceLeadersRequest(timeout_ms=0))
        assert late.error_code == ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]
    gone = await balance_leaders(started.node, 0, BalanceLeadersRequest(timeout_ms=1_000))
    assert gone.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
