"""The group member of a simulated process: its callbacks run on the process's loop, so a frozen process hears nothing.

Beyond the fake it knows sessions that end while the member does not know it (yet): the group gives its partitions to
others, and it goes on believing until it hears of it and joins again.
"""

from __future__ import annotations

from coordinator.core.assignor.group import NOT_ASSIGNED
from simulation.fakes.kafka_group import FakeGroup, FakeMembership
from simulation.loop import VirtualLoop

SESSION_S = 6.0


class SimulatedMembership(FakeMembership):
    """See the module's text."""

    def __init__(self, *, group: FakeGroup, node: str, client_id: str, loop: VirtualLoop) -> None:
        super().__init__(group=group, node=node, client_id=client_id, session_timeout_ms=int(SESSION_S * 1000))
        self._loop = loop

    def stop(self) -> None:
        """The process dies; the group notices when the session ends."""
        self._is_up = False
        self._group.loop.call_later(SESSION_S, self._group.remove, self.node)

    def expire(self, unheard_s: float) -> None:
        """End the session; the member hears of it after a while, and joins again."""
        if not self._group.is_member(self.node):
            return
        self._group.remove(self.node)
        epoch = self._epoch
        self._group.loop.call_later(unheard_s, self._loop.call_soon, self._expired, epoch)

    def _expired(self, epoch: int) -> None:
        if epoch != self._epoch or not self._is_joined:
            return
        self._is_joined = False
        self._epoch += 1
        self._assigned = NOT_ASSIGNED
        if self._listener is not None:
            self._listener.on_assignment(NOT_ASSIGNED)

    def believe(self, partition: int) -> None:
        """Hear an assignment that the group did not make: two members own the partition now."""
        if self._is_joined:
            self.hear(self._assigned._replace(leads=self._assigned.leads | {partition}))
