"""Operations as a client sees them: found owners, split over the coordinators led here, answers merged in request order.

Elements of coordinators that this node does not lead get NOT_COORDINATOR; one bad element never fails the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias, TypeVar, cast

import numpy as np

from coordinator.core.commands import (
    Barrier,
    Command,
    CommitAnswer,
    CommitFile,
    CommitResult,
    FetchPoint,
    FoundBatches,
    FoundOffset,
    ListOffsets,
    OffsetQuery,
    Outcome,
)
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.files.requests import check_whole
from coordinator.core.reads.queries import FetchBudget
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key, partition_keys, split_partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.failures import NotReadable
from coordinator.runtime.ports import Cluster, KafkaUnavailable, TopicMissing
from coordinator.runtime.replica.incoming import Answered, Submission
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.applied import find_applied
from coordinator.runtime.routing.cluster_view import ClusterView
from coordinator.runtime.routing.moved_commits import MovedCommit, are_new_to_those_before
from coordinator.runtime.routing.moved_reads import with_older
from coordinator.runtime.routing.unplaced_commits import UnplacedCommit

CommitSubmission: TypeAlias = tuple[Callable[[CommitAnswer], None], CommitFile, int, int]
"""A commit on its way: who gets its answer, within how many milliseconds, and how many bytes it has."""


class OfPartition(Protocol):
    """An element of a request that one partition has to answer."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partition(self) -> int: ...


E = TypeVar("E", bound=OfPartition)
A = TypeVar("A")

DIRECTORY_POLL_S = 0.005


