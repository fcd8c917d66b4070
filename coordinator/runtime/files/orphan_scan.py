"""Looks through the object store for orphans, round after round, where the directory is led.

A round lists all objects below the prefix in the order of their keys and works on one page after the other; where it is
is in the store (`scan_record`), so a round that was interrupted, by a restart, by another leader or by a coordinator
that could not answer, goes on where it was. Leadership only keeps two nodes from doing the same work: what may be deleted
is decided by the coordinators' promises (`orphan_pages`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from coordinator.core.commands import OK, Outcome
from coordinator.core.directory.content import Restoration
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.object_store import ObjectStore, StoredObject, StoreError
from coordinator.runtime.files.orphan_pages import PAGE_OBJECTS, Orphan, OrphanPages, Owners, PageUndecided
from coordinator.runtime.files.rules import ScanRules
from coordinator.runtime.files.scan_record import UNUSUAL_TOLD_MAX, ScanCounts, ScanRecord, load_record, save_record
from coordinator.runtime.pauses import doubled
from coordinator.runtime.ports import KafkaUnavailable, TopicMissing
from coordinator.store_mark import Mark, MarkedService, check_alone, take_over_mark

LOG = logging.getLogger("coordinator.files")

LOOK_S: Final = (0.5, 1.5)
RETRY_S: Final = (1.0, 300.0)
SAVE_S: Final = 2.0
"""A round that is interrupted repeats what it did in so long; as often a small object is written, and other services are looked for."""
REST_MAX_S: Final = 0.5
"""After each page the scan pauses as long as the page took, at most so long: requests of clients come first."""
ORPHANS_TOLD_MAX: Final = 1_000
DELETE_ATTEMPTS: Final = 3
"""Attempts to delete an object; one that stays (it is locked, say) waits for the next round, and holds up no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStatus:
    """How far the scan is. `record` is None until the store has told it; `error` is why the last attempt ended early, or empty."""

    is_running: bool
    record: ScanRecord | None
    older_than_ms: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedPages:
    """The findings of a scan after a key: orphans, all counts, the last key that was looked at, and whether it is the last of all."""

    orphans: Sequence[Orphan]
    counts: ScanCounts
    unusual_keys: Sequence[str]
    after: str
    is_end: bool


class Marking(Protocol):
    """Whether the store has the mark of this service, or what is known against it (`StoreMarking`)."""

    @property
    def is_found(self) -> bool: ...
    @property
    def lasting_problem(self) -> str: ...


