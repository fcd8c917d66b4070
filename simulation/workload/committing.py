"""The committers of a run: plain, idempotent, hedging and careless ones; some give a file up, or die.

They send the same request again, elsewhere, until its outcome is known. What they must be told in the end (an idempotent batch is never
refused) is judged here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import numpy as np

from coordinator.core.commands import CommitFile, CommitResult, FileStanding
from coordinator.kafka.batches import BATCH, partition_key
from coordinator.operations.files import FENCE_FILES
from coordinator.protocol.messages import FenceFilesFile, FenceFilesRequest, FenceFilesResponse
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.node.node import Node
from simulation.fold import Where
from simulation.judge import DUPLICATE_RESOURCE, INVALID_REQUEST, NOT_DECIDED, NOT_LEADER, NOT_THERE
from simulation.loop import START_MS
from simulation.objects import PLAIN
from simulation.workload.clients import CLIENT, RETRY_S, THINK_S, TIMEOUT_MS, Asker, Clients
from simulation.workload.uploads import PREFIX, REPEATED_CHANCE, UNUSUAL_KEYS, UploadFate, Uploads

NO_PRODUCER = -1
LONG_AGO_MS = 1_000


class IntendedBatch(NamedTuple):
    """One batch as its client means it."""

    where: Where
    records: int
    epoch: int = -1
    sequence: int = -1
    repeats_offset: int = -1
    times_forgotten: int = 0
    """How often the producer had been forgotten when the batch (or the one it repeats) was sent first."""


class Final(NamedTuple):
    """The final answer to a batch."""

    error: int
    base_offset: int
    is_duplicate: bool


class CommittingClient:
    """Commits file after file. An idempotent one has a producer id and one batch per partition under way at a time."""

    def __init__(self, number: int, clients: Clients, rng: random.Random, uploads_rng: random.Random) -> None:
        self._number = number
        self._clients = clients
        self._rng = rng
        self._uploads_rng = uploads_rng
        self._is_idempotent = number % 2 == 1
        self._files = 0
        self._next: dict[Where, tuple[int, int]] = {}
        self._last: dict[Where, IntendedBatch] = {}
        self._done: list[CommitFile] = []

    async def run(self) -> None:
        """Commit until the clients close."""
        rng, clients = self._rng, self._clients
        while not clients.is_closing:
            await asyncio.sleep(rng.uniform(*THINK_S))
            targets = clients.targets()
            if clients.is_closing or not targets:
                continue
            clients.busy += 1
            if self._done and rng.random() < 0.12:
                await self._again(rng.choice(self._done[-5:]))
            elif self._done and clients.uploads is not None and self._uploads_rng.random() < REPEATED_CHANCE:
                # Some layer below repeats what it sent long ago.
                await self._send(self._uploads_rng.choice(self._done))
            else:
                await self._new_file(targets)
            clients.busy -= 1

    async def _new_file(self, targets: Sequence[Where]) -> None:
        rng = self._rng
        batches = [self._batch(where) for where in rng.sample(targets, min(len(targets), rng.randint(1, 3)))]
        self._files += 1
        command = commit(f"f{self._number}-{self._files}", self._number, batches, self._clients.partitions, self._timestamp_ms())
        if (uploads := self._clients.uploads) is None:
            await self._commit_all(command, batches)
        else:
            await self._upload_and_commit(uploads, command, batches)

    def _timestamp_ms(self) -> int:
        """The time of a file's batches: a long time ago where nothing depends on it, or in the wrong unit."""
        judge, now_s = self._clients.judge, asyncio.get_running_loop().time()
        if now_s < judge.microseconds_until_s:
            return (START_MS + int(now_s * 1000)) * 1000
        return LONG_AGO_MS if judge.retention is None else START_MS + int(now_s * 1000)

    async def _commit_all(self, command: CommitFile, batches: Sequence[IntendedBatch]) -> None:
        """Commit a file and judge what became of its batches."""
        hedged = asyncio.get_running_loop().create_task(self._send(command)) if self._rng.random() < 0.08 else None
        final = await self._commit(command, [batch.where for batch in batches])
        if hedged is not None:
            await hedged
        if final is not None:
            self._done.append(command)
        self._finish(command, batches, final)

    def _finish(self, command: CommitFile, batches: Sequence[IntendedBatch], final: Sequence[Final] | None) -> None:
        for place, batch in enumerate(batches):
            if self._is_idempotent:
                self._finished(f"{command.object_key} batch {place}", batch, None if final is None else final[place])

    async def _upload_and_commit(self, uploads: Uploads, command: CommitFile, batches: Sequence[IntendedBatch]) -> None:
        """Upload the object of a file, and commit it as far as this uploader comes."""
        rng = self._uploads_rng
        key = PREFIX + command.object_key
        created_ms, fate, owners = uploads.put(key, rng), uploads.fate(rng), uploads.owners_of(command)
        owner_ids = uploads.owner_list(owners, rng)
        directory = uploads.judge.folds[0]
        first = [batch for batch in batches if directory.owner_of(batch.where) == owners[0]]
        await asyncio.sleep(uploads.delay_s(fate, rng))

        def part(some: Sequence[IntendedBatch]) -> CommitFile:
            timestamp_ms = int(command.batches["max_timestamp"][0])
            whole = commit(key, self._number, some, self._clients.partitions, timestamp_ms)
            return whole._replace(created_ms=created_ms, owner_ids=owner_ids)

        rest = [batch for batch in batches if batch not in first]
        match fate:
            case UploadFate.DIES:
                return
            case UploadFate.GIVES_UP:
                await self._give_up(uploads, part(batches), [batch.where for batch in batches])
                self._finish(part(batches), batches, None)
            case UploadFate.DIES_BETWEEN | UploadFate.PAUSES_BETWEEN if rest:
                await self._commit_all(part(first), first)
                if fate is UploadFate.PAUSES_BETWEEN:
                    await asyncio.sleep(uploads.delay_s(UploadFate.PAUSES, rng))
                    await self._commit_all(part(rest), rest)
            case UploadFate.REPLACED_BETWEEN if rest:
                whole, places = part(batches), [place for place, batch in enumerate(batches) if batch in first]
                await self._commit_all(whole._replace(batches=whole.batches[places]), first)
                await asyncio.sleep(uploads.delay_s(UploadFate.PAUSES, rng))
                await self._commit_all(whole._replace(owner_ids=uploads.owners_anew(whole, rng)), batches)
            case _:
                await self._commit_all(part(batches), batches)

    async def _give_up(self, uploads: Uploads, command: CommitFile, wheres: Sequence[Where]) -> None:
        """Give a file up that is being committed: fence it at every owner, and delete its object where all have promised not to take it."""
        commit_in_s, fence_in_s = uploads.give_up_s(self._uploads_rng)
        committed = asyncio.get_running_loop().create_task(self._commit_later(commit_in_s, command, wheres))
        await asyncio.sleep(fence_in_s)
        uploads.judged.given_up(command.object_key)
        owners = list(command.owner_ids)
        while owners:
            standing = await self._fence(owners[0], command)
            if standing in (FileStanding.LIVE, FileStanding.EMPTY):
                break
            if standing is not None and standing.is_out:
                del owners[0]
            elif self._clients.is_closing:
                # The remaining owners have the file; deleting it is their work.
                break
            else:
                await asyncio.sleep(self._uploads_rng.uniform(*RETRY_S))
        else:
            uploads.delete(command.object_key)
        await committed

    async def _commit_later(self, delay_s: float, command: CommitFile, wheres: Sequence[Where]) -> None:
        await asyncio.sleep(delay_s)
        await self._commit(command, wheres)

    async def _fence(self, owner: int, command: CommitFile) -> FileStanding | None:
        """Ask some node to have a file fenced at an owner; None when it has not been told."""
        file = FenceFilesFile(object_key=command.object_key, created_ms=command.created_ms)
        request = FenceFilesRequest(coordinator_id=owner, files=(file,), only_tell=False, timeout_ms=TIMEOUT_MS)

        async def work(node: Node) -> FileStanding | None:
            response = await serve(node, FENCE_FILES, 0, request)
            if not isinstance(response, FenceFilesResponse) or response.error_code or response.files[0].error_code:
                return None
            return FileStanding(response.files[0].standing)

        return await self._clients.ask(self._uploads_rng.randrange(self._clients.nodes), work)

    def _times_forgotten(self, where: Where) -> int:
        """How often this producer was forgotten in a partition, by the log."""
        return sum(fold.forgotten[where, self._number] for fold in self._clients.judge.folds)

    def _batch(self, where: Where) -> IntendedBatch:
        records = self._rng.randint(1, 5)
        if not self._is_idempotent:
            return IntendedBatch(where, records)
        epoch, sequence = self._next.get(where, (0, 0))
        last = self._last.get(where)
        if last is not None and self._rng.random() < 0.1:
            return last
        return IntendedBatch(where, records, epoch, sequence, times_forgotten=self._times_forgotten(where))

    def _finished(self, what: str, batch: IntendedBatch, final: Final | None) -> None:
        """Judge the final answer to an idempotent batch; one that repeats may be new for who forgot the producer meanwhile."""
        if (
            final is None
            or final.error == NOT_LEADER
            or (final.error in (INVALID_REQUEST, DUPLICATE_RESOURCE) and self._clients.uploads is not None)
        ):
            # The outcome of the batch will never be known, or it came too late: begin a new epoch, as Kafka's producers do.
            self._next[batch.where] = (batch.epoch + 1, 0)
            self._last.pop(batch.where, None)
            return
        if self._clients.is_going(batch.where):
            return
        what += f", sequence {batch.sequence} of epoch {batch.epoch}"
        is_forgotten = self._times_forgotten(batch.where) != batch.times_forgotten
        is_repeated = batch.repeats_offset >= 0 and (final.is_duplicate or not is_forgotten)
        if final.error or final.is_duplicate != is_repeated:
            self._clients.judge.broken("producers have no gaps", f"{what} was answered {final}")
        elif final.is_duplicate and final.base_offset != batch.repeats_offset:
            self._clients.judge.broken("producers have no gaps", f"{what} repeats offset {batch.repeats_offset} but was told {final}")
        else:
            self._last[batch.where] = batch._replace(repeats_offset=final.base_offset)
            self._next[batch.where] = (batch.epoch, batch.sequence + batch.records)

    async def _commit(self, command: CommitFile, wheres: Sequence[Where]) -> list[Final] | None:
        """Send a file until its outcome is known; None when one of its topics is being deleted."""
        rng, clients = self._rng, self._clients
        node_id = clients.node_for(wheres[0], rng)
        final: dict[int, Final] = {}
        left = list(range(len(wheres)))
        while True:
            result = await clients.ask(node_id, self._work(command, node_id))
            if result is not None:
                for at, (place, error) in enumerate(zip(left, result.errors, strict=True)):
                    if error not in NOT_DECIDED or error == NOT_LEADER:
                        final[place] = Final(error, result.base_offsets[at], result.duplicates[at])
                        clients.leaders[wheres[place]] = node_id
                if any(error in NOT_THERE and clients.is_going(wheres[place]) for place, error in zip(left, result.errors, strict=True)):
                    return None
                # A batch whose partition has moved has to come in another file, as gateways send it; the others go without it.
                left = [place for place, error in zip(left, result.errors, strict=True) if error != NOT_LEADER]
                if len(left) < len(command.batches):
                    kept = [at for at, error in enumerate(result.errors) if error != NOT_LEADER]
                    command = command._replace(batches=command.batches[kept])
            rest = next((where for place, where in enumerate(wheres) if place not in final), None)
            if rest is None:
                return [final[place] for place in range(len(wheres))]
            await asyncio.sleep(rng.uniform(*RETRY_S))
            node_id = clients.node_for(rest, rng) if rng.random() < 0.4 else rng.randrange(clients.nodes)

    async def _again(self, command: CommitFile) -> None:
        """Send a file once more, now and then with other content."""
        await self._send(command._replace(file_size=command.file_size + 1) if self._rng.random() < 0.25 else command)

    async def _send(self, command: CommitFile) -> None:
        """Send a file to some node and forget about it; whatever is answered is judged by the judge."""
        node_id = self._rng.randrange(self._clients.nodes)
        await self._clients.ask(node_id, self._work(command, node_id))

    def _work(self, command: CommitFile, node_id: int) -> Callable[[Node], Awaitable[CommitResult]]:
        judge = self._clients.judge

        async def work(node: Node) -> CommitResult:
            answer: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()

            def respond(given: object) -> None:
                result = given.result()  # type: ignore[attr-defined]
                judge.commit_answered(node_id, command, result)
                if not answer.done():
                    answer.set_result(result)

            node.router.commit(command, TIMEOUT_MS, respond, 100 * len(command.batches))
            return await answer

        return work


