"""The scan for orphans: only what every coordinator has promised never to take is deleted, and rounds go on where they were."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.client.records.ulid import RANDOM_BYTES, new_key
from coordinator.core.commands import FileStanding, Outcome
from coordinator.core.directory.content import Restoration
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.kafka.object_key import TIME_MAX_MS
from coordinator.object_store import Deleted, ObjectMissing, ObjectStore, StoredObject, StoreUnavailable, check_key
from coordinator.runtime.files.orphan_pages import Owners
from coordinator.runtime.files.orphan_scan import DELETE_ATTEMPTS, SAVE_S, LookedPages, OrphanScan
from coordinator.runtime.files.rules import ScanRules
from coordinator.runtime.files.scan_record import (
    UNUSUAL_TOLD_MAX,
    ScanRecord,
    decode_record,
    encode_record,
    load_record,
    record_key,
    save_record,
)
from coordinator.store_mark import MARKS, Mark, MarkedService, mark_key, put_mark, written_mark
from integration_tests.s3 import RealS3, find_gateway
from records.model import Restored
from tests.runtime.made_coordinators import MadeCoordinators
from tests.virtual_loop import lived
from tests.waiting import until, virtual_time

NOW_MS = 1_700_000_000_000
AGE_MS = 4_500_000
OLD_MS = NOW_MS - AGE_MS - 1
PREFIX = "wal/"
RULES = ScanRules(prefix=PREFIX, age_ms=AGE_MS, interval_ms=3_600_000)
SERVICE = MarkedService(cluster_id="kafka", topic_id=topic_id_text(bytes(15) + b"\1"))


class MadeStore:
    """Objects that are made while they are listed, with the times they are to have; some calls fail."""

    def __init__(self, objects: Sequence[StoredObject] = ()) -> None:
        self.objects = {one.key: one for one in objects}
        self.contents: dict[str, bytes] = {}
        self.listed = 0
        self.fails_deleting: set[str] = set()
        self.fails_after: str | None = None
        self.fails_reading = 0
        self.location = "made://store"

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        assert not isinstance(data, Path)
        assert not create_only or key not in self.contents
        self.contents[key] = bytes(data)

    async def get(self, key: str) -> bytes:
        if self.fails_reading:
            self.fails_reading -= 1
            raise StoreUnavailable(f"{self.location}: {key}: no answer")
        if key not in self.contents:
            raise ObjectMissing(f"{self.location}: {key}: not found")
        return self.contents[key]

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        if prefix == MARKS:
            yield [obj(key) for key in sorted(self.contents)]
            return
        found = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        for first in range(0, len(found), 1000):
            chunk = [self.objects[key] for key in found[first : first + 1000] if key in self.objects]
            if self.fails_after is not None and chunk and chunk[-1].key > self.fails_after:
                raise StoreUnavailable(f"{self.location}: list: no answer")
            self.listed += len(chunk)
            yield chunk

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        gone = [key for key in keys if key not in self.fails_deleting]
        for key in gone:
            self.objects.pop(key, None)
            self.contents.pop(key, None)
        error = None if len(gone) == len(keys) else StoreUnavailable(f"{self.location}: delete: no answer")
        return Deleted(confirmed=frozenset(gone), error=error)


@dataclass
class World:
    """One scanner with what it is given."""

    store: MadeStore
    coordinators: MadeCoordinators
    rules: ScanRules = RULES
    now_ms: int = NOW_MS
    is_leading: bool = True
    restoration: Restoration | None = None
    service: MarkedService = SERVICE
    lasting_problem: str = ""
    is_found: bool = True
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def scanner(self, owners: Owners | None = None) -> OrphanScan:
        store: ObjectStore = self.store  # type: ignore[assignment]
        if isinstance(self.store, MadeStore):
            self.store.contents[mark_key(self.service)] = written_mark(Mark(service=self.service, wal_prefixes=(self.rules.prefix,)))
        return OrphanScan(
            rules=self.rules,
            store=store,
            owners=owners or self.coordinators,
            coordinator_count=self.coordinators.count,
            is_leading=lambda: self.is_leading,
            restoration=lambda: self.restoration,
            service=lambda: self.service,
            marking=self,
            rng=random.Random(1),
            clock_ms=lambda: self.now_ms,
        )

    async def run_new(self) -> ScanRecord:
        """Have a new process scan once."""
        return await self.run(self.scanner())

    async def run(self, scan: OrphanScan, *, is_forced: bool = False) -> ScanRecord:
        """Have it scan once; return the record at the end of the attempt."""
        assert scan.begin(is_forced=is_forced).error is ErrorCode.NONE
        await self.end(scan)
        record = scan.status().record
        assert record is not None
        return record

    async def error(self, scan: OrphanScan) -> str:
        """Have it scan once; return why the attempt ended early."""
        assert scan.begin(is_forced=True).error is ErrorCode.NONE
        await self.end(scan)
        return scan.status().error

    async def end(self, scan: OrphanScan, is_ended: Callable[[], bool] | None = None) -> None:
        """Have it scan until that holds, by default until it does not run."""
        task = asyncio.create_task(scan.keep())
        try:
            # A million objects are counted meanwhile.
            await until(is_ended or (lambda: not scan.status().is_running), "the end of the scan", 280)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def obj(key: str, modified_ms: int = OLD_MS, size_bytes: int = 10) -> StoredObject:
    return StoredObject(key=key, size_bytes=size_bytes, modified_ms=modified_ms)


def ulid(number: int, time_ms: int = OLD_MS) -> str:
    return new_key(time_ms, number.to_bytes(RANDOM_BYTES, "big"), prefix=PREFIX)


def world(keys: Sequence[str], *, coordinators: int = 3) -> World:
    return World(store=MadeStore([obj(key) for key in keys]), coordinators=MadeCoordinators(coordinators))


@pytest.mark.parametrize(
    ("key_ms", "modified_ms", "is_orphan"),
    [
        (OLD_MS, OLD_MS, True),
        (OLD_MS + 1, OLD_MS, False),
        (OLD_MS, OLD_MS + 1, False),
        (NOW_MS, OLD_MS, False),
        (NOW_MS + 1, OLD_MS, True),
        (NOW_MS + 1, OLD_MS + 1, False),
        (TIME_MAX_MS, OLD_MS, True),
        (None, OLD_MS, True),
        (None, OLD_MS + 1, False),
    ],
)
async def test_only_what_is_older_than_any_commit_may_be_is_looked_at(key_ms: int | None, modified_ms: int, is_orphan: bool) -> None:
    key = "wal/of-another-writer" if key_ms is None else ulid(1, key_ms)
    made = World(store=MadeStore([obj(key, modified_ms)]), coordinators=MadeCoordinators(2))
    record = await made.run_new()
    assert (key not in made.store.objects) is is_orphan
    assert record.counts.young == (not is_orphan)
    assert bool(made.coordinators.asked) is is_orphan
    if is_orphan:
        # A fence with no time never expires; one with the key's time goes when the age limit stands for it.
        assert made.coordinators.times == {key: -1 if key_ms is None else key_ms}


@pytest.mark.parametrize("standing", list(FileStanding))
@pytest.mark.parametrize("coordinator_id", range(3))
async def test_what_any_coordinator_has_stays(standing: FileStanding, coordinator_id: int) -> None:
    key = ulid(1)
    made = world([key])
    if standing is not FileStanding.UNKNOWN:
        made.coordinators.standings[coordinator_id][key] = standing
    record = await made.run_new()
    is_known = standing in (FileStanding.LIVE, FileStanding.EMPTY)
    assert (key in made.store.objects) is is_known
    assert (record.counts.known, record.counts.orphans, record.counts.deleted) == ((1, 0, 0) if is_known else (0, 1, 1))
    # What is known is fenced nowhere: another owner's commit may still come.
    is_fenced = [known.get(key) is FileStanding.FENCED for known in made.coordinators.standings]
    assert not any(is_fenced) or not is_known
    assert made.coordinators.commit((coordinator_id + 1) % 3, key) is is_known


class Racing(MadeCoordinators):
    """A commit arrives at one coordinator after all have told that they do not know the key, and before it is fenced there."""

    def __init__(self, count: int, key: str, committed_at: int) -> None:
        super().__init__(count)
        self._key = key
        self._committed_at = committed_at
        self.is_accepted = False

    async def before(self, coordinator_id: int, only_tell: bool) -> Outcome | None:
        if not only_tell and coordinator_id == self._committed_at:
            await asyncio.sleep(0)
            self.is_accepted = self.commit(self._committed_at, self._key)
        return None


@pytest.mark.parametrize("coordinator_id", range(3))
async def test_a_commit_between_question_and_fence_keeps_its_object(coordinator_id: int) -> None:
    key = ulid(1)
    made = world([key, ulid(2)])
    made.coordinators = Racing(3, key, coordinator_id)
    await made.run_new()
    assert made.coordinators.is_accepted
    assert list(made.store.objects) == [key]


async def test_a_paused_uploader_that_goes_on_after_the_threshold_is_refused() -> None:
    key = ulid(1)
    made = world([key])
    await made.run_new()
    assert key not in made.store.objects
    assert not any(made.coordinators.commit(one, key) for one in range(3))


@pytest.mark.parametrize("silent", range(3))
async def test_nothing_of_a_page_goes_while_one_coordinator_cannot_answer(silent: int) -> None:
    keys = [ulid(number) for number in range(1500)]
    made = world(keys)
    made.coordinators.silent = {silent}
    scan = made.scanner()
    record = await made.run(scan)
    assert len(made.store.objects) == 1500
    assert record.is_under_way
    assert f"coordinator {silent} cannot answer" in scan.status().error
    assert scan.failures == 1
    made.coordinators.silent = set()
    record = await made.run(scan)
    assert not made.store.objects
    assert record.finished_ms == NOW_MS
    assert scan.status().error == ""


class Falling(MadeCoordinators):
    """One coordinator cannot answer from its fence on."""

    async def before(self, coordinator_id: int, only_tell: bool) -> Outcome | None:
        if not only_tell and coordinator_id == 2:
            return Outcome(error=ErrorCode.REQUEST_TIMED_OUT, message="no answer in time")
        return None


async def test_a_fence_whose_answer_is_lost_licenses_nothing() -> None:
    made = world([ulid(1)])
    made.coordinators = Falling(3)
    await made.run_new()
    assert len(made.store.objects) == 1


class Growing(MadeCoordinators):
    """The metadata topic gets a partition while coordinators are asked to promise."""

    async def before(self, coordinator_id: int, only_tell: bool) -> Outcome | None:
        if not only_tell and len(self.standings) == 2:
            self.standings.append({})
        return None


async def test_a_coordinator_that_is_new_is_asked_before_anything_goes() -> None:
    made = world([ulid(1)])
    made.coordinators = Growing(2)
    scan = made.scanner()
    await made.run(scan)
    assert len(made.store.objects) == 1
    assert "more partitions" in scan.status().error
    await made.run(scan)
    assert not made.store.objects
    assert all(ulid(1) in known for known in made.coordinators.standings)


async def test_without_a_coordinator_nothing_is_an_orphan() -> None:
    made = world([ulid(1)], coordinators=0)
    await made.run_new()
    assert len(made.store.objects) == 1


async def test_a_round_goes_on_after_a_restart_where_it_was() -> None:
    keys = [ulid(number) for number in range(5000)]
    made = world(keys)
    made.store.fails_after = keys[2999]
    first = made.scanner()
    await made.run(first)
    assert len(made.store.objects) == 2000
    # The process that was interrupted keeps its place itself; what another one finds is what was written last.
    made.store.fails_after = None
    listed = made.store.listed
    record = await made.run(first)
    assert made.store.listed - listed == 2000
    assert (record.counts.examined, record.counts.deleted) == (5000, 5000)


async def test_another_leader_finds_the_place_in_the_store() -> None:
    keys = [ulid(number) for number in range(3000)]
    made = world(keys)
    place = ScanRecord(after=keys[999], started_ms=NOW_MS - 1)
    await save_record(made.store, PREFIX, place)  # type: ignore[arg-type]
    record = await made.run_new()
    assert sorted(made.store.objects) == keys[:1000]
    assert record.counts.examined == 2000
    assert not record.is_under_way
    # The next round begins at the first key again.
    await made.run_new()
    assert not made.store.objects


async def test_a_store_that_does_not_delete_is_asked_again_for_the_same_page() -> None:
    keys = [ulid(number) for number in range(10)]
    made = world(keys)
    made.store.fails_deleting = {keys[3]}
    scan = made.scanner()
    record = await made.run(scan)
    assert list(made.store.objects) == [keys[3]]
    assert record.is_under_way
    assert scan.deleted == 9
    made.store.fails_deleting = set()
    await made.run(scan)
    assert not made.store.objects
    assert scan.deleted == 10


async def test_an_object_that_the_store_never_deletes_holds_up_nothing_behind_it() -> None:
    keys = [ulid(number) for number in range(3000)]
    made = world(keys)
    made.store.fails_deleting = {keys[3], keys[1500]}
    scan = made.scanner()
    for _ in range(2):  # rounds
        records = []
        while not records or records[-1].is_under_way:
            assert len(records) < 2 * DELETE_ATTEMPTS
            records.append(await made.run(scan))
        assert sorted(made.store.objects) == sorted(made.store.fails_deleting)
        assert scan.status().error == ""
    assert scan.failures > 0
    assert records[-1].counts.orphans > records[-1].counts.deleted == 0


async def test_a_page_has_all_attempts_in_each_round() -> None:
    keys = [ulid(number) for number in range(10)]
    made = world(keys)
    made.store.fails_deleting = {keys[3]}
    scan = made.scanner()
    for _ in range(2):  # rounds
        attempts = 1
        while (await made.run(scan)).is_under_way:
            attempts += 1
        assert attempts == DELETE_ATTEMPTS


async def test_an_attempt_that_succeeds_ends_the_count_of_those_that_failed() -> None:
    keys = [ulid(number) for number in range(10)]
    made = world(keys[:5])
    scan = made.scanner()
    for number in (3, 8):  # rounds
        made.store.objects |= {key: obj(key) for key in keys[5:]}
        made.store.fails_deleting = {keys[number]}
        for _ in range(DELETE_ATTEMPTS - 1):
            assert (await made.run(scan)).is_under_way
        made.store.fails_deleting = set()
        assert not (await made.run(scan)).is_under_way
    assert not made.store.objects


class Interrupting(MadeCoordinators):
    """While the first page is judged something happens."""

    def __init__(self, count: int, happens: Callable[[], None]) -> None:
        super().__init__(count)
        self._happens = happens

    async def before(self, coordinator_id: int, only_tell: bool) -> Outcome | None:
        if not self.asked:
            self._happens()
        return None


async def test_a_scan_that_was_asked_for_begins_when_the_store_answers_again() -> None:
    made = world([ulid(1)])
    made.rules = ScanRules(prefix=PREFIX, age_ms=AGE_MS, interval_ms=0)
    made.store.fails_reading = 1
    scan = made.scanner()
    assert scan.begin(is_forced=False).error is ErrorCode.NONE
    await made.end(scan, lambda: bool(scan.status().error))
    assert not scan.status().is_running, "who waits for it is told why"
    await made.end(scan, lambda: not made.store.objects)


async def test_a_round_stops_where_the_directory_is_led_no_more() -> None:
    keys = [ulid(number) for number in range(3000)]
    made = world(keys)

    def lose() -> None:
        made.is_leading = False

    made.coordinators = Interrupting(2, lose)
    scan = made.scanner()
    await made.run(scan)
    # What was promised of the page that was under way holds whoever leads.
    assert sorted(made.store.objects) == keys[1000:]


OTHER = MarkedService(cluster_id="other", topic_id=topic_id_text(bytes(15) + b"\2"))


@pytest.mark.parametrize("prefix", [PREFIX, "wal/part/", "wal/part/of/it/"])
@pytest.mark.parametrize("is_first", [True, False])
async def test_neither_of_two_services_deletes_where_the_other_has_files(prefix: str, is_first: bool) -> None:
    """Also the one that was alone until the other came, and that goes on with a record of before."""
    made = world([])
    other = World(store=made.store, coordinators=MadeCoordinators(1), service=OTHER, rules=replace(RULES, prefix=prefix))
    first, second = (made, other) if is_first else (other, made)
    scan = first.scanner()
    await first.run(scan)
    for number in range(2):
        key = new_key(OLD_MS, number.to_bytes(RANDOM_BYTES, "big"), prefix=prefix)
        made.store.objects[key] = obj(key)
    errors = [await second.error(second.scanner()), await first.error(scan), await first.error(first.scanner())]
    assert len(made.store.objects) == 2
    for error, service in zip(errors, (first.service, second.service, second.service), strict=True):
        assert f"cluster {service.cluster_id}, metadata topic id {service.topic_id}, has files below" in error
        assert "object.store.wal.prefix" in error
    # Both names can be told from the text, so that the one that is no more can be taken away.
    for key in [key for key in made.store.contents if key in errors[1]]:
        del made.store.contents[key]
    await first.run(scan)
    assert not made.store.objects


async def test_services_with_prefixes_apart_scan_side_by_side() -> None:
    made = world([ulid(1)])
    other = World(store=made.store, coordinators=MadeCoordinators(1), service=OTHER, rules=replace(RULES, prefix="walrus/"))
    made.store.objects["walrus/old"] = obj("walrus/old")
    await other.run_new()
    await made.run_new()
    await other.run_new()
    assert not made.store.objects


class Arriving(MadeCoordinators):
    """Another service names itself when the first page is judged."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(1)
        self._store = store

    async def before(self, coordinator_id: int, only_tell: bool) -> Outcome | None:
        if not self.asked:
            await put_mark(self._store, Mark(service=OTHER, wal_prefixes=(PREFIX,)))
            await virtual_time(2 * SAVE_S)
        return None


