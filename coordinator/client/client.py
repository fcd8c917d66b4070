"""The client of the Diskless Coordinator service: records and files are written, found and read.

    async with DisklessClient("host1:9192,host2:9192", object_store=open_store("s3://bucket")) as client:
        await client.admin.create_topic("orders", 12)
        written = await client.write({("orders", 0): [Record(value=b"...")]})
        async for record in client.read("orders", follow=True): ...

    outcome = await client.commit_file(object_key, file_size_bytes, batches)   # numpy rows of BATCH, or CommitBatch objects
    outcome.raise_for_errors(); outcome.base_offsets
    [end] = await client.list_offsets([(PartitionId(topic_id, 0), LATEST)])    # coordinator.kafka.timestamps
    [found] = await client.find_batches([FetchFrom(PartitionId(topic_id, 0), 0)])

Operations on one thing return it or raise a `DisklessError`. Operations on lists return one result per element in
order, each with `error`, `message` and `raise_for_error()`; they never raise for an element. Everything that may heal
is retried until `timeout_ms` (default `api_timeout_ms`): 7, 14, 15, 16 and 78 always; 3, 6 and 100 with
`wait_for_creation=True`. A write whose outcome is not known in the end has REQUEST_TIMED_OUT: repeat it unchanged.
All raise `ClientClosed` when the client is closed. One client belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Unpack, cast

from coordinator.client.calls.files import fence_files
from coordinator.client.calls.partitions import FindBatchesCall, list_offsets
from coordinator.client.errors import InvalidArgument, InvalidRequest, Refusal
from coordinator.client.model import CommitOutcome, FetchFrom, FileStandingAt, ListedOffset, PartitionBatches, PartitionId
from coordinator.client.service import Service, ServiceOptions, ServiceUser
from coordinator.kafka.errors import ErrorCode

WRITE_AHEAD_MULTI_SEGMENT: Final = 1
"""The object format of WAL files."""

if TYPE_CHECKING:
    from coordinator.client.admin import DisklessAdmin
    from coordinator.client.model import Batches
    from coordinator.client.records.writing import UploadedRecords, WrittenRecords
    from coordinator.object_store import ObjectStore
    from records.compression import Compression
    from records.record_batch import Record, StoredRecord


class DisklessClient(ServiceUser):
    """See the module's text."""

    def __init__(
        self,
        servers: str | Sequence[str] | Service,
        *,
        object_store: ObjectStore | None = None,
        wal_prefix: str = "wal/",
        **options: Unpack[ServiceOptions],
    ) -> None:
        """Connects when first used. `servers` and options are those of `ServiceUser`. Raises InvalidArgument.

        `object_store` is where records are written and read; keys of its objects begin with `wal_prefix`.
        """
        super().__init__(servers, **options)
        self._object_store = object_store
        self._right_store: ObjectStore | None = None
        """The last store that was found to be that of the service."""
        self._wal_prefix = wal_prefix

    @cached_property
    def admin(self) -> DisklessAdmin:
        """Everything else about the service, over the connections of this client, which closes both."""
        from coordinator.client.admin import DisklessAdmin

        return DisklessAdmin(self._service)

    # ---- records

    async def write(
        self,
        records: Mapping[tuple[str, int], Iterable[Record]],
        *,
        compression: Compression | None = None,
        max_batch_bytes: int = 1024 * 1024,
        timeout_ms: int | None = None,
    ) -> WrittenRecords:
        """Write records by (topic name, partition) as one WAL file; each partition's records are accepted or refused together by batch.

        Records without a timestamp get the time at which they are written. What is refused because a partition has moved to another
        coordinator is written once more, as another file. Raises TypeError for what is no `Record`, NotFound, WrongStore,
        and InvalidRequest for a batch that `max.message.bytes` or `message.timestamp.*` of its topic forbid, before anything is uploaded;
        WalFileError, StoreError, WriteUndecided, WriteRefused, and other `ServiceError`s.
        """
        from coordinator.client.records.writing import commit_uploaded, pack, upload_file

        store = self._store()
        packed = pack(records, compression=compression, max_batch_bytes=max_batch_bytes)
        uploaded = await upload_file(self, store, packed, prefix=self._wal_prefix, timeout_ms=timeout_ms)
        return await commit_uploaded(self, store, uploaded, second_prefix=self._wal_prefix, timeout_ms=timeout_ms)

    async def check_store(self, store: ObjectStore | None = None, *, timeout_ms: int | None = None) -> None:
        """Return when a store (None: the client's own) is that of the service; `write` asks once, who uploads by other means should, too.

        Raises `WrongStore` (`coordinator.store_mark`) when it is not, Unavailable while no node can tell, and StoreError.
        """
        from coordinator.client.records.store_check import check_store

        checked = self._store() if store is None else store
        if checked is not self._right_store:
            await check_store(self.admin, checked, self._service.api_timeout_ms if timeout_ms is None else timeout_ms)
            self._right_store = checked

    async def commit_uploaded(self, uploaded: UploadedRecords, *, timeout_ms: int | None = None) -> WrittenRecords:
        """Commit what a `write` uploaded that ended in WriteUndecided. Raises WriteUndecided, WriteRefused."""
        from coordinator.client.records.writing import commit_uploaded

        return await commit_uploaded(self, self._store(), uploaded, second_prefix=None, timeout_ms=timeout_ms)

    def read(
        self,
        topic: str | bytes,
        partitions: int | Sequence[int] | None = None,
        *,
        offset: int | Mapping[int, int] | None = None,
        follow: bool = False,
        fetch_bytes_max: int = 4 * 1024 * 1024,
        timeout_ms: int | None = None,
    ) -> AsyncGenerator[StoredRecord]:
        """Read records of a partition, of several, or of all (None), to the ends that they have now, or following them for ever.

        `offset` is where to begin, by partition when several are read; without it at the log start. Records of one partition come in order
        and say their `partition`. At the end a follower waits at a node until more comes. Raises TypeError, NotFound, NotAuthorized without
        the right READ on the topic, OffsetOutOfRange, InvalidRequest for a migrated partition that is read from its beginning
        (`migration.hybrid.HybridReader` reads it), Unavailable, and StoreError, of which `WrongObject` names partition, offsets, object and
        range of a batch that is damaged.
        """
        from coordinator.client.records.reading import read_from, read_records

        return read_records(
            self,
            self._store(),
            read_from(topic, partitions, offset),
            follow=follow,
            fetch_bytes_max=fetch_bytes_max,
            timeout_ms=self._service.api_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def _store(self) -> ObjectStore:
        if self._object_store is None:
            raise InvalidArgument("this DisklessClient has no object store; make it with object_store=open_store(URL)")
        return self._object_store

    # ---- files

    async def commit_file(
        self,
        object_key: str,
        file_size_bytes: int,
        batches: Batches,
        *,
        created_ms: int = -1,
        owner_ids: Sequence[int] | None = None,
        coordinator_ids: Sequence[int] | None = None,
        object_format: int = WRITE_AHEAD_MULTI_SEGMENT,
        uploader_broker_id: int = -1,
        wait_for_creation: bool = False,
        timeout_ms: int | None = None,
    ) -> CommitOutcome:
        """Commit an uploaded file: each batch is accepted or rejected alone, exactly once for this key and content.

        Where the batches are placed is asked for unless `coordinator_ids` tell it of each, and `owner_ids` is computed from that unless
        given. `created_ms` is needed for keys without a ULID, whose time counts else, and the same for every commit of the file. Raises
        InvalidRequest for an array of another dtype, or when `coordinator_ids` does not have one for each batch; a batch that is rejected
        raises nothing: see `CommitOutcome`.
        """
        # Only commits need numpy, which takes a third of the time in which a command starts.
        import numpy as np

        from coordinator.client.calls.commits import not_placed, outcome_of, refused_rows
        from coordinator.client.committing import FileCommit
        from coordinator.protocol.commit_file import BATCH, CommitFileBody, batch_rows
        from records.file_owners import in_turn

        deadline = self._service.deadline(timeout_ms)
        rows = batches if isinstance(batches, np.ndarray) else batch_rows(batches)
        file = CommitFileBody(
            object_key=object_key,
            object_format=object_format,
            file_size=file_size_bytes,
            owner_ids=[],
            batches=rows,
            uploader_broker_id=uploader_broker_id,
            created_ms=created_ms,
        )
        if rows.dtype != BATCH:
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, "batches must be CommitBatch objects or an array of the dtype BATCH")
        if coordinator_ids is not None and len(coordinator_ids) != len(rows):
            text = f"{len(rows)} batches have {len(coordinator_ids)} coordinator_ids; give one for each batch"
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, text)
        if not len(rows):
            return outcome_of(file.object_key, file.owner_ids, refused_rows(0, Refusal(ErrorCode.NONE, "")))
        if coordinator_ids is None:
            keys = cast(list[bytes], rows["topic_partition"].tolist())
            owners, refusals = await self._service.owners(set(keys), deadline, wait_for_creation=wait_for_creation)
            if refusals:
                return not_placed(file, keys, refusals)
            coordinator_ids = [owners[key] for key in keys]
        file = file._replace(owner_ids=list(owner_ids) if owner_ids is not None else in_turn(object_key, coordinator_ids))
        answer = await FileCommit(self._service, file, deadline, wait_for_creation=wait_for_creation).perform(coordinator_ids)
        outcome = outcome_of(file.object_key, file.owner_ids, answer)
        if not outcome.is_ok:
            # They have moved: another file with their batches finds them where they are.
            self._service.forget_topics(
                {key[:16] for key in rows["topic_partition"][outcome.error_codes == ErrorCode.NOT_LEADER_OR_FOLLOWER].tolist()}
            )
        return outcome

    async def fence_files(
        self,
        coordinator_id: int,
        object_keys: Sequence[str],
        created_ms: Sequence[int],
        *,
        only_tell: bool = False,
        timeout_ms: int | None = None,
    ) -> Sequence[FileStandingAt]:
        """Have a coordinator say of each file whether it is known there, and promise never to take those that are not.

        `created_ms` are the times of creation, -1 where that is not known. At most 1000 files. An object may be deleted when every
        owner's answer is `is_out`, and on no other grounds.
        """
        call = fence_files(coordinator_id, object_keys, created_ms, only_tell=only_tell)
        return (await self._service.perform_one(call, timeout_ms)).files

    # ---- partitions

    async def coordinators_of(
        self, partitions: Sequence[PartitionId], *, is_fresh: bool = False, timeout_ms: int | None = None
    ) -> list[int]:
        """The coordinator of each partition, as far as this client knows, or as a node tells when that has to be fresh.

        Raises NotFound, NotAuthorized, Unavailable.
        """
        if is_fresh:
            self._service.forget_topics({one.topic_id for one in partitions})
        keys = [one.key for one in partitions]
        owners, refusals = await self._service.owners(set(keys), self._service.deadline(timeout_ms), wait_for_creation=False)
        for refusal in refusals.values():
            refusal.raise_for_error()
        return [owners[key] for key in keys]

    async def list_offsets(
        self, queries: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool = False, timeout_ms: int | None = None
    ) -> list[ListedOffset]:
        """Offsets by timestamp in ms, or by LATEST, EARLIEST and so on; sees every write acknowledged before."""
        return await self._service.perform(list_offsets(queries, wait_for_creation=wait_for_creation), self._service.deadline(timeout_ms))

    async def find_batches(
        self,
        fetches: Sequence[FetchFrom],
        *,
        fetch_bytes_max: int = 50 * 1024 * 1024,
        batches_per_partition_max: int = 0,
        wait_for_creation: bool = False,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> list[PartitionBatches]:
        """The batches from offsets on and the objects that hold them; `fetch_bytes_max` for each node, 0 batches means no limit.

        With `max_wait_ms` one node is asked, which waits until the partitions have `min_bytes` of batches, one of them gets an error, or
        the time is over; it may answer earlier, with less. That time counts beside `timeout_ms`.
        """
        call = FindBatchesCall(
            fetches,
            fetch_bytes_max=fetch_bytes_max,
            batches_per_partition_max=batches_per_partition_max,
            wait_for_creation=wait_for_creation,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
        )
        timeout_ms = self._service.api_timeout_ms if timeout_ms is None else timeout_ms
        return await self._service.perform(call, self._service.deadline(timeout_ms + max_wait_ms))
