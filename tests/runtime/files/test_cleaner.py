"""Objects of files go when the last batch in them is gone at every owner: real cores over Kafka in memory, and a store in memory."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.commands import CommitAnswer, CommitResult, FileStanding, Outcome, RemoveFiles, WantedMove, WantedTopic
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import StoreDenied, StoreUnavailable
from coordinator.operations.table import operation_of
from coordinator.protocol.codec import Message
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.files.asking import KEYS_PER_QUESTION
from coordinator.runtime.files.empty_files import ROWS_PER_PIECE
from coordinator.runtime.files.pace import BackgroundPace, PaceRules
from coordinator.runtime.files.rules import FileRules
from coordinator.runtime.ports import PeerUnavailable
from simulation.fakes.kafka import FakeKafka
from tests.core.build import TOPIC, batch, commit, delete_records, result_of
from tests.objectstore.moody_store import MoodyStore
from tests.runtime.files.rounds import calls_in_a_round
from tests.runtime.nodes import NO_PEERS, TIMEOUT_MS, Running, in_memory, running
from tests.waiting import attempts, stays, until

COORDINATORS = 4
PARTITIONS = 2 * COORDINATORS
RULES = FileRules(commit_max_age_ms=30, delete_grace_ms=120, interval_ms=10)
HOUR_MS = 3_600_000


class Service:
    """A node that leads all coordinators, with a topic in each of them, and the store it deletes from."""

    def __init__(self, started: Running, store: MoodyStore) -> None:
        self.started = started
        self.store = store
        self.owners = [started.node.view.owner_of(partition_key(TOPIC, partition)) or 0 for partition in range(PARTITIONS)]
        self._names = count()

    def partition_of(self, coordinator: int, nth: int = 0) -> int:
        return [partition for partition, owner in enumerate(self.owners) if owner == coordinator][nth]

    async def upload(self, *owners: int) -> str:
        """Upload a file and commit a batch of it to each of these coordinators."""
        key = await self.put()
        await self.commit(key, owners, owners)
        return key

    async def put(self) -> str:
        key = f"wal/file-{next(self._names)}"
        await self.store.put(key, b"records")
        return key

    async def commit(self, key: str, owners: tuple[int, ...], to: tuple[int, ...], nth: int = 0) -> CommitResult:
        """Commit a file of some owners to some of them."""
        loop = asyncio.get_running_loop()
        answers: list[CommitResult] = []
        for coordinator in to:
            done: asyncio.Future[CommitAnswer] = loop.create_future()
            command = commit(key, [batch(self.partition_of(coordinator, nth))], owner_ids=list(owners))
            self.started.node.router.commit(command, TIMEOUT_MS, done.set_result, 10)
            answers.append(result_of(await done))
        return answers[-1]

    async def delete(self, coordinator: int, nth: int = 0) -> None:
        """Delete all records of a partition of a coordinator."""
        await self.started.node.replicas[coordinator].ask(delete_records((self.partition_of(coordinator, nth), -1)), TIMEOUT_MS)

    async def objects(self) -> set[str]:
        """The keys of files in the store, which has the mark of the service besides."""
        return {one.key async for chunk in self.store.list("wal/") for one in chunk}

    async def until_objects(self, wanted: set[str]) -> None:
        """Wait until no other objects are there; these have to be."""
        async for _ in attempts("objects to go"):
            if (left := await self.objects()) <= wanted:
                break
        assert left == wanted

    def known(self, coordinator: int) -> list[str]:
        """The keys of the files that a coordinator knows."""
        return [row.object_key for row in self.started.node.replicas[coordinator].look(ShardView.files_after, "", 10_000)]

    async def until_forgotten(self) -> None:
        await self.started.until(lambda: not any(self.known(one) for one in range(COORDINATORS)), "files to be forgotten")

    async def keeps(self, wanted: set[str]) -> None:
        """Check that these objects, and no others, are there for many rounds of the cleaner."""

        async def are_there() -> bool:
            return await self.objects() == wanted

        await stays(are_there, f"the objects {wanted}", (RULES.delete_grace_ms + 20 * RULES.interval_ms) / 1000)


@asynccontextmanager
async def service(
    folder: Path, rules: FileRules = RULES, kafka: FakeKafka | None = None, *, pace: PaceRules | None = None
) -> AsyncIterator[Service]:
    store = MoodyStore(open_store("memory://"))
    kafka = in_memory(partitions=COORDINATORS) if kafka is None else kafka
    async with running(
        kafka, StateDatabases(folder), topic_partitions=COORDINATORS, objects=store, files=rules, pace=pace or PaceRules()
    ) as started:
        await started.leads()
        wanted = WantedTopic(topic_id=TOPIC, name="orders", num_partitions=PARTITIONS)
        [outcome] = await started.node.directory.create_topics([wanted], TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE
        yield Service(started, store)


async def test_a_file_of_one_owner_goes_with_its_last_batch(tmp_path: Path) -> None:
    async with service(tmp_path) as made:
        key = await made.upload(2)
        other = await made.put()
        await made.commit(other, (2,), (2,), nth=1)
        await made.keeps({key, other})
        begun = asyncio.get_running_loop().time()
        await made.delete(2)
        await made.until_objects({other})
        assert asyncio.get_running_loop().time() - begun > RULES.delete_grace_ms / 1000 - 0.01
        await made.started.until(lambda: made.known(2) == [other], "the file to be forgotten")
        await made.started.until(lambda: made.started.node.workers.files.counts(2).deleted == 1, "the deletion to be counted")


@pytest.mark.parametrize("function", ["owner_ids_of", "ends_ms"])
async def test_files_that_end_together_leave_the_event_loop_to_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    async with service(tmp_path) as made:
        for _ in range(3 * ROWS_PER_PIECE):
            await made.upload(2)
        with calls_in_a_round(monkeypatch, f"coordinator.runtime.files.empty_files.{function}") as calls:
            await made.delete(2)
            await made.until_objects(set())
        assert calls.total() >= 3 * ROWS_PER_PIECE
        assert max(calls.values()) <= ROWS_PER_PIECE


async def test_files_go_slowly_while_commits_come(tmp_path: Path) -> None:
    async with service(tmp_path, pace=PaceRules(window_s=60.0, files_per_s_min=20, keys_per_entry=(5, 5))) as made:
        for _ in range(20):
            await made.upload(2)
        begun = asyncio.get_running_loop().time()
        await made.delete(2)
        await made.until_objects(set())
        await made.until_forgotten()
        # Four entries, and nine tenths of a quarter of a second between two of them.
        assert asyncio.get_running_loop().time() - begun > 3 * 0.22


@pytest.mark.parametrize(("per_s", "sizes"), [(1_000, [50, 10]), (10_000, [60]), (inf, [250, 10])])
async def test_entries_are_as_large_as_the_pace_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_s: float, sizes: list[int]
) -> None:
    monkeypatch.setattr(BackgroundPace, "files_per_s", per_s)
    monkeypatch.setattr(BackgroundPace, "is_free", per_s == inf)
    seen: list[int] = []
    async with service(tmp_path) as made:
        replica = made.started.node.replicas[2]
        ask = replica.ask

        async def seeing(command: Any, timeout_ms: int) -> Any:
            if isinstance(command, RemoveFiles):
                seen.append(len(command.object_keys))
            return await ask(command, timeout_ms)

        monkeypatch.setattr(replica, "ask", seeing)
        for _ in range(sum(sizes)):
            await made.upload(2)
        await made.started.until(lambda: not (replica.writer.is_writing or replica.look(ShardView.has_unwritten)), "files to be written")
        await made.delete(2)
        await made.until_forgotten()
    assert seen == sizes


@pytest.mark.parametrize("first", [0, 2])
async def test_an_object_stays_while_an_owner_has_it_that_only_the_list_before_a_move_named(tmp_path: Path, first: int) -> None:
    """The file is committed where a partition was, and once more, when that has moved, as a whole: with other owners."""
    async with service(tmp_path) as made:
        started, last, third = made.started, 2 - first, 1
        moved, stays_there = made.partition_of(first), made.partition_of(third)
        key = await made.put()
        await made.commit(key, (first, third), (first,))
        await until(lambda: started.node.schema_level == 2, "the level at which partitions move")
        wanted = WantedMove(topic_id=TOPIC, partition=moved, to_coordinator=last)
        assert await started.node.directory.order_moves([wanted], TIMEOUT_MS, is_dry_run=False)
        await until(lambda: started.node.view.owner_of(partition_key(TOPIC, moved)) == last, "the move")
        answers: asyncio.Queue[CommitAnswer] = asyncio.Queue()
        command = commit(key, [batch(moved), batch(stays_there)], owner_ids=[third, last])
        started.node.router.commit(command, TIMEOUT_MS, answers.put_nowait, 10)
        assert result_of(await answers.get()).errors == [0, 0]
        await made.delete(third)
        await made.keeps({key})
        await started.node.replicas[last].ask(delete_records((moved, -1)), TIMEOUT_MS)
        await made.until_objects(set())
        await made.until_forgotten()


async def test_no_object_goes_while_the_directory_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition may have moved to where the file was taken."""
    async with service(tmp_path) as made:
        key = await made.upload(2)

        async def unreadable(_timeout_ms: int) -> bool:
            return False

        with monkeypatch.context() as patched:
            patched.setattr(made.started.node.router, "directory_is_current", unreadable)
            await made.delete(2)
            await made.keeps({key})
        await made.until_objects(set())


