"""Snapshots: the state of one metadata partition at one offset of its log, as a file in Kafka's format (KIP-630).

A file is a sequence of record batches of one record each, with offsets from 0 on: the control record SnapshotHeader, the head
(which log, which offset, which digest), rows of the tables of the state database in chunks, and the control record SnapshotFooter.
A file without its footer is incomplete. `docs/snapshot-format.md` has the layout.

Nothing here knows the tables: rows are columns of numbers, bytes or texts under names.
"""

from records.snapshot.errors import BadSnapshot, NewerFormat
from records.snapshot.head import FORMAT, SnapshotHead, check_identity
from records.snapshot.names import PART_SUFFIX, SnapshotId, parse_snapshot_name, snapshot_name
from records.snapshot.part_file import SnapshotFile
from records.snapshot.reader import SnapshotReader
from records.snapshot.rows import TableRows
from records.snapshot.writer import write_snapshot

__all__ = [
    "FORMAT",
    "PART_SUFFIX",
    "BadSnapshot",
    "NewerFormat",
    "SnapshotFile",
    "SnapshotHead",
    "SnapshotId",
    "SnapshotReader",
    "TableRows",
    "check_identity",
    "parse_snapshot_name",
    "snapshot_name",
    "write_snapshot",
]
