"""What a test of commits expects as an answer, and what it commits to."""

from __future__ import annotations

import os
import time

from coordinator.client.records.ulid import new_ulid
from integration_tests.wire import OK, Result, Topic, Wire

MANY = 200
"""Large files may be decided in another way than small ones; the answers must be the same."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ulid(when_ms: int) -> str:
    return new_ulid(when_ms, os.urandom(10))


def accepted(base: int, log_start: int = 0, *, time_ms: int = -1) -> Result:
    return Result(OK, base, time_ms, log_start, False)


def duplicate(base: int, log_start: int = 0, *, time_ms: int = -1) -> Result:
    return Result(OK, base, time_ms, log_start, True)


def errors(results: list[Result]) -> list[int]:
    return [one.error for one in results]


async def spread_topic(wire: Wire, coordinators: int = 3) -> Topic:
    """A topic with partitions at every coordinator of the node."""
    topic = await wire.new_topic(2 * coordinators)
    assert set(topic.coordinators) == set(range(coordinators))
    return topic