@pytest.mark.parametrize("seed", range(4))
async def test_a_file_of_several_owners_goes_with_its_last_batch_at_all_of_them(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with service(tmp_path) as made:
        owners_of = {}
        for _ in range(40):
            owners = tuple(rng.sample(range(COORDINATORS), rng.randint(1, COORDINATORS)))
            owners_of[await made.upload(*owners)] = set(owners)
        emptied: set[int] = set()
        for coordinator in rng.sample(range(COORDINATORS), COORDINATORS):
            await made.delete(coordinator)
            emptied.add(coordinator)
            await made.until_objects({key for key, owners in owners_of.items() if not owners <= emptied})
            await made.keeps({key for key, owners in owners_of.items() if not owners <= emptied})
        await made.until_forgotten()
        files = made.started.node.workers.files
        await made.started.until(lambda: sum(files.counts(one).deleted for one in range(COORDINATORS)) == 40, "deletions to be counted")
        counts = [files.counts(one) for one in range(COORDINATORS)]
        assert sum(one.deleted + one.handed_over for one in counts) == sum(map(len, owners_of.values()))


@pytest.mark.parametrize("got", [(0,), (1,), (2,), (0, 2), (1, 2)])
async def test_owners_that_never_got_the_commit_are_fenced(tmp_path: Path, got: tuple[int, ...]) -> None:
    async with service(tmp_path) as made:
        key = await made.put()
        await made.commit(key, (0, 1, 2), got)
        for coordinator in got:
            await made.delete(coordinator)
        await made.until_objects(set())
        await made.until_forgotten()
        for late in {0, 1, 2} - set(got):
            refused = await made.commit(key, (0, 1, 2), (late,))
            assert refused.errors == [ErrorCode.INVALID_REQUEST]
            assert "was fenced for deletion" in (refused.messages[0] or "")


async def test_nothing_is_asked_about_a_young_file(tmp_path: Path) -> None:
    async with service(tmp_path, FileRules(commit_max_age_ms=HOUR_MS, delete_grace_ms=50, interval_ms=10)) as made:
        key = await made.put()
        await made.commit(key, (0, 1), (0,))
        await made.delete(0)
        files = made.started.node.workers.files
        await made.started.until(lambda: files.counts(0).waiting == 1, "the file to wait for its age")
        await made.keeps({key})
        assert (await made.commit(key, (0, 1), (1,))).errors == [ErrorCode.NONE]
        assert files.counts(0).oldest_empty_ms > 0
        assert files.counts(1).oldest_empty_ms == -1


@pytest.mark.parametrize("error", [StoreDenied("denied"), StoreUnavailable("no answer")])
async def test_a_store_that_fails_is_asked_ever_more_rarely_and_everything_goes_when_it_works_again(
    tmp_path: Path, error: StoreDenied | StoreUnavailable
) -> None:
    async with service(tmp_path) as made:
        for _ in range(20):
            await made.upload(1)
        made.store.error = error
        await made.delete(1)
        await stays(lambda: len(made.store.calls) < 10, "a small number of questions", 1.5)
        assert len(made.store.calls) >= 2
        assert len(await made.objects()) == 20
        assert len(made.known(1)) == 20
        counts = made.started.node.workers.files.counts(1)
        assert counts.delete_failures == len(made.store.calls)
        assert (counts.deleted, counts.deletable) == (0, 20)
        made.store.error = None
        await made.until_objects(set())
        await made.until_forgotten()


async def test_nothing_is_deleted_while_a_restore_is_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardView, "is_restore_open", True)
    async with service(tmp_path) as made:
        key = await made.upload(1)
        await made.delete(1)
        await made.keeps({key})
        monkeypatch.setattr(ShardView, "is_restore_open", False)
        await made.until_objects(set())


