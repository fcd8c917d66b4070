"""Measurements of the runtime while it works; the app publishes them. Levels are read from the replicas instead."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from coordinator.core.leadership.states import State


class SnapshotPurpose(Enum):
    """What a snapshot is loaded for: to make a replica of it, or to prove a committed one."""

    REPLICA = "replica"
    PROOF = "proof"


class Telemetry(Protocol):
    """Observations of the hot path and of leadership; implementations must be cheap and never raise."""

    def state_changed(self, partition: int, before: State, after: State) -> None: ...

    def group_appended(self, partition: int, entries: int, size_bytes: int) -> None: ...

    def group_acknowledged(self, partition: int, wait_s: float) -> None: ...

    def loaded(self, partition: int, seconds: float) -> None: ...

    def snapshot_taken(self, seconds: float) -> None: ...

    def snapshot_loaded(self, purpose: SnapshotPurpose, seconds: float) -> None: ...

    def flushed(self, partition: int, seconds: float, batches: int) -> None: ...

    def ticked(self, late_s: float) -> None: ...

    def partition_moved(self, frozen_s: float) -> None: ...


class NoTelemetry:
    """Measures nothing."""

    def state_changed(self, partition: int, before: State, after: State) -> None:
        """Ignore."""

    def group_appended(self, partition: int, entries: int, size_bytes: int) -> None:
        """Ignore."""

    def group_acknowledged(self, partition: int, wait_s: float) -> None:
        """Ignore."""

    def loaded(self, partition: int, seconds: float) -> None:
        """Ignore."""

    def snapshot_taken(self, seconds: float) -> None:
        """Ignore."""

    def snapshot_loaded(self, purpose: SnapshotPurpose, seconds: float) -> None:
        """Ignore."""

    def flushed(self, partition: int, seconds: float, batches: int) -> None:
        """Ignore."""

    def ticked(self, late_s: float) -> None:
        """Ignore."""

    def partition_moved(self, frozen_s: float) -> None:
        """Ignore."""
