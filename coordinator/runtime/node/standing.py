"""What this node tells the group: which coordinators it leads, follows and how far behind, is about to lead, and refuses.

The group hears of it with each round. One is asked for when that may change the plan: a refusal or a drain came or went, or a replica
became warm that was not when the last assignment was made.
"""

from __future__ import annotations

import logging

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.assignor.member import WARM_LAG, GroupMember
from coordinator.core.commands import OK, Outcome
from coordinator.core.directory.draining import is_draining
from coordinator.core.leadership.states import State
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.node.config import NodeConfig
from coordinator.runtime.node.refusals import LeadRefusals
from coordinator.runtime.ports import Membership, MembershipListener
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.membership")

UNKNOWN_LAG = 2**31 - 1
"""Entries behind of a replica that is not loaded, or does not know where its log ends."""


class GroupStanding:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext, *, membership: Membership, config: NodeConfig, started_ms: int) -> None:
        """`started_ms` tells this process from a former one of the same node."""
        self.refusals = LeadRefusals(self._refuse)
        self.assignment: frozenset[int] = frozenset()
        """The partitions that the group assigns to this node now."""
        self.is_joined = False
        """Whether this node is, or wants to be, a member of the group."""
        self._context = context
        self._replicas = context.replicas
        self._membership = membership
        self._config = config
        self._started_ms = started_ms
        self._warm: frozenset[int] = frozenset()
        self._was_draining = False

    def join(self, listener: MembershipListener) -> None:
        """Become a member of the group; `listener` hears the assignments."""
        self.tick()
        self.is_joined = True
        self._membership.join(listener)

    def leave(self) -> None:
        """Leave the group for good: the process ends."""
        self.is_joined = False
        self._membership.leave()

    def tick(self) -> None:
        """Tell what is true now, and ask for a round when it may change the plan."""
        member = self.tell()
        warm = frozenset(partition for partition, lag in member.follows.items() if lag <= WARM_LAG) | member.leads.keys()
        if warm - self._warm:
            self._membership.refresh("replicas are warm")
            self._warm |= warm
        if member.drains != self._was_draining:
            self._was_draining = member.drains
            LOG.info("this node %s", "drains: it gives up what it leads" if member.drains else "drains no longer: it may lead again")
            self._membership.refresh("drains" if member.drains else "drains no longer")

    @property
    def is_draining(self) -> bool:
        """Whether an operator wants this node to give up what it leads; while the directory is built anew, what it said last."""
        directory = self._context.view.directory
        if directory is None:
            return self._was_draining
        return is_draining(directory, self._context.node_id, self._config.incarnation_id)

    def ask_for_round(self, why: str) -> Outcome:
        """Ask for a round, in which the plan is made anew."""
        if not self.is_joined:
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message="this node is not in the group yet; retry")
        self.tell()
        self._membership.refresh(why)
        return OK

    def tell(self) -> GroupMember:
        """Set what the others are told in the next round; returns it."""
        member = self._told()
        self._membership.tell(member, self._replicas.count)
        return member

    def assigned(self, assignment: GroupAssignment) -> frozenset[int]:
        """Take an assignment; returns the partitions assigned before."""
        before, self.assignment = self.assignment, assignment.leads
        self.tell()
        return before

    def _told(self) -> GroupMember:
        leads: dict[int, int] = {}
        follows: dict[int, int] = {}
        for replica in self._replicas.followed():
            view = replica.view
            if view is not None and view.phase is State.LEADING:
                leads[replica.partition] = view.fence.epoch
            elif view is not None and view.phase is not State.FAILED:
                follows[replica.partition] = _lag(replica)
        return GroupMember(
            node_id=self._context.node_id,
            rack=self._config.rack,
            started_ms=self._started_ms,
            leads=leads,
            follows=follows,
            claims=frozenset(self.assignment - leads.keys()),
            refuses=self.refusals.of(self._replicas.ids()),
            only=self._config.only,
            drains=self.is_draining,
            rules=self._config.rules,
        )

    def _refuse(self) -> None:
        self.tell()
        self._membership.refresh("refuses other partitions than before")


def _lag(replica: Replica) -> int:
    """Entries that a loaded replica is behind the end of its log, as far as it knows that."""
    assert replica.view is not None
    known = replica.freshness.entries_behind(replica.view.next_offset)
    return UNKNOWN_LAG if known is None else min(known, UNKNOWN_LAG)
