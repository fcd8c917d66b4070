"""Who leads each coordinator and why, who is to lead it, and what a node still leads: from what members tell each other, and from nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cli.looks.groups import ask_group

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.looks.service import NodeView
    from cli.output import Row
    from coordinator.adapters.kafka.member.coordinator import GroupCoordinator
    from coordinator.core.assignor.group import GroupAssignment
    from coordinator.core.assignor.member import GroupMember
    from coordinator.core.assignor.plan import GroupPlan


class SeenMember(NamedTuple):
    """A member of the group: what it told in the last round, and what it was assigned."""

    told: GroupMember
    assigned: GroupAssignment


async def find_members(kafka: KafkaPlace, group_id: str, timeout_s: float) -> list[SeenMember]:
    """Return the members of the nodes' group. Raises `Failed`."""
    from coordinator.adapters.kafka.member.consumer_protocol import PROTOCOL_TYPE, decode_assignment, userdata_of_subscription
    from coordinator.adapters.kafka.member.coordinator import GroupTrouble
    from coordinator.core.assignor.userdata import UnreadableUserdata, decode_duties, decode_member
    from coordinator.protocol.wire import MalformedMessage

    async def ask(coordinator: GroupCoordinator) -> list[SeenMember]:
        seen = []
        for one in (await coordinator.describe(PROTOCOL_TYPE)).members:
            try:
                told = decode_member(userdata_of_subscription(one.member_metadata))
                seen.append(SeenMember(told, decode_duties(*decode_assignment(kafka.topic, one.member_assignment))))
            except (MalformedMessage, UnreadableUserdata) as error:
                raise GroupTrouble(f"member {one.member_id} ({one.client_id}) cannot be read: {error}") from error
        return seen

    return await ask_group(kafka, group_id, timeout_s, ask, lambda refused: f"group {group_id} is not that of nodes: {refused.code.name}")


def plan_of(members: Sequence[SeenMember]) -> tuple[Mapping[int, int], GroupPlan]:
    """Return the node that each coordinator is assigned to, and the plan that the group would make of what was told."""
    from coordinator.core.assignor.member import rules_in_force
    from coordinator.core.assignor.plan import make_plan

    leaders = {partition: node for one in members for partition, node in one.assigned.leaders.items()}
    told = [one.told for one in members]
    return leaders, make_plan(told, sorted(leaders), rules_in_force(told))


def why_rows(members: Sequence[SeenMember]) -> list[Row]:
    """Return a row per coordinator: who may claim it and why, who warms up to lead it, who follows it, who refuses it."""
    leaders, plan = plan_of(members)
    return [
        {
            "coordinator": partition,
            "assigned": leaders[partition],
            "why": _why(plan.leaders[partition] == leaders[partition], plan.reasons[partition].because.value),
            "former": plan.reasons[partition].former,
            "warming": plan.reasons[partition].warming,
            "follows": sorted(one.told.node_id for one in members if partition in one.assigned.follows),
            "refuses": sorted(one.told.node_id for one in members if partition in one.told.refuses),
        }
        for partition in sorted(leaders)
    ]


def _why(is_planned: bool, reason: str) -> str:
    return reason if is_planned else "a round is under way"


def move_rows(members: Sequence[SeenMember]) -> list[Row]:
    """Return a row per coordinator that another node is to lead: at once, where that node is warm, or when it will be."""
    leaders, plan = plan_of(members)
    rows: list[Row] = []
    for partition, leader in sorted(leaders.items()):
        reason = plan.reasons[partition]
        if plan.leaders[partition] != leader:
            rows.append(
                {"coordinator": partition, "from": leader, "to": plan.leaders[partition], "when": "at once", "why": reason.because.value}
            )
        elif reason.warming_because is not None:
            why = reason.warming_because.value
            rows.append({"coordinator": partition, "from": leader, "to": reason.warming, "when": "once it is warm", "why": why})
    return rows


def led_by(views: Sequence[NodeView], node_id: int) -> list[int]:
    """Return the coordinators that a node leads: its claim is the newest that any node knows, or it has not heard of a newer one.

    Of one that no node follows which answers, the assignment counts, and one of which nothing is known may be led by any node.
    """
    from cli.looks.service import by_coordinator, taken_for_leader

    return [
        coordinator_id
        for coordinator_id, group in by_coordinator(views).items()
        if (leader := taken_for_leader(views, coordinator_id, group)) == node_id
        or any(one.is_leader and one.node.node_id == node_id for one in group)
        or (leader < 0 and not group)
    ]