class OrphanScan:
    """See the module's text; one per node."""

    def __init__(
        self,
        *,
        rules: ScanRules,
        store: ObjectStore | None,
        owners: Owners,
        coordinator_count: Callable[[], Awaitable[int]],
        is_leading: Callable[[], bool],
        restoration: Callable[[], Restoration | None],
        service: Callable[[], MarkedService | None],
        marking: Marking,
        rng: random.Random,
        clock_ms: Callable[[], int],
    ) -> None:
        """`service` names the log of this node, None before it is known; `coordinator_count` tells how many partitions it has now.

        `is_leading` and `restoration` are of the directory.
        """
        self.failures = 0
        """Attempts that ended early."""
        self.deleted = 0
        """Objects that this process has deleted."""
        self._rules = rules
        self._store = store if not rules.off_because else None
        self._pages = None
        if self._store is not None:
            self._pages = OrphanPages(store=self._store, owners=owners, coordinator_count=coordinator_count, rules=rules, clock_ms=clock_ms)
        self._is_leading = is_leading
        self._restoration = restoration
        self._service = service
        self._marking = marking
        self._rng = rng
        self._clock_ms = clock_ms
        self._wake = asyncio.Event()
        self._record: ScanRecord | None = None
        self._is_asked = False
        """An attempt is wanted now: it begins a round, or goes on with the one that was interrupted."""
        self._is_another_asked = False
        """A further round is requested after the one under way, which had passed objects by then; interruptions do not change that."""
        self._is_forced = False
        self._is_running = False
        self._is_at_work = False
        """An attempt works on the round under way just now."""
        self._error = ""
        self._said = ""
        self._attempts = 0
        self._next_try_s = 0.0
        self._not_deleted: tuple[str, int] = ("", 0)
        """Behind which key the store did not delete all orphans of a page, and how often."""

    # ---- what operators ask

    def begin(self, *, is_forced: bool) -> Outcome:
        """Begin a round now, or after one that an attempt is working on; a round that waits for its next attempt resumes now.

        `is_forced` allows it while a restore is unfinished.
        """
        refused = self.refusal(is_forced=is_forced)
        if refused is not None:
            return refused
        if self._is_at_work:
            self._is_another_asked = True
        else:
            self._is_asked = True
        self._is_forced = self._is_forced or is_forced
        self._next_try_s, self._error = 0.0, ""
        self._wake.set()
        return OK

    def status(self) -> ScanStatus:
        """How far the scan is, as far as this node knows: the one that leads the directory does."""
        older_than_ms = -1 if self._pages is None else self._pages.older_than_ms
        is_running = self._is_running or (self._is_wanted() and not self._error)
        return ScanStatus(is_running=is_running, record=self._record, older_than_ms=older_than_ms, error=self._error)

    async def look(self, after: str, patience_s: float) -> LookedPages | Outcome:
        """Find the next orphans behind a key and change nothing: as many as fit an answer, or as are found in that time."""
        refused = self.refusal(is_forced=True)
        if refused is not None or self._store is None or self._pages is None:
            return refused or Outcome(error=ErrorCode.INVALID_REQUEST, message=self._rules.off_because)
        until_s = asyncio.get_running_loop().time() + patience_s
        orphans: list[Orphan] = []
        counts, unusual = ScanCounts(), list[str]()
        try:
            async for chunk in self._store.list(self._rules.prefix, after):
                for page in _pages(chunk):
                    judged = await self._pages.judge(page)
                    orphans.extend(judged.orphans)
                    counts += judged.counts
                    unusual = [*unusual, *judged.unusual_keys][:UNUSUAL_TOLD_MAX]
                    after = page[-1].key
                    if len(orphans) >= ORPHANS_TOLD_MAX or asyncio.get_running_loop().time() >= until_s:
                        return LookedPages(orphans=orphans, counts=counts, unusual_keys=unusual, after=after, is_end=False)
        except PageUndecided as undecided:
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=f"{undecided}; retry")
        except (StoreError, KafkaUnavailable, TopicMissing) as failed:
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=str(failed))
        return LookedPages(orphans=orphans, counts=counts, unusual_keys=unusual, after=after, is_end=True)

    def refusal(self, *, is_forced: bool) -> Outcome | None:
        """Why no scan is possible now; None when nothing is in the way."""
        if self._store is None:
            return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"orphans are not looked for: {self._rules.off_because}")
        if not self._is_leading():
            return Outcome(error=ErrorCode.NOT_COORDINATOR, message="this node does not lead the directory; find its leader and retry")
        if self._marking.lasting_problem:
            return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"orphans are not looked for: {self._marking.lasting_problem}")
        restoration = self._restoration()
        if restoration is not None and not restoration.is_finished and not is_forced:
            message = (
                "a restore is not finished: files that were committed after the snapshots would be taken for orphans;"
                " run `diskless restore report`, then `restore finish`, or force the scan"
            )
            return Outcome(error=ErrorCode.INVALID_REQUEST, message=message)
        return None

    def _is_wanted(self) -> bool:
        """Whether a round that was asked for has not begun."""
        return self._is_asked or self._is_another_asked

    # ---- rounds

    async def keep(self) -> None:
        """Scan when it is due or asked for, for ever; a node that scans nothing has nothing to do."""
        while self._store is not None:
            try:
                async with asyncio.timeout(self._rng.uniform(*LOOK_S)):
                    await self._wake.wait()
            except TimeoutError:
                pass  # it is time to look
            self._wake.clear()
            if not self._is_leading():
                # Another leader may go on with the round: the store knows how far it is.
                self._record, self._is_asked, self._is_another_asked, self._is_forced = None, False, False, False
            elif self.refusal(is_forced=self._is_forced) is None and asyncio.get_running_loop().time() >= self._next_try_s:
                await self._attempt()

    async def _attempt(self) -> None:
        """Work on a round if one is due, up to its end or its first trouble."""
        self._is_running = self._is_wanted()
        try:
            record = await self._loaded()
            if record is not None and (self._is_asked or self._is_due(record)):
                self._is_running = self._is_at_work = True
                # The round that begins or goes on is the one that was asked for; requests that come from here on mean another one.
                self._is_asked = False
                await self._round(record)
        except (PageUndecided, StoreError, KafkaUnavailable, TopicMissing) as failed:
            self._failed(str(failed))
        except Exception as error:
            # Any error: nothing else of the service depends on scans, so the node goes on and logs the error.
            LOG.exception("orphan scan failed unforeseen")
            self._failed(repr(error))
        else:
            self._error, self._attempts = "", 0
        finally:
            self._is_running = self._is_at_work = False

    def _failed(self, reason: str) -> None:
        self.failures += 1
        first_s, longest_s = RETRY_S
        wait_s = doubled(first_s, self._attempts, longest_s) * self._rng.uniform(0.5, 1.0)
        self._next_try_s = asyncio.get_running_loop().time() + wait_s
        self._attempts += 1
        self._error = reason
        if reason != self._said:
            LOG.error("orphan scan is interrupted and tried again reason=%r", reason)
        self._said = reason

    async def _loaded(self) -> ScanRecord | None:
        """The record of scans, from the store once per leadership. Raises `StoreError`."""
        service = self._service()
        # Others must find the name of this service before anything is deleted.
        if self._record is None and service is not None and self._store is not None and self._marking.is_found:
            await self._check_alone(self._store, service)
            await self._take_over(self._store, service)
            self._record = await load_record(self._store, self._rules.prefix)
        return self._record

    async def _check_alone(self, store: ObjectStore, service: MarkedService) -> None:
        """Raises `PrefixTaken` when another service has files where this one scans, and `StoreError`."""
        restored_from = self._restored_from()
        await check_alone(store, self._rules.prefix, {service} if restored_from is None else {service, restored_from})

    async def _take_over(self, store: ObjectStore, service: MarkedService) -> None:
        """Take over the mark of the service that this one was restored from, once the restore is finished: its files are this one's."""
        restored_from, restoration = self._restored_from(), self._restoration()
        if restored_from is not None and restoration is not None and restoration.is_finished:
            await take_over_mark(store, Mark(service=service, wal_prefixes=(self._rules.prefix,)), restored_from)

    async def _save(self, store: ObjectStore, record: ScanRecord) -> None:
        """Write the record, unless another service has come. Raises `StoreError`."""
        if (service := self._service()) is not None:
            await self._check_alone(store, service)
        await save_record(store, self._rules.prefix, record)

    def _restored_from(self) -> MarkedService | None:
        restoration = self._restoration()
        if restoration is None:
            return None
        return MarkedService(cluster_id=restoration.begun.old_cluster_id, topic_id=topic_id_text(restoration.begun.old_topic_id))

    def _is_due(self, record: ScanRecord) -> bool:
        if record.is_under_way:
            return True
        # A round that finished in the future was dated by a wrong clock: do not wait for that time.
        return self._rules.interval_ms > 0 and not 0 <= self._clock_ms() - record.finished_ms < self._rules.interval_ms

    async def _round(self, record: ScanRecord) -> None:
        """Go through the store from where the round is. Raises `PageUndecided`, `StoreError`, `KafkaUnavailable`, `TopicMissing`."""
        if self._store is None or self._pages is None:
            return
        loop = asyncio.get_running_loop()
        if not record.is_under_way:
            record = self._record = replace(record, after="", started_ms=self._clock_ms(), counts=ScanCounts(), unusual_keys=())
            LOG.info("orphan scan begins prefix=%s", self._rules.prefix)
        await self._save(self._store, record)
        saved_s = loop.time()
        async for chunk in self._store.list(self._rules.prefix, record.after):
            for page in _pages(chunk):
                if self.refusal(is_forced=self._is_forced) is not None:
                    return
                began_s = loop.time()
                counts, unusual = await self._work(self._pages, page, record.after)
                record = self._record = replace(
                    record,
                    after=page[-1].key,
                    counts=record.counts + counts,
                    unusual_keys=(*record.unusual_keys, *unusual)[:UNUSUAL_TOLD_MAX],
                )
                self._not_deleted, self._attempts = ("", 0), 0
                if loop.time() - saved_s > SAVE_S:
                    await self._save(self._store, record)
                    saved_s = loop.time()
                await asyncio.sleep(min(loop.time() - began_s, REST_MAX_S))
        finished = replace(record, after="", started_ms=-1, finished_ms=self._clock_ms())
        # It has finished when the store knows that: until then the next attempt finds the round at its end, and saves this again.
        await self._save(self._store, finished)
        self._record, self._said = finished, ""
        self._is_asked, self._is_another_asked = self._is_another_asked, False
        # The round that is asked for is allowed for the reason of this one.
        self._is_forced = self._is_forced and self._is_asked
        counts = finished.counts
        LOG.info("orphan scan finished objects=%d orphans=%d deleted=%d", counts.examined, counts.orphans, counts.deleted)
        if counts.unusual:
            LOG.warning("objects stay whose keys no file can have objects=%d first=%r", counts.unusual, finished.unusual_keys[0])

    async def _work(self, pages: OrphanPages, page: Sequence[StoredObject], after: str) -> tuple[ScanCounts, Sequence[str]]:
        """Judge the page after a key, and delete its orphans; returns counts and unusual keys.

        Raises `PageUndecided`, `StoreError`, `KafkaUnavailable`, `TopicMissing`.
        """
        judged = await pages.judge(page)
        if not judged.orphans:
            return judged.counts, judged.unusual_keys
        gone, error = await pages.remove(judged.orphans)
        self.deleted += gone.deleted
        if error is not None:
            place, times = self._not_deleted
            self._not_deleted = after, times + 1 if place == after else 1
            if self._not_deleted[1] < DELETE_ATTEMPTS:
                raise error
            LOG.error("orphans stay until the next scan objects=%d reason=%r", len(judged.orphans) - gone.deleted, str(error))
        return judged.counts + gone, judged.unusual_keys


def _pages(chunk: Sequence[StoredObject]) -> Iterator[Sequence[StoredObject]]:
    for first in range(0, len(chunk), PAGE_OBJECTS):
        yield chunk[first : first + PAGE_OBJECTS]