def test_a_round_under_way_ends_when_another_service_comes() -> None:
    async def story() -> None:
        made = world([ulid(number) for number in range(3000)])
        made.coordinators = Arriving(made.store)  # type: ignore[arg-type]
        assert "cluster other" in await made.error(made.scanner())
        # The first page had been judged before, and its files are older than any of the other's.
        assert len(made.store.objects) == 2000

    lived(story())


def restored(is_finished: bool) -> Restoration:
    begun = Restored(
        restore_id=bytes(16),
        old_cluster_id=SERVICE.cluster_id,
        old_topic_id=bytes(15) + b"\1",
        metadata_partition=0,
        partition_count=1,
        old_end_offset=1,
        epoch_floor=1,
        file_id_base=0,
        location="",
        size_bytes=0,
        sha256=b"",
        digest=b"",
    )
    return Restoration(begun, is_finished)


async def test_a_restore_that_is_not_finished_stops_scans_unless_forced() -> None:
    made = world([ulid(1)])
    await made.run_new()
    made.store.objects[ulid(2)] = obj(ulid(2))
    made.service = MarkedService(cluster_id="new", topic_id="of the restored log")
    made.restoration = restored(is_finished=False)
    scan = made.scanner()
    refused = scan.begin(is_forced=False)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert "restore finish" in str(refused.message)
    record = await made.run(scan, is_forced=True)
    assert not made.store.objects
    assert record.counts.deleted == 1
    assert {mark_key(SERVICE), mark_key(made.service)} <= made.store.contents.keys()


