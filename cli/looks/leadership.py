"""Why each coordinator is where it is: the members of the nodes' group told what they have, and the plan is a function of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cli.looks.groups import ask_group

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from cli.output import Row
    from coordinator.adapters.kafka.member.coordinator import GroupCoordinator
    from coordinator.core.assignor.group import GroupAssignment
    from coordinator.core.assignor.member import GroupMember


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


def why_rows(members: Sequence[SeenMember]) -> list[Row]:
    """Return a row per coordinator: who may claim it and why, who warms up to lead it, who follows it, who refuses it."""
    from coordinator.core.assignor.member import AssignorRules
    from coordinator.core.assignor.plan import make_plan

    leaders = {partition: node for one in members for partition, node in one.assigned.leaders.items()}
    plan = make_plan([one.told for one in members], sorted(leaders), AssignorRules())
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
