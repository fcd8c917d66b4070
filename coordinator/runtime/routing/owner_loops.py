"""The owners of the partitions of a file: one loop over its batches. Compiled when installed (`setup.py`); the `.pxd` has the types."""

from __future__ import annotations

BATCH_BYTES = 77
TOPIC_AT = 5
TOPIC_BYTES = 16
PARTITION_BYTES = 4
"""A batch, and in it the topic id and the partition behind that, as `kafka.batches.BATCH` has them."""


def owners_of_files(files: list[bytes], owners: dict[bytes, list[int]]) -> list[tuple[int, int]]:
    """Which coordinators own files, each given as its batches: stretches of files with the same owner, with where each ends.

    `owners` has the coordinators of a topic's partitions, -1 for what is not known. The owner is -1 of files whose batches no one
    coordinator owns, or not all are known.
    """
    found: list[tuple[int, int]] = []
    last = -1
    at = 0
    for batches in files:
        owner = _common_owner(batches, owners)
        if owner != last and at > 0:
            found.append((last, at))
        last = owner
        at += 1
    if at > 0:
        found.append((last, at))
    return found


def _common_owner(batches: bytes, owners: dict[bytes, list[int]]) -> int:
    """The coordinator that owns every partition of the batches; -1 when there is no such one, or not every owner is known."""
    row, topic_at, topic_bytes, partition_bytes, end = BATCH_BYTES, TOPIC_AT, TOPIC_BYTES, PARTITION_BYTES, len(batches)
    if end % row:
        raise IndexError(f"{end} bytes are not whole batches")
    data = batches  # compiled: an address, which nobody checks; hence the look at the length
    common = -1
    known = -1
    row_at = 0
    partitions: list[int] = []
    while row_at < end:
        at = row_at + topic_at
        same = 0
        if known >= 0:
            for place in range(topic_bytes):
                same += data[at + place] == data[known + place]
        if same < topic_bytes:
            found = owners.get(data[at : at + topic_bytes])
            if found is None:
                return -1
            partitions = found
            known = at
        at += topic_bytes
        partition = 0
        for place in range(at, at + partition_bytes):
            partition = partition << 8 | data[place]
        if partition >= len(partitions):
            return -1
        owner = partitions[partition]
        if owner < 0 or (common >= 0 and owner != common):
            return -1
        common = owner
        row_at += row
    return common
