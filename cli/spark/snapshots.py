"""The object store's snapshots as jobs of the monitor get them: which store, and its answers as the jobs ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cli.objects import NamedStore
from cli.outcome import Failed
from cli.output import say
from spark_jobs.find_start import LogIdentity, SnapshotStarts, SnapshotStoreError, StoredCopy
from spark_jobs.log_begin import Starts, WholeLog

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots
    from spark_jobs.monitor.topic import TopicWatch, WatchedTopic

T = TypeVar("T")

REMEDY = (
    "Name the object store that has the snapshots of the log: --config with the settings of a coordinator, or --object-store-url; "
    "of a log without good snapshots only the remaining entries are known"
)


def arguments_of(store: NamedStore) -> list[str]:
    """Return the command line's words that name a store."""
    words = [] if store.config_file is None else ["--config", str(store.config_file)]
    words += [] if store.url is None else ["--object-store-url", store.url]
    words += [word for one in store.options for word in ("--object-store-option", one)]
    return words + ([] if store.prefix is None else ["--snapshots-prefix", store.prefix])


def starts_in(
    store: NamedStore, watch: TopicWatch, facts: WatchedTopic, log_starts: Mapping[int, int], folder: Path, *, newest_first: bool
) -> Starts:
    """Where jobs begin in logs that begin at these offsets; snapshots are brought into a folder.

    Raises `Failed`, and what Kafka says.
    """
    restored = watch.restored(log_starts)
    if not store.is_named or not (restored or any(log_starts.values())):
        return WholeLog(restored)
    identity = LogIdentity(watch.cluster_id(), facts.id_bytes)
    return SnapshotStarts(_snapshots_of(store), identity, folder, newest_first=newest_first, restored=restored)


def snapshots_if_there(store: NamedStore) -> StoreSnapshots | None:
    """Open a store for a job that goes on without; None, with the reason on standard error, when there is none on this machine."""
    if not store.is_named:
        return None
    try:
        return _snapshots_of(store)
    except Failed as error:
        say(f"snapshots are not looked for: {error}")
        return None


def _snapshots_of(store: NamedStore) -> StoreSnapshots:
    from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots

    return StoreSnapshots(ObjectStoreSnapshots(store.open(), prefix=store.snapshots_prefix))


class StoreSnapshots:
    """`SnapshotSource` over an object store."""

    def __init__(self, snapshots: ObjectStoreSnapshots) -> None:
        self._snapshots = snapshots

    def list(self, identity: LogIdentity, kpart: int) -> list[StoredCopy]:
        """See `SnapshotSource`."""
        found = _answer(self._snapshots.list(*identity, kpart))
        return [StoredCopy(one.end_offset, one.epoch, one.location) for one in found]

    def fetch(self, location: str, target: Path) -> None:
        """See `SnapshotSource`."""
        _answer(self._snapshots.download(location, target))


def _answer(asked: Coroutine[Any, Any, T]) -> T:
    from coordinator.runtime.ports import SnapshotStoreFailed

    try:
        return asyncio.run(asked)
    except (SnapshotStoreFailed, OSError) as error:
        raise SnapshotStoreError(str(error)) from error
