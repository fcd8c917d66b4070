"""Who owns the partitions of a file, one loop over its batches. Compiled when installed (`setup.py`); the `.pxd` has the types."""

from __future__ import annotations

BATCH_BYTES = 77
KEY_AT = 5
KEY_BYTES = 20
"""A batch and the key of its partition in it, as `kafka.batches.BATCH` has them."""


def owners_of_files(files: list[bytes], owners: dict[bytes, int]) -> list[tuple[int, int]]:
    """Which coordinators own files, each given as its batches: stretches of files with the same owner, with where each ends.

    It ends before the first file whose batches no one coordinator owns, or not all are known.
    """
    found: list[tuple[int, int]] = []
    last = -1
    at = 0
    for batches in files:
        owner = _common_owner(batches, owners)
        if owner != last and last >= 0:
            found.append((last, at))
        last = owner
        if owner < 0:
            break
        at += 1
    if last >= 0:
        found.append((last, at))
    return found


def _common_owner(batches: bytes, owners: dict[bytes, int]) -> int:
    """The coordinator that owns every partition of the batches; -1 when there is no such one, or not every owner is known."""
    row, key_bytes, end = BATCH_BYTES, KEY_BYTES, len(batches)
    if end % row:
        raise IndexError(f"{end} bytes are not whole batches")
    data = batches  # compiled: an address, which nobody checks; hence the look at the length
    common = -1
    at = KEY_AT
    while at < end:
        found = owners.get(data[at : at + key_bytes])
        if found is None:
            return -1
        owner = found
        if common < 0:
            common = owner
        elif owner != common:
            return -1
        at += row
    return common
