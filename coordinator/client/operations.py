"""The requests on lists, each as one request for the elements of a node; `routing.py` decides what goes where and when.

Invariant: a response that does not name exactly the elements of its request is a malformed message, never a guess.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar, cast

from coordinator.client.discovery import DIRECTORY
from coordinator.client.errors import SERVED, Refusal, refusal_of
from coordinator.client.model import (
    DeletedRecords,
    DescribedFile,
    FetchFrom,
    FoundBatches,
    ListedFiles,
    ListedOffset,
    PartitionId,
    Result,
    SchemaLevel,
)
from coordinator.client.pool import ConnectionPool, Lane
from coordinator.client.retry import server_timeout_ms
from coordinator.client.routing import RoutedRequest, Target
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import Operation
from coordinator.operations.files import DESCRIBE_FILES, LIST_FILES, described_rank
from coordinator.operations.nodes import UPDATE_SCHEMA_LEVEL
from coordinator.operations.partitions import DELETE_RECORDS, FIND_BATCHES, LIST_OFFSETS
from coordinator.operations.topics import CREATE_PARTITIONS, DELETE_TOPICS
from coordinator.protocol.codec import Message
from coordinator.protocol.find_batches import FoundBatch
from coordinator.protocol.messages import (
    CreatablePartitions,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeletableTopicState,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeFileEntry,
    DescribeFilesRequest,
    DescribeFilesResponse,
    FindBatchesBatchInfo,
    FindBatchesPartition,
    FindBatchesRequest,
    FindBatchesResponse,
    FindBatchesTopic,
    ListFilesRequest,
    ListFilesResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    UpdateSchemaLevelRequest,
    UpdateSchemaLevelResponse,
)
from coordinator.protocol.wire import MalformedMessage

_LEADS = frozenset({"leading", "resigning"})
"""States in DescribeCoordinators of replicas that answer for their coordinator."""

READS = "read"
COMMITS = "commit"
ADMIN = "admin"

A = TypeVar("A", bound=Result)


class _ByPartition(RoutedRequest[A]):
    """An operation whose elements are partitions."""

    lane = READS

    def __init__(self, partitions: Sequence[PartitionId], *, wait_for_creation: bool) -> None:
        self._partitions = partitions
        self.wait_for_creation = wait_for_creation

    @property
    def targets(self) -> Sequence[Target]:
        return [partition.key for partition in self._partitions]

    def refusal_of(self, answer: A) -> Refusal:
        return answer.refusal

    def _by_topic(self, places: Sequence[int]) -> list[tuple[bytes, list[int]]]:
        """Neighbours of one topic together; the order stays."""
        return [(topic_id, list(group)) for topic_id, group in groupby(places, lambda place: self._partitions[place].topic_id)]

    def _checked(self, places: Sequence[int], rows: Sequence[tuple[bytes, int, A]]) -> list[A]:
        """The answers of (topic id, index, answer) rows, which must name the partitions asked for in their order."""
        asked = [self._partitions[place] for place in places]
        if [(topic_id, index) for topic_id, index, _ in rows] != asked:
            raise MalformedMessage(f"{len(asked)} partitions were asked for; the answer has {len(rows)}, or others")
        return [answer for _, _, answer in rows]


class ListOffsets(_ByPartition[ListedOffset]):
    """Offsets by timestamp."""

    operation = LIST_OFFSETS

    def __init__(self, queries: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool) -> None:
        super().__init__([partition for partition, _ in queries], wait_for_creation=wait_for_creation)
        self._timestamps = [timestamp for _, timestamp in queries]

    async def send(self, pool: ConnectionPool, lane: Lane, places: Sequence[int], timeout_s: float) -> Sequence[ListedOffset]:
        topics = []
        for topic_id, group in self._by_topic(places):
            asked = [ListOffsetsPartition(partition_index=self._partitions[p].partition, timestamp=self._timestamps[p]) for p in group]
            topics.append(ListOffsetsTopic(topic_id=topic_id, partitions=tuple(asked)))
        request = ListOffsetsRequest(topics=tuple(topics), timeout_ms=server_timeout_ms(timeout_s))
        response = cast(ListOffsetsResponse, await pool.call(lane, request, timeout_s))
        rows = []
        for topic in response.topics:
            for one in topic.partitions:
                refusal = refusal_of(one.error_code, one.error_message)
                answer = ListedOffset(refusal=refusal, timestamp_ms=one.timestamp, offset=one.offset)
                rows.append((topic.topic_id, one.partition_index, answer))
        return self._checked(places, rows)

    def refused(self, place: int, refusal: Refusal) -> ListedOffset:
        return ListedOffset(refusal=refusal)


class DeleteRecords(_ByPartition[DeletedRecords]):
    """Move log starts forward. Repeating it is harmless, so an unknown outcome is simply asked again."""

    operation = DELETE_RECORDS

    def __init__(self, points: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool) -> None:
        super().__init__([partition for partition, _ in points], wait_for_creation=wait_for_creation)
        self._offsets = [offset for _, offset in points]

    async def send(self, pool: ConnectionPool, lane: Lane, places: Sequence[int], timeout_s: float) -> Sequence[DeletedRecords]:
        topics = []
        for topic_id, group in self._by_topic(places):
            asked = [DeleteRecordsPartition(partition_index=self._partitions[p].partition, offset=self._offsets[p]) for p in group]
            topics.append(DeleteRecordsTopic(topic_id=topic_id, partitions=tuple(asked)))
        request = DeleteRecordsRequest(topics=tuple(topics), timeout_ms=server_timeout_ms(timeout_s))
        response = cast(DeleteRecordsResponse, await pool.call(lane, request, timeout_s))
        rows = []
        for topic in response.topics:
            for one in topic.partitions:
                answer = DeletedRecords(refusal=refusal_of(one.error_code, one.error_message), low_watermark=one.low_watermark)
                rows.append((topic.topic_id, one.partition_index, answer))
        return self._checked(places, rows)

    def refused(self, place: int, refusal: Refusal) -> DeletedRecords:
        return DeletedRecords(refusal=refusal)


class FindBatches(_ByPartition[FoundBatches]):
    """Which objects hold the batches from an offset on. The byte limit holds for each node asked."""

    operation = FIND_BATCHES

    def __init__(
        self, fetches: Sequence[FetchFrom], *, fetch_bytes_max: int, batches_per_partition_max: int, wait_for_creation: bool
    ) -> None:
        super().__init__([fetch.partition for fetch in fetches], wait_for_creation=wait_for_creation)
        self._fetches = fetches
        self._fetch_bytes_max = fetch_bytes_max
        self._batches_per_partition_max = batches_per_partition_max

    async def send(self, pool: ConnectionPool, lane: Lane, places: Sequence[int], timeout_s: float) -> Sequence[FoundBatches]:
        topics = []
        for topic_id, group in self._by_topic(places):
            asked = [
                FindBatchesPartition(
                    partition_index=fetch.partition.partition, offset=fetch.offset, max_partition_fetch_bytes=fetch.bytes_max
                )
                for fetch in (self._fetches[place] for place in group)
            ]
            topics.append(FindBatchesTopic(topic_id=topic_id, partitions=tuple(asked)))
        request = FindBatchesRequest(
            fetch_max_bytes=self._fetch_bytes_max,
            max_batches_per_partition=self._batches_per_partition_max,
            topics=tuple(topics),
            timeout_ms=server_timeout_ms(timeout_s),
        )
        response = cast(FindBatchesResponse, await pool.call(lane, request, timeout_s))
        rows = []
        for topic in response.topics:
            for one in topic.partitions:
                partition = PartitionId(topic.topic_id, one.partition_index)
                answer = FoundBatches(
                    refusal=refusal_of(one.error_code, _found_text(partition, one.error_code)),
                    log_start_offset=one.log_start_offset,
                    high_watermark=one.high_watermark,
                    batches=tuple(_found(batch) for batch in one.batches),
                )
                rows.append((topic.topic_id, one.partition_index, answer))
        return self._checked(places, rows)

    def refused(self, place: int, refusal: Refusal) -> FoundBatches:
        return FoundBatches(refusal=refusal)


class DescribeFiles(RoutedRequest[list[DescribedFile]]):
    """Whether files have live batches; an element is a coordinator, its answer one result for each file."""

    operation = DESCRIBE_FILES
    lane = READS

    def __init__(self, coordinator_ids: Sequence[int], object_keys: Sequence[str]) -> None:
        self._coordinator_ids = coordinator_ids
        self._object_keys = object_keys

    @property
    def targets(self) -> Sequence[Target]:
        return self._coordinator_ids

    async def send(self, pool: ConnectionPool, lane: Lane, places: Sequence[int], timeout_s: float) -> Sequence[list[DescribedFile]]:
        now = asyncio.get_running_loop().time
        until_s = now() + timeout_s
        asked = tuple(self._coordinator_ids[place] for place in places)
        files = tuple(DescribeFileEntry(object_key=key) for key in self._object_keys)
        request = DescribeFilesRequest(files=files, timeout_ms=server_timeout_ms(timeout_s))
        before = await _led(pool, lane, asked, timeout_s)
        response = cast(DescribeFilesResponse, await pool.call(lane, request, until_s - now()))
        after = await _led(pool, lane, asked, until_s - now())
        if [one.object_key for one in response.files] != list(self._object_keys):
            raise MalformedMessage(f"{len(files)} files were asked for; the answer has {len(response.files)}, or others")
        described = [
            DescribedFile(
                object_key=one.object_key, refusal=refusal_of(one.error_code, one.error_message), has_live_batches=one.has_live_batches
            )
            for one in response.files
        ]
        # The node answers for all it leads, without saying what that is, and knows no files of a coordinator it lost a moment ago.
        # So only a leadership that lasted from before until after the question vouches for a "no".
        moved = refusal_of(ErrorCode.NOT_COORDINATOR, "its leader changed while it was asked")
        doubtful = [one if one.has_live_batches else DescribedFile(object_key=one.object_key, refusal=moved) for one in described]
        return [described if before.get(one) == after.get(one) is not None else doubtful for one in asked]

    def refusal_of(self, answer: list[DescribedFile]) -> Refusal:
        errors = [one.refusal for one in answer if one.error not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND)]
        return errors[0] if errors else SERVED

    def refused(self, place: int, refusal: Refusal) -> list[DescribedFile]:
        text = f"coordinator {self._coordinator_ids[place]}: {refusal.message}"
        return [DescribedFile(object_key=key, refusal=Refusal(refusal.code, text)) for key in self._object_keys]

    def merged(self, answers: Sequence[list[DescribedFile]]) -> list[DescribedFile]:
        """Return one result for each file: the one that holds of what the coordinators say (`described_rank`)."""

        def rank(one: DescribedFile) -> int:
            return described_rank(one.error, one.has_live_batches)

        return [min((answer[place] for answer in answers), key=rank) for place in range(len(self._object_keys))]


class ListFiles(RoutedRequest[ListedFiles]):
    """One page of the files of one coordinator, in key order."""

    operation = LIST_FILES
    lane = ADMIN

    def __init__(self, coordinator_id: int, after_key: str | None, files_max: int) -> None:
        self._coordinator_id = coordinator_id
        self._after_key = after_key
        self._files_max = files_max

    @property
    def targets(self) -> Sequence[Target]:
        return [self._coordinator_id]

    async def send(self, pool: ConnectionPool, lane: Lane, places: Sequence[int], timeout_s: float) -> Sequence[ListedFiles]:
        request = ListFilesRequest(
            coordinator_ids=(self._coordinator_id,),
            after_key=self._after_key,
            max_files=self._files_max,
            timeout_ms=server_timeout_ms(timeout_s),
        )
        response = cast(ListFilesResponse, await pool.call(lane, request, timeout_s))
        refusal = refusal_of(response.error_code, response.error_message)
        return [ListedFiles(refusal=refusal, files=response.files, more=response.more)]

    def refusal_of(self, answer: ListedFiles) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> ListedFiles:
        return ListedFiles(refusal=refusal)


class UpdateSchemaLevel(RoutedRequest[SchemaLevel]):
    """Raise the schema level, 0 to be told the one in force. Repeating it is harmless."""

    operation = UPDATE_SCHEMA_LEVEL
    lane = ADMIN

    def __init__(self, level: int, gone_node_ids: Sequence[int]) -> None:
        self._level = level
        self._gone_node_ids = gone_node_ids

    @property
    def is_write(self) -> bool:
        return self._level > 0

    @property
    def targets(self) -> Sequence[Target]:
        return [DIRECTORY]

    async def send(self, pool: ConnectionPool, lane: Lane, places: Sequence[int], timeout_s: float) -> Sequence[SchemaLevel]:
        request = UpdateSchemaLevelRequest(
            level=self._level, gone_node_ids=tuple(self._gone_node_ids), timeout_ms=server_timeout_ms(timeout_s)
        )
        response = cast(UpdateSchemaLevelResponse, await pool.call(lane, request, timeout_s))
        refusal = refusal_of(response.error_code, response.error_message)
        return [SchemaLevel(refusal=refusal, level=response.level, nodes=response.nodes)]

    def refusal_of(self, answer: SchemaLevel) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> SchemaLevel:
        return SchemaLevel(refusal=refusal)


class DirectoryRequest(RoutedRequest[Refusal]):
    """One request to the leader of the directory that concerns one topic; `refusal` reads its response."""

    lane = ADMIN

    def __init__(self, operation: Operation, request: Callable[[int], Message], refusal: Callable[[Message], Refusal]) -> None:
        self.operation = operation
        self._request = request
        self._read = refusal

    @property
    def targets(self) -> Sequence[Target]:
        return [DIRECTORY]

    async def send(self, pool: ConnectionPool, lane: Lane, places: Sequence[int], timeout_s: float) -> Sequence[Refusal]:
        return [self._read(await pool.call(lane, self._request(server_timeout_ms(timeout_s)), timeout_s))]

    def refusal_of(self, answer: Refusal) -> Refusal:
        return answer

    def refused(self, place: int, refusal: Refusal) -> Refusal:
        return refusal


def create_topic(name: str, num_partitions: int, topic_id: bytes) -> DirectoryRequest:
    """Create a topic or grow it to `num_partitions`."""

    def request(timeout_ms: int) -> Message:
        topic = CreatablePartitions(topic_id=topic_id, name=name, num_partitions=num_partitions)
        return CreatePartitionsRequest(topics=(topic,), timeout_ms=timeout_ms)

    def refusal(response: Message) -> Refusal:
        return _only([(one.error_code, one.error_message) for one in cast(CreatePartitionsResponse, response).topics])

    return DirectoryRequest(CREATE_PARTITIONS, request, refusal)


def delete_topic(topic_id: bytes) -> DirectoryRequest:
    """Delete a topic."""

    def request(timeout_ms: int) -> Message:
        return DeleteTopicsRequest(topics=(DeletableTopicState(topic_id=topic_id),), timeout_ms=timeout_ms)

    def refusal(response: Message) -> Refusal:
        return _only([(one.error_code, one.error_message) for one in cast(DeleteTopicsResponse, response).responses])

    return DirectoryRequest(DELETE_TOPICS, request, refusal)


_FOUND_TEXT = {
    int(ErrorCode.OFFSET_OUT_OF_RANGE): "the offset lies outside the log; start from the log start offset or the high watermark given",
    int(ErrorCode.OFFSET_NOT_AVAILABLE): "the node does not know yet whether the offset exists; retry",
}


def _found_text(partition: PartitionId, code: int) -> str | None:
    """FindBatches has no texts of its own."""
    text = _FOUND_TEXT.get(code)
    return None if text is None else f"{partition}: {text}"


def _found(one: FindBatchesBatchInfo) -> FoundBatch:
    return FoundBatch(
        one.batch_id,
        one.object_key,
        one.magic,
        one.byte_offset,
        one.byte_size,
        one.base_offset,
        one.last_offset,
        one.log_append_timestamp,
        one.batch_max_timestamp,
        one.timestamp_type,
    )


async def _led(pool: ConnectionPool, lane: Lane, coordinator_ids: Sequence[int], timeout_s: float) -> dict[int, tuple[int, int]]:
    """Epoch and term of each of these coordinators that the node leads just now."""
    response = await pool.call(lane, DescribeCoordinatorsRequest(coordinator_ids=tuple(coordinator_ids)), timeout_s)
    described = cast(DescribeCoordinatorsResponse, response).coordinators
    return {one.coordinator_id: (one.leader_epoch, one.term) for one in described if one.is_local and one.state in _LEADS}


def _only(results: Sequence[tuple[int, str | None]]) -> Refusal:
    if len(results) != 1:
        raise MalformedMessage(f"one topic was named; the answer has {len(results)}")
    return refusal_of(*results[0])
