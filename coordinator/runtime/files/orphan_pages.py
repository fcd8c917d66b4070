"""A page of objects is judged, and the orphans among them are fenced and deleted.

An orphan is older than an honest commit of it may be, by a margin, and no coordinator has it: neither with batches nor without.
A deletion has one condition: every coordinator has promised, durably, never to take the key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from coordinator.core.commands import FileStanding, Outcome
from coordinator.kafka.object_key import created_ms_of_key, creation_ms
from coordinator.object_store import ObjectStore, StoredObject, StoreError, is_key
from coordinator.runtime.files.keys import why_no_file
from coordinator.runtime.files.rules import ScanRules
from coordinator.runtime.files.scan_record import ScanCounts

PAGE_OBJECTS: Final = 1_000
NO_TIME: Final = -1

_KNOWN: Final = frozenset({FileStanding.LIVE, FileStanding.EMPTY})
_REASONS: Final = {
    FileStanding.HANDED_OVER: "handed over",
    FileStanding.REMOVED: "removed",
    FileStanding.FENCED: "fenced",
    FileStanding.UNKNOWN: "never committed",
}
"""The reason that is reported for an orphan: the first of these standings that any coordinator answers."""


class PageUndecided(Exception):
    """A coordinator could not answer, so nothing of the page was deleted; the text names it and its reason."""


class Owners(Protocol):
    """The coordinators, wherever they are led."""

    async def ask(
        self, coordinator_id: int, keys: Sequence[str], created_ms: Sequence[int], *, only_tell: bool = False
    ) -> list[FileStanding] | Outcome:
        """Return the standing of each key at a coordinator, or why it cannot say. Unless `only_tell`, unknown keys are fenced first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """An object that no coordinator has. `time_ms` is the later one of its creation, as the key tells, and its upload.

    The creation counts unless it is still to come: then the key tells nothing.
    """

    object_key: str
    size_bytes: int
    time_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPage:
    """The orphans among some objects, the unusual keys, and how many the others are."""

    orphans: Sequence[Orphan]
    counts: ScanCounts
    unusual_keys: Sequence[str]


class OrphanPages:
    """See the module's text."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        owners: Owners,
        coordinator_count: Callable[[], Awaitable[int]],
        rules: ScanRules,
        clock_ms: Callable[[], int],
    ) -> None:
        """`coordinator_count` tells how many partitions the metadata topic has now."""
        self._store = store
        self._owners = owners
        self._coordinator_count = coordinator_count
        self._rules = rules
        self._clock_ms = clock_ms

    @property
    def older_than_ms(self) -> int:
        """The time before which an object must be created and uploaded to be an orphan now."""
        return self._clock_ms() - self._rules.age_ms

    async def judge(self, objects: Sequence[StoredObject]) -> JudgedPage:
        """Find the orphans among some objects, and change nothing. Raises `PageUndecided`, and what `coordinator_count` raises."""
        now_ms, older_than_ms = self._clock_ms(), self.older_than_ms
        usual = [one for one in objects if is_key(one.key)]
        old = [one for one in usual if _time_ms(one, now_ms) < older_than_ms]
        asked = [one for one in old if self._may_be_file(one.key)]
        standings = await self.ask_all([one.key for one in asked], only_tell=True)
        orphans = [
            Orphan(object_key=one.key, size_bytes=one.size_bytes, time_ms=_time_ms(one, now_ms), reason=_reason(found))
            for one, found in zip(asked, standings, strict=True)
            if _KNOWN.isdisjoint(found)
        ]
        counts = ScanCounts(
            examined=len(objects),
            young=len(usual) - len(old),
            known=len(asked) - len(orphans),
            skipped=len(old) - len(asked),
            unusual=len(objects) - len(usual),
            orphans=len(orphans),
            orphan_bytes=sum(one.size_bytes for one in orphans),
        )
        return JudgedPage(orphans=orphans, counts=counts, unusual_keys=[one.key for one in objects if not is_key(one.key)])

    async def remove(self, orphans: Sequence[Orphan]) -> tuple[ScanCounts, StoreError | None]:
        """Fence orphans in every coordinator and delete them; return the deleted ones, and the store's failure if some remain.

        One that a coordinator has got meanwhile stays. Raises `PageUndecided`, and what `coordinator_count` raises.
        """
        standings = await self.ask_all([one.object_key for one in orphans], only_tell=False)
        fenced = [one for one, found in zip(orphans, standings, strict=True) if all(standing.is_out for standing in found)]
        if not fenced:
            return ScanCounts(), None
        deleted = await self._store.delete_many([one.object_key for one in fenced])
        gone = [one for one in fenced if one.object_key in deleted.confirmed]
        return ScanCounts(deleted=len(gone), deleted_bytes=sum(one.size_bytes for one in gone)), deleted.error

    def _may_be_file(self, key: str) -> bool:
        # What a store lists beside the prefix is not this service's.
        return key.startswith(self._rules.prefix) and not why_no_file(key, self._rules.kept_prefix)

    async def ask_all(self, keys: Sequence[str], *, only_tell: bool) -> list[tuple[FileStanding, ...]]:
        """How every coordinator stands to each key. Raises `PageUndecided`."""
        if not keys:
            return []
        created_ms = [creation_ms(key, NO_TIME) for key in keys]
        count = await self._coordinator_count()
        if count < 1:
            raise PageUndecided("the metadata topic has no partition, as far as Kafka tells")
        answers = await asyncio.gather(*(self._owners.ask(one, keys, created_ms, only_tell=only_tell) for one in range(count)))
        told: list[list[FileStanding]] = []
        for coordinator_id, answer in enumerate(answers):
            if isinstance(answer, Outcome):
                raise PageUndecided(f"coordinator {coordinator_id} cannot answer: {answer.error.name}: {answer.message}")
            told.append(answer)
        if not only_tell and await self._coordinator_count() != count:
            raise PageUndecided("the metadata topic got more partitions while coordinators were asked")
        return list(zip(*told, strict=True))


def _time_ms(one: StoredObject, now_ms: int) -> int:
    created_ms = created_ms_of_key(one.key)
    return one.modified_ms if created_ms is None or created_ms > now_ms else max(one.modified_ms, created_ms)


def _reason(standings: Sequence[FileStanding]) -> str:
    return next(text for standing, text in _REASONS.items() if standing in standings)
