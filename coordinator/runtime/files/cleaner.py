"""Frees what files without live batches take, for the coordinators that this node leads; begins and stops with leadership.

`empty_files` is what is done for one of them. Commits do not depend on any of this: a failure is counted, said and met again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.files.asking import OwnersAsked
from coordinator.runtime.files.empty_files import CleanerCounts, EmptyFiles
from coordinator.runtime.files.objects import ObjectRemover
from coordinator.runtime.files.pace import BackgroundPace
from coordinator.runtime.files.rules import FileRules
from coordinator.runtime.routing.context import NodeContext

LOG = logging.getLogger("coordinator.files")

NOTHING_DONE = CleanerCounts()
JITTER = (0.75, 1.25)


class FileCleaner:
    """See the module's text; one per node. Without a remover nothing is done."""

    def __init__(
        self,
        context: NodeContext,
        *,
        asked: OwnersAsked,
        remover: ObjectRemover | None,
        rules: FileRules,
        pace: BackgroundPace,
    ) -> None:
        self._replicas = context.replicas
        self._context = context
        self._asked = asked
        self._remover = remover
        self._rules = rules
        self._pace = pace
        self._kept: dict[int, EmptyFiles] = {}
        self._log_turn = asyncio.Lock()

    def loaded(self, partition: int) -> None:
        """A replica is loaded: look after the files of its coordinator from now on."""
        if self._remover is None or partition in self._kept:
            return
        self._kept[partition] = EmptyFiles(
            partition=partition,
            replica=partial(self._replicas.__getitem__, partition),
            asked=self._asked,
            remover=self._remover,
            rules=self._rules,
            pace=self._pace,
            clock_ms=self._context.clock_ms,
            log_turn=self._log_turn,
            on_handed_over=self.hurry,
        )
        self._context.spawn(self._keep(partition, self._kept[partition], self._remover), f"files-{partition}")

    def hurry(self, partition: int) -> None:
        """Another owner asked about files that are empty here, or has handed them over: look at them again soon."""
        if partition in self._kept:
            self._kept[partition].hurry()

    def counts(self, partition: int) -> CleanerCounts:
        """Return the counts of a coordinator that this node leads; zeros for any other."""
        return self._kept[partition].counts if partition in self._kept else NOTHING_DONE

    @property
    def is_held(self) -> bool:
        """Whether nothing may be deleted: until an operator calls a restore finished, another state's objects may be needed."""
        directory = self._replicas.shard(DIRECTORY_PARTITION)
        return directory is None or directory.may_restore_be_open

    async def _keep(self, partition: int, files: EmptyFiles, remover: ObjectRemover) -> None:
        """Look after the files of one coordinator while it is followed."""
        has_more = False
        while True:
            await asyncio.sleep(0 if has_more else self._rules.interval_ms / 1000 * self._context.rng.uniform(*JITTER))
            if not self._replicas.follows(partition):
                del self._kept[partition]
                return
            has_more = False
            if not self._replicas.is_leading(partition):
                files.forget()
            elif not self.is_held and not remover.is_resting:
                try:
                    has_more = await files.look()
                except NotReadable as unreadable:
                    LOG.info("files without batches cannot be looked at now partition=%d reason=%r", partition, str(unreadable))
                except Exception:
                    LOG.exception("files without batches could not be looked at partition=%d", partition)