class Router:
    """See the module's text."""

    def __init__(self, *, view: ClusterView, node_id: int, moves_window_ms: int) -> None:
        """Files created later than `moves_window_ms` after a move are no repetitions of commits before it, whatever clocks say."""
        self._moves_window_ms = moves_window_ms
        self._replicas = view.replicas
        self._view = view
        self._node_id = node_id
        self._cluster: Cluster | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def use_cluster(self, cluster: Cluster) -> None:
        """Kafka is reachable through this."""
        self._cluster = cluster

    async def close(self) -> None:
        """Cancel what is still being answered."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: asyncio.Task[None]) -> None:
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)

    def not_led(self, coordinator_id: int) -> Outcome:
        """The reason why this node does not serve a coordinator: its replica is loading, or another node leads."""
        replica = self._replicas.get(coordinator_id)
        if replica is not None and replica.failure is not None:
            message = f"coordinator {coordinator_id} failed on node {self._node_id} and is rebuilt there; ask another node, or retry"
            return Outcome(error=ErrorCode.NOT_COORDINATOR, message=message)
        if self._replicas.is_loading(coordinator_id):
            return Outcome(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=f"coordinator {coordinator_id} is loading; retry")
        leader = self._view.leader(coordinator_id)
        where = "find its leader" if leader is None or leader.node_id == self._node_id else f"ask node {leader.node_id}"
        message = f"node {self._node_id} does not lead coordinator {coordinator_id}; {where} and retry"
        return Outcome(error=ErrorCode.NOT_COORDINATOR, message=message)

    # ---- the directory

    async def directory_is_current(self, timeout_ms: int) -> bool:
        """Wait until the directory holds everything that was logged before this call; False when that takes too long."""
        replica = self._replicas.get(DIRECTORY_PARTITION)
        if replica is None or replica.view is None or self._cluster is None:
            return False
        if replica.view.is_leading:
            answer = await replica.ask(Barrier(), timeout_ms)
            return isinstance(answer, Outcome) and answer.error is ErrorCode.NONE
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, end = await self._cluster.log_range(DIRECTORY_PARTITION)
                # A replica that fails meanwhile is built anew, and is another one then.
                while (shard := self._replicas.shard(DIRECTORY_PARTITION)) is None or shard.next_offset < end:  # noqa: ASYNC110
                    await asyncio.sleep(DIRECTORY_POLL_S)
        except (TimeoutError, KafkaUnavailable, TopicMissing):
            return False
        return True

    def unplaced(self, key: bytes) -> Outcome:
        """The outcome for a partition that a current directory does not have."""
        topic_id, partition = split_partition_key(key)
        placement = self._view.placement(topic_id)
        if not self._view.are_moves_settled:
            message = "the log was restored, and where partitions that moved go on is being found out; retry"
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message)
        if placement is None:
            return Outcome(error=ErrorCode.UNKNOWN_TOPIC_ID, message=self._view.why_unknown(topic_id))
        message = f"topic {placement.name} has no partition {partition}; it has {placement.num_partitions}"
        return Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message)

    async def settle(self, keys: Iterable[bytes], timeout_ms: int) -> Outcome | None:
        """If some key has no owner, bring the directory up to date; returns why that failed, or None.

        After a restore this waits until it is known where partitions that moved go on; when that takes too long, `unplaced` says so.
        """
        started_s = asyncio.get_running_loop().time()
        if all(self._view.owner_of(key) is not None for key in keys):
            return None
        if not await self.directory_is_current(timeout_ms):
            message = "the directory of topics cannot be read to its end now; retry"
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message)
        with suppress(TimeoutError):
            async with asyncio.timeout(_left_ms(timeout_ms, started_s) / 1000):
                while not self._view.are_moves_settled:  # noqa: ASYNC110 - the directory is read by a replica
                    await asyncio.sleep(DIRECTORY_POLL_S)
        return None

    # ---- commits

    def commit_all(self, commits: Sequence[CommitSubmission]) -> Iterator[int]:
        """Commit files, in order, those together that have one owner. Yields how many more have reached their coordinators, as `commit`
        says it; ends behind the first that has not.
        """
        at = 0
        for owner, stop in self._view.owners_of_files([command.batches for _, command, _, _ in commits]):
            replica = self._replicas.get(owner)
            if replica is not None and self._go_directly(owner, (command for _, command, _, _ in commits[at:stop])):
                replica.submit_all(cast("Sequence[Submission]", commits[at:stop]))
                yield stop - at
            else:
                for respond, command, timeout_ms, size_bytes in commits[at:stop]:
                    if not self.commit(command, timeout_ms, respond, size_bytes):
                        return
                    yield 1
            at = stop

    def _go_directly(self, owner: int, commands: Iterable[CommitFile]) -> bool:
        """Whether files that an owner has all partitions of may be committed there without a look at moves."""
        view = self._view
        if view.is_behind(owner):
            return False
        return not view.states_before or are_new_to_those_before(view, owner, list(commands))

    def commit(self, command: CommitFile, timeout_ms: int, respond: Callable[[CommitAnswer], None], size_bytes: int) -> bool:
        """Commit a file: at once if one coordinator led here owns all of it, else split by coordinator.

        Returns whether it has reached its coordinators (or was answered), so that a later commit cannot overtake it.
        """
        ((known, _),) = self._view.owners_of_files([command.batches])
        if (replica := self._replicas.get(known)) is not None and self._go_directly(known, (command,)):
            replica.submit(command, timeout_ms, cast(Answered, respond), size_bytes)
            return True
        owners = self._view.owners_of(partition_keys(command.batches))
        if not len(command.batches):
            respond(CommitResult.refused(0, ErrorCode.NONE, None))
        elif None in owners:
            unplaced = UnplacedCommit(self, self._view, command, timeout_ms, size_bytes)
            self._spawn(asyncio.get_running_loop().create_task(unplaced.run(respond)))
            return False
        elif any(map(self._view.is_behind, cast("set[int]", owners))) and self._view.has_unread_move(command.batches):
            message = "this node has not read yet of a move of a partition of the file; retry"
            respond(CommitResult.refused(len(command.batches), ErrorCode.COORDINATOR_NOT_AVAILABLE, message))
        elif (
            len(owners) == 1
            and not self._view.has_moved(command.batches)
            and (replica := self._replicas.get(cast(int, owners.pop()))) is not None
        ):
            replica.submit(command, timeout_ms, cast(Answered, respond), size_bytes)
        else:
            keys: list[bytes] = command.batches["topic_partition"].tolist()
            self.commit_split(command, [self._view.owner_of(key) for key in keys], timeout_ms, respond, size_bytes)
        return True

    def commit_split(
        self, command: CommitFile, owners: Sequence[int | None], timeout_ms: int, respond: Callable[[CommitAnswer], None], size_bytes: int
    ) -> None:
        """Give each coordinator its share, all of them at once, and put the answers together; some batch has an owner."""
        view = self._view
        if view.has_moved(command.batches) and (
            view.has_unread_release(command.batches)
            or not all(are_new_to_those_before(view, owner, [command]) for owner in set(owners) if owner is not None)
        ):
            MovedCommit(self, view, command, owners, self._moves_window_ms).run(timeout_ms, respond, size_bytes)
        else:
            self.split(command, owners, timeout_ms, respond, size_bytes)

    def split(
        self, command: CommitFile, owners: Sequence[int | None], timeout_ms: int, respond: Callable[[CommitAnswer], None], size_bytes: int
    ) -> None:
        """Do as `commit_split`, whatever moved."""
        if command.checked is None:
            command = command._replace(checked=check_whole(command, self._replicas.count))
        shares: dict[int, list[int]] = {}
        for place, owner in enumerate(owners):
            if owner is not None:
                shares.setdefault(owner, []).append(place)
        merged = _Merged(len(owners), len(shares), respond)
        for owner, places in sorted(shares.items()):
            answered = partial(merged.take, places)
            if self._replicas.is_leading(owner):
                share = command._replace(batches=command.batches[np.array(places)])
                share_bytes = size_bytes * len(places) // len(owners)
                self._replicas[owner].submit(share, timeout_ms, cast(Answered, answered), share_bytes)
            else:
                outcome = self.not_led(owner)
                answered(CommitResult.refused(len(places), outcome.error, outcome.message))

    # ---- strict reads and deletes by partition

    def list_offsets_here(self, queries: list[OffsetQuery], timeout_ms: int, respond: Callable[[list[FoundOffset]], None]) -> bool:
        """Like `list_offsets`, when one coordinator that is led here owns all of the partitions; else False, and nothing is asked."""
        owners = self._view.owners_of({partition_key(topic_id, partition) for topic_id, partition, _ in queries})
        owner = owners.pop() if len(owners) == 1 else None
        if owner is None or not self._replicas.is_leading(owner):
            return False

        def answered(answers: list[FoundOffset]) -> None:
            respond(with_older(self._replicas, queries, answers))

        self._replicas[owner].submit(ListOffsets(queries=queries), timeout_ms, cast(Answered, answered))
        return True

    async def list_offsets(self, queries: list[OffsetQuery], timeout_ms: int) -> list[FoundOffset]:
        """Strict: every acknowledged write before the request is seen. `list_offsets_here` is the way without a task."""

        def command(share: list[OffsetQuery]) -> Command:
            return ListOffsets(queries=share)

        answers = await self.by_owner(command, FoundOffset, queries, timeout_ms)
        return with_older(self._replicas, queries, answers)

    # ---- commands of an operation (`runtime.serving`)

    async def by_owner(
        self, command: Callable[[list[E]], Command], refused: Callable[[Outcome], A], elements: Sequence[E], timeout_ms: int
    ) -> list[A]:
        """Send each element to its owner's leader if that is here, and put the answers back in order."""
        started_s = asyncio.get_running_loop().time()
        keys = [partition_key(element.topic_id, element.partition) for element in elements]
        problem = await self.settle(set(keys), timeout_ms)
        if problem is not None:
            return [refused(problem) for _ in elements]
        answers: list[A | None] = [None] * len(elements)
        shares: dict[int, list[int]] = {}
        for place, key in enumerate(keys):
            owner = self._view.owner_of(key)
            if owner is None:
                answers[place] = refused(self.unplaced(key))
            elif not self._replicas.is_leading(owner):
                answers[place] = refused(self.not_led(owner))
            else:
                shares.setdefault(owner, []).append(place)
        left_ms = _left_ms(timeout_ms, started_s)
        asked = (self._replicas[owner].ask(command([elements[p] for p in places]), left_ms) for owner, places in shares.items())
        for places, result in zip(shares.values(), await asyncio.gather(*asked), strict=True):
            for place, answer in zip(places, cast(list[A], result), strict=True):
                answers[place] = answer
        return cast(list[A], answers)

    async def by_all_led(
        self, command: Command, refused: Callable[[Outcome], A], best: Callable[[Sequence[A]], A], count: int, timeout_ms: int
    ) -> list[A]:
        """Ask every coordinator led here for `count` elements, and merge what they say of each."""
        led = self._replicas.led()
        if not led:
            message = f"node {self._node_id} leads no coordinator; ask the others"
            return [refused(Outcome(error=ErrorCode.NOT_COORDINATOR, message=message))] * count
        answers = await asyncio.gather(*(self._replicas[coordinator_id].ask(command, timeout_ms) for coordinator_id in led))
        columns = [cast(list[A], answer) for answer in answers]
        return [best([column[place] for column in columns]) for place in range(count)]

    # ---- find batches

    async def find_batches(
        self, points: list[FetchPoint], max_bytes: int, batches_per_partition: int, timeout_ms: int
    ) -> list[FoundBatches]:
        """May be stale, so any replica serves it; only a leader behind a barrier says that an offset is out of range."""
        started_s = asyncio.get_running_loop().time()
        budget = FetchBudget(max_bytes, batches_per_partition)
        keys = {partition_key(point.topic_id, point.partition) for point in points}
        problem = await self.settle(keys, timeout_ms)
        if problem is not None:
            return [FoundBatches(outcome=problem, batches=[])] * len(points)
        return [
            find_applied(self._view, point, budget) or await self._find_waiting(point, budget, timeout_ms, started_s) for point in points
        ]

    async def _find_waiting(self, point: FetchPoint, budget: FetchBudget, timeout_ms: int, started_s: float) -> FoundBatches:
        """Answer what `find_applied` does not."""
        key = partition_key(point.topic_id, point.partition)
        owner = self._view.reader_of(key, point.offset)
        if owner is None:
            return FoundBatches(outcome=self.unplaced(key), batches=[])
        replica = self._replicas.get(owner)
        if replica is None:
            return FoundBatches(outcome=self.not_led(owner), batches=[])
        try:
            return await self._find_behind_barrier(replica, point, budget, timeout_ms, started_s)
        except NotReadable:
            return FoundBatches(outcome=self._not_readable(replica), batches=[])

    def _not_readable(self, replica: Replica) -> Outcome:
        """Why a replica of this node has no answer to a read that any node may answer."""
        if not replica.is_readable:
            return self.not_led(replica.partition)
        message = f"the state database of coordinator {replica.partition} is busy on node {self._node_id}; ask another node, or retry"
        return Outcome(error=ErrorCode.OFFSET_NOT_AVAILABLE, message=message)

    async def _find_behind_barrier(
        self, replica: Replica, point: FetchPoint, budget: FetchBudget, timeout_ms: int, started_s: float
    ) -> FoundBatches:
        """Ask a replica of this node. Raises `NotReadable`."""
        if not replica.look(ShardView.has_partition, point.topic_id, point.partition):
            message = "the partition is placed here but not created yet; retry"
            return FoundBatches(outcome=Outcome(error=ErrorCode.OFFSET_NOT_AVAILABLE, message=message), batches=[])
        is_certain = False
        if self._replicas.is_leading(replica.partition):
            asked_s = asyncio.get_running_loop().time()
            proof = await replica.ask(Barrier(), _left_ms(timeout_ms, started_s))
            is_certain = isinstance(proof, Outcome) and proof.error is ErrorCode.NONE
            if is_certain:
                replica.freshness.confirm(asked_s)
        if not replica.freshness.is_sufficient:
            where = f"coordinator {replica.partition} on node {self._node_id}"
            message = f"{where} {replica.freshness.reason}: it may name objects that are deleted by now; ask another node, or retry"
            return FoundBatches(outcome=Outcome(error=ErrorCode.OFFSET_NOT_AVAILABLE, message=message), batches=[])
        # The replica that has proven it, although there may be another one by now.
        found = replica.look(ShardView.find_batches, point, budget)
        return found or replica.look(ShardView.past_the_end, point, is_certain=is_certain)


def _left_ms(timeout_ms: int, started_s: float) -> int:
    """The rest of a request's timeout, for the next step of serving it."""
    return max(0, timeout_ms - int((asyncio.get_running_loop().time() - started_s) * 1000))


class _Merged:
    """Answers of a file's shares on their way into one."""

    def __init__(self, batches: int, shares: int, respond: Callable[[CommitAnswer], None]) -> None:
        self._result = CommitResult.refused(batches, ErrorCode.NOT_COORDINATOR, None).changeable()
        self._missing = shares
        self._respond = respond

    def take(self, places: list[int], given: CommitAnswer) -> None:
        """Take the answer of the share at these places of the request; the last one lets all go."""
        answer, result = given.result(), self._result
        for at, place in enumerate(places):
            result.errors[place] = answer.errors[at]
            result.messages[place] = answer.messages[at]
            result.base_offsets[place] = answer.base_offsets[at]
            result.append_times[place] = answer.append_times[at]
            result.log_starts[place] = answer.log_starts[at]
            result.duplicates[place] = answer.duplicates[at]
        self._missing -= 1
        if not self._missing:
            self._respond(result)
