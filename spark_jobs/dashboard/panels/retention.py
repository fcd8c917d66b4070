"""What retention removes of partitions, and when: the service's rules (by time, by size) applied to the batches that are live.

The settings of a topic are in the log; for those that it does not have the service's count, which the nodes that are asked tell. Batches
go from the first one on: one goes no sooner than those before it. What goes is deleted at the next look of the leaders.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spark_jobs.dashboard.panels.rows import rows
from spark_jobs.dashboard.panels.stretches import WholePartition
from spark_jobs.scan.blocks import Batches, file_numbers, unpack
from spark_jobs.store.engine import StoreConnection, StoreRow
from spark_jobs.store.statements import marks

UNLIMITED = -1
BLOCKS_MAX = 4000
"""Blocks of batches that are read for one answer, of some hundred batches each: about a second."""
OBJECTS_MAX = 5000
DAY_MS = 86_400_000
INT64_MAX = 2**63 - 1


class RetentionLimits(NamedTuple):
    """How long and how many bytes are kept; -1 is no limit, None is not known."""

    ms: int | None = None
    size_bytes: int | None = None


UNKNOWN_LIMITS = RetentionLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionInForce:
    """The limits of a topic, and which of them are its own."""

    limits: RetentionLimits
    own: frozenset[str]


@dataclass(slots=True, kw_only=True)
class LiveShare:
    """What is live of some partitions. `due_bytes` are past retention. Times are when the first and the last go by time, None: never.

    `room_bytes` is how much more is written until the first batch goes by size, None: never.
    """

    batches: int = 0
    size_bytes: int = 0
    due_bytes: int = 0
    in_a_day_bytes: int = 0
    next_ms: int | None = None
    last_ms: int | None = None
    room_bytes: int | None = None

    def add(self, other: LiveShare) -> None:
        """Add another partition."""
        self.batches += other.batches
        self.size_bytes += other.size_bytes
        self.due_bytes += other.due_bytes
        self.in_a_day_bytes += other.in_a_day_bytes
        self.next_ms = min((one for one in (self.next_ms, other.next_ms) if one is not None), default=None)
        self.last_ms = max((one for one in (self.last_ms, other.last_ms) if one is not None), default=None)
        self.room_bytes = min((one for one in (self.room_bytes, other.room_bytes) if one is not None), default=None)


def kept_of(db: StoreConnection, topic_id: bytes, service: RetentionLimits) -> RetentionInForce:
    """Return what is kept of a topic; a value of its own that is no number counts as not set."""
    found = rows(db, "select settings from topic where topic_id = ?", topic_id)
    settings: Mapping[str, str] = json.loads(found[0]["settings"] or "{}") if found else {}
    own = {name: number for name in ("retention.ms", "retention.bytes") if (number := _number(settings.get(name))) is not None}
    limits = RetentionLimits(own.get("retention.ms", service.ms), own.get("retention.bytes", service.size_bytes))
    return RetentionInForce(limits=limits, own=frozenset(own))


def _number(text: str | None) -> int | None:
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if UNLIMITED <= number <= INT64_MAX else None


def live_batches(
    db: StoreConnection, partition: WholePartition, blocks_max: int = BLOCKS_MAX
) -> tuple[list[tuple[StoreRow, Batches]] | None, int]:
    """Return the live batches of each stretch of a partition in the order of their offsets, and how many blocks hold them.

    None if that are too many blocks.
    """
    sql = "select runs from run_block where kpart = ? and topic_id = ? and partition = ? order by first_offset limit ?"
    found: list[tuple[StoreRow, Batches]] = []
    count = 0
    for stretch in partition.stretches:
        blocks = rows(db, sql, stretch["kpart"], bytes(stretch["topic_id"]), partition.number, blocks_max - count + 1)
        count += len(blocks)
        if count > blocks_max:
            return None, count
        batches = unpack(b"".join(bytes(one["runs"]) for one in blocks))
        found.append((stretch, batches.keep(np.argsort(batches.base_offset, kind="stable"))))
    return found, count


def live_shares(db: StoreConnection, partitions: Iterable[WholePartition], limits: RetentionLimits, now_ms: int) -> dict[int, LiveShare]:
    """Return what is live of partitions of a topic, by number, up to the first one for which there are too many blocks."""
    left, found = BLOCKS_MAX, dict[int, LiveShare]()
    for partition in partitions:
        alive, blocks = live_batches(db, partition, left)
        if alive is None:
            break
        left -= blocks
        found[partition.number] = share_of_partition(alive, limits, now_ms)
    return found


def share_of_partition(alive: Iterable[tuple[StoreRow, Batches]], limits: RetentionLimits, now_ms: int) -> LiveShare:
    """Return what is live of one partition, from the batches of its stretches. By size its owner looks at its own batches only."""
    share = LiveShare()
    for stretch, batches in alive:
        own = limits if stretch["released_to"] is None else limits._replace(size_bytes=UNLIMITED)
        share.add(share_of(batches, own, now_ms))
    return share


def share_of(batches: Batches, limits: RetentionLimits, now_ms: int) -> LiveShare:
    """Return what is live of one stretch of a partition, from all its batches in order."""
    if not len(batches.file):
        return LiveShare()
    sums = batches.size_bytes.cumsum()
    whole = int(sums[-1])
    share = LiveShare(batches=len(sums), size_bytes=whole)
    due = 0
    if limits.ms is not None and limits.ms >= 0:
        times = np.maximum.accumulate(batches.time_ms)
        due = int(np.searchsorted(times, now_ms - limits.ms))
        in_a_day = int(np.searchsorted(times, now_ms + DAY_MS - limits.ms, "right"))
        share.in_a_day_bytes = int(sums[in_a_day - 1]) if in_a_day else 0
        share.next_ms, share.last_ms = (int(times[at]) + limits.ms for at in (0, -1))
    if limits.size_bytes is not None and limits.size_bytes >= 0:
        due = max(due, int(np.searchsorted(sums, whole - limits.size_bytes, "right")))
        left = whole - (int(sums[due - 1]) if due else 0)
        share.room_bytes = max(0, limits.size_bytes + int(batches.size_bytes[due]) - left) if due < len(sums) else None
    share.due_bytes = int(sums[due - 1]) if due else 0
    return share


class StoredShare(NamedTuple):
    """Objects with live batches of a partition: how many, and how many of their bytes are not live for anybody any more."""

    objects: int
    dead_bytes: int


_STORED = """select o.object_key, max(o.file_bytes), sum(case when o.state = 'live' then o.live_bytes else 0 end)
from file f cross join head h cross join file o
where f.file_number in ({marks}) and o.kpart = h.kpart and o.object_key = f.object_key
group by o.object_key"""


def stored_share(db: StoreConnection, alive: Iterable[tuple[StoreRow, Batches]]) -> StoredShare | None:
    """Return what the objects of some stretches' batches hold; None when there are too many of them to ask."""
    numbers = [number for stretch, batches in alive for number in np.unique(file_numbers(stretch["kpart"], batches.file)).tolist()]
    if len(numbers) > OBJECTS_MAX:
        return None
    objects: dict[str, tuple[int, int]] = {}
    for first in range(0, len(numbers), 500):
        some = numbers[first : first + 500]
        objects.update((row[0], (row[1], row[2])) for row in rows(db, _STORED.format(marks=marks(some)), *some))
    return StoredShare(len(objects), sum(size - live for size, live in objects.values()))