class CarelessClient(Asker):
    """Commits files whose keys no object can have: each is refused, at whatever node."""

    async def _turn(self) -> None:
        targets = self._clients.targets()
        if targets:
            command = commit(self._rng.choice(UNUSUAL_KEYS), NO_PRODUCER, [IntendedBatch(self._rng.choice(targets), 1)], 1, LONG_AGO_MS)
            await self._clients.ask(self._rng.randrange(self._clients.nodes), self._work(command))

    def _work(self, command: CommitFile) -> Callable[[Node], Awaitable[None]]:
        judge = self._clients.judge

        async def work(node: Node) -> None:
            answer: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
            node.router.commit(command, TIMEOUT_MS, lambda given: answer.set_result(given.result()), 100)
            [error] = (await answer).errors
            if error not in (INVALID_REQUEST, *NOT_DECIDED, *NOT_THERE):
                judge.broken(PLAIN, f"a commit of {command.object_key!r} was answered {error}")

        return work


def commit(key: str, producer_id: int, batches: Sequence[IntendedBatch], partitions: int, timestamp_ms: int) -> CommitFile:
    """The request for a file with these batches, bytes one after the other; those with a sequence are of the producer."""
    array = np.zeros(len(batches), BATCH)
    for place, batch in enumerate(batches):
        is_idempotent = batch.sequence >= 0
        array[place] = (
            2,
            place,
            np.void(partition_key(*batch.where)),
            place * 10,
            10,
            0,
            batch.records - 1,
            timestamp_ms,
            place % 2,
            producer_id if is_idempotent else NO_PRODUCER,
            batch.epoch,
            batch.sequence,
            batch.sequence + batch.records - 1 if is_idempotent else -1,
            0,
        )
    return CommitFile(
        object_key=key,
        object_format=1,
        file_size=1000,
        owner_ids=list(range(partitions)),
        batches=array,
        uploader_broker_id=CLIENT,
        created_ms=-1,
    )
