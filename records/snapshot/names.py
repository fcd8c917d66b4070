"""Names of snapshot files, as Kafka ships them: `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`.

The example in KIP-630 has 20 digits of the epoch, which is an int32; Kafka's tools know names with 10.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from records.avro import INT_MAX, LONG_MAX

PART_SUFFIX: Final = ".part"
"""Ends the name of a file that is still being written."""

_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """Which snapshot of a partition: the state before `end_offset`, in the leadership epoch in force there. Later ones are greater."""

    end_offset: int
    epoch: int


def snapshot_name(end_offset: int, epoch: int) -> str:
    """Return the file name of a snapshot. Raises ValueError for numbers that no log has."""
    if not 0 <= end_offset <= LONG_MAX or not 0 <= epoch <= INT_MAX:
        raise ValueError(f"no snapshot has end offset {end_offset} and epoch {epoch}")
    return f"{end_offset:020}-{epoch:010}.checkpoint"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """Return the snapshot that a file name names; None for any name that `snapshot_name` does not make."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    snapshot_id = SnapshotId(int(found[1]), int(found[2]))
    return snapshot_id if snapshot_id.end_offset <= LONG_MAX and snapshot_id.epoch <= INT_MAX else None
