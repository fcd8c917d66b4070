"""Records are written: packed into one WAL file, uploaded, and committed to the coordinators of all their partitions.

A file is committed under one key, so a commit that is repeated writes nothing twice. A file that is refused as a whole is
removed from the store on the spot, when every owner has promised never to take it, because a commit of it may still be
under way. What cannot be removed so is left to the orphan scan.

A partition that has moved to another coordinator meanwhile needs another file, which names that one as an owner. What was
refused beside it goes there, too, when its owners have promised never to take it from the first file.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from coordinator.client.errors import DisklessError, Refusal, ServiceError
from coordinator.client.model import CommitOutcome, FileStandingAt, ListedOffset, PartitionId, TopicDescription
from coordinator.client.records.ulid import RANDOM_BYTES, new_key
from coordinator.client.records.wal_commit import commit_batches
from coordinator.client.records.wal_file import WalFileBuilder, wal_batches
from coordinator.client.records.wal_manifest import TopicPartition
from coordinator.client.records.wal_objects import upload
from coordinator.client.routing.routed_call import HEALING
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.object_key import creation_ms
from coordinator.kafka.timestamps import LATEST
from coordinator.object_store import ObjectStore
from coordinator.protocol.messages import CommitBatch
from records.compression import Compression
from records.record_batch import Record, parse_headers

UNDECIDED = HEALING | {ErrorCode.NOT_LEADER_OR_FOLLOWER}
"""Refusals after which the same commit may be accepted; REQUEST_TIMED_OUT among them may mean that it was."""

_NODE_IS_BEHIND_S: Final = 1.0
"""How long nodes may tell where a partition was: each reads that from the log by itself. It may be there still, and need another file."""
_WRITES_AGAIN_S: Final = 12.0
"""For how long what was refused because partitions have moved is written in another file, and again in another one: nodes may be behind
for as long as Kafka freezes when a broker dies, and a partition may move on."""
_RETRY_PAUSE_S: Final = 0.02

if TYPE_CHECKING:
    from coordinator.client.model import Batches


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedRecords:
    """Records in the object store, with everything that their commit says; `partitions` and `coordinator_ids` have those of each batch."""

    object_key: str
    size_bytes: int
    batches: tuple[CommitBatch, ...]
    partitions: tuple[TopicPartition, ...]
    coordinator_ids: tuple[int, ...]
    written: Mapping[TopicPartition, Sequence[int]] = field(default_factory=dict)
    """The offsets of records of the same write that another file has, of which these were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRecords:
    """Where records are: the offset of each, by partition and in the order in which they were given.

    `object_key` is the file that was committed last. It has all of them, unless a partition moved during the write.
    """

    object_key: str
    offsets: Mapping[TopicPartition, Sequence[int]]


class WriteUndecided(ServiceError):
    """Some records have no final answer. `commit_uploaded(error.uploaded)` commits them, or learns that they were."""

    def __init__(self, code: ErrorCode, message: str, uploaded: UploadedRecords) -> None:
        super().__init__(code, message)
        self.uploaded = uploaded


class WriteRefused(ServiceError):
    """Some records were refused for good. `written` has the offsets of the others, `refused` why each other partition was refused."""

    def __init__(self, code: ErrorCode, message: str, written: WrittenRecords, refused: Mapping[TopicPartition, Refusal]) -> None:
        super().__init__(code, message)
        self.written = written
        self.refused = refused


class Fences(Protocol):
    """The operation of the service by which a key is ruled out; `DisklessClient` has it."""

    async def fence_files(
        self, coordinator_id: int, object_keys: Sequence[str], created_ms: Sequence[int], *, timeout_ms: int | None = None
    ) -> Sequence[FileStandingAt]:
        """Have a coordinator promise never to take files that it does not know."""


class Writer(Fences, Protocol):
    """The operations of the service that a write needs; `DisklessClient` has them."""

    async def describe_topics(self, topics: Sequence[str | bytes], *, timeout_ms: int | None = None) -> list[TopicDescription]:
        """Describe topics, in order."""

    async def list_offsets(self, queries: Sequence[tuple[PartitionId, int]], *, timeout_ms: int | None = None) -> list[ListedOffset]:
        """Look up offsets at the coordinators of partitions."""

    async def coordinators_of(
        self, partitions: Sequence[PartitionId], *, is_fresh: bool = False, timeout_ms: int | None = None
    ) -> list[int]:
        """Tell the coordinator of each partition."""

    async def check_store(self, store: ObjectStore, *, timeout_ms: int | None = None) -> None:
        """Return when the store is that of the service."""

    async def commit_file(
        self,
        object_key: str,
        file_size_bytes: int,
        batches: Batches,
        *,
        coordinator_ids: Sequence[int] | None = None,
        timeout_ms: int | None = None,
    ) -> CommitOutcome:
        """Commit an uploaded file."""


