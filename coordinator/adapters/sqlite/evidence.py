"""State databases that were set aside: their names, how many stay, and how they make room for those in use.

Evidence is worth less than a node that runs. Of each metadata partition the newest `KEPT_PER_PARTITION` stay, all together take
at most a share of the disk, and when space is short the oldest go first, if need be all of them. Each removal is logged by name.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coordinator.adapters.sqlite.files import files_of
from coordinator.config.disk import megabytes, room_of

LOG = logging.getLogger(__name__)

KEPT_PER_PARTITION = 2
ROOM_BYTES = 8 << 20
"""The bytes a database needs at least to be opened or begun: its first pages, the same in the write-ahead log, and the index of it."""
_NAME = re.compile(r"partition-(\d+)\.db\.failed-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One database that was set aside, with its write-ahead log."""

    path: Path
    partition: int
    set_aside_ms: int
    size_bytes: int


class Evidence:
    """The evidence in one data directory."""

    def __init__(self, directory: Path, *, disk_percent: int) -> None:
        self.directory = directory
        self._disk_percent = disk_percent

    def kept(self) -> list[Kept]:
        """List the evidence, the oldest first. Raises OSError."""
        found = []
        for path in self.directory.iterdir():
            if named := _NAME.fullmatch(path.name):
                size_bytes = sum(part.stat().st_size for part in _parts(path))
                found.append(Kept(path=path, partition=int(named[1]), set_aside_ms=int(named[2]), size_bytes=size_bytes))
        return sorted(found, key=lambda one: (one.set_aside_ms, one.partition))

    def set_aside(self, path: Path) -> str | None:
        """Rename a closed database, which needs no space, and make room for its successor; None when it had to go. Raises OSError."""
        kept = path.with_name(f"{path.name}.failed-{self._unused_ms(path)}")
        for source, target in zip(files_of(path), files_of(kept), strict=True):
            if source.exists():
                source.rename(target)
        self.bound()
        # The database that replaces it becomes about as large.
        self.make_room(ROOM_BYTES + sum(part.stat().st_size for part in _parts(kept)))
        return kept.name if kept.exists() else None

    def bound(self) -> None:
        """Remove what is more than may stay. Raises OSError."""
        found = self.kept()
        newer = Counter(one.partition for one in found)
        limit = room_of(self.directory).total_bytes * self._disk_percent // 100
        total_bytes = sum(one.size_bytes for one in found)
        for one in found:
            if newer[one.partition] > KEPT_PER_PARTITION or total_bytes > limit:
                self._remove(one, f"more than {KEPT_PER_PARTITION} of a partition, or {megabytes(limit)} (state.evidence.max.percent)")
                newer[one.partition] -= 1
                total_bytes -= one.size_bytes

    def make_room(self, wanted_bytes: int) -> bool:
        """Remove the oldest until so much is free, or there is none left; returns whether any was removed. Raises OSError."""
        removed = False
        for one in self.kept():
            free_bytes = room_of(self.directory).free_bytes
            if free_bytes >= wanted_bytes:
                break
            self._remove(one, f"{megabytes(free_bytes)} are free on its disk, {megabytes(wanted_bytes)} are needed")
            removed = True
        return removed

    def _unused_ms(self, path: Path) -> int:
        now_ms = time.time_ns() // 1_000_000
        return max([now_ms, *(one.set_aside_ms + 1 for one in self.kept() if one.path.name.startswith(f"{path.name}."))])

    @staticmethod
    def _remove(one: Kept, why: str) -> None:
        for part in _parts(one.path):
            part.unlink(missing_ok=True)
        LOG.warning("evidence removed file=%s bytes=%d reason=%r", one.path, one.size_bytes, why)


def _parts(path: Path) -> Iterable[Path]:
    return [part for part in files_of(path) if part.exists()]
