"""The client of the Diskless Coordinator service.

    async with DisklessClient("host1:9192,host2:9192") as client:
        topic = await client.create_topic("orders", 12)
        partition = PartitionId(topic.topic_id, 0)
        outcome = await client.commit_file(object_key, file_size_bytes, batches)   # numpy rows of BATCH, or CommitBatch objects
        outcome.raise_for_errors(); outcome.base_offsets
        [end] = await client.list_offsets([(partition, LATEST)])                   # coordinator.kafka.timestamps
        [found] = await client.find_batches([FetchFrom(partition, 0)])
        async for file in client.list_files(): ...

    async with DisklessClient("host1:9192", object_store=open_store("s3://bucket")) as client:    # coordinator.adapters.objectstore
        written = await client.write({("orders", 0): [Record(timestamp_ms=now_ms, value=b"...")]})
        async for record in client.read("orders", 0, offset=0, follow=True): ...

Operations on one thing return it or raise a `DisklessError`. Operations on lists return one result per element in
order, each with `error`, `message` and `raise_for_error()`; they never raise for an element. Everything that may heal
is retried until `timeout_ms` (default `api_timeout_ms`): 7, 14, 15, 16 and 78 always; 3, 6 and 100 with
`wait_for_creation=True`. A write whose outcome is not known in the end has REQUEST_TIMED_OUT: repeat it unchanged.
`client.node(host, port)` speaks with one node without any of this. One client belongs to one event loop.
"""

from __future__ import annotations

import heapq
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast
from weakref import WeakSet

from coordinator.client.calls.directory import (
    FinishRestoreCall,
    LevelDescription,
    RestoreDescription,
    UpdateSchemaLevelCall,
    alter_topic,
    create_topic,
    delete_topic,
)
from coordinator.client.calls.files import (
    DescribeFilesCall,
    FenceFilesCall,
    FileLiveness,
    FileStandingAt,
    FilesWanted,
    FoundFiles,
    ListedFile,
    ListFilesCall,
)
from coordinator.client.calls.gateways import GatewayBroker, GatewayDescription, gateways_described
from coordinator.client.calls.migrations import (
    DescribeLogsCall,
    DisklessLogState,
    InitLogsCall,
    LogToInit,
    RepairLogsCall,
    RepairReport,
    ReportPrefixCall,
    ResetLogsCall,
)
from coordinator.client.calls.orphans import OrphanScanState, ScanOrphansCall
from coordinator.client.calls.partitions import (
    DeletedRecords,
    DeleteRecordsCall,
    FindBatchesCall,
    ListedOffset,
    ListOffsetsCall,
    PartitionBatches,
)
from coordinator.client.calls.retention import EnforcedRetention, EnforceRetentionCall
from coordinator.client.calls.snapshots import TakenSnapshot, TakeSnapshotCall
from coordinator.client.errors import InvalidRequest, NotFound, Refusal, Unavailable, error_of, refusal_of
from coordinator.client.model import (
    ClusterDescription,
    CommitOutcome,
    FetchFrom,
    PartitionDescription,
    PartitionId,
    RecordedDirectory,
    Result,
    SeededProducer,
    ServiceNode,
    TopicDescription,
    TopicListing,
)
from coordinator.client.routing.discovery import ATTEMPT_TIMEOUT_MS, Discovery
from coordinator.client.routing.node import NodeClient
from coordinator.client.routing.pool import CONNECT_TIMEOUT_S, ConnectionPool
from coordinator.client.routing.retry import Deadline, RetryPolicy, server_timeout_ms
from coordinator.client.routing.routed_call import HEALING, NOT_CREATED, Routing
from coordinator.core.limits import FILES_PER_REQUEST_MAX
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, topic_id_text
from coordinator.operations.orphans import ScanAction
from coordinator.operations.restores import NO_RESTORE
from coordinator.protocol.messages import (
    CommitBatch,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeGatewaysRequest,
    DescribeGatewaysResponse,
    DescribeTopicsTopic,
    DescribeTopicsTopicResult,
)
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity

WRITE_AHEAD_MULTI_SEGMENT: Final = 1
"""The object format of WAL files."""

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from coordinator.client.records.writing import UploadedRecords, WrittenRecords
    from coordinator.core.file_state import FileState
    from coordinator.object_store import ObjectStore
    from records.compression import Compression
    from records.record_batch import Record, StoredRecord

    Batches = npt.NDArray[np.void] | Sequence[CommitBatch]


