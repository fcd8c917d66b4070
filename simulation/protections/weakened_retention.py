"""Protections of retention, each with the way to leave it out: see `weakened`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.core.reads.retention import Bound, Known, LookedAt
from coordinator.core.view import ShardView
from coordinator.kafka.topic_configs import Retention
from coordinator.runtime.retention import enforcer
from coordinator.runtime.retention.enforcer import RetentionEnforcer
from simulation.protections.protection import Patch, Protection


class _AlwaysCurrent:
    """Takes the directory of topics for current, however old it is."""

    async def directory_is_current(self, _timeout_ms: int) -> bool:
        return True


def _any_settings() -> list[Patch]:
    delete = RetentionEnforcer._delete

    async def delete_at_once(retention: RetentionEnforcer, coordinator_id: int, found: Mapping[Any, Any], run: Any) -> None:
        router, retention._router = retention._router, _AlwaysCurrent()  # type: ignore[assignment]
        try:
            await delete(retention, coordinator_id, found, run)
        finally:
            retention._router = router

    return [(RetentionEnforcer, "_delete", delete_at_once)]


def _half_of_the_bytes() -> list[Patch]:
    """The limit of bytes as what is there when nothing has to go, in the place of what is kept."""

    def look(
        view: ShardView, key: tuple[bytes, int], retention: Retention, bound: Bound | None, now_ms: int, known: Known | None
    ) -> LookedAt | None:
        stricter = retention._replace(size_bytes=-1 if retention.size_bytes < 0 else retention.size_bytes // 2)
        return view.past_retention(*key, stricter, bound or Bound(view.log_clock_ms(now_ms)), known)

    return [(enforcer, "_past_retention", look)]


def _time_of_the_oldest() -> list[Patch]:
    """The time of the oldest batch stands for all of them."""

    def look(
        view: ShardView, key: tuple[bytes, int], retention: Retention, bound: Bound | None, now_ms: int, known: Known | None
    ) -> LookedAt | None:
        found = view.past_retention(*key, retention, bound or Bound(view.log_clock_ms(now_ms)), known)
        if found is None or not found.batches:
            return found
        everything = Retention(ms=0, size_bytes=retention.size_bytes)
        return view.past_retention(*key, everything, bound or Bound(view.log_clock_ms(now_ms)), None)

    return [(enforcer, "_past_retention", look)]


RETENTION_PROTECTIONS: dict[str, Protection] = {
    "retention-settings": Protection(
        rule="retention reads the settings of topics to their end before it deletes",
        patches=_any_settings,
        kinds=("lag",),
        retention={"check_s": 0.1, "keepers": 4, "under_way_s": 1.0},
        seed_first=7,
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