async def test_a_node_that_begins_anew_goes_on(tmp_path: Path) -> None:
    kafka = in_memory(partitions=COORDINATORS)
    never = FileRules(commit_max_age_ms=HOUR_MS, delete_grace_ms=50, interval_ms=10)
    async with service(tmp_path, never, kafka) as made:
        for owners in ((0,), (1, 2), (3, 2, 1)):
            await made.upload(*owners)
        for coordinator in range(COORDINATORS):
            await made.delete(coordinator)
    store = MoodyStore(open_store("memory://"))
    async with running(kafka, StateDatabases(tmp_path), name="1b", topic_partitions=COORDINATORS, objects=store, files=RULES) as started:
        await started.leads()
        await Service(started, store).until_forgotten()
        assert sorted(key for call in store.calls for key in call) == ["wal/file-0", "wal/file-1", "wal/file-2"]


async def test_without_a_store_nothing_is_done(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, StateDatabases(tmp_path), topic_partitions=1, files=RULES) as started:
        await started.leads()
        assert started.node.workers.files.counts(0) == (0, 0, 0, 0, 0, -1)
        started.node.workers.files.hurry(0)


# ---- asking owners


class Wire:
    """Requests to one node, answered as its server would."""

    def __init__(self, first: Running) -> None:
        self.first = first
        self.is_up = True
        self.asked: Counter[str] = Counter()
        """How many requests there were of each kind: nodes ask each other for their clocks meanwhile."""

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        if not self.is_up:
            raise PeerUnavailable(f"nobody listens at {host}:{port}")
        self.asked[type(request).__name__] += 1
        operation, version = operation_of(type(request))
        return await serve(self.first.node, operation, version, request)


