"""What this node tells the group: which coordinators it leads, follows and how far behind, is about to lead, and refuses.

The group hears of it with each round. One is asked for when that may change the plan: a refusal or a drain came or went, or a replica
became warm that was not when the last assignment was made.

A node that joins and that the directory does not know, though it knows others, tells that it drains until it is registered: what it led
nobody could find, and it may be cut off from the node with which it has to register, for long.
"""

from __future__ import annotations

import logging

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.assignor.member import WARM_LAG, GroupMember
from coordinator.core.commands import OK, Outcome
from coordinator.core.directory.decisions import registration_record
from coordinator.core.directory.draining import is_draining
from coordinator.core.leadership.states import State
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.node.config import NodeConfig
from coordinator.runtime.node.refusals import LeadRefusals
from coordinator.runtime.ports import Membership, MembershipListener
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
        self.wanted: frozenset[int] = frozenset()
        """What this node is to follow by the last assignment, besides the directory: what it was to lead, and what it stands by for."""
        self.is_told = False
        """Whether the group has assigned anything to anybody since the process started."""
        self.is_joined = False
        """Whether this node is, or wants to be, a member of the group."""
        self._context = context
        self._replicas = context.replicas
        self._membership = membership
        self._config = config
        self._started_ms = started_ms
        self._warm: frozenset[int] = frozenset()
        self._led_since_ms: dict[int, int] = {}
        self._was_draining = False
        self.is_unknown = False
        """Whether it joined before the directory knew where it is, and that lasts."""

    def join(self, listener: MembershipListener) -> None:
        """Become a member of the group; `listener` hears the assignments."""
        self.is_unknown = self._is_to_register()
        if self.is_unknown:
            LOG.info("this node is not to lead until the directory knows where it is")
        self.tick()
        self.is_joined = True
        self._membership.join(listener)

    def leave(self) -> None:
        """Leave the group for good: the process ends."""
        self.is_joined = False
        self._membership.leave()

    def tick(self) -> None:
        """Tell what is true now, and ask for a round when it may change the plan."""
        was_unknown, self.is_unknown = self.is_unknown, self.is_unknown and self._is_to_register()
        member = self.tell()
        if self.is_unknown != was_unknown:
            self._membership.refresh("the directory knows where this node is")
        warm = frozenset(partition for partition, lag in member.follows.items() if lag <= WARM_LAG)
        if warm - self._warm - self.assignment:
            self._membership.refresh("replicas are warm")
        # One that was let go of and follows anew is to be told of once more.
        self._warm = (self._warm | warm | member.leads.keys()) & (member.follows.keys() | member.leads.keys())
        if (is_draining := self.is_draining) != self._was_draining:
            self._was_draining = is_draining
            LOG.info("this node %s", "drains: it gives up what it leads" if is_draining else "drains no longer: it may lead again")
            self._membership.refresh("drains" if is_draining else "drains no longer")

    def grown(self) -> None:
        """The topic has more partitions: they are to be assigned."""
        self.tell()
        self._membership.refresh("there are more partitions")

    @property
    def is_draining(self) -> bool:
        """Whether an operator wants this node to give up what it leads; while the directory is built anew, what it said last."""
        directory = self._context.view.directory
        if directory is None:
            return self._was_draining
        return is_draining(directory, self._context.node_id, self._config.incarnation_id)

    def _is_to_register(self) -> bool:
        """Whether the directory knows other nodes, and this one not at all, or at other addresses."""
        directory, node_id = self._context.view.directory, self._context.node_id
        if directory is None or not directory.nodes.keys() - {node_id}:
            return False
        known = directory.nodes.get(node_id)
        return known is None or known.endpoints != registration_record(self._config.registration()).endpoints

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
        # A node that is no member any longer hears of no leaders either: it follows as before until it is told something else.
        if assignment.leaders:
            self.is_told = True
            self.wanted = assignment.leads | assignment.follows
            view = self._context.view
            view.group_leaders, view.group_followers = assignment.leaders, assignment.followers
        self.tell()
        return before

    def _told(self) -> GroupMember:
        leads: dict[int, int] = {}
        led_since_ms: dict[int, int] = {}
        now_ms = self._context.clock_ms()
        # What is not loaded yet is told as well: the group would have another node begin with it.
        follows = dict.fromkeys(filter(self._replicas.exists, self.wanted), UNKNOWN_LAG)
        for replica in self._replicas.followed():
            partition, view, behind = replica.partition, replica.view, replica.entries_behind
            follows.pop(partition, None)
            if view is not None and view.phase is State.LEADING:
                leads[partition] = view.fence.epoch
                led_since_ms[partition] = self._led_since_ms.get(partition, now_ms)
            elif replica.failure is None:
                follows[partition] = UNKNOWN_LAG if behind is None else min(behind, UNKNOWN_LAG)
        self._led_since_ms = led_since_ms
        return GroupMember(
            node_id=self._context.node_id,
            rack=self._config.rack,
            started_ms=self._started_ms,
            leads=leads,
            led_ms={partition: now_ms - since_ms for partition, since_ms in led_since_ms.items()},
            follows=follows,
            claims=frozenset(self.assignment - leads.keys()),
            refuses=self.refusals.of(self._replicas.ids()),
            only=self._config.only,
            drains=self.is_draining or self.is_unknown,
            rules=self._config.rules,
        )

    def _refuse(self) -> None:
        self.tell()
        self._membership.refresh("refuses other partitions than before")