async def test_a_store_that_is_not_the_services_is_not_scanned() -> None:
    made = world([ulid(1)])
    made.lasting_problem = "file:///typo has no mark"
    refused = made.scanner().begin(is_forced=True)
    assert (refused.error, str(refused.message)) == (ErrorCode.INVALID_REQUEST, f"orphans are not looked for: {made.lasting_problem}")


async def test_a_finished_restore_takes_the_store_over() -> None:
    """The old service finds the new one, and a third that is restored from the new one finds no old one."""
    made = world([ulid(1)])
    await made.run_new()
    made.service, made.restoration = OTHER, restored(is_finished=True)
    made.store.objects[ulid(2)] = obj(ulid(2))
    await made.run_new()
    assert not made.store.objects
    assert mark_key(SERVICE) not in made.store.contents
    old = World(store=made.store, coordinators=MadeCoordinators(1))
    assert "cluster other" in await old.error(old.scanner())


async def test_a_scan_is_due_after_its_interval_and_never_with_none() -> None:
    made = world([ulid(1)])
    scan = made.scanner()
    await made.end(scan, lambda: (record := scan.status().record) is not None and record.finished_ms >= 0)
    assert not made.store.objects
    made.rules = ScanRules(prefix=PREFIX, age_ms=AGE_MS, interval_ms=0)
    made.store.objects[ulid(2)] = obj(ulid(2))
    seldom = made.scanner()
    await made.end(seldom, lambda: seldom.status().record is not None)
    assert list(made.store.objects) == [ulid(2)]