def pack(records: Mapping[tuple[str, int], Iterable[Record]], *, compression: Compression | None, max_batch_bytes: int) -> WalFileBuilder:
    """Pack records by (topic, partition). Raises WalFileError; TypeError for what is no record."""
    builder = WalFileBuilder(max_batch_bytes=max_batch_bytes, compression=compression or Compression.NONE)
    for (topic, partition), given in records.items():
        for record in given:
            if not isinstance(record, Record):
                raise TypeError(f"records[{topic!r}, {partition}] has {record!r} of type {type(record).__name__}; wanted: Record")
            builder.add(TopicPartition(topic, partition), record)
    return builder


async def upload_file(
    client: Writer, store: ObjectStore, builder: WalFileBuilder, *, prefix: str, timeout_ms: int | None
) -> UploadedRecords:
    """Upload what was packed. Topics are looked up first, so that a wrong name leaves no object behind.

    So is the store, which must be that of the service. Raises WalFileError, NotFound, InvalidRequest, Unavailable, WrongStore, StoreError.
    An object whose upload failed is left to the orphan scan: removing it could not reach an upload that is still under way.
    """
    now_ms = time.time_ns() // 1_000_000
    key = new_key(now_ms, os.urandom(RANDOM_BYTES), prefix=prefix)
    data, manifest = builder.build(created_ms=now_ms)
    packed = wal_batches(manifest, parse_headers(data, verify=False))
    names = sorted({one.topic for one in packed})
    topics = dict(zip(names, await client.describe_topics(names, timeout_ms=timeout_ms), strict=True))
    batches = commit_batches(key, packed, topics, now_ms)
    coordinator_ids = await client.coordinators_of(
        [PartitionId(one.topic_id, one.partition_index) for one in batches], timeout_ms=timeout_ms
    )
    await client.check_store(store, timeout_ms=timeout_ms)
    await upload(store, key, data, len(data))
    partitions = tuple(TopicPartition(one.topic, one.partition) for one in packed)
    return UploadedRecords(
        object_key=key, size_bytes=len(data), batches=tuple(batches), partitions=partitions, coordinator_ids=tuple(coordinator_ids)
    )


async def commit_uploaded(
    client: Writer,
    store: ObjectStore,
    uploaded: UploadedRecords,
    *,
    second_prefix: str | None,
    timeout_ms: int | None,
    again_until_s: float | None = None,
) -> WrittenRecords:
    """Commit uploaded records; repeating it writes nothing twice. Raises WriteUndecided, WriteRefused.

    With a prefix, what is refused because partitions have moved is written again below it, until a time of the event loop, at
    first None. A repetition has none: it could not tell whether an attempt before it has done that.
    """
    # Of a topic that is deleted meanwhile nobody tells where it was, but its coordinators tell what became of an earlier attempt.
    outcome = await client.commit_file(
        uploaded.object_key, uploaded.size_bytes, uploaded.batches, coordinator_ids=uploaded.coordinator_ids, timeout_ms=timeout_ms
    )
    written = _written(uploaded, outcome)
    if outcome.is_ok:
        return written
    refusals, final = _refusals(uploaded, outcome)
    place, refusal = next(iter(final.items()))
    text = f"{_name(uploaded, place)}: {refusal.message}; {len(refusals)} partitions were refused"
    now_s = asyncio.get_running_loop().time()
    again_until_s = now_s + _WRITES_AGAIN_S if again_until_s is None else again_until_s
    have_moved = {one.code for one in final.values()} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    if second_prefix is not None and have_moved and now_s < again_until_s:
        try:
            await _when_served(client, uploaded, final, timeout_ms)
            second = await _upload_refused(client, store, uploaded, refusals, written, prefix=second_prefix, timeout_ms=timeout_ms)
        except DisklessError as error:
            text = f"{text} and not written again ({error})"
        else:
            return await commit_uploaded(
                client, store, second, second_prefix=second_prefix, timeout_ms=timeout_ms, again_until_s=again_until_s
            )
    if any(not one.error for one in outcome.batches):
        fate = "holds the others"
    else:
        fate = await remove_refused(client, store, uploaded.object_key, outcome.owner_ids, timeout_ms=timeout_ms)
    refused = {uploaded.partitions[place]: refusal for place, refusal in reversed(refusals.items())}
    raise WriteRefused(refusal.code, f"{text}; object {uploaded.object_key} {fate}", written, refused)


def _refusals(uploaded: UploadedRecords, outcome: CommitOutcome) -> tuple[dict[int, Refusal], dict[int, Refusal]]:
    """Why batches were refused, by their places, and those that are final. Raises WriteUndecided when more may be accepted yet."""
    refusals = {place: one.refusal for place, one in enumerate(outcome.batches) if one.error}
    # A partition that takes nothing yet, or has moved, takes other files later, and this one never: nothing of its share was logged.
    final = {place: refusal for place, refusal in refusals.items() if refusal.code not in HEALING}
    # Without a final refusal a repetition may commit everything. With one it cannot, and no other took effect if its outcome is known.
    if not outcome.is_known or not final:
        place, refusal = next((place, one) for place, one in refusals.items() if place not in final)
        text = f"{_name(uploaded, place)}: {refusal.message}; commit the upload {uploaded.object_key} again to learn its outcome"
        raise WriteUndecided(refusal.code, text, uploaded)
    return refusals, final


