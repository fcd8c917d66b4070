"""How far the loading of a replica is: its database, a snapshot, the end of the log.

The loader writes it, also from the thread that builds a database; others read it at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

LOG = logging.getLogger("coordinator.replica")

LOG_EVERY_S = 5.0

T = TypeVar("T")


class LoadStep(Enum):
    """The steps of loading a replica, in this order; FETCH and SNAPSHOT only where a snapshot is needed."""

    DATABASE = "database"
    FETCH = "fetch"
    SNAPSHOT = "snapshot"
    LOG = "log"


class LoadStatus(NamedTuple):
    """How far the loading of a replica is; numbers are -1 where the step has none."""

    step: LoadStep
    snapshot: str | None = None
    loaded_bytes: int = -1
    total_bytes: int = -1
    loaded_entries: int = -1
    total_entries: int = -1

    @property
    def text(self) -> str:
        """The status for people."""
        match self.step:
            case LoadStep.DATABASE:
                return "opening the state database"
            case LoadStep.FETCH:
                far = f", {self.loaded_bytes} of {self.total_bytes} bytes" if self.total_bytes >= 0 else ""
                return f"fetching snapshot {self.snapshot}{far}"
            case LoadStep.SNAPSHOT:
                return f"loading snapshot {self.snapshot}, {self.loaded_bytes} of {self.total_bytes} bytes"
            case LoadStep.LOG:
                far = f", {self.loaded_entries} of {self.total_entries} entries" if self.total_entries >= 0 else ""
                return f"reading the log{far}"


class LoadProgress:
    """The loading of one replica."""

    def __init__(self) -> None:
        self._status = LoadStatus(LoadStep.DATABASE)
        self._first_offset = self._log_end = 0

    def opens(self) -> None:
        """The database is opened."""
        self._status = LoadStatus(LoadStep.DATABASE)

    def fetches(self, snapshot: str) -> None:
        """A snapshot is brought into the data directory."""
        self._status = LoadStatus(LoadStep.FETCH, snapshot)

    def fetched(self, size_bytes: int, total_bytes: int) -> None:
        """Note the fetched bytes of the snapshot."""
        self._status = self._status._replace(loaded_bytes=size_bytes, total_bytes=total_bytes)

    def builds(self, snapshot: str, total_bytes: int) -> None:
        """A database is made of a snapshot."""
        self._status = LoadStatus(LoadStep.SNAPSHOT, snapshot, 0, total_bytes)

    def building(self, rows: Iterable[T], position: Callable[[], int]) -> Iterator[T]:
        """Pass the rows of a snapshot on; `position` says how much of its file is read."""
        for one in rows:
            yield one
            self._status = self._status._replace(loaded_bytes=position())

    def reads_log(self, first_offset: int, log_end: int) -> None:
        """The state is loaded; the log is read from an offset on, and ended at `log_end` when the loading began."""
        self._status = LoadStatus(LoadStep.LOG)
        self._first_offset, self._log_end = first_offset, max(first_offset, log_end)

    def status(self, next_offset: int | None) -> LoadStatus | None:
        """How far it is, `next_offset` being the next entry to read; None once everything is read that was there at the beginning."""
        status = self._status
        if status.step is not LoadStep.LOG or next_offset is None:
            return status
        if next_offset >= self._log_end:
            return None
        read = max(0, next_offset - self._first_offset)
        return LoadStatus(LoadStep.LOG, loaded_entries=read, total_entries=self._log_end - self._first_offset)


class LoadLog:
    """Logs how far loading replicas are, so often that an operator sees it go on and not more."""

    def __init__(self, statuses: Callable[[], dict[int, LoadStatus]]) -> None:
        """`statuses` are those of the replicas that are not loaded, by metadata partition."""
        self._statuses = statuses
        self._next_s: float | None = None

    def look(self, now_s: float) -> None:
        """Log the statuses if the time has come."""
        if self._next_s is None:
            self._next_s = now_s + LOG_EVERY_S
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOG_EVERY_S
        for partition, status in sorted(self._statuses().items()):
            LOG.info("replica is being loaded partition=%d progress=%r", partition, status.text)
