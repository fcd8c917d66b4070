"""The member of a group: rounds, removal, refreshed rounds, and the role of a node in it. Real brokers: contract `...member...`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import kio.schema.heartbeat.v4 as heartbeat
import kio.schema.join_group.v9 as join_group
import kio.schema.join_group.v9.response as join_group_response
import kio.schema.leave_group.v5 as leave_group
import kio.schema.sync_group.v5 as sync_group
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

from coordinator.adapters.kafka.member.classic import ClassicMember
from coordinator.adapters.kafka.member.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
    userdata_of_subscription,
)
from coordinator.adapters.kafka.member.coordinator import GroupRefused, GroupTrouble
from coordinator.adapters.kafka.member.role import NodeRole
from coordinator.core.assignor.group import NOT_ASSIGNED, GroupAssignment
from coordinator.core.assignor.member import GroupMember
from coordinator.core.assignor.userdata import decode_duties, encode_member
from coordinator.protocol.wire import MalformedMessage

NO_TIME = i32Timedelta.parse(timedelta(0))
TOPIC = "__diskless_metadata"


class ScriptedCoordinator:
    """A group coordinator that gives the answers of a list, in order, by kind of request; heartbeats are fine when none is listed."""

    def __init__(self, **answers: list[object]) -> None:
        self.group_id = GroupId("g")
        self.is_connected = True
        self.asked: list[Any] = []
        self.dropped: list[str] = []
        self.longer_s: dict[str, float] = {}
        """How much longer an answer was waited for at last, by kind of request."""
        self._answers = answers

    async def ask(self, request: Any, _answer_type: type[object], longer_s: float = 0) -> Any:
        self.asked.append(request)
        name = type(request).__name__.removesuffix("Request")
        self.longer_s[name] = longer_s
        await asyncio.sleep(0)
        if name == "Heartbeat" and not self._answers.get(name):
            return heartbeat.HeartbeatResponse(throttle_time=NO_TIME, error_code=ErrorCode.none)
        return self._answers[name].pop(0)

    def drop(self, why: str) -> None:
        self.dropped.append(why)

    def names(self) -> list[str]:
        return [type(one).__name__.removesuffix("Request") for one in self.asked]


class Role:
    """Tells a number of its own in every round, and notes what it hears."""

    def __init__(self) -> None:
        self.rounds = 0
        self.heard: list[object] = []

    def tell(self) -> bytes:
        self.rounds += 1
        return b"round %d" % self.rounds

    def assign(self, told: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return {member: b"for " + member.encode() for member in told}

    def take(self, assignment: bytes) -> None:
        self.heard.append(assignment)

    def removed(self) -> None:
        self.heard.append("removed")


def joined(code: ErrorCode = ErrorCode.none, member: str = "me", leader: str = "other", generation: int = 7) -> object:
    members = tuple(join_group_response.JoinGroupResponseMember(member_id=one, metadata=b"told") for one in sorted({member, leader}))
    return join_group.JoinGroupResponse(
        throttle_time=NO_TIME,
        error_code=code,
        generation_id=i32(generation),
        protocol_name="p",
        leader=leader,
        member_id=member,
        members=members,
    )


def synced(code: ErrorCode = ErrorCode.none, assignment: bytes = b"mine") -> object:
    return sync_group.SyncGroupResponse(throttle_time=NO_TIME, error_code=code, assignment=assignment)


def beat(code: ErrorCode) -> object:
    return heartbeat.HeartbeatResponse(throttle_time=NO_TIME, error_code=code)


def member(coordinator: ScriptedCoordinator, role: Role) -> ClassicMember:
    return ClassicMember(
        coordinator,  # type: ignore[arg-type]
        role,
        protocol_type="consumer",
        protocol="p",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        heartbeat_interval_ms=20,
    )


async def test_a_new_member_is_told_its_id_and_takes_what_the_leader_assigns() -> None:
    coordinator = ScriptedCoordinator(JoinGroup=[joined(ErrorCode.member_id_required), joined()], SyncGroup=[synced()])
    role = Role()
    one = member(coordinator, role)
    await one.join()
    assert [request.member_id for request in coordinator.asked] == ["", "me", "me"]
    assert coordinator.asked[2].assignments == ()
    assert (role.heard, one.generation, one.is_in_generation) == ([b"mine"], 7, True)


async def test_the_leader_of_the_group_assigns_to_all() -> None:
    coordinator = ScriptedCoordinator(JoinGroup=[joined(leader="me")], SyncGroup=[synced()])
    await member(coordinator, Role()).join()
    assert [(one.member_id, one.assignment) for one in coordinator.asked[1].assignments] == [("me", b"for me")]


async def test_a_round_that_is_overtaken_is_joined_again_with_what_is_true_then() -> None:
    coordinator = ScriptedCoordinator(
        JoinGroup=[joined(), joined(generation=8)], SyncGroup=[synced(ErrorCode.rebalance_in_progress), synced()]
    )
    role = Role()
    one = member(coordinator, role)
    await one.join()
    assert [request.protocols[0].metadata for request in coordinator.asked if isinstance(request, join_group.JoinGroupRequest)] == [
        b"round 1", b"round 2",
    ]  # fmt: skip
    assert (role.heard, one.generation) == ([b"mine"], 8)


@pytest.mark.parametrize("code", [ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation])
async def test_an_assignment_holds_when_a_round_begins(code: ErrorCode) -> None:
    coordinator = ScriptedCoordinator(JoinGroup=[joined()], SyncGroup=[synced()], Heartbeat=[beat(ErrorCode.none), beat(code)])
    role = Role()
    one = member(coordinator, role)
    await one.join()
    await one.stay()
    assert (role.heard, one.is_in_generation) == ([b"mine"], False)
    assert coordinator.longer_s["Heartbeat"] == 6, "a frozen coordinator that goes on must hear a heartbeat first"
    await one.heartbeat()
    assert coordinator.longer_s["Heartbeat"] == 0, "a proof does not wait"


async def test_a_member_that_the_group_does_not_know_is_told_so_and_joins_as_a_new_one() -> None:
    coordinator = ScriptedCoordinator(
        JoinGroup=[
            joined(), joined(ErrorCode.unknown_member_id), joined(ErrorCode.member_id_required, member="new"), joined(member="new"),
        ],
        SyncGroup=[synced(), synced()],
        Heartbeat=[beat(ErrorCode.unknown_member_id)],
    )  # fmt: skip
    role = Role()
    one = member(coordinator, role)
    await one.join()
    with pytest.raises(GroupTrouble, match="does not know this member"):
        await one.stay()
    await one.join()
    assert role.heard == [b"mine", "removed", b"mine"]
    assert coordinator.asked[-1].member_id == "new"


async def test_a_broker_that_was_frozen_and_has_forgotten_the_member_is_not_believed() -> None:
    coordinator = ScriptedCoordinator(
        JoinGroup=[
            joined(), joined(ErrorCode.unknown_member_id), joined(generation=8), joined(ErrorCode.unknown_member_id), joined(generation=9),
        ],
        SyncGroup=[synced(), synced(ErrorCode.not_coordinator), synced()],
    )  # fmt: skip
    role = Role()
    one = member(coordinator, role)
    await one.join()
    with pytest.raises(GroupTrouble, match="does not know this member"):
        await one.join()
    assert not one.is_in_generation
    with pytest.raises(GroupTrouble, match="not_coordinator"):
        await one.join()
    with pytest.raises(GroupTrouble, match="does not know this member"):
        await one.join()  # a broker knew it since: it is a new doubt
    await one.join()
    assert (role.heard, coordinator.asked[-1].member_id, one.generation) == ([b"mine", b"mine"], "me", 9)


async def test_a_round_that_is_asked_for_ends_the_stay_and_says_why() -> None:
    coordinator = ScriptedCoordinator(JoinGroup=[joined(), joined()], SyncGroup=[synced(), synced()])
    one = member(coordinator, Role())
    await one.join()
    staying = asyncio.create_task(one.stay())
    one.refresh("replicas are warm")
    await staying
    await one.join()
    assert [request.reason for request in coordinator.asked if isinstance(request, join_group.JoinGroupRequest)] == [
        None,
        "replicas are warm",
    ]


@pytest.mark.parametrize(
    ("code", "error"), [(ErrorCode.not_coordinator, GroupTrouble), (ErrorCode.group_authorization_failed, GroupRefused)]
)
async def test_errors_of_the_group_are_those_that_pass_and_those_that_stay(code: ErrorCode, error: type[Exception]) -> None:
    with pytest.raises(error, match=code.name):
        await member(ScriptedCoordinator(JoinGroup=[joined(code)]), Role()).join()


async def test_who_leaves_while_it_waits_for_others_leaves_over_a_new_connection() -> None:
    left = leave_group.LeaveGroupResponse(throttle_time=NO_TIME, error_code=ErrorCode.none, members=())
    coordinator = ScriptedCoordinator(JoinGroup=[joined(), joined()], SyncGroup=[synced(), synced()], LeaveGroup=[left, left])
    one = member(coordinator, Role())
    await one.join()
    await one.leave("done")
    assert coordinator.dropped == []
    await one.join()
    one.is_in_generation = False
    await one.leave("done")
    assert coordinator.dropped == ["done"]
    assert coordinator.names().count("LeaveGroup") == 2


# ---- the role of a node


def role_of(taken: list[GroupAssignment], node: GroupMember, partitions: int = 4) -> NodeRole:
    return NodeRole(TOPIC, told=lambda: (node, partitions), on_taken=taken.append, on_removed=lambda: None)


def test_nodes_are_assigned_by_what_they_tell_and_strangers_get_nothing() -> None:
    one, two = GroupMember(node_id=1, leads={0: 3, 1: 3}), GroupMember(node_id=2, leads={2: 5}, follows={3: 0})
    told = {f"m{node.node_id}": encode_subscription(TOPIC, encode_member(node)) for node in (one, two)}
    damaged = {"noise": b"\xff\x00noise", "empty": b"", "newer": encode_subscription(TOPIC, b"\x09" + encode_member(one)[1:])}
    assigned = role_of([], one).assign(told | damaged)
    assert set(assigned) == {*told, *damaged}
    assert [sorted(decode_assignment(TOPIC, assigned[member])[0]) for member in ("m1", "m2", *damaged)] == [[0, 1], [2, 3], [], [], []]
    taken: list[GroupAssignment] = []
    role_of(taken, one).take(assigned["m1"])
    assert taken == [GroupAssignment(frozenset({0, 1}), frozenset({2, 3}), {0: 1, 1: 1, 2: 2, 3: 2}, {0: (2,), 1: (2,), 2: (1,), 3: (1,)})]


def test_a_former_process_of_a_node_gets_nothing() -> None:
    old, new = GroupMember(node_id=1, started_ms=1, leads={0: 3}), GroupMember(node_id=1, started_ms=2)
    told = {"a": encode_subscription(TOPIC, encode_member(new)), "b": encode_subscription(TOPIC, encode_member(old))}
    assigned = role_of([], new).assign(told)
    assert decode_assignment(TOPIC, assigned["a"])[0] == frozenset(range(4))
    assert decode_duties(*decode_assignment(TOPIC, assigned["b"])) == NOT_ASSIGNED._replace(leaders=dict.fromkeys(range(4), 1))


@pytest.mark.parametrize("assignment", [b"", b"\x00", b"\x00\x00\xff\xff\xff\xff", encode_assignment(TOPIC, [1], b"")])
def test_an_assignment_that_cannot_be_read_is_trouble_and_not_an_assignment(assignment: bytes) -> None:
    taken: list[GroupAssignment] = []
    with pytest.raises(GroupTrouble, match="cannot be read"):
        role_of(taken, GroupMember(node_id=1)).take(assignment)
    assert taken == []


def test_partitions_of_other_topics_are_not_ours() -> None:
    assert decode_assignment(TOPIC, encode_assignment("other", [1, 2], b"x")) == (frozenset(), b"x")
    assert userdata_of_subscription(encode_subscription(TOPIC, b"told")) == b"told"
    with pytest.raises(MalformedMessage):
        userdata_of_subscription(b"\x00\x00\x00")
