"""Two services with files below one prefix, or below a part of it: each would take the other's files for orphans and delete them.

Each names itself in the store before it deletes anything: the first below a prefix in the record of its scans, any other beside it. Both
find the other's name, before a round and while it is under way, and delete nothing. A name is there long before a file of its service
is old enough to be taken for an orphan.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from coordinator.object_store import ObjectMissing, ObjectStore
from coordinator.runtime.files.scan_record import FOLDER, RECORD, PrefixTaken, ScanRecord, Service, decode_record, encode_record

_RIVALS: Final = "rivals/"


async def name_rival(store: ObjectStore, prefix: str, service: Service) -> None:
    """Leave a service's name where the record of scans is another's. Raises `StoreError` and its kinds."""
    await store.put(f"{FOLDER}{prefix}{_RIVALS}{service.topic_id}.json", encode_record(ScanRecord(service=service)))


async def check_alone(store: ObjectStore, prefix: str, own: Collection[Service]) -> None:
    """Raises `PrefixTaken` when a service other than `own` has files below a prefix, or below one that is part of the other."""
    async for chunk in store.list(FOLDER):
        for one in chunk:
            place = _prefix_of(one.key)
            if place is None or not (place.startswith(prefix) or prefix.startswith(place)):
                continue
            try:
                found = decode_record(await store.get(one.key), f"{store.location}: {one.key}").service
            except ObjectMissing:
                continue
            if found not in own:
                raise PrefixTaken(
                    f"{store.location}: {one.key} says that cluster {found.cluster_id}, metadata topic id {found.topic_id}, has files below"
                    f" {place}, and those of this service are below {prefix}: they would take each other's files for orphans, so neither"
                    f" scans; give each service an object.store.wal.prefix apart from the others', or delete {one.key} if that service has"
                    " no files there any more"
                )


def _prefix_of(key: str) -> str | None:
    """The prefix for which an object names a service; None for other objects."""
    folder, _, name = key.rpartition("/")
    folder += "/"
    if not folder.startswith(FOLDER) or not name.endswith(".json"):
        return None
    if folder.endswith(f"/{_RIVALS}"):
        return folder.removeprefix(FOLDER).removesuffix(_RIVALS)
    return folder.removeprefix(FOLDER) if name == RECORD else None
