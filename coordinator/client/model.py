"""Partitions, nodes and topics as the client names and describes them, and results that more than one room of the client uses. The
results of other calls stand beside them (`calls/`). Offsets are -1 where nothing is known; times are ms since the epoch.

Invariant: a result is either served (`error` is NONE) or carries the code and the text of why not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from coordinator.client.errors import SERVED, InvalidRequest, Refusal, error_of
from coordinator.core.commands import FileStanding
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.protocol.find_batches import BatchLocation
from coordinator.protocol.messages import DescribeCoordinatorsCoordinator

if TYPE_CHECKING:  # only results of commits hold arrays, and numpy takes a third of the time in which a command starts
    import numpy as np
    import numpy.typing as npt

    from coordinator.protocol.messages import CommitBatch

    Batches = npt.NDArray[np.void] | Sequence[CommitBatch]


class PartitionId(NamedTuple):
    """A user partition: 16 bytes of topic id, and the index."""

    topic_id: bytes
    partition: int

    @property
    def key(self) -> bytes:
        """The 20 bytes by which batches name their partition. Raises TypeError; InvalidRequest for a value that none can have."""
        for name, given, wanted in (("topic_id", self.topic_id, bytes), ("partition", self.partition, int)):
            if not isinstance(given, wanted):
                more = ", 16 of them" if wanted is bytes else ""
                raise TypeError(f"PartitionId.{name} is {given!r} of type {type(given).__name__}; wanted: {wanted.__name__}{more}")
        if len(self.topic_id) != 16:
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, f"a topic id of {len(self.topic_id)} bytes; it has 16")
        if not -(2**31) <= self.partition < 2**31:
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, f"{self}: the index of a partition is 0 to {2**31 - 1}")
        return self.topic_id + self.partition.to_bytes(4, "big", signed=True)

    def __str__(self) -> str:
        return f"{topic_id_text(self.topic_id)}:{self.partition}"


class RecordedDirectory(NamedTuple):
    """A data directory of a node, as metadata partition 0 has recorded it; replicas in one that is not online are offline."""

    directory_id: bytes
    is_online: bool
    coordinator_ids: tuple[int, ...]


class ServiceNode(NamedTuple):
    """A process of the service; `directories` and `drain` only where nodes were asked to describe themselves."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    directories: tuple[RecordedDirectory, ...] = ()
    drain: int = 0

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self.host, self.port


class SeededBatch(NamedTuple):
    """A batch that an idempotent producer wrote to a classic partition.

    `max_timestamp_ms` is its append time, which a retry is answered with, in a topic of LogAppendTime, and -1 in one of CreateTime.
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class SeededProducer(NamedTuple):
    """A producer as a classic partition remembers it: its last batches, up to five, in the order of their offsets."""

    producer_id: int
    producer_epoch: int
    batches: tuple[SeededBatch, ...]


class FetchFrom(NamedTuple):
    """One partition of a `find_batches`: batches from `offset` on, up to about `bytes_max`."""

    partition: PartitionId
    offset: int
    bytes_max: int = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """Placement, leader and offsets of a partition, as the answering node knows them."""

    partition: int
    coordinator_id: int
    leader_id: int
    log_start_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    topic_id: bytes
    name: str
    partitions: tuple[PartitionDescription, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that the topic has of its own, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """A topic. `note` is a remark of the service on its creation, such as on how few coordinators it lives; else empty."""

    topic_id: bytes
    name: str
    num_partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that the topic has of its own, by name."""
    coordinators: tuple[int, ...] = ()
    """The coordinator of each partition, of topics that were listed."""
    classic: tuple[int, ...] = ()
    """The partitions that were created to be migrated from classic ones, of topics that were listed."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanges:
    """The topics of a service, or what changed of them since an earlier answer, whose `offset` was named.

    `topics` are all that there are if `is_whole`, else those that were created or changed; `deleted` are ids.
    """

    offset: int
    is_whole: bool
    topics: tuple[TopicListing, ...]
    deleted: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The service as one node sees it. `applied_offset`, `digest` and `state` of a coordinator are that node's own."""

    cluster_id: str | None
    metadata_topic_id: bytes
    """Zero if that is not known yet, as `cluster_id` is None."""
    is_store_marked: bool
    """Whether the service marks its object store, so that others can tell it from any other one."""
    node_id: int
    coordinators: tuple[DescribeCoordinatorsCoordinator, ...]
    nodes: tuple[ServiceNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The common part of results by element."""

    refusal: Refusal = SERVED

    @property
    def error(self) -> ErrorCode:
        """NONE, or why there is no answer."""
        return self.refusal.code

    @property
    def message(self) -> str:
        """The text of the error."""
        return self.refusal.message

    def raise_for_error(self) -> None:
        """Raise the `DisklessError` that fits, if this is an error."""
        self.refusal.raise_for_error()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset(Result):
    """The offset that was looked up in a partition, and the timestamp there."""

    timestamp_ms: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBatches(Result):
    """Where the batches of a partition are, from the offset asked for on, and the bounds of its log."""

    log_start_offset: int = -1
    high_watermark: int = -1
    batches: tuple[BatchLocation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStandingAt(Result):
    """The standing of a file at a coordinator. UNKNOWN: the coordinator refused, or does not know the file and was not to fence it."""

    object_key: str
    standing: FileStanding = FileStanding.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome(Result):
    """`append_time_ms` is -1 for batches of CreateTime."""

    base_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    is_duplicate: bool = False


@dataclass(frozen=True, kw_only=True)
class CommitOutcome:
    """The results of a commit as columns, one row for each batch of the file in the order given; messages by row."""

    object_key: str
    owner_ids: tuple[int, ...]
    error_codes: npt.NDArray[np.int16]
    base_offsets: npt.NDArray[np.int64]
    append_times_ms: npt.NDArray[np.int64]
    log_start_offsets: npt.NDArray[np.int64]
    duplicates: npt.NDArray[np.bool_]
    messages: dict[int, str] = field(default_factory=dict)

    @cached_property
    def is_ok(self) -> bool:
        """True if every batch was accepted."""
        return not self.error_codes.any()

    @cached_property
    def is_known(self) -> bool:
        """False while a batch may have been accepted without this client knowing: commit the same again to learn it."""
        return not bool((self.error_codes == ErrorCode.REQUEST_TIMED_OUT).any())

    @cached_property
    def batches(self) -> tuple[BatchOutcome, ...]:
        """The rows as objects."""
        return tuple(self._batch(row) for row in range(len(self.error_codes)))

    def raise_for_errors(self) -> None:
        """Raise for the first batch that was not accepted."""
        if not self.is_ok:
            row = int(self.error_codes.nonzero()[0][0])
            refusal = self._refusal(row)
            raise error_of(refusal.code, f"file {self.object_key}, batch {row}: {refusal.message}")

    def _refusal(self, row: int) -> Refusal:
        code = ErrorCode(int(self.error_codes[row]))
        return SERVED if code is ErrorCode.NONE else Refusal(code, self.messages.get(row, code.name))

    def _batch(self, row: int) -> BatchOutcome:
        return BatchOutcome(
            refusal=self._refusal(row),
            base_offset=int(self.base_offsets[row]),
            append_time_ms=int(self.append_times_ms[row]),
            log_start_offset=int(self.log_start_offsets[row]),
            is_duplicate=bool(self.duplicates[row]),
        )
