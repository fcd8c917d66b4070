"""Marks: each service names itself in its object store, and where its WAL files are there, by an object of its own.

Who is to write into the store of a service looks for its mark first: a mistyped URL names another store, whose objects no reader finds.
And two services with WAL files below one prefix, or below a part of it, would take each other's files for orphans and delete them:
neither does while it finds the other's mark, which is there long before a file of its service is old enough to be taken for an orphan.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, cast

from coordinator.object_store import ObjectMissing, ObjectStore, StoreError, is_key

MARKS: Final = "services/"
SCANS: Final = "orphan-scan/"
"""Where the records of orphan scans are."""
KEPT: Final = {MARKS: "a mark of a service", SCANS: "a record of orphan scans"}
"""The folders of a store in which no object is one of a file, whatever the settings, each with what its objects are."""


class WrongStore(StoreError):
    """The object store is not that of the service; the text names both and says what to do."""


class PrefixTaken(StoreError):
    """Another service may have files where those of this one are; the text names it and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedService:
    """The log of a service; `topic_id` is text."""

    cluster_id: str
    topic_id: str

    def __str__(self) -> str:
        return f"cluster {self.cluster_id}, metadata topic id {self.topic_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The content of a mark. A service that has changed its prefix may have live files below the earlier ones for as long as it exists."""

    service: MarkedService
    wal_prefixes: tuple[str, ...]


def mark_key(service: MarkedService) -> str:
    """Return the key of a service's mark."""
    return f"{MARKS}{service.topic_id}.json"


async def is_marked(store: ObjectStore, service: MarkedService) -> bool:
    """Whether the store has the mark of a service. Raises `StoreError` and its kinds."""
    mark = await _read(store, mark_key(service))
    return mark is not None and mark.service == service


async def put_mark(store: ObjectStore, mark: Mark) -> None:
    """Mark the store, if it is not marked so already; prefixes of an earlier mark stay in it. Raises `StoreError` and its kinds."""
    key = mark_key(mark.service)
    found = await _read(store, key)
    if found is not None and found.service == mark.service:
        mark = replace(mark, wal_prefixes=tuple(dict.fromkeys([*found.wal_prefixes, *mark.wal_prefixes])))
    if found != mark:
        await store.put(key, written_mark(mark))


async def take_over_mark(store: ObjectStore, mark: Mark, former: MarkedService) -> None:
    """Mark the store for a service that has all files of a former one, whose mark goes. Raises `StoreError` and its kinds."""
    found = await _read(store, mark_key(former))
    if found is not None:
        mark = replace(mark, wal_prefixes=(*mark.wal_prefixes, *found.wal_prefixes))
    await put_mark(store, mark)
    deleted = await store.delete_many([mark_key(former)])
    if deleted.error is not None:
        raise deleted.error


def written_mark(mark: Mark) -> bytes:
    """The mark as it lies in the store."""
    return json.dumps(asdict(mark)).encode()


async def check_alone(store: ObjectStore, prefix: str, own: Collection[MarkedService]) -> None:
    """Raises `PrefixTaken` when a service other than `own` has WAL files below a prefix, or below one that is part of the other.

    A mark that cannot be read may be that of any. Raises `StoreError` and its kinds.
    """
    own_keys = {mark_key(service) for service in own}
    async for chunk in store.list(MARKS):
        for key in [one.key for one in chunk if one.key.startswith(MARKS) and is_key(one.key) and one.key not in own_keys]:
            try:
                mark = _decode(await store.get(key))
            except ObjectMissing:
                continue
            if mark is None:
                raise PrefixTaken(f"{store.location}: {key} is no mark of a service; delete it if no other service uses this store")
            for taken in [one for one in mark.wal_prefixes if one.startswith(prefix) or prefix.startswith(one)]:
                raise PrefixTaken(
                    f"{store.location}: {key} says that {mark.service}, has files below {taken}, and those of this service are"
                    f" below {prefix}: they would take each other's files for orphans, so neither scans; give each service an"
                    f" object.store.wal.prefix apart from the others', or delete {key} if that service has no files there any more"
                )


async def _read(store: ObjectStore, key: str) -> Mark | None:
    """Return a mark; None where there is none, or one that cannot be read."""
    try:
        return _decode(await store.get(key))
    except ObjectMissing:
        return None


def _decode(data: bytes) -> Mark | None:
    try:
        read = cast(Mapping[str, object], json.loads(data))
        service, prefixes = cast(Mapping[str, object], read["service"]), cast(list[object], read["wal_prefixes"])
        if not isinstance(prefixes, list) or not prefixes:
            return None
        return Mark(
            service=MarkedService(cluster_id=str(service["cluster_id"]), topic_id=str(service["topic_id"])),
            wal_prefixes=tuple(map(str, prefixes)),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
