"""TakeSnapshot, for coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.client.calls.declared import ByCoordinators
from coordinator.client.model import Result
from coordinator.operations.maintenance import TAKE_SNAPSHOT


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot(Result):
    """A snapshot that was committed, or why none was; offset and size are -1 then."""

    coordinator_id: int = -1
    end_offset: int = -1
    size_bytes: int = -1


def take_snapshots(coordinator_ids: Sequence[int]) -> ByCoordinators[TakenSnapshot]:
    """Take a snapshot of each coordinator. Repeating it takes another one, which does no harm."""
    return ByCoordinators(TAKE_SNAPSHOT, coordinator_ids, TakenSnapshot)