class DisklessClient:
    """See the module's text."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str | None = None,
        request_timeout_ms: int = 10_000,
        api_timeout_ms: int = 60_000,
        object_store: ObjectStore | None = None,
        wal_prefix: str = "wal/",
        connect_timeout_ms: int = int(CONNECT_TIMEOUT_S * 1000),
        retry: RetryPolicy | None = None,
        security: ClientSecurity = PLAIN_TEXT,
        rng: random.Random | None = None,
    ) -> None:
        """Connects when first used.

        `request_timeout_ms` bounds one attempt, `api_timeout_ms` an operation that gives no timeout of its own. `object_store`
        is where records are written and read; keys of its objects begin with `wal_prefix`.
        """
        policy, rng = retry or RetryPolicy(), rng or random.Random()
        self._api_timeout_ms = api_timeout_ms
        self._object_store = object_store
        self._right_store: ObjectStore | None = None
        """The last store that was found to be that of the service."""
        self._wal_prefix = wal_prefix
        self._retry = policy
        self._rng = rng
        self._is_closed = False
        self._deadlines: WeakSet[Deadline] = WeakSet()
        self._pool = ConnectionPool(client_id=client_id, security=security, connect_timeout_s=connect_timeout_ms / 1000)
        self._discovery = Discovery(self._pool, parse_servers(bootstrap_servers), policy, rng)
        self._routing = Routing(pool=self._pool, discovery=self._discovery, policy=policy, rng=rng, request_timeout_ms=request_timeout_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests under way end with an error, and later ones raise RuntimeError."""
        self._is_closed = True
        for deadline in list(self._deadlines):
            deadline.pass_now()
        await self._discovery.close()
        await self._pool.close()

    def _deadline(self, timeout_ms: int | None) -> Deadline:
        """The deadline of an operation that begins. Raises RuntimeError when the client is closed."""
        if self._is_closed:
            raise RuntimeError("this DisklessClient is closed; make another one")
        deadline = Deadline.after_ms(self._api_timeout_ms if timeout_ms is None else timeout_ms)
        self._deadlines.add(deadline)
        return deadline

    # ---- the service

    def node(self, host: str, port: int) -> NodeClient:
        """One node, spoken to directly and without retries."""
        return NodeClient(self._pool, host, port)

    async def nodes(self, *, timeout_ms: int | None = None) -> tuple[ServiceNode, ...]:
        """The nodes of the service. Raises Unavailable."""
        return await self._discovery.nodes(self._deadline(timeout_ms))

    async def find_coordinators(self, keys: Sequence[str], *, timeout_ms: int | None = None) -> list[ServiceNode | Refusal]:
        """The leaders for keys, each a coordinator id or `<topicId>:<partition>`, asked anew in one request. Raises Unavailable."""
        return await self._discovery.find_coordinators(keys, self._deadline(timeout_ms))

    async def describe_coordinators(self, coordinator_ids: Sequence[int] = (), *, timeout_ms: int | None = None) -> ClusterDescription:
        """Coordinators (none named means all) and nodes, as one node sees them. Raises Unavailable."""
        deadline = self._deadline(timeout_ms)
        request = DescribeCoordinatorsRequest(coordinator_ids=tuple(coordinator_ids))
        response = cast(DescribeCoordinatorsResponse, await self._discovery.ask(request, deadline))
        refusal_of(response.error_code, response.error_message).raise_for_error()
        return ClusterDescription(
            cluster_id=response.cluster_id,
            metadata_topic_id=response.metadata_topic_id,
            is_store_marked=response.is_store_marked,
            node_id=response.node_id,
            coordinators=response.coordinators,
            nodes=tuple(
                ServiceNode(
                    one.node_id,
                    one.host,
                    one.port,
                    one.rack,
                    tuple(RecordedDirectory(each.directory_id, each.is_online, each.coordinator_ids) for each in one.directories),
                )
                for one in response.nodes
            ),
        )

    async def schema_level(self, *, timeout_ms: int | None = None) -> LevelDescription:
        """The schema level of the log in force, and the highest one of each registered node. Raises `DisklessError`."""
        return await self.raise_schema_level(0, timeout_ms=timeout_ms)

    async def raise_schema_level(self, level: int, *, gone_node_ids: Sequence[int] = (), timeout_ms: int | None = None) -> LevelDescription:
        """Raise the schema level, which never goes back.

        Raises InvalidRequest while a node that is not named as gone does not support it, and other `DisklessError`s.
        """
        [found] = await self._routing.perform(UpdateSchemaLevelCall(level, gone_node_ids), self._deadline(timeout_ms))
        found.raise_for_error()
        return found

    async def restore(self, *, timeout_ms: int | None = None) -> RestoreDescription:
        """The restore that the service's log begins with. Raises `DisklessError`."""
        return await self.finish_restore(NO_RESTORE, timeout_ms=timeout_ms)

    async def finish_restore(self, restore_id: bytes, *, timeout_ms: int | None = None) -> RestoreDescription:
        """Call a restore finished. Raises InvalidRequest when the log begins with another or with none, and other `DisklessError`s."""
        [found] = await self._routing.perform(FinishRestoreCall(restore_id), self._deadline(timeout_ms))
        found.raise_for_error()
        return found

    async def take_snapshots(self, coordinator_ids: Sequence[int] = (), *, timeout_ms: int | None = None) -> list[TakenSnapshot]:
        """Have the leaders take a snapshot of each coordinator (none named means all), one result for each in order.

        Raises Unavailable when none was named and no node can name the coordinators.
        """
        deadline = self._deadline(timeout_ms)
        ids = list(dict.fromkeys(coordinator_ids)) or await self._coordinator_ids(deadline)
        return await self._routing.perform(TakeSnapshotCall(ids), deadline)

    # ---- produce gateways

    async def describe_gateways(self, *, timeout_ms: int | None = None) -> GatewayDescription:
        """The produce gateways of all coordinators, as one node plans them. Raises Unavailable, and other `DisklessError`s."""
        return await self._gateways(self._deadline(timeout_ms))

    async def preferred_produce_brokers(
        self, topic: str | bytes, partition: int, rack: str | None = None, *, timeout_ms: int | None = None
    ) -> tuple[GatewayBroker, ...]:
        """The brokers that producers of a rack should send a partition's batches to; any broker takes them.

        They are those of all racks when no rack is given or no broker is there. The answer is asked for each time, so ask as
        often as for metadata. Raises NotFound, Unavailable.
        """
        deadline = self._deadline(timeout_ms)
        [described] = await self._described([topic], deadline)
        owner = {one.partition_index: one.coordinator_id for one in described.partitions}.get(partition)
        if owner is None:
            what = f"topic {described.name} has no partition {partition}; it has {len(described.partitions)}"
            raise NotFound(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what)
        plan = await self._gateways(deadline)
        found = [one for one in plan.coordinators if one.coordinator_id == owner]
        if not found:
            what = f"node {plan.node_id} does not know coordinator {owner} yet; retry"
            raise Unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE, what)
        return found[0].in_rack(rack)

    async def _gateways(self, deadline: Deadline) -> GatewayDescription:
        attempt = 0
        while True:
            request = DescribeGatewaysRequest(timeout_ms=server_timeout_ms(deadline.at_most_ms(ATTEMPT_TIMEOUT_MS)))
            response = cast(DescribeGatewaysResponse, await self._discovery.ask(request, deadline))
            refusal = refusal_of(response.error_code, response.error_message)
            if refusal.code is ErrorCode.NONE:
                return gateways_described(response)
            if refusal.code not in HEALING or not await deadline.pause(self._retry, attempt, self._rng):
                refusal.raise_for_error()
            attempt += 1

    async def enforce_retention(
        self,
        coordinator_ids: Sequence[int] = (),
        *,
        topic_ids: Sequence[bytes] = (),
        is_dry_run: bool = False,
        timeout_ms: int | None = None,
    ) -> list[EnforcedRetention]:
        """Have the leaders delete what is past retention in coordinators (none named means all), one result for each in order.

        `topic_ids` limits that to some topics. Raises Unavailable when no coordinator was named and no node can name them.
        """
        deadline = self._deadline(timeout_ms)
        ids = list(dict.fromkeys(coordinator_ids)) or await self._coordinator_ids(deadline)
        return await self._routing.perform(EnforceRetentionCall(ids, topic_ids, is_dry_run=is_dry_run), deadline)

    async def begin_orphan_scan(self, *, is_forced: bool = False, timeout_ms: int | None = None) -> OrphanScanState:
        """Have the leader of the directory scan for orphans now; `is_forced` also while a restore is unfinished.

        Raises InvalidRequest, and other `DisklessError`s.
        """
        return await self._scan_orphans(ScanOrphansCall(ScanAction.BEGIN, is_forced=is_forced), timeout_ms)

    async def orphan_scan(self, *, timeout_ms: int | None = None) -> OrphanScanState:
        """How far the scan for orphans is. Raises `DisklessError`."""
        return await self._scan_orphans(ScanOrphansCall(ScanAction.TELL), timeout_ms)

    async def find_orphans(self, *, timeout_ms: int | None = None) -> AsyncIterator[OrphanScanState]:
        """Yield the orphans that a scan would delete, page by page; deletes nothing. Each page has the timeout. Raises `DisklessError`."""
        after_key: str | None = None
        while True:
            page = await self._scan_orphans(ScanOrphansCall(ScanAction.LOOK, after_key=after_key), timeout_ms)
            yield page
            if page.is_end or page.after_key == after_key:
                return
            after_key = page.after_key

    async def _scan_orphans(self, call: ScanOrphansCall, timeout_ms: int | None) -> OrphanScanState:
        [state] = await self._routing.perform(call, self._deadline(timeout_ms))
        state.raise_for_error()
        return state

    # ---- topics

    async def create_topic(
        self,
        name: str,
        num_partitions: int,
        *,
        topic_id: bytes | None = None,
        settings: Mapping[str, str] | None = None,
        classic_pending: bool = False,
        timeout_ms: int | None = None,
    ) -> TopicListing:
        """Create a topic, or grow it to `num_partitions` if the id is an existing one's. Returns when every owner has its partitions.

        A new topic has these `settings` of its own from its first moment; one that exists must have them already. With `classic_pending`
        the new partitions are classic ones that are to be migrated: they take nothing before `init_diskless_log`.
        Raises InvalidRequest, AlreadyExists, and other `DisklessError`s.
        """
        # Chosen once, so that a repeated request is the same request.
        topic_id = topic_id or os.urandom(16)
        if len(topic_id) != 16:
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, f"topic id of {len(topic_id)} bytes; it must have 16")
        deadline = self._deadline(timeout_ms)
        call = create_topic(name, num_partitions, topic_id, settings or {}, classic_pending=classic_pending)
        [refusal] = await self._routing.perform(call, deadline)
        refusal.raise_for_error()
        self._discovery.forget_topic(topic_id)
        return TopicListing(topic_id=topic_id, name=name, num_partitions=num_partitions, note=refusal.message)

    async def alter_topic(self, name: str, changes: Mapping[str, str | None], *, timeout_ms: int | None = None) -> None:
        """Change settings of a topic, all of them or none; None deletes one, so that the service's counts.

        Raises NotFound, InvalidRequest, and other `DisklessError`s.
        """
        [refusal] = await self._routing.perform(alter_topic(name, changes), self._deadline(timeout_ms))
        refusal.raise_for_error()

    async def delete_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> None:
        """Delete a topic, named by its name or its 16-byte id. Returns when every owner has logged it.

        Raises NotFound, and other `DisklessError`s.
        """
        deadline = self._deadline(timeout_ms)
        topic_id = topic if isinstance(topic, bytes) else (await self._described([topic], deadline))[0].topic_id
        [refusal] = await self._routing.perform(delete_topic(topic_id), deadline)
        self._discovery.forget_topic(topic_id)
        refusal.raise_for_error()

    async def list_topics(self, *, timeout_ms: int | None = None) -> list[TopicListing]:
        """All topics, by name. Raises Unavailable."""
        topics = await self._discovery.describe_topics([], self._deadline(timeout_ms))
        return [TopicListing(topic_id=one.topic_id, name=one.name or "", num_partitions=len(one.partitions)) for one in topics]

    async def describe_topics(self, topics: Sequence[str | bytes] = (), *, timeout_ms: int | None = None) -> list[TopicDescription]:
        """Topics by name or 16-byte id, in order; none named means all, by name. Raises NotFound, Unavailable."""
        return [_topic(one) for one in await self._described(topics, self._deadline(timeout_ms))]

    async def describe_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> TopicDescription:
        """One topic by name or 16-byte id. Raises NotFound, Unavailable."""
        return (await self.describe_topics([topic], timeout_ms=timeout_ms))[0]

    async def _described(self, topics: Sequence[str | bytes], deadline: Deadline) -> list[DescribeTopicsTopicResult]:
        asked = [
            DescribeTopicsTopic(topic_id=one, name=None)
            if isinstance(one, bytes)
            else DescribeTopicsTopic(topic_id=ZERO_TOPIC_ID, name=one)
            for one in topics
        ]
        attempt = 0
        while True:
            results = await self._discovery.describe_topics(asked, deadline)
            refusals = [refusal_of(one.error_code, one.error_message) for one in results]
            for topic, refusal in zip(topics, refusals, strict=False):
                if refusal.code in NOT_CREATED:
                    name = topic_id_text(topic) if isinstance(topic, bytes) else topic
                    raise NotFound(refusal.code, f"topic {name} does not exist; list the topics to see which do")
            failed = [refusal for refusal in refusals if refusal.code is not ErrorCode.NONE]
            if not failed:
                return results
            if not await deadline.pause(self._retry, attempt, self._rng):
                raise error_of(*failed[0])
            attempt += 1

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

        Raises NotFound, WrongStore, and InvalidRequest for a timestamp further ahead than `message.timestamp.after.max.ms` of its topic,
        before anything is uploaded; WalFileError, StoreError, WriteUndecided, WriteRefused, and other `DisklessError`s.
        """
        from coordinator.client.records.writing import commit_uploaded, upload_records

        store = self._store()
        uploaded = await upload_records(
            self,
            store,
            records,
            prefix=self._wal_prefix,
            compression=compression,
            max_batch_bytes=max_batch_bytes,
            timeout_ms=timeout_ms,
        )
        return await commit_uploaded(self, store, uploaded, is_first=True, timeout_ms=timeout_ms)

    async def check_store(self, store: ObjectStore | None = None, *, timeout_ms: int | None = None) -> None:
        """Return when a store (None: the client's own) is that of the service; `write` asks once, who uploads by other means should, too.

        Raises `WrongStore` (`coordinator.store_mark`) when it is not, Unavailable while no node can tell, and StoreError.
        """
        from coordinator.client.records.store_check import check_store

        checked = self._store() if store is None else store
        if checked is not self._right_store:
            await check_store(self, checked, self._api_timeout_ms if timeout_ms is None else timeout_ms)
            self._right_store = checked

    async def commit_uploaded(self, uploaded: UploadedRecords, *, timeout_ms: int | None = None) -> WrittenRecords:
        """Commit what a `write` uploaded that ended in WriteUndecided. Raises WriteUndecided, WriteRefused."""
        from coordinator.client.records.writing import commit_uploaded

        return await commit_uploaded(self, self._store(), uploaded, is_first=False, timeout_ms=timeout_ms)

    def read(
        self,
        topic: str | bytes,
        partition: int,
        *,
        offset: int | None = None,
        follow: bool = False,
        fetch_bytes_max: int = 4 * 1024 * 1024,
        poll_interval_ms: int = 100,
        timeout_ms: int | None = None,
    ) -> AsyncGenerator[StoredRecord]:
        """Read records from an offset on (None: the log start), to the end that the partition has now, or following it for ever.

        At the end a follower asks again every `poll_interval_ms`. Raises NotFound, OffsetOutOfRange, Unavailable, and StoreError, of
        which `WrongObject` names partition, offsets, object and range of a batch that is damaged.
        """
        from coordinator.client.records.reading import read_records

        return read_records(
            self,
            self._store(),
            topic,
            partition,
            offset=offset,
            follow=follow,
            fetch_bytes_max=fetch_bytes_max,
            poll_interval_ms=poll_interval_ms,
            timeout_ms=self._api_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def _store(self) -> ObjectStore:
        if self._object_store is None:
            raise ValueError("this DisklessClient has no object store; make it with object_store=open_store(URL)")
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

        from coordinator.client.calls.commits import CommitFileCall, not_placed, outcome_of, owners_of, refused_rows
        from coordinator.protocol.commit_file import BATCH, CommitFileBody, batch_rows

        deadline = self._deadline(timeout_ms)
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
            return outcome_of(file, refused_rows(0, Refusal(ErrorCode.NONE, "")))
        if coordinator_ids is None:
            keys = cast(list[bytes], rows["topic_partition"].tolist())
            owners = self._discovery.owners_known(set(keys))
            if owners is None:
                refusals, owners = await self._place(set(keys), deadline, wait_for_creation)
                if refusals:
                    return not_placed(file, keys, refusals)
            coordinator_ids = [owners[key] for key in keys]
        file = file._replace(owner_ids=list(owner_ids) if owner_ids is not None else owners_of(object_key, coordinator_ids))
        coordinators = np.array(coordinator_ids, np.int64)
        commit = CommitFileCall(file, coordinators, wait_for_creation=wait_for_creation)
        return commit.outcome(await self._routing.perform(commit, deadline))

    async def _place(self, keys: set[bytes], deadline: Deadline, wait_for_creation: bool) -> tuple[dict[bytes, Refusal], dict[bytes, int]]:
        """The coordinators of partitions; refusals if not all were found before the deadline, or some do not exist."""
        attempt = 0
        retried = HEALING | NOT_CREATED if wait_for_creation else HEALING
        while True:
            try:
                found = await self._discovery.owners(keys, deadline)
            except Unavailable as unavailable:
                found = {key: Refusal(unavailable.code, unavailable.message) for key in keys}
            refusals = {key: one for key, one in found.items() if isinstance(one, Refusal)}
            owners = {key: one for key, one in found.items() if isinstance(one, int)}
            if not refusals or not all(one.code in retried for one in refusals.values()):
                return refusals, owners
            if not await deadline.pause(self._retry, attempt, self._rng):
                return refusals, owners
            attempt += 1

    # ---- migration of classic partitions

    async def init_diskless_log(
        self,
        topic_id: bytes,
        partition: int,
        *,
        start_offset: int,
        prefix_start: int,
        leader_epoch: int,
        producers: Sequence[SeededProducer],
        timeout_ms: int | None = None,
    ) -> None:
        """Begin the diskless log of a classic partition at `start_offset` (B0), with what the classic log remembers of `producers`.

        Repeating it is harmless. Raises Fenced when a later leader spoke of the partition, InvalidRequest when the log begins at
        another offset already or the numbers contradict each other, NotFound, and other `DisklessError`s.
        """
        one = LogToInit(PartitionId(topic_id, partition), start_offset, prefix_start, leader_epoch, tuple(producers))
        [result] = await self.init_diskless_logs([one], timeout_ms=timeout_ms)
        result.raise_for_error()

    async def init_diskless_logs(self, logs: Sequence[LogToInit], *, timeout_ms: int | None = None) -> list[Result]:
        """Begin the diskless logs of classic partitions, one result for each in order; see `init_diskless_log`."""
        return await self._routing.perform(InitLogsCall(logs), self._deadline(timeout_ms))

    async def describe_diskless_log(self, topic_id: bytes, partition: int, *, timeout_ms: int | None = None) -> DisklessLogState:
        """Where the migration of a partition stands, as its leader knows it. Raises NotFound, and other `DisklessError`s."""
        [state] = await self.describe_diskless_logs([PartitionId(topic_id, partition)], timeout_ms=timeout_ms)
        state.raise_for_error()
        return state

    async def describe_diskless_logs(self, partitions: Sequence[PartitionId], *, timeout_ms: int | None = None) -> list[DisklessLogState]:
        """Where the migrations of partitions stand, one result for each in order."""
        return await self._routing.perform(DescribeLogsCall(partitions), self._deadline(timeout_ms))

    async def reset_diskless_log(self, topic_id: bytes, partition: int, *, leader_epoch: int, timeout_ms: int | None = None) -> None:
        """Make a partition pending again whose diskless log is still empty; `leader_epoch` is higher than the one recorded.

        Repeating it is harmless. Raises Fenced, InvalidRequest when records were committed, NotFound, and other `DisklessError`s.
        """
        call = ResetLogsCall([(PartitionId(topic_id, partition), leader_epoch)])
        [result] = await self._routing.perform(call, self._deadline(timeout_ms))
        result.raise_for_error()

    async def repair_diskless_log(
        self, topic_id: bytes, partition: int, *, start_offset: int, leader_epoch: int, dry_run: bool, timeout_ms: int | None = None
    ) -> RepairReport:
        """Lower the start offset (B0) of a partition whose classic log lost its end; a dry run changes nothing.

        Repeating it is harmless. Raises Fenced, InvalidRequest, NotFound, and other `DisklessError`s.
        """
        call = RepairLogsCall([(PartitionId(topic_id, partition), start_offset, leader_epoch)], is_dry_run=dry_run)
        [report] = await self._routing.perform(call, self._deadline(timeout_ms))
        report.raise_for_error()
        return report

    async def report_prefix_start(
        self, topic_id: bytes, partition: int, *, prefix_start: int, leader_epoch: int, timeout_ms: int | None = None
    ) -> None:
        """Tell that the classic log of a partition begins at `prefix_start`; one that is lower than what is known changes nothing.

        Raises Fenced, InvalidRequest, NotFound, and other `DisklessError`s.
        """
        call = ReportPrefixCall([(PartitionId(topic_id, partition), prefix_start, leader_epoch)])
        [result] = await self._routing.perform(call, self._deadline(timeout_ms))
        result.raise_for_error()

    async def describe_files(self, object_keys: Sequence[str], *, timeout_ms: int | None = None) -> list[FileLiveness]:
        """Whether files have live batches in some coordinator; RESOURCE_NOT_FOUND is no licence to delete an object.

        Raises Unavailable when no node can name the coordinators.
        """
        deadline = self._deadline(timeout_ms)
        operation = DescribeFilesCall(await self._coordinator_ids(deadline), object_keys)
        return operation.merged(await self._routing.perform(operation, deadline))

    async def fence_files(
        self,
        coordinator_id: int,
        object_keys: Sequence[str],
        created_ms: Sequence[int],
        *,
        only_tell: bool = False,
        timeout_ms: int | None = None,
    ) -> list[FileStandingAt]:
        """Have a coordinator say of each file whether it is known there, and promise never to take those that are not.

        `created_ms` are the times of creation, -1 where that is not known. At most 1000 files. An object may be deleted when every
        owner's answer is `is_out`, and on no other grounds.
        """
        call = FenceFilesCall(coordinator_id, object_keys, created_ms, only_tell=only_tell)
        [fenced] = await self._routing.perform(call, self._deadline(timeout_ms))
        return fenced

    async def list_files(
        self,
        coordinator_ids: Sequence[int] = (),
        *,
        states: Sequence[FileState] = (),
        after_key: str | None = None,
        page_size: int = 1_000,
        timeout_ms: int | None = None,
    ) -> AsyncIterator[ListedFile]:
        """Files by key, once for each coordinator that knows them; none named means all coordinators. Each page has the timeout.

        No states mean those of files that are neither removed, handed over nor fenced. Raises the `DisklessError` of the first page that
        is refused.
        """
        ids = coordinator_ids or await self._coordinator_ids(self._deadline(timeout_ms))
        wanted = FilesWanted(after_key=after_key, files_max=page_size, states=tuple(map(int, states)))
        streams = [self._files_of(coordinator_id, wanted, timeout_ms) for coordinator_id in sorted(set(ids))]
        heads: list[tuple[str, int, ListedFile]] = []
        for place, stream in enumerate(streams):
            first = await anext(stream, None)
            if first is not None:
                heads.append((first.object_key, place, first))
        heapq.heapify(heads)
        while heads:
            _, place, file = heads[0]
            yield file
            following = await anext(streams[place], None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following.object_key, place, following))

    async def _files_of(self, coordinator_id: int, wanted: FilesWanted, timeout_ms: int | None) -> AsyncIterator[ListedFile]:
        more = True
        while more:
            [page] = await self._routing.perform(ListFilesCall([coordinator_id], wanted), self._deadline(timeout_ms))
            page.raise_for_error()
            for file in page.files:
                yield file
            more = page.more and page.last_key is not None
            wanted = replace(wanted, after_key=page.last_key)

    async def first_files(self, count: int, *, states: Sequence[FileState] = (), timeout_ms: int | None = None) -> FoundFiles:
        """Return the files in some states among the first `count` files of each coordinator by key.

        Raises Unavailable when no node can name the coordinators.
        """
        deadline = self._deadline(timeout_ms)
        ids = await self._coordinator_ids(deadline)
        return await self._found(ids, FilesWanted(files_max=count, states=tuple(map(int, states))), deadline)

    async def find_files(self, object_keys: Sequence[str], *, timeout_ms: int | None = None) -> FoundFiles:
        """Ask every coordinator for some files, in any state. Raises Unavailable when no node can name the coordinators."""
        deadline = self._deadline(timeout_ms)
        ids = await self._coordinator_ids(deadline)
        files: list[ListedFile] = []
        refusals: dict[int, Refusal] = {}
        keys = sorted(set(object_keys))
        for first in range(0, len(keys), FILES_PER_REQUEST_MAX):
            wanted = FilesWanted(object_keys=tuple(keys[first : first + FILES_PER_REQUEST_MAX]))
            found = await self._found(ids, wanted, deadline)
            files += found.files
            refusals |= found.refusals
        return FoundFiles(files=files, refusals=refusals)

    async def _found(self, coordinator_ids: Sequence[int], wanted: FilesWanted, deadline: Deadline) -> FoundFiles:
        pages = await self._routing.perform(ListFilesCall(coordinator_ids, wanted), deadline)
        files = sorted((file for page in pages for file in page.files), key=lambda one: (one.object_key, one.coordinator_id))
        return FoundFiles(files=files, refusals={one: page.refusal for one, page in zip(coordinator_ids, pages, strict=True) if page.error})

    async def _coordinator_ids(self, deadline: Deadline) -> list[int]:
        attempt = 0
        while True:
            response = await self._discovery.ask(DescribeCoordinatorsRequest(coordinator_ids=()), deadline)
            found = sorted(one.coordinator_id for one in cast(DescribeCoordinatorsResponse, response).coordinators)
            # A node that is starting knows of none, and "no coordinator" would make "no file" of every question.
            if found:
                return found
            if not await deadline.pause(self._retry, attempt, self._rng):
                raise Unavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the nodes know of no coordinator yet; retry")
            attempt += 1

    # ---- partitions

    async def list_offsets(
        self, queries: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool = False, timeout_ms: int | None = None
    ) -> list[ListedOffset]:
        """Offsets by timestamp in ms, or by LATEST, EARLIEST and so on; sees every write acknowledged before."""
        return await self._routing.perform(ListOffsetsCall(queries, wait_for_creation=wait_for_creation), self._deadline(timeout_ms))

    async def delete_records(
        self, points: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool = False, timeout_ms: int | None = None
    ) -> list[DeletedRecords]:
        """Move log starts forward to the given offsets; -1 means the high watermark."""
        return await self._routing.perform(DeleteRecordsCall(points, wait_for_creation=wait_for_creation), self._deadline(timeout_ms))

    async def find_batches(
        self,
        fetches: Sequence[FetchFrom],
        *,
        fetch_bytes_max: int = 50 * 1024 * 1024,
        batches_per_partition_max: int = 0,
        wait_for_creation: bool = False,
        timeout_ms: int | None = None,
    ) -> list[PartitionBatches]:
        """The batches from offsets on and the objects that hold them; `fetch_bytes_max` for each node, 0 batches means no limit."""
        operation = FindBatchesCall(
            fetches,
            fetch_bytes_max=fetch_bytes_max,
            batches_per_partition_max=batches_per_partition_max,
            wait_for_creation=wait_for_creation,
        )
        return await self._routing.perform(operation, self._deadline(timeout_ms))


def parse_servers(servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """`host:port` texts, in a list or with commas between them; IPv6 addresses in brackets. Raises ValueError."""
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = []
    for text in filter(None, (text.strip() for text in texts)):
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise ValueError(f"bootstrap server {text!r} is not host:port with a port from 1 to 65535")
        addresses.append((host, int(port)))
    if not addresses:
        raise ValueError("no bootstrap server is given; name at least one as host:port")
    return list(dict.fromkeys(addresses))


def _topic(one: DescribeTopicsTopicResult) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            partition=p.partition_index,
            coordinator_id=p.coordinator_id,
            leader_id=p.leader_id,
            log_start_offset=p.log_start_offset,
            high_watermark=p.high_watermark,
        )
        for p in one.partitions
    )
    settings = {config.name: config.value for config in one.configs}
    return TopicDescription(topic_id=one.topic_id, name=one.name or "", partitions=partitions, settings=settings)
