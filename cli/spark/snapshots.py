"""The object store's snapshots as jobs of the monitor get them: which store, and its answers as the jobs ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cli.objects import open_object_store, snapshots_prefix_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStore:
    """The object store as it was named; it is opened where a log's beginning is deleted."""

    url: str | None
    options: Sequence[str]
    config_file: Path | None
    prefix: str | None

    @property
    def is_named(self) -> bool:
        """Whether there is one."""
        return self.url is not None or self.config_file is not None

    def arguments(self) -> list[str]:
        """Return the command line's words that name it."""
        words = [] if self.config_file is None else ["--config", str(self.config_file)]
        words += [] if self.url is None else ["--object-store-url", self.url]
        words += [word for one in self.options for word in ("--object-store-option", one)]
        return words + ([] if self.prefix is None else ["--snapshots-prefix", self.prefix])

    def starts(self, watch: TopicWatch, facts: WatchedTopic, log_starts: Mapping[int, int], folder: Path, *, newest_first: bool) -> Starts:
        """Where jobs begin in logs that begin at these offsets; snapshots are brought into a folder.

        Raises `Failed`, and what Kafka says.
        """
        restored = watch.restored(log_starts)
        if not self.is_named or not (restored or any(log_starts.values())):
            return WholeLog(restored)
        identity = LogIdentity(watch.cluster_id(), facts.id_bytes)
        return SnapshotStarts(self.open(), identity, folder, newest_first=newest_first, restored=restored)

    def open(self) -> StoreSnapshots:
        """Open it without talking to it. Raises `Failed`."""
        from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots

        store = open_object_store(self.url, self.options, self.config_file)
        return StoreSnapshots(ObjectStoreSnapshots(store, prefix=snapshots_prefix_of(self.prefix, self.config_file)))

    def open_if_there(self) -> StoreSnapshots | None:
        """Open it for a job that goes on without; None, with the reason on standard error, when there is none on this machine."""
        if not self.is_named:
            return None
        try:
            return self.open()
        except Failed as error:
            say(f"snapshots are not looked for: {error}")
            return None


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
