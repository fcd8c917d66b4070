"""Membership of the consumer group, and giving it up while this node could not lead what it is assigned.

The group assigns partitions without knowing who is fit to lead them, and a member cannot refuse a single one. So a node that
cannot lead an assigned partition (a newer version wrote its log, its log lost entries, its clock is wrong) leaves the group as
a whole: another node may lead then. It leads on what it leads until another node claims that, and it follows everything.
It stays out while another member is there, and comes back when it is fit again or when no other member is left, because
coordinators without any member have no leader.
Nothing here writes to the log: a node that is not fit never claims, so it costs no epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass

from coordinator.runtime.ports import KafkaUnavailable, Membership, MembershipListener, group_client_id
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.membership")

UNSUPPORTED, UNLOADABLE, CLOCK, REFUSED, DIRECTORY = "unsupported", "unloadable", "clock", "refused", "directory"
KINDS = (UNSUPPORTED, UNLOADABLE, CLOCK, REFUSED, DIRECTORY)
"""Words for metrics: a newer version wrote the log; the log lost what the state has; this node's clock is off; Kafka refuses entries;
the data directory of a replica has failed."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why this node should not lead: all partitions, or one of them. `kind` is a word for metrics, `reason` a sentence for people."""

    kind: str
    reason: str
    partition: int | None = None


class Abstention:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext, *, membership: Membership, listener: MembershipListener) -> None:
        self.is_joined = False
        self.left: Counter[str] = Counter()
        """How often the group was left, by the kind of reason."""
        self._own_id = group_client_id(context.node_id)
        self._membership = membership
        self._context = context
        self._listener = listener
        self._first_look_s, self._last_look_s = context.pauses.group_look_s
        self._unfit: dict[tuple[str, int | None], Unfit] = {}
        self._assignment: frozenset[int] = frozenset()
        self._may_join = False
        self._is_watching = False
        self._wake = asyncio.Event()

    # ---- what the node tells

    def join(self) -> None:
        """Join the group: everything is loaded. A node that may lead nothing first looks whether others are there."""
        self._may_join = True
        if any(unfit.partition is None for unfit in self._unfit.values()):
            self._wake.set()
        else:
            self._join()

    def stop(self) -> None:
        """Leave for good: the process ends."""
        self._may_join = False
        self._leave(None)

    def assigned(self, partitions: frozenset[int]) -> None:
        """The group assigns these partitions now."""
        self._assignment = partitions
        self._wake.set()

    def withhold(self, kind: str, reason: str, partition: int | None = None) -> None:
        """Stay out of leadership of a partition, or of all, until `release`."""
        unfit = Unfit(kind, reason, partition)
        if self._unfit.get((kind, partition)) == unfit:
            return
        self._unfit[(kind, partition)] = unfit
        LOG.error(
            "this node stays out of leadership kind=%s partition=%s reason=%r", kind, "all" if partition is None else partition, reason
        )
        self._wake.set()
        if not self._is_watching:
            self._is_watching = True
            self._context.spawn(self._watch(), "abstention")

    def release(self, kind: str, partition: int | None = None) -> None:
        """Withdraw the reason that `withhold` gave for this kind and partition."""
        if self._unfit.pop((kind, partition), None) is not None:
            LOG.info("this node may lead again kind=%s partition=%s", kind, "all" if partition is None else partition)
            self._wake.set()

    async def leave_for(self, kind: str, seconds: float) -> None:
        """Leave the group, and come back after a while whether other members are there or not."""
        self._leave(kind)
        await asyncio.sleep(seconds)
        if not self._must_stay_out():
            self._join()

    # ---- what others may ask

    @property
    def withheld_reason(self) -> str | None:
        """Why this node stays out of leadership, of all partitions or of some; None while it does not."""
        return "; ".join(unfit.reason for unfit in self._unfit.values()) or None

    def kinds(self) -> frozenset[str]:
        """The kinds of reasons for which this node stays out of leadership."""
        return frozenset(kind for kind, _ in self._unfit)

    def is_withheld(self, partition: int) -> bool:
        """Whether this node does not try to lead a partition."""
        return any(unfit.partition in (None, partition) for unfit in self._unfit.values())

    # ---- staying out and coming back

    def _must_stay_out(self) -> bool:
        return bool(self._unfit) and not self.is_joined

    def _hinders(self) -> Unfit | None:
        """Return the reason for which this member holds a partition without leading it."""
        hindering = (unfit for unfit in self._unfit.values() if unfit.partition is None or unfit.partition in self._assignment)
        return next(hindering, None)

    async def _watch(self) -> None:
        """Leave while other members are there, be a member while there are none, until nothing is withheld."""
        pause_s = self._first_look_s
        while self._unfit:
            self._wake.clear()
            hindering = self._hinders()
            if self._may_join and (hindering is not None or not self.is_joined):
                are_others = await self._are_others()
                if are_others and hindering is not None and self.is_joined:
                    self._leave(hindering.kind)
                elif are_others is False:
                    self._join()
            pause_s = min(2 * pause_s, self._last_look_s)
            try:
                async with asyncio.timeout(pause_s * self._context.rng.uniform(0.5, 1.0)):
                    await self._wake.wait()
            except TimeoutError:
                continue
            pause_s = self._first_look_s
            await asyncio.sleep(pause_s)
        self._is_watching = False
        self._join()

    async def _are_others(self) -> bool | None:
        """Whether the group has other members; None when Kafka does not say."""
        try:
            return bool(await self._context.cluster.group_members() - {self._own_id})
        except KafkaUnavailable as unavailable:
            LOG.info("members of the group are not known error=%r", str(unavailable))
            return None

    def _join(self) -> None:
        if self._may_join and not self.is_joined:
            self.is_joined = True
            self._membership.join(self._listener)

    def _leave(self, kind: str | None) -> None:
        if self.is_joined:
            self.is_joined = False
            self._membership.leave()
            if kind is not None:
                self.left[kind] += 1
                LOG.warning("left the group so that another node may lead kind=%s", kind)
