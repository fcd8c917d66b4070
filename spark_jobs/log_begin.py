"""Where the metadata log begins, and where a job begins to read it: coordinators delete its beginning up to a snapshot (KIP-630)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from records.model import Restored


class LogPrunedError(Exception):
    """Entries that a job needs are deleted; the text names the partitions, the entries, and the remedy."""


class Start(NamedTuple):
    """The first entry that is read of a metadata partition, and the snapshot of everything before it; None: there is nothing before.

    `restored` is the first entry of a log that goes on from a snapshot of another one.
    """

    offset: int = 0
    snapshot: Path | None = None
    restored: Restored | None = None


class Starts(Protocol):
    """Chooses where jobs begin."""

    def begin(self, kpart: int, log_start: int, end: int) -> Start:
        """Where to begin in order to know the state before entry `end`, in a log that begins at `log_start`. Raises `LogPrunedError`."""


class WholeLog:
    """`Starts` without an object store: of logs whose beginning is there, but for `restored` ones, which go on from a snapshot."""

    def __init__(self, restored: Mapping[int, Restored] | None = None) -> None:
        self._restored = restored or {}

    def begin(self, kpart: int, log_start: int, end: int) -> Start:
        """See `Starts`."""
        if log_start > 0:
            raise LogPrunedError(f"the log begins at offset {log_start}, entries before were deleted, and entry 0 is needed")
        restored = self._restored.get(kpart)
        if restored is not None and restored.location:
            raise LogPrunedError(f"the log goes on from the snapshot {restored.location} of another log, which is needed")
        return Start()


def check_begins(topic: str, starts: Mapping[int, int], needed: Mapping[int, int], remedy: str) -> None:
    """Raise `LogPrunedError` when a partition begins (`starts`) after the first entry that is `needed` of it, 0 where none is named."""
    gone = {kpart: start for kpart, start in sorted(starts.items()) if start > needed.get(kpart, 0)}
    if gone:
        what = "; ".join(
            f"{topic}-{kpart} begins at offset {start}, entry {needed.get(kpart, 0)} is needed" for kpart, start in gone.items()
        )
        raise LogPrunedError(f"the beginning of the log was deleted: {what}. {remedy}")
