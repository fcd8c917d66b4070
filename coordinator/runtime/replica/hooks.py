"""What a replica tells its node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.core.events import Contradicted
from coordinator.runtime.replica.state_writer import Marked
from records.model import LeadershipClaimed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaHooks:
    """Functions of the node that its replicas call; an `int` is the metadata partition of the replica."""

    on_directory_changed: Callable[[], None]
    """The directory of topics is not as it was."""
    on_state_changed: Callable[[], object]
    """The replica leads, or does not lead any longer, or is in another state than before."""
    on_failed: Callable[[int, str], None]
    """The replica has failed, with the reason."""
    on_directory_failed: Callable[[int], None]
    """The data directory may be the reason that the state database cannot be written."""
    on_contradicted: Callable[[int, Contradicted, LeadershipClaimed | None], None]
    """An entry contradicts the log; with the claim in force."""
    on_marked: Callable[[int, Marked], None]
    """The state database stands at a mark."""
