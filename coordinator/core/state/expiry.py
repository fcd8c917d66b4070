"""Expiry of producers, deleted topics and tombstones by the log's clock.

Only a logged entry forgets, so that every replica forgets the same at the same place. The clock is the greatest append
time in the log: on a coordinator without commits nothing grows old.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coordinator.core.directory.directory import UNDATED, forgettable
from coordinator.core.limits import Limits
from coordinator.core.state.tombstone_ages import TombstoneAges
from coordinator.core.tables.in_memory import HotState
from records.model import ProducersExpired, Record, TombstonesExpired

PRODUCERS_PER_ENTRY = 20_000
"""Bounds how long applying one entry holds the event loop; producers of the same millisecond go together all the same."""


TOMBSTONES_PER_ENTRY = 10_000
"""The limit for tombstones, for the same reason: as long as there are more, the leader looks again after `AGAIN_MS`."""
AGAIN_MS = 1_000


class Expiry(NamedTuple):
    """The records of an entry that forgets what is past its time, none when nothing is; and whether there are more tombstones to go."""

    records: list[Record]
    has_more: bool


def decide_expiry(hot: HotState, ages: TombstoneAges[int], limits: Limits) -> Expiry:
    """Decide which rows are forgotten by the time of the log. `ages` are those of the acknowledged state."""
    records: list[Record] = []
    producers_before_ms = _producers_before_ms(hot, limits)
    if producers_before_ms is not None:
        records.append(ProducersExpired(before_ms=producers_before_ms))
    all_before_ms = hot.log_time_ms - limits.file_fence_retention_ms
    keys_before_ms = ages.due_before(all_before_ms, TOMBSTONES_PER_ENTRY)
    topics_before_ms = hot.log_time_ms - limits.deleted_topic_retention_ms
    if keys_before_ms is not None or _forgets_topics(hot, topics_before_ms):
        records.append(TombstonesExpired(keys_before_ms=keys_before_ms or 0, topics_before_ms=topics_before_ms))
    return Expiry(records, keys_before_ms is not None and keys_before_ms < all_before_ms)


def _producers_before_ms(hot: HotState, limits: Limits) -> int | None:
    """The time before which producers are to be forgotten, early enough for one entry; None when there are none."""
    before_ms = hot.log_time_ms - limits.producer_id_expiration_ms
    idle = hot.producers.idle_since(before_ms)
    if not len(idle):
        return None
    if len(idle) <= PRODUCERS_PER_ENTRY:
        return before_ms
    times = hot.producers.last_append.array[idle]
    return int(np.partition(times, PRODUCERS_PER_ENTRY - 1)[PRODUCERS_PER_ENTRY - 1]) + 1


def _forgets_topics(hot: HotState, before_ms: int) -> bool:
    is_old = any(UNDATED < gone.time_ms < before_ms for gone in hot.deleted_topics.values())
    return is_old or bool(forgettable(hot.directory, before_ms))
