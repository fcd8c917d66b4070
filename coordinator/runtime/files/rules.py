"""When files without batches are deleted, and when orphans are looked for: the configured limits."""

from __future__ import annotations

from dataclasses import dataclass

MOVES_WINDOW_MS_MIN = 60_000
"""Clocks may differ by more than a short age limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRules:
    """Limits for handing over and deleting files without live batches; times in milliseconds."""

    commit_max_age_ms: int = 900_000
    """A younger file may still be committed by another owner: nothing is asked about it."""
    delete_grace_ms: int = 60_000
    """How long an object stays after its last batch is gone, by the log's time."""
    interval_ms: int = 1_000
    """Between two rounds of a coordinator."""
    max_files_per_cycle: int = 20_000
    """How many files a round looks at."""
    kept_prefix: str = "snapshots/"
    """Objects below it are not those of files, whatever key a file was committed with."""

    @property
    def read_lag_max_s(self) -> float:
        """How old the state may be that FindBatches is answered from: half the grace is left to the reader. Without a grace, any."""
        return self.delete_grace_ms / 2000 if self.delete_grace_ms else float("inf")

    @property
    def moves_window_ms(self) -> int:
        """How much earlier or later than a move a file may have been created that is committed before it and repeated after it.

        A repetition is refused when it is older than the age limit, and writers do not go by an old placement for longer.
        """
        return max(MOVES_WINDOW_MS_MIN, 2 * self.commit_max_age_ms)


NO_FILES_DELETED = FileRules(delete_grace_ms=0)
"""The rules of a node that deletes nothing and whose readers may lag as far as they like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRules:
    """Limits of the scan for orphans; times in milliseconds."""

    prefix: str = "wal/"
    """Objects below it are looked at; all of them are this service's."""
    kept_prefix: str = "snapshots/"
    """Objects below it are not those of files."""
    interval_ms: int = 0
    """Between the end of a scan and the next one; 0 means that scans begin only when an operator asks."""
    age_ms: int = 0
    """Younger objects are left alone."""
    off_because: str = ""
    """Why this node scans nothing, as a sentence; empty when it does."""


NO_SCANS = ScanRules(off_because="this node was given no limits for scans")
"""The rules of a node that scans nothing."""