async def test_a_round_that_finished_in_the_future_keeps_nobody_waiting() -> None:
    made = world([ulid(1)])
    await save_record(made.store, PREFIX, ScanRecord(finished_ms=NOW_MS + 1_000_000_000))  # type: ignore[arg-type]
    scan = made.scanner()
    await made.end(scan, lambda: not made.store.objects and not scan.status().is_running)
    record = scan.status().record
    assert record is not None
    assert record.finished_ms == NOW_MS


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"after": ""}',
        b'{"after": "", "started_ms": Infinity, "finished_ms": 1, "counts": {}}',
        b'{"after": "", "started_ms": NaN, "finished_ms": 1, "counts": {}}',
        b'{"after": "", "started_ms": 1, "finished_ms": 1e30, "counts": {}}',
        b'{"after": "", "started_ms": 1, "finished_ms": 1, "counts": {"young": 1e19}}',
        b'{"after": "", "started_ms": 1, "finished_ms": 1, "counts": {"strange": 1}}',
    ],
)
async def test_a_damaged_record_is_begun_anew(damage: bytes) -> None:
    made = world([ulid(1)])
    made.store.contents[record_key(PREFIX)] = damage
    assert await load_record(made.store, PREFIX) == ScanRecord()  # type: ignore[arg-type]
    await made.run_new()
    assert not made.store.objects


