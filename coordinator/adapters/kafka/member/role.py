"""The role of a node in its group: tells what it leads and follows, takes its duties, and makes the plan when it leads the group.

The plan is `coordinator.core.assignor`. What a member tells that cannot be read counts as a member with nothing, since an error would fail
the round of the whole group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from coordinator.adapters.kafka.member.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
    userdata_of_subscription,
)
from coordinator.adapters.kafka.member.coordinator import GroupTrouble
from coordinator.core.assignor.group import NOT_ASSIGNED, GroupAssignment, assign
from coordinator.core.assignor.member import GroupMember
from coordinator.core.assignor.userdata import UnreadableUserdata, decode_duties, decode_member, encode_duties, encode_member
from coordinator.protocol.wire import MalformedMessage

LOG = logging.getLogger("coordinator.kafka.membership")


class NodeRole:
    """See the module; `MemberRole` of one node."""

    def __init__(
        self,
        topic: str,
        *,
        told: Callable[[], tuple[GroupMember, int]],
        on_taken: Callable[[GroupAssignment], None],
        on_removed: Callable[[], None],
    ) -> None:
        """`told` returns what is true of this node, and how many partitions there are."""
        self._topic = topic
        self._told = told
        self._on_taken = on_taken
        self._on_removed = on_removed

    def tell(self) -> bytes:
        """Return what the others shall know of this node."""
        return encode_subscription(self._topic, encode_member(self._told()[0]))

    def assign(self, told: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the partitions and duties of every member; nothing for those that cannot be read, and for former processes of a node."""
        members: dict[str, GroupMember] = {}
        for member_id in sorted(told):
            try:
                members[member_id] = decode_member(userdata_of_subscription(told[member_id]))
            except (MalformedMessage, UnreadableUserdata) as error:
                LOG.error("a member of the group cannot be read and gets nothing member=%s error=%r", member_id, str(error))
        assigned = assign(members, self._told()[1])
        return {
            member_id: encode_assignment(self._topic, one.leads, encode_duties(one))
            for member_id in told
            for one in (assigned.get(member_id, NOT_ASSIGNED),)
        }

    def take(self, assignment: bytes) -> None:
        """Take this node's assignment. Raises `GroupTrouble` when it cannot be read."""
        try:
            taken = decode_duties(*decode_assignment(self._topic, assignment))
        except (MalformedMessage, UnreadableUserdata) as error:
            raise GroupTrouble(f"the assignment cannot be read: {error}") from error
        self._on_taken(taken)

    def removed(self) -> None:
        """The group does not know this member any longer."""
        self._on_removed()
