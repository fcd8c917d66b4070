"""Everything about the service but records: topics, files, offsets that are moved, snapshots, migrations, nodes.

    async with DisklessAdmin("host1:9192,host2:9192") as admin:
        topic = await admin.create_topic("orders", 12)
        async for file in admin.list_files(): ...

Operations on one thing return it or raise a `ServiceError`. Operations on lists return one result per element in order, each with `error`,
`message` and `raise_for_error()`; they never raise for an element. All raise `ClientClosed` when the admin is closed.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from coordinator.client.calls import directory, files, migrations
from coordinator.client.calls.directory import LevelDescription, RestoreDescription, TopicConfigs
from coordinator.client.calls.files import FileLiveness, FilesWanted, FoundFiles, ListedFile
from coordinator.client.calls.gateways import GatewayBroker, GatewayDescription, gateways_described
from coordinator.client.calls.migrations import DisklessLogState, LogToInit, RepairReport
from coordinator.client.calls.moves import OrderedMoves, WantedMove, move_partitions
from coordinator.client.calls.orphans import OrphanScanState, scan_orphans
from coordinator.client.calls.partitions import DeletedRecords, delete_records
from coordinator.client.calls.retention import EnforcedRetention, enforce_retention
from coordinator.client.calls.snapshots import TakenSnapshot, take_snapshots
from coordinator.client.errors import InvalidRequest, NotFound, Refusal, Unavailable, refusal_of
from coordinator.client.model import (
    ClusterDescription,
    PartitionId,
    Result,
    SeededProducer,
    ServiceNode,
    TopicChanges,
    TopicListing,
)
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.discovery import ATTEMPT_TIMEOUT_MS
from coordinator.client.routing.node import NodeClient
from coordinator.client.routing.retry import Deadline, server_timeout_ms
from coordinator.client.routing.routed_call import RoutedCall
from coordinator.client.service import ServiceUser
from coordinator.core.drains import Drain
from coordinator.core.limits import FILES_PER_REQUEST_MAX
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.maintenance import NO_RESTORE, ScanAction
from coordinator.operations.producers import DescribedProducers, described_producers, producers_request
from coordinator.protocol.messages import (
    DescribeGatewaysRequest,
    DescribeGatewaysResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    ListTopicsTopic,
)
from coordinator.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from coordinator.core.file_state import FileState

A = TypeVar("A", bound=Result)


class DisklessAdmin(ServiceUser):
    """See the module's text."""

    # ---- the service

    def node(self, host: str, port: int) -> NodeClient:
        """One node, spoken to directly and without retries."""
        return NodeClient(self._service.pool, host, port)

    async def nodes(self, *, timeout_ms: int | None = None) -> tuple[ServiceNode, ...]:
        """The nodes of the service. Raises Unavailable."""
        with self._service.ending():
            return await self._service.discovery.nodes(self._service.deadline(timeout_ms))

    async def cluster_id(self, *, timeout_ms: int | None = None) -> str | None:
        """The id of the service's Kafka cluster; None while the node that answers does not know it. Raises Unavailable."""
        await self.nodes(timeout_ms=timeout_ms)
        return self._service.discovery.cluster_id

    async def find_coordinators(self, keys: Sequence[str], *, timeout_ms: int | None = None) -> list[ServiceNode | Refusal]:
        """The leaders for keys, each a coordinator id or `<topicId>:<partition>`, asked anew in one request. Raises Unavailable."""
        with self._service.ending():
            return await self._service.discovery.find_coordinators(keys, self._service.deadline(timeout_ms))

    async def describe_coordinators(self, coordinator_ids: Sequence[int] = (), *, timeout_ms: int | None = None) -> ClusterDescription:
        """Coordinators (none named means all) and nodes, as one node sees them. Raises Unavailable."""
        return await self._service.describe_coordinators(coordinator_ids, self._service.deadline(timeout_ms))

    async def schema_level(self, *, timeout_ms: int | None = None) -> LevelDescription:
        """The schema level of the log in force, and the highest one of each registered node. Raises `ServiceError`."""
        return await self.raise_schema_level(0, timeout_ms=timeout_ms)

    async def raise_schema_level(self, level: int, *, gone_node_ids: Sequence[int] = (), timeout_ms: int | None = None) -> LevelDescription:
        """Raise the schema level, which never goes back.

        Raises InvalidRequest while a node that is not named as gone does not support it, and other `ServiceError`s.
        """
        return await self._served(directory.update_schema_level(level, gone_node_ids), timeout_ms)

    async def drain_node(self, node_id: int, drain: Drain, *, timeout_ms: int | None = None) -> None:
        """Have a node give up what it leads to nodes that are warm, or lead again; returns when it is logged.

        Raises NotFound for a node that is not registered, InvalidRequest for the last one that leads, and other `ServiceError`s.
        """
        await self._served(directory.drain_node(node_id, drain), timeout_ms)

    async def restore(self, *, timeout_ms: int | None = None) -> RestoreDescription:
        """The restore that the service's log begins with. Raises `ServiceError`."""
        return await self.finish_restore(NO_RESTORE, timeout_ms=timeout_ms)

    async def finish_restore(self, restore_id: bytes, *, timeout_ms: int | None = None) -> RestoreDescription:
        """Call a restore finished. Raises InvalidRequest when the log begins with another or with none, and other `ServiceError`s."""
        return await self._served(directory.finish_restore(restore_id), timeout_ms)

    async def take_snapshots(self, coordinator_ids: Sequence[int] = (), *, timeout_ms: int | None = None) -> list[TakenSnapshot]:
        """Have the leaders take a snapshot of each coordinator (none named means all), one result for each in order.

        Raises Unavailable when none was named and no node can name the coordinators.
        """
        deadline = self._service.deadline(timeout_ms)
        ids = list(dict.fromkeys(coordinator_ids)) or await self._service.coordinator_ids(deadline)
        return await self._service.perform(take_snapshots(ids), deadline)

    # ---- produce gateways

    async def describe_gateways(self, *, timeout_ms: int | None = None) -> GatewayDescription:
        """The produce gateways of all coordinators, as one node plans them. Raises Unavailable, and other `ServiceError`s."""
        return await self._gateways(self._service.deadline(timeout_ms))

    async def preferred_produce_brokers(
        self, topic: str | bytes, partition: int, rack: str | None = None, *, timeout_ms: int | None = None
    ) -> tuple[GatewayBroker, ...]:
        """The brokers that producers of a rack should send a partition's batches to; any broker takes them.

        They are those of all racks when no rack is given or no broker is there. The answer is asked for each time, so ask as
        often as for metadata. Raises NotFound, Unavailable.
        """
        deadline = self._service.deadline(timeout_ms)
        [described] = await self._service.describe_topics([topic], deadline)
        owner = {one.partition: one.coordinator_id for one in described.partitions}.get(partition)
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
        async def ask() -> tuple[DescribeGatewaysResponse, Refusal]:
            request = DescribeGatewaysRequest(timeout_ms=server_timeout_ms(deadline.at_most_ms(ATTEMPT_TIMEOUT_MS)))
            response = cast(DescribeGatewaysResponse, await self._service.ask(request, deadline))
            return response, refusal_of(response.error_code, response.error_message)

        response, refusal = await self._service.until_served(ask, deadline)
        refusal.raise_for_error()
        return gateways_described(response)

    # ---- moves

    async def move_partitions(
        self, moves: Sequence[WantedMove], *, only_check: bool = False, timeout_ms: int | None = None
    ) -> OrderedMoves:
        """Have partitions go on in other coordinators; the answer has a refusal for each, and what is under way, also when none is named.

        An order is carried out after the answer, whatever fails. Raises `ServiceError`.
        """
        return await self._served(move_partitions(moves, only_check=only_check), timeout_ms)

    # ---- retention and orphans

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
        deadline = self._service.deadline(timeout_ms)
        ids = list(dict.fromkeys(coordinator_ids)) or await self._service.coordinator_ids(deadline)
        return await self._service.perform(enforce_retention(ids, topic_ids, is_dry_run=is_dry_run), deadline)

    async def begin_orphan_scan(self, *, is_forced: bool = False, timeout_ms: int | None = None) -> OrphanScanState:
        """Have the leader of the directory scan for orphans now; `is_forced` also while a restore is unfinished.

        Raises InvalidRequest, and other `ServiceError`s.
        """
        return await self._served(scan_orphans(ScanAction.BEGIN, is_forced=is_forced), timeout_ms)

    async def orphan_scan(self, *, timeout_ms: int | None = None) -> OrphanScanState:
        """How far the scan for orphans is. Raises `ServiceError`."""
        return await self._served(scan_orphans(ScanAction.TELL), timeout_ms)

    async def find_orphans(self, *, timeout_ms: int | None = None) -> AsyncIterator[OrphanScanState]:
        """Yield the orphans that a scan would delete, page by page; deletes nothing. Each page has the timeout. Raises `ServiceError`."""
        after_key: str | None = None
        while True:
            page = await self._served(scan_orphans(ScanAction.LOOK, after_key=after_key), timeout_ms)
            yield page
            if page.is_end or page.after_key == after_key:
                return
            after_key = page.after_key

    async def _served(self, call: RoutedCall[A], timeout_ms: int | None) -> A:
        """The answer to a call that has one element. Raises its error."""
        answer = await self._service.perform_one(call, timeout_ms)
        answer.raise_for_error()
        return answer

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
        Raises InvalidRequest, AlreadyExists, and other `ServiceError`s.
        """
        # Chosen once, so that a repeated request is the same request.
        topic_id = topic_id or os.urandom(16)
        if len(topic_id) != 16:
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, f"topic id of {len(topic_id)} bytes; it must have 16")
        call = directory.create_topic(name, num_partitions, topic_id, settings or {}, classic_pending=classic_pending)
        created = await self._served(call, timeout_ms)
        self._service.discovery.forget_topic(topic_id)
        return TopicListing(
            topic_id=topic_id, name=name, num_partitions=num_partitions, settings=dict(settings or {}), note=created.message
        )

    async def alter_topic(
        self, name: str, changes: Mapping[str, str | None], *, dry_run: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Change settings of a topic, all of them or none; None deletes one, so that the service's counts. A dry run changes nothing.

        Raises NotFound, InvalidRequest, and other `ServiceError`s.
        """
        await self._served(directory.alter_topic(name, changes, is_dry_run=dry_run), timeout_ms)

    async def describe_topic_configs(self, names: Sequence[str], *, timeout_ms: int | None = None) -> list[TopicConfigs]:
        """All settings of topics as Kafka's DescribeConfigs tells them, one result for each name in order. Raises Unavailable."""
        described = await self._service.ask(directory.describe_configs_request(names), self._service.deadline(timeout_ms))
        return directory.configs_described(described)

    async def describe_producers(self, topic: str, partitions: Sequence[int], *, timeout_ms: int | None = None) -> list[DescribedProducers]:
        """Idempotent producers of partitions as the node that answers knows them, one result for each partition. Raises Unavailable.

        Of coordinators that it does not follow their leaders are asked.
        """
        deadline = self._service.deadline(timeout_ms)
        described = described_producers(await self._service.ask(producers_request(topic, partitions), deadline))
        missing = {one.partition for one in described if one.outcome.error is ErrorCode.COORDINATOR_NOT_AVAILABLE}
        if not missing:
            return described
        [placed] = await self._service.describe_topics([topic], deadline)
        nodes = {one.node_id: one for one in await self._service.discovery.nodes(deadline)}
        by_leader: dict[ServiceNode, list[int]] = {}
        for one in placed.partitions:
            if one.partition in missing and one.leader_id in nodes:
                by_leader.setdefault(nodes[one.leader_id], []).append(one.partition)
        told: dict[int, DescribedProducers] = {}
        for leader, wanted in by_leader.items():
            with suppress(ConnectionLost, RequestTimedOut, MalformedMessage):  # what is missing stays refused
                left_ms = round(1_000 * deadline.at_most_ms(ATTEMPT_TIMEOUT_MS))
                answer = await self.node(leader.host, leader.port).call(producers_request(topic, wanted), left_ms)
                told |= {each.partition: each for each in described_producers(answer)}
        return [told.get(one.partition, one) for one in described]

    async def delete_topic(self, topic: str | bytes, *, timeout_ms: int | None = None) -> None:
        """Delete a topic, named by its name or its 16-byte id. Returns when every owner has logged it.

        Raises NotFound, and other `ServiceError`s.
        """
        deadline = self._service.deadline(timeout_ms)
        topic_id = topic if isinstance(topic, bytes) else (await self._service.describe_topics([topic], deadline))[0].topic_id
        [deleted] = await self._service.perform(directory.delete_topic(topic_id), deadline)
        self._service.discovery.forget_topic(topic_id)
        deleted.raise_for_error()

    async def list_topics(self, *, timeout_ms: int | None = None) -> list[TopicListing]:
        """All topics, by name. Raises Unavailable."""
        return list((await self.changed_topics(timeout_ms=timeout_ms)).topics)

    async def changed_topics(self, since: int = -1, *, is_current: bool = True, timeout_ms: int | None = None) -> TopicChanges:
        """All topics, or what changed of them since the `offset` of an earlier answer, when the node that answers knows that.

        Contains all that was acknowledged before the call if `is_current`, for which the node reads its log to the end; else it is what
        the node has, and never older than the earlier answer. Raises Unavailable.
        """
        deadline = self._service.deadline(timeout_ms)

        async def ask() -> tuple[ListTopicsResponse, Refusal]:
            wait_ms = server_timeout_ms(deadline.at_most_ms(ATTEMPT_TIMEOUT_MS))
            request = ListTopicsRequest(since_offset=since, is_current=is_current, timeout_ms=wait_ms)
            response = cast(ListTopicsResponse, await self._service.ask(request, deadline))
            return response, refusal_of(response.error_code, response.error_message)

        response, refusal = await self._service.until_served(ask, deadline)
        refusal.raise_for_error()
        listed = map(_listing, response.topics)
        return TopicChanges(
            offset=response.offset, is_whole=response.is_whole, topics=tuple(listed), deleted=tuple(response.deleted_topic_ids)
        )

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
        another offset already or the numbers contradict each other, NotFound, and other `ServiceError`s.
        """
        one = LogToInit(PartitionId(topic_id, partition), start_offset, prefix_start, leader_epoch, tuple(producers))
        await self._served(migrations.init_logs([one]), timeout_ms)

    async def describe_diskless_log(self, topic_id: bytes, partition: int, *, timeout_ms: int | None = None) -> DisklessLogState:
        """Where the migration of a partition stands, as its leader knows it. Raises NotFound, and other `ServiceError`s."""
        return await self._served(migrations.describe_logs([PartitionId(topic_id, partition)]), timeout_ms)

    async def describe_diskless_logs(self, partitions: Sequence[PartitionId], *, timeout_ms: int | None = None) -> list[DisklessLogState]:
        """Where the migrations of partitions stand, one result for each in order."""
        return await self._service.perform(migrations.describe_logs(partitions), self._service.deadline(timeout_ms))

    async def reset_diskless_log(self, topic_id: bytes, partition: int, *, leader_epoch: int, timeout_ms: int | None = None) -> None:
        """Make a partition pending again whose diskless log is still empty; `leader_epoch` is higher than the one recorded.

        Repeating it is harmless. Raises Fenced, InvalidRequest when records were committed, NotFound, and other `ServiceError`s.
        """
        await self._served(migrations.reset_log(PartitionId(topic_id, partition), leader_epoch), timeout_ms)

    async def repair_diskless_log(
        self, topic_id: bytes, partition: int, *, start_offset: int, leader_epoch: int, dry_run: bool, timeout_ms: int | None = None
    ) -> RepairReport:
        """Lower the start offset (B0) of a partition whose classic log lost its end; a dry run changes nothing.

        Repeating it is harmless. Raises Fenced, InvalidRequest, NotFound, and other `ServiceError`s.
        """
        call = migrations.repair_log(PartitionId(topic_id, partition), start_offset, leader_epoch, is_dry_run=dry_run)
        return await self._served(call, timeout_ms)

    async def report_prefix_start(
        self, topic_id: bytes, partition: int, *, prefix_start: int, leader_epoch: int, timeout_ms: int | None = None
    ) -> None:
        """Tell that the classic log of a partition begins at `prefix_start`; one that is lower than what is known changes nothing.

        Raises Fenced, InvalidRequest, NotFound, and other `ServiceError`s.
        """
        await self._served(migrations.report_prefix(PartitionId(topic_id, partition), prefix_start, leader_epoch), timeout_ms)

    # ---- files

    async def describe_files(self, object_keys: Sequence[str], *, timeout_ms: int | None = None) -> list[FileLiveness]:
        """Whether files have live batches in some coordinator; RESOURCE_NOT_FOUND is no licence to delete an object.

        Raises Unavailable when no node can name the coordinators.
        """
        deadline = self._service.deadline(timeout_ms)
        operation = files.DescribeFilesCall(await self._service.coordinator_ids(deadline), object_keys)
        return operation.merged(await self._service.perform(operation, deadline))

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

        No states mean those of files that are neither removed, handed over nor fenced. Raises the `ServiceError` of the first page that
        is refused.
        """
        ids = coordinator_ids or await self._service.coordinator_ids(self._service.deadline(timeout_ms))
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
            page = await self._served(files.list_files([coordinator_id], wanted), timeout_ms)
            for file in page.files:
                yield file
            more = page.more and page.last_key is not None
            wanted = replace(wanted, after_key=page.last_key)

    async def first_files(self, count: int, *, states: Sequence[FileState] = (), timeout_ms: int | None = None) -> FoundFiles:
        """Return the files in some states among the first `count` files of each coordinator by key.

        Raises Unavailable when no node can name the coordinators.
        """
        deadline = self._service.deadline(timeout_ms)
        ids = await self._service.coordinator_ids(deadline)
        return await self._found(ids, FilesWanted(files_max=count, states=tuple(map(int, states))), deadline)

    async def find_files(self, object_keys: Sequence[str], *, timeout_ms: int | None = None) -> FoundFiles:
        """Ask every coordinator for some files, in any state. Raises Unavailable when no node can name the coordinators."""
        deadline = self._service.deadline(timeout_ms)
        ids = await self._service.coordinator_ids(deadline)
        listed: list[ListedFile] = []
        refusals: dict[int, Refusal] = {}
        keys = sorted(set(object_keys))
        for first in range(0, len(keys), FILES_PER_REQUEST_MAX):
            wanted = FilesWanted(object_keys=tuple(keys[first : first + FILES_PER_REQUEST_MAX]))
            found = await self._found(ids, wanted, deadline)
            listed += found.files
            refusals |= found.refusals
        return FoundFiles(files=listed, refusals=refusals)

    async def _found(self, coordinator_ids: Sequence[int], wanted: FilesWanted, deadline: Deadline) -> FoundFiles:
        pages = await self._service.perform(files.list_files(coordinator_ids, wanted), deadline)
        listed = sorted((file for page in pages for file in page.files), key=lambda one: (one.object_key, one.coordinator_id))
        return FoundFiles(
            files=listed, refusals={one: page.refusal for one, page in zip(coordinator_ids, pages, strict=True) if page.error}
        )

    # ---- partitions

    async def delete_records(
        self, points: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool = False, timeout_ms: int | None = None
    ) -> list[DeletedRecords]:
        """Move log starts forward to the given offsets; -1 means the high watermark."""
        return await self._service.perform(delete_records(points, wait_for_creation=wait_for_creation), self._service.deadline(timeout_ms))


def _listing(one: ListTopicsTopic) -> TopicListing:
    coordinators = [each.coordinator_id for each in one.ranges for _ in range(each.num_partitions)]
    pending = [each.classic_pending for each in one.ranges for _ in range(each.num_partitions)]
    return TopicListing(
        topic_id=one.topic_id,
        name=one.name,
        num_partitions=len(coordinators),
        settings={config.name: config.value for config in one.configs},
        coordinators=tuple(coordinators),
        classic=tuple(partition for partition, is_classic in enumerate(pending) if is_classic),
    )