async def test_a_mark_that_cannot_be_read_may_be_that_of_another_service() -> None:
    made = world([ulid(1)])
    made.store.contents[f"{MARKS}x.json"] = b"{"
    assert f"{MARKS}x.json is no mark of a service; delete it" in await made.error(made.scanner())
    assert made.store.objects


async def test_a_look_changes_nothing_and_tells_why() -> None:
    keys = [ulid(number) for number in range(2500)]
    made = world(keys)
    made.coordinators.standings[1][keys[0]] = FileStanding.REMOVED
    made.coordinators.standings[2][keys[1]] = FileStanding.LIVE
    scan = made.scanner()
    first = await scan.look("", 10.0)
    assert isinstance(first, LookedPages)
    assert (len(first.orphans), first.after, first.is_end) == (1999, keys[1999], False)
    assert first.orphans[0].reason == "removed"
    assert first.orphans[1].reason == "never committed"
    last = await scan.look(first.after, 10.0)
    assert isinstance(last, LookedPages)
    assert (len(last.orphans), last.is_end) == (500, True)
    assert len(made.store.objects) == 2500
    assert all(only_tell for _, _, only_tell in made.coordinators.asked)


async def test_snapshots_and_the_record_itself_are_no_files() -> None:
    keys = ["wal/snapshots/a/b", "wal/" + "x" * 1100, "wal/old"]
    made = world(keys)
    made.rules = ScanRules(prefix=PREFIX, kept_prefix="wal/snapshots/", age_ms=AGE_MS)
    record = await made.run_new()
    assert sorted(made.store.objects) == sorted(keys[:2])
    assert (record.counts.skipped, record.counts.unusual) == (1, 1)