@pytest.mark.parametrize("is_here", [True, False])
async def test_owners_are_asked_here_and_elsewhere_alike(tmp_path: Path, is_here: bool) -> None:
    kafka = in_memory(partitions=COORDINATORS)
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    held = FileRules(commit_max_age_ms=HOUR_MS, delete_grace_ms=HOUR_MS)
    async with service(tmp_path / "first", held, kafka) as made:
        wire = Wire(made.started)
        async with running(
            kafka, StateDatabases(tmp_path / "second"), name="2", node_id=2, topic_partitions=COORDINATORS, peers=wire, files=held
        ) as other:
            here = made.started.node.replicas
            await other.until(lambda: len(here.led()) == len(other.node.replicas.led()) == COORDINATORS // 2, "both nodes to lead")
            one = here.led()[0]
            asked = (made.started if is_here else other).node.workers.owners_asked
            live, empty = await made.upload(one), await made.put()
            await made.commit(empty, (one,), (one,), nth=1)
            await made.delete(one, nth=1)
            keys, times = [live, empty, "wal/never"], [-1, -1, -1]
            until_empty = [FileStanding.LIVE, FileStanding.EMPTY, FileStanding.UNKNOWN]
            async for _ in attempts("the file to become empty"):
                if await asked.ask(one, keys, times, only_tell=True) == until_empty:
                    break
            assert await asked.ask(one, keys, times) == [FileStanding.LIVE, FileStanding.EMPTY, FileStanding.FENCED]
            many = [f"wal/many-{number}" for number in range(KEYS_PER_QUESTION + 1)]
            before = wire.asked["FenceFilesRequest"]
            assert await asked.ask(one, many, [-1] * len(many)) == [FileStanding.FENCED] * len(many)
            assert wire.asked["FenceFilesRequest"] - before == (0 if is_here else 2)


async def test_an_owner_that_does_not_answer_leaves_its_keys_unknown(tmp_path: Path) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), topic_partitions=1, peers=NO_PEERS) as started:
        await started.leads()
        outcome = await started.node.workers.owners_asked.ask(17, ["wal/a"], [-1])
        assert isinstance(outcome, Outcome)
        assert outcome.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "coordinator 17 has no leader now" in (outcome.message or "")
