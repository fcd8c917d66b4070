"""Protections of retention, each with the way to leave it out: see `weakened`."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.reads.retention import Bound, Known, LookedAt
from coordinator.core.view import ShardView
from coordinator.kafka.topic_configs import Retention
from coordinator.runtime.retention.enforcer import RetentionEnforcer
from simulation.protections.protection import Protection, around


async def _do_nothing(_: RetentionEnforcer) -> None:
    pass


@around(ShardView, "past_retention")
def _half_of_the_bytes(
    past: Callable[..., LookedAt | None],
    view: ShardView,
    topic_id: bytes,
    partition: int,
    retention: Retention,
    bound: Bound,
    known: Known | None,
) -> LookedAt | None:
    """The limit of bytes as what is there when nothing has to go, in the place of what is kept."""
    stricter = retention._replace(size_bytes=-1 if retention.size_bytes < 0 else retention.size_bytes // 2)
    return past(view, topic_id, partition, stricter, bound, known)


@around(ShardView, "past_retention")
def _time_of_the_oldest(
    past: Callable[..., LookedAt | None],
    view: ShardView,
    topic_id: bytes,
    partition: int,
    retention: Retention,
    bound: Bound,
    known: Known | None,
) -> LookedAt | None:
    """The time of the oldest batch stands for all of them."""
    found = past(view, topic_id, partition, retention, bound, known)
    if found is None or not found.batches:
        return found
    everything = Retention(ms=0, size_bytes=retention.size_bytes)
    return past(view, topic_id, partition, everything, bound, None)


RETENTION_PROTECTIONS: dict[str, Protection] = {
    "retention-settings": Protection(
        rule="retention reads the settings of topics to their end before it deletes",
        patches=lambda: [(RetentionEnforcer, "check_settings", _do_nothing)],
        kinds=("lag",),
        retention={"check_s": 0.1, "keepers": 4, "under_way_s": 1.0},
        seed_first=16,
    ),
    "retention-bytes": Protection(
        rule="retention.bytes are left at least",
        patches=_half_of_the_bytes,
        kinds=("slow",),
        retention={"default_bytes": 50, "check_s": 0.2},
    ),
    "retention-times": Protection(
        rule="only batches before the first that is young enough go",
        patches=_time_of_the_oldest,
        kinds=("slow",),
        retention={"default_ms": 1_000, "check_s": 0.2},
        seed_first=5,
    ),
}