class Careless(MadeStore):
    """A store that lists everything it has, in no order and some of it twice, and refuses keys that none should have."""

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        found = [one for key, one in sorted(self.objects.items(), reverse=True) if key > after]
        yield [*found, *found]

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        for key in keys:
            check_key(key)
        return await super().delete_many(keys)


async def test_what_a_store_should_not_have_listed_stays_and_stops_nothing() -> None:
    unusual = ["wal/", "wal//x", "wal/../snapshots/1", "wal/a\nb"]
    strange = [*unusual, "other/old", "walrus", "orphan-scan/wal/record.json"]
    made = world([])
    made.store = Careless([obj(key) for key in [*strange, ulid(1), ulid(2)]])
    scan = made.scanner()
    record = await made.run(scan)
    assert sorted(made.store.objects) == sorted(strange)
    assert (record.counts.skipped, record.counts.unusual, scan.status().error) == (6, 8, "")
    assert record.unusual_keys == (*sorted(unusual, reverse=True),) * 2
    looked = await scan.look("", 10.0)
    assert isinstance(looked, LookedPages)
    assert (looked.counts.unusual, len(looked.unusual_keys)) == (8, 8)
    assert not any(known.keys() - {ulid(1), ulid(2)} for known in made.coordinators.standings)


class Endless(MadeStore):
    """A million objects, made chunk by chunk; every hundredth is an orphan."""

    def __init__(self) -> None:
        super().__init__()
        self.resident: list[int] = []
        """Pages of memory that the process has at each chunk."""

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        for first in range(0, 1_000_000 if prefix == PREFIX else 0, 1000):
            yield [obj(f"wal/{number:08}") for number in range(first, first + 1000)]
            self.resident.append(int(Path("/proc/self/statm").read_text().split()[1]))


