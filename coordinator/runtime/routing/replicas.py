"""Which coordinators exist, and which of them are followed, loaded and led by this node: each set contains the next.

A coordinator exists when the metadata topic has its partition. It is followed here while this node has a replica of it, loaded when that
replica has its state, and led while that state serves writes. Only what is followed here is known from this node's own state.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.leadership.states import State
from coordinator.core.view import ShardView
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.replica.replica import Replica


class Replicas:
    """See the module's text; one per node. Indexing and `get` find the replica of a coordinator that is followed here."""

    def __init__(self) -> None:
        self.count = 0
        """How many coordinators exist; 0 before the metadata topic is known."""
        self._followed: dict[int, Replica] = {}
        # An attribute instead of a method that hands over: every request takes this way.
        self.get: Callable[[int], Replica | None] = self._followed.get

    # ---- what exists

    def exists(self, coordinator_id: int) -> bool:
        """Whether there is such a coordinator, followed here or not."""
        return 0 <= coordinator_id < self.count

    def ids(self) -> range:
        """The coordinators that exist."""
        return range(self.count)

    # ---- what is followed here

    def __getitem__(self, coordinator_id: int) -> Replica:
        """The replica of a coordinator. Raises `NotReadable` for one that is not followed here, or no longer."""
        try:
            return self._followed[coordinator_id]
        except KeyError:
            raise NotReadable(coordinator_id) from None

    def follow(self, replica: Replica) -> Replica:
        """Have this replica for its coordinator from now on, in place of a former one; returns it."""
        self._followed[replica.partition] = replica
        return replica

    def unfollow(self, coordinator_id: int) -> None:
        """Have no replica of a coordinator from now on; who let go of it closes it."""
        del self._followed[coordinator_id]

    def follows(self, coordinator_id: int) -> bool:
        """Whether this node has a replica of a coordinator, loaded or not."""
        return coordinator_id in self._followed

    def followed(self) -> list[Replica]:
        """The replicas of this node, loaded or not, in the order of their coordinators."""
        return [self._followed[one] for one in sorted(self._followed)]

    # ---- what is loaded here

    def shard(self, coordinator_id: int) -> ShardView | None:
        """The state of a coordinator; None unless it is loaded here."""
        replica = self.get(coordinator_id)
        return None if replica is None else replica.view

    def loaded(self) -> list[ShardView]:
        """The states that are loaded here, in the order of their coordinators."""
        return [replica.view for replica in self.followed() if replica.view is not None]

    def is_loading(self, coordinator_id: int) -> bool:
        """Whether this node may be about to lead a coordinator, of which it may not have heard yet; never one that it does not follow."""
        if self.exists(coordinator_id) and not self.follows(coordinator_id):
            return False
        shard = self.shard(coordinator_id)
        return shard is None or shard.phase in (State.RECOVERING, State.FENCING)

    # ---- what is led here

    def leading(self, coordinator_id: int) -> Replica | None:
        """The replica of a coordinator of which this node serves writes; None of any other."""
        replica = self.get(coordinator_id)
        return None if replica is None or replica.view is None or not replica.view.is_leading else replica

    def is_leading(self, coordinator_id: int) -> bool:
        """Whether this node serves writes of a coordinator."""
        return self.leading(coordinator_id) is not None

    def led(self) -> list[int]:
        """The coordinators that this node leads."""
        return [replica.partition for replica in self.followed() if replica.view is not None and replica.view.is_leading]
