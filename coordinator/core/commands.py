"""Commands that a coordinator takes, and their answers: immutable values without a trace of the wire.

Every list answer has one element per element asked, in the order asked. Offsets and times are -1 on an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from coordinator.kafka.errors import ErrorCode
from records.model import Endpoint, PlacedRange

if TYPE_CHECKING:
    from coordinator.kafka.batches import BatchArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Success, or an error with its explanation."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


OK = Outcome()

NO_INCARNATION = bytes(16)


class CommitFile(NamedTuple):
    """Commit the share of a WAL file that belongs to this coordinator. `created_ms` is -1 when unknown.

    `checked` is what the checks of the whole request found when this is only a share of it, else None.
    """

    object_key: str
    object_format: int
    file_size: int
    owner_ids: list[int]
    batches: BatchArray
    uploader_broker_id: int
    created_ms: int
    checked: Outcome | None = None


@dataclass(slots=True, kw_only=True)
class CommitResult:
    """One element per batch of the request, as columns."""

    errors: list[int]
    messages: list[str | None]
    base_offsets: list[int]
    append_times: list[int]
    log_starts: list[int]
    duplicates: list[bool]

    def result(self) -> CommitResult:
        """Itself; see `CommitAnswer`."""
        return self

    @staticmethod
    def refused(count: int, error: ErrorCode, message: str | None) -> CommitResult:
        """Answer every batch with one error."""
        minus = [-1] * count
        return CommitResult(
            errors=[int(error)] * count,
            messages=[message] * count,
            base_offsets=minus,
            append_times=minus,
            log_starts=minus,
            duplicates=[False] * count,
        )

    def changeable(self) -> CommitResult:
        """A copy that shares no column with another."""
        return CommitResult(
            errors=list(self.errors),
            messages=list(self.messages),
            base_offsets=list(self.base_offsets),
            append_times=list(self.append_times),
            log_starts=list(self.log_starts),
            duplicates=list(self.duplicates),
        )


class CommitAnswer(Protocol):
    """The answer to a CommitFile; a file that was decided with many others keeps its answer in their columns."""

    def result(self) -> CommitResult:
        """The answer batch by batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShare:
    """Partitions of a topic for this coordinator, ordered by an entry of metadata partition 0."""

    topic_id: bytes
    name: str
    first_partition: int
    num_partitions: int
    order_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePartitions:
    """The directory tells an owner which partitions it has."""

    shares: list[TopicShare]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRemoval:
    """A topic the directory has decided to delete."""

    topic_id: bytes
    order_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopics:
    """The directory tells an owner which topics are gone."""

    removals: list[TopicRemoval]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePoint:
    """Delete the records of a partition before `offset` (-1 = high watermark)."""

    topic_id: bytes
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    points: list[DeletePoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTo:
    outcome: Outcome
    low_watermark: int = -1


class OffsetQuery(NamedTuple):
    topic_id: bytes
    partition: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsets:
    queries: list[OffsetQuery]


class FoundOffset(NamedTuple):
    outcome: Outcome
    timestamp: int = -1
    offset: int = -1


class FetchPoint(NamedTuple):
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int


class FoundBatch(NamedTuple):
    """One batch of a file, its fields in the order of the wire: answers hold thousands. `batch_id` is stable for ever."""

    batch_id: int
    object_key: str
    magic: int
    byte_offset: int
    byte_size: int
    base_offset: int
    last_offset: int
    append_time_ms: int
    max_timestamp_ms: int
    timestamp_type: int


class FoundBatches(NamedTuple):
    outcome: Outcome
    batches: list[FoundBatch]
    log_start: int = -1
    high_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFiles:
    object_keys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFile:
    outcome: Outcome
    has_live_batches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Prove that this replica leads and has every write acknowledged before the request arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopic:
    """A topic as CreatePartitions names it; `num_partitions` is the total wanted."""

    topic_id: bytes
    name: str
    num_partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Directory: place topics.

    `eligible` maps each coordinator with a claim in force to the partitions it was given, `leaders` to the node that leads it;
    `without` are the coordinators that were never claimed, which get no partitions.
    """

    topics: list[WantedTopic]
    eligible: dict[int, int]
    leaders: Mapping[int, int] = field(default_factory=dict)
    without: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """Directory: decide that topics go."""

    topic_ids: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmPlaced:
    """Directory: every owner has the partitions of these ranges."""

    topic_id: bytes
    ranges: list[PlacedRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmDeleted:
    """Directory: every owner has logged the deletion."""

    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """Directory: a node says where it listens.

    `incarnation_id` is that of its process; `replaced_id` that of the process registered before under this id, which has
    ended as far as the node can tell.
    """

    node_id: int
    rack: str
    endpoints: list[Endpoint]
    schema_level_max: int
    incarnation_id: bytes
    replaced_id: bytes = NO_INCARNATION


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseSchemaLevel:
    """Directory: entries are written at this schema level from now on; 0 changes nothing. `gone_node_ids` do not come back."""

    level: int
    gone_node_ids: frozenset[int] = frozenset()


Write: TypeAlias = (
    CommitFile
    | PlacePartitions
    | RemoveTopics
    | DeleteRecords
    | CreateTopics
    | DeleteTopics
    | ConfirmPlaced
    | ConfirmDeleted
    | RegisterNode
    | RaiseSchemaLevel
)
StrictRead: TypeAlias = ListOffsets | DescribeFiles | Barrier
Command: TypeAlias = Write | StrictRead
Answer: TypeAlias = CommitAnswer | list[Outcome] | list[DeletedTo] | list[FoundOffset] | list[DescribedFile] | Outcome
