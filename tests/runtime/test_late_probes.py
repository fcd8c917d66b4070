"""A probe of the brokers' clock that is read late tells little of it, and moves no time of the log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from coordinator.core.events import NewEntry
from coordinator.core.log_entry import ReadEntry
from coordinator.runtime.node.clocks import NodeClocks
from coordinator.runtime.replica.broker_time import BrokerTime
from tests.runtime.nodes import context_of, replicas_of

SKEW_MAX_MS = 5_000
BROKER_MS = 1_700_000_000_000
"""The brokers' clock less the monotonic one."""


class Probed:
    """A leader whose clock is `ahead_ms` ahead of the brokers', and the times that it writes."""

    def __init__(self, ahead_ms: int) -> None:
        self._monotonic_ms = 1_000_000.0
        self._ahead_ms = ahead_ms
        self._probe = BrokerTime(lambda: self._monotonic_ms)
        self._clocks = NodeClocks(
            context_of(replicas=replicas_of([SimpleNamespace(partition=0, broker_time=self._probe)]), view=SimpleNamespace(directory=None)),
            wall_ms=self._wall_ms,
            monotonic_ms=lambda: self._monotonic_ms,
            skew_max_ms=SKEW_MAX_MS,
        )

    def _wall_ms(self) -> int:
        return int(BROKER_MS + self._monotonic_ms + self._ahead_ms)

    def log_ahead_ms(self, *, stamped_after_ms: int, read_after_ms: int) -> int:
        """What is taken from the times of the log behind a probe that was stamped and read so long after it was produced."""
        self._probe.produced([NewEntry(0, b"claim", b"")])
        stamp_ms = int(BROKER_MS + self._monotonic_ms + stamped_after_ms)
        self._monotonic_ms += read_after_ms
        assert self._probe.read([ReadEntry(5, stamp_ms, b"claim", b"")])
        return self._clocks.log_ahead_ms(self._wall_ms())


@pytest.mark.parametrize("late_ms", [1, 4_000, 12_000, 30_000])
@pytest.mark.parametrize("is_stamped_late", [True, False])
def test_a_right_clock_is_believed_however_late_a_probe_is(late_ms: int, is_stamped_late: bool) -> None:
    stamped_after_ms = late_ms if is_stamped_late else 0
    assert Probed(0).log_ahead_ms(stamped_after_ms=stamped_after_ms, read_after_ms=late_ms) == 0


@pytest.mark.parametrize(("ahead_ms", "late_ms"), [(SKEW_MAX_MS + 2, 1), (60_000, 1), (60_000, 30_000), (3_600_000, 30_000)])
def test_times_of_a_clock_that_is_certainly_ahead_come_near_those_of_the_brokers(ahead_ms: int, late_ms: int) -> None:
    taken_ms = Probed(ahead_ms).log_ahead_ms(stamped_after_ms=0, read_after_ms=late_ms)
    assert ahead_ms - late_ms <= taken_ms <= ahead_ms