async def _when_served(client: Writer, uploaded: UploadedRecords, places: Collection[int], timeout_ms: int | None) -> None:
    """Return when the partitions of some batches are served, and known to be elsewhere, if they are.

    Raises ServiceError for one that takes nothing yet.
    """
    before = {
        PartitionId(uploaded.batches[place].topic_id, uploaded.batches[place].partition_index): uploaded.coordinator_ids[place]
        for place in places
    }
    # Between two coordinators a partition has no offsets, which heals; one that is being migrated is refused at once.
    for listed in await client.list_offsets([(partition, LATEST) for partition in before], timeout_ms=timeout_ms):
        listed.raise_for_error()
    until_s = asyncio.get_running_loop().time() + _NODE_IS_BEHIND_S
    while asyncio.get_running_loop().time() < until_s:
        now = await client.coordinators_of(list(before), is_fresh=True, timeout_ms=timeout_ms)
        if all(one != coordinator for one, coordinator in zip(now, before.values(), strict=True)):
            return
        await asyncio.sleep(_RETRY_PAUSE_S)


async def _upload_refused(
    client: Writer,
    store: ObjectStore,
    uploaded: UploadedRecords,
    refusals: Mapping[int, Refusal],
    written: WrittenRecords,
    *,
    prefix: str,
    timeout_ms: int | None,
) -> UploadedRecords:
    """Upload the batches of a file that were refused as another file, when it is certain that no coordinator takes them from the first.

    Raises DisklessError when that is not certain, or an upload fails.
    """
    key, builder = uploaded.object_key, WalFileBuilder()
    data = memoryview(await store.get(key))
    for place in refusals:
        batch = uploaded.batches[place]
        builder.add_batch(uploaded.partitions[place], bytes(data[batch.byte_offset : batch.byte_offset + batch.size]))
    # What was refused because another batch has moved is still taken from an earlier attempt that is under way, by who has not heard of it.
    unsure = {uploaded.coordinator_ids[place] for place, refusal in refusals.items() if refusal.code in HEALING}
    if why_not := await _why_not_fenced(client, key, sorted(unsure), timeout_ms):
        raise DisklessError(why_not)
    second = await upload_file(client, store, builder, prefix=prefix, timeout_ms=timeout_ms)
    if len(refusals) == len(uploaded.batches):
        await remove_refused(client, store, key, sorted(set(uploaded.coordinator_ids)), timeout_ms=timeout_ms)
    return replace(second, written=written.offsets)


async def remove_refused(
    client: Fences, store: ObjectStore, object_key: str, owner_ids: Sequence[int], *, timeout_ms: int | None = None
) -> str:
    """Remove the object of a file of which nothing was accepted, once every owner has promised never to take it; return what became of it.

    What cannot be removed so is left to the orphan scan.
    """
    why_not = await _why_not_fenced(client, object_key, owner_ids, timeout_ms)
    if why_not:
        return f"is left to the orphan scan: {why_not}"
    deleted = await store.delete_many([object_key])
    return "was removed" if deleted.error is None else f"is left to the orphan scan: {deleted.error}"


async def _why_not_fenced(client: Fences, object_key: str, owner_ids: Sequence[int], timeout_ms: int | None) -> str:
    """Have every owner promise never to take a file; return why the object may not be removed nevertheless, empty if it may."""
    created_ms = [creation_ms(object_key, -1)]
    told = await asyncio.gather(*(client.fence_files(owner, [object_key], created_ms, timeout_ms=timeout_ms) for owner in owner_ids))
    for owner, [fenced] in zip(owner_ids, told, strict=True):
        if not fenced.standing.is_out:
            what = f"{fenced.error.name}: {fenced.message}" if fenced.error else f"it is {fenced.standing.name.lower()} there"
            return f"coordinator {owner} made no promise, {what}"
    return ""


def _written(uploaded: UploadedRecords, outcome: CommitOutcome) -> WrittenRecords:
    offsets = {partition: list(known) for partition, known in uploaded.written.items()}
    for partition, batch, result in zip(uploaded.partitions, uploaded.batches, outcome.batches, strict=True):
        if not result.error:
            offsets.setdefault(partition, []).extend(range(result.base_offset, result.base_offset + batch.last_offset + 1))
    return WrittenRecords(object_key=uploaded.object_key, offsets=offsets)


def _name(uploaded: UploadedRecords, place: int) -> str:
    partition = uploaded.partitions[place]
    return f"{partition.topic}-{partition.partition}"
