"""The rules of retention: records go only when a client asked for it or they are past retention, and those that are go in the end.

Every deletion that takes effect in a log is judged against the settings that the log of the directory has then, or had shortly before:
a deletion that was decided by them may be under way for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from coordinator.core.commands import DeletePoint
from simulation.fold import HELD, DeletedRange, FoldedPartition, LogFold, TimedBatch, Where
from simulation.loop import START_MS
from simulation.scenario import CLOCK_SKEW_MAX_S, Scenario, SimulatedRetention

KEPT = "retention deletes nothing that is to be kept"
LOGGED = "acknowledged settings are in the log"
MEASURED_MS = 300
"""How far the untouched clocks of nodes may be off: they are compared with the brokers' every now and then."""
LATE_MS = 3_000
"""How much later than at its time a batch may go when all is well."""
EVERYTHING = 1 << 62


class KeptSince(NamedTuple):
    """How much of a partition is kept from a time of the run on; -1 is no limit."""

    since_s: float
    ms: int
    size_bytes: int


class JudgedRetention:
    """See the module's text."""

    def __init__(
        self,
        scenario: Scenario,
        life: SimulatedRetention,
        folds: Sequence[LogFold],
        now_s: Callable[[], float],
        broken: Callable[[str, str], None],
    ) -> None:
        self.life = life
        self.expired_batches = 0
        """How many batches only retention has deleted."""
        self._folds = folds
        self._now_s = now_s
        self._broken = broken
        self._are_clocks_near = scenario.are_clocks_near
        self._off_ms = MEASURED_MS if scenario.are_clocks_true else 2 * int(CLOCK_SKEW_MAX_S * 1000)
        self._settings: dict[bytes, list[KeptSince]] = {}
        self._asked: dict[Where, int] = {}
        self._seen = [0] * len(folds)
        self._settings_seen = 0

    def asked(self, points: Sequence[DeletePoint]) -> None:
        """A client asks for the deletion of records: whenever that happens, it is no business of retention."""
        for point in points:
            where, offset = (point.topic_id, point.partition), EVERYTHING if point.offset < 0 else point.offset
            self._asked[where] = max(self._asked.get(where, 0), offset)

    def altered(self, topic_id: bytes, name: str, value: str) -> None:
        """A client was told that a setting is made."""
        if not any(one == topic_id and settings.get(name) == value for one, settings in self._folds[0].configured):
            self._broken(LOGGED, f"{name}={value} of topic {topic_id.hex()[:6]} was acknowledged, and is not in the log")

    def landed(self, partition: int) -> None:
        """Something took effect in a log."""
        for topic_id, settings in self._folds[0].configured[self._settings_seen :]:
            self._settings_seen += 1
            life = self.life
            kept = KeptSince(
                self._now_s(),
                int(settings.get("retention.ms", life.default_ms)),
                int(settings.get("retention.bytes", life.default_bytes)),
            )
            self._history(topic_id).append(kept)
        fold = self._folds[partition]
        for deletion in fold.deletions[self._seen[partition] :]:
            self._seen[partition] += 1
            known = fold.partitions.get(deletion.where)
            # A part that was released follows the owner, whose deletions are judged.
            if known is not None and not known.is_released and deletion.end > self._asked.get(deletion.where, 0):
                self._judge(partition, deletion)

    def _history(self, topic_id: bytes) -> list[KeptSince]:
        life = self.life
        return self._settings.setdefault(topic_id, [KeptSince(0.0, life.default_ms, life.default_bytes)])

    def _times(self, where: Where) -> list[TimedBatch]:
        """The batches of a partition, in all coordinators that it has been in."""
        parts = [known for fold in self._folds if (known := fold.partitions.get(where)) is not None]
        return sorted(one for known in parts for one in known.times)

    def _judge(self, partition: int, deletion: DeletedRange) -> None:
        times = self._times(deletion.where)
        gone = [one for one in times if deletion.start <= one.last_offset < deletion.end]
        self.expired_batches += len(gone)
        if self._folds[0].is_restore_open:
            self._broken(HELD, f"coordinator {partition} has let the batches {gone} go as past retention")
            return
        if not self._are_clocks_near:
            return
        left = sum(one.size_bytes for one in times if one.last_offset >= deletion.end)
        used = list(self._used(deletion.where[0]))
        if not any(self._is_past(kept, gone, left) for kept in used):
            topic, number = deletion.where
            text = f"{topic.hex()[:6]}-{number}: batches {gone} of coordinator {partition} went, {left} bytes stay, by {used}"
            self._broken(KEPT, text)

    def _used(self, topic_id: bytes) -> Iterator[KeptSince]:
        """The settings by which a deletion may have been decided that takes effect now."""
        history = self._history(topic_id)
        yield history[-1]
        for earlier, later in pairwise(history):
            if later.since_s > self._now_s() - self.life.under_way_s:
                yield earlier

    def _is_past(self, kept: KeptSince, gone: Sequence[TimedBatch], left_bytes: int) -> bool:
        """Whether the oldest batches may go: by time, by size, or the first by time and the others by size."""
        if kept.ms >= 0:
            until_ms = START_MS + self._now_s() * 1000 - kept.ms + self._off_ms
            if all(one.time_ms < until_ms for one in gone):
                return True
        return 0 <= kept.size_bytes <= left_bytes

    def left(self) -> list[str]:
        """The partitions that should have fewer batches by now."""
        if not self._are_clocks_near:
            return []
        return [
            f"{where[0].hex()[:6]}-{where[1]} has batches that are past retention"
            for fold in self._folds
            for where, known in fold.partitions.items()
            if where[0] in self._folds[0].placements
            and not known.is_released
            and self._is_too_much(where, self._history(where[0])[-1], known)
        ]

    def _is_too_much(self, where: Where, kept: KeptSince, known: FoldedPartition) -> bool:
        live = [one for one in self._times(where) if one.last_offset >= known.log_start]
        if not live:
            return False
        old_ms = START_MS + self._now_s() * 1000 - kept.ms - self._off_ms - LATE_MS
        # While older batches are elsewhere, the owner counts its own.
        counted = live if live[0].base_offset >= known.base_offset else [one for one in live if one.base_offset >= known.base_offset]
        rest_bytes = sum(one.size_bytes for one in counted[1:])
        return (kept.ms >= 0 and live[0].time_ms < old_ms) or (bool(counted) and 0 <= kept.size_bytes <= rest_bytes)