class Most(MadeCoordinators):
    async def ask(
        self, coordinator_id: int, keys: Sequence[str], created_ms: Sequence[int], *, only_tell: bool = False
    ) -> list[FileStanding] | Outcome:
        return [FileStanding.FENCED if key.endswith("00") else FileStanding.LIVE for key in keys]


@pytest.mark.long
async def test_a_million_objects_take_no_more_memory_than_a_page() -> None:
    store = Endless()
    record = await World(store=store, coordinators=Most(2)).run_new()
    assert (record.counts.examined, record.counts.deleted) == (1_000_000, 10_000)
    grown_bytes = (max(store.resident) - store.resident[0]) * os.sysconf("SC_PAGE_SIZE")
    assert grown_bytes < 10 * 1024 * 1024


async def test_a_few_unusual_keys_are_named_and_all_are_counted_in_each_round() -> None:
    made = world([f"wal/{number:04}\t" for number in range(2_500)])
    for _ in range(2):
        record = await made.run_new()
        assert (record.counts.unusual, record.counts.orphans, len(made.store.objects)) == (2_500, 0, 2_500)
        assert record.unusual_keys == tuple(f"wal/{number:04}\t" for number in range(UNUSUAL_TOLD_MAX))
        assert record == decode_record(encode_record(record))


async def test_unusual_keys_of_a_real_s3_stop_no_round_and_stay(tmp_path: Path) -> None:
    with RealS3(find_gateway(), tmp_path) as gateway:
        store = gateway.open("deep")
        for key in ("wal/a", "wal/m", "wal/z"):
            await store.put(key, b"1")
        for key in ("wal/folder/", "wal/k\t"):
            await asyncio.to_thread(gateway.put_unusual, f"deep/{key}", b"" if key.endswith("/") else b"1")
        made = World(store=MadeStore(), coordinators=MadeCoordinators(1), rules=ScanRules(prefix=PREFIX, age_ms=-60_000))
        made.store = store  # type: ignore[assignment]
        made.now_ms = time.time_ns() // 1_000_000
        for deleted in (3, 0):
            record = await made.run_new()
            assert (record.counts.deleted, record.counts.unusual, record.counts.orphans) == (deleted, 2, deleted)
            assert record.unusual_keys == ("wal/folder/", "wal/k\t")
        assert [one.key async for chunk in store.list(PREFIX) for one in chunk] == ["wal/folder/", "wal/k\t"]


async def test_a_store_of_the_adapter_is_scanned() -> None:
    store = open_store("memory://")
    await store.put("wal/x", b"1")
    await store.put("elsewhere", b"1")
    made = World(store=MadeStore(), coordinators=MadeCoordinators(1), rules=ScanRules(prefix=PREFIX, age_ms=-60_000))
    made.store = store  # type: ignore[assignment]
    made.now_ms = time.time_ns() // 1_000_000
    record = await made.run_new()
    assert record.counts.deleted == 1
    assert await store.head("wal/x") is None
    assert await store.head("elsewhere") is not None
