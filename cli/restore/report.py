"""The report of what a restore lost: the files that the service knows merged with the objects of the store, both in the order of keys.

Only one group of equal keys is held at a time, so that the memory does not depend on the number of objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from coordinator.core.file_state import FileState
from coordinator.core.reads.file_life import STATES_OF_TOMBSTONES

UNKNOWN, MISSING, PARTLY_KNOWN = "unknown", "missing", "partly known"
TOMBSTONES = frozenset(STATES_OF_TOMBSTONES.values())
"""The states of a key without a file."""


class KnownFile(Protocol):
    """A file as one coordinator knows it, or a key that it remembers."""

    @property
    def object_key(self) -> str: ...
    @property
    def coordinator_id(self) -> int: ...
    @property
    def live_batches(self) -> int: ...
    @property
    def owner_ids(self) -> Sequence[int]: ...
    @property
    def state(self) -> int: ...


class FoundObject(NamedTuple):
    """An object of the store."""

    key: str
    size_bytes: int
    modified_ms: int


class ReportRow(NamedTuple):
    """A file that was lost in part or whole, or an object of which the service knows nothing."""

    finding: str
    object_key: str
    size_bytes: int | None
    modified_ms: int | None
    coordinators: tuple[int, ...]
    """The coordinators that know the file, or for `partly known` those that should and do not."""


class OutOfOrder(Exception):
    """A stream is not in the order of its keys, so it cannot be merged."""


async def compare(
    files: AsyncIterator[KnownFile],
    objects: AsyncIterator[FoundObject],
    *,
    is_wanted: Callable[[FoundObject], bool],
    is_lost: Callable[[str], Awaitable[bool]],
) -> AsyncIterator[ReportRow]:
    """Yield what differs, in the order of keys. `files` have every state, tombstones included.

    `is_wanted` tells of an object that no coordinator knows whether it is to be told; `is_lost` looks again for one that was not
    listed: its file may have been committed, or have lost its last batch, meanwhile. Raises `OutOfOrder`.
    """
    groups, listed = _grouped(files), _in_order(objects)
    group, found = await anext(groups, None), await anext(listed, None)
    while group is not None or found is not None:
        key = None if group is None else group[0].object_key
        if found is not None and (key is None or found.key < key):
            if is_wanted(found):
                yield ReportRow(UNKNOWN, found.key, found.size_bytes, found.modified_ms, ())
            found = await anext(listed, None)
            continue
        assert group is not None
        is_listed = found is not None and found.key == key
        if all(one.state in TOMBSTONES for one in group):
            # Without an object nothing is lost, and a removed one may have been listed before. One that was handed over, or whose commit
            # was ruled out at one owner, may be known to another that has lost it.
            if found is not None and is_listed and is_wanted(found) and all(one.state != FileState.REMOVED for one in group):
                yield ReportRow(UNKNOWN, found.key, found.size_bytes, found.modified_ms, ())
        else:
            for row in await _judged(group, found if is_listed else None, is_lost):
                yield row
        if is_listed:
            found = await anext(listed, None)
        group = await anext(groups, None)


async def _judged(group: Sequence[KnownFile], found: FoundObject | None, is_lost: Callable[[str], Awaitable[bool]]) -> list[ReportRow]:
    key = group[0].object_key
    rows: list[ReportRow] = []
    size, modified = (None, None) if found is None else (found.size_bytes, found.modified_ms)
    knowing = {one.coordinator_id for one in group}
    live = tuple(sorted(one.coordinator_id for one in group if one.live_batches > 0))
    if found is None and live and await is_lost(key):
        rows.append(ReportRow(MISSING, key, None, None, live))
    ignorant = tuple(sorted({owner for one in group for owner in one.owner_ids} - knowing))
    if ignorant:
        rows.append(ReportRow(PARTLY_KNOWN, key, size, modified, ignorant))
    return rows


async def _grouped(files: AsyncIterator[KnownFile]) -> AsyncIterator[list[KnownFile]]:
    group: list[KnownFile] = []
    async for one in files:
        if group and one.object_key != group[0].object_key:
            if one.object_key < group[0].object_key:
                raise OutOfOrder(f"the service lists file {one.object_key} after {group[0].object_key}")
            yield group
            group = []
        group.append(one)
    if group:
        yield group


async def _in_order(objects: AsyncIterator[FoundObject]) -> AsyncIterator[FoundObject]:
    last = ""
    async for one in objects:
        if one.key < last:
            raise OutOfOrder(f"the object store lists {one.key} behind {last}, not in the order of keys: it cannot be compared")
        last = one.key
        yield one
