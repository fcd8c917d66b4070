"""Commands that a coordinator takes, and their answers: immutable values without a trace of the wire.

Every list answer has one element per element asked, in the order asked. Offsets and times are -1 on an error. The KIP's
responses have no error for a whole request, so each command says itself what its answer is with one error throughout
(`refused`); each message names the file, topic or partition that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text

if TYPE_CHECKING:
    from coordinator.core.moves import Stretch
    from coordinator.kafka.batches import BatchArray
    from records.model import EarlierStretch, Endpoint, PartitionMoved, PartitionMoving, PlacedRange, SeededProducerBatch, SnapshotCommitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Success, or an error with its explanation."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


OK = Outcome()

NO_INCARNATION = bytes(16)


def _refused(what: str, error: ErrorCode, message: str) -> Outcome:
    return Outcome(error=error, message=f"{what}: {message}")


def _partition_text(topic_id: bytes, partition: int) -> str:
    return f"{topic_id_text(topic_id)}:{partition}"


class _WithOneOutcome:
    """A command whose answer is one outcome."""

    __slots__ = ()

    def refused(self, error: ErrorCode, message: str) -> Outcome:
        return Outcome(error=error, message=message)


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

    def refused(self, error: ErrorCode, message: str) -> CommitResult:
        return CommitResult.refused(len(self.batches), error, f"file {self.object_key}: {message}")


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
    classic_pending: bool = False
    """Whether partitions that are created are classic ones that are to be migrated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePartitions:
    """The directory tells an owner which partitions it has."""

    shares: list[TopicShare]

    def refused(self, error: ErrorCode, message: str) -> list[Outcome]:
        return [Outcome(error=error, message=message)] * len(self.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRemoval:
    """A topic the directory has decided to delete."""

    topic_id: bytes
    order_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopics:
    """The directory tells an owner which topics are gone."""

    removals: list[TopicRemoval]

    def refused(self, error: ErrorCode, message: str) -> list[Outcome]:
        return [Outcome(error=error, message=message)] * len(self.removals)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePoint:
    """Delete the records of a partition before `offset` (-1 = high watermark)."""

    topic_id: bytes
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """`of_released`: of partitions that went on elsewhere, as far as their records are deleted there."""

    points: list[DeletePoint]
    of_released: bool = False

    def refused(self, error: ErrorCode, message: str) -> list[DeletedTo]:
        return [DeletedTo(outcome=_refused(_partition_text(one.topic_id, one.partition), error, message)) for one in self.points]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTo:
    outcome: Outcome
    low_watermark: int = -1


class LogOrigin(IntEnum):
    """How a user partition became what it is."""

    PENDING = 0
    """A classic partition that is to be migrated; it takes no batches."""
    INITIALISED = 1
    BORN = 2


class LogFacts(NamedTuple):
    """The place of a user partition in its migration; -1 is not set. `start_offset` is B0.

    Of a pending one the offsets of the diskless log mean nothing.
    """

    start_offset: int = -1
    prefix_start: int = -1
    suffix_start: int = -1
    high_watermark: int = -1
    leader_epoch: int = -1

    @property
    def origin(self) -> LogOrigin:
        """Whether it is pending, initialised, or born diskless."""
        if self.start_offset < 0:
            return LogOrigin.PENDING
        # A step that sets B0 carries a leader epoch of 0 or more; -1 means that there was no step.
        return LogOrigin.BORN if self.leader_epoch < 0 else LogOrigin.INITIALISED

    @property
    def has_records(self) -> bool:
        """Whether anything was committed past B0, deleted since or not."""
        return self.high_watermark > self.start_offset

    @property
    def earliest(self) -> int:
        """The first offset that a consumer can ask for, in the classic or in the diskless part."""
        return self.prefix_start if 0 <= self.prefix_start < self.start_offset else self.suffix_start


class LogInit(NamedTuple):
    """Set B0 of a classic partition, with what its log remembers of producers."""

    topic_id: bytes
    partition: int
    start_offset: int
    prefix_start: int
    leader_epoch: int
    producers: list[SeededProducerBatch]
    """Batches of a producer are adjacent, in the order of their offsets."""
    last_offset: int = -1
    """The greatest offset of these batches."""


class LogReset(NamedTuple):
    """Unset B0 of a partition to which nothing was committed."""

    topic_id: bytes
    partition: int
    leader_epoch: int


class LogRepair(NamedTuple):
    """Lower B0 of a partition; a dry run only says what would change."""

    topic_id: bytes
    partition: int
    start_offset: int
    leader_epoch: int
    is_dry_run: bool


class PrefixReport(NamedTuple):
    """The classic part of a partition begins at a later offset."""

    topic_id: bytes
    partition: int
    prefix_start: int
    leader_epoch: int


MigrationStep: TypeAlias = LogInit | LogReset | LogRepair | PrefixReport


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratePartitions:
    """Take steps of the migrations of partitions, each of which is named once."""

    steps: Sequence[MigrationStep]

    def refused(self, error: ErrorCode, message: str) -> list[MigratedLog]:
        return [MigratedLog(_refused(_partition_text(one.topic_id, one.partition), error, message)) for one in self.steps]


class MigratedLog(NamedTuple):
    """The state of a partition before a step, and after it (or what it would be, in a dry run)."""

    outcome: Outcome
    before: LogFacts = LogFacts()
    after: LogFacts = LogFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMove:
    """A partition that an operator wants in another coordinator."""

    topic_id: bytes
    partition: int
    to_coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderMoves(_WithOneOutcome):
    """Directory: order moves of partitions; a dry run is decided and not logged. `eligible` are the coordinators that were claimed.

    `returning` are the keys of partitions that were where they are to go, and of which nothing is left there. The answer has an outcome
    for each move, or one for all when nothing was decided: an order without moves, which asks what is under way, fails too.
    """

    moves: list[WantedMove]
    eligible: frozenset[int] = frozenset()
    returning: frozenset[bytes] = frozenset()
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMove(_WithOneOutcome):
    """Directory: the coordinator that a partition moves to has adopted it."""

    topic_id: bytes
    partition: int
    move_id: int
    earlier: tuple[EarlierStretch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleMoves(_WithOneOutcome):
    """Directory: after a restore, these moves, with the ids that they had, are done: all that some coordinator knows of."""

    moves: tuple[tuple[PartitionMoving, PartitionMoved], ...]
    last_move_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePartition:
    """The directory tells an owner that a partition goes on in another coordinator; a repetition is answered as the first time."""

    topic_id: bytes
    partition: int
    move_id: int
    to_coordinator: int

    def refused(self, error: ErrorCode, message: str) -> list[ReleasedPartition]:
        return [ReleasedPartition(outcome=_refused(_partition_text(self.topic_id, self.partition), error, message))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedPartition:
    """What the next owner of a partition has to know of it: where it starts and ends, its stretches, and its producers.

    The last of `earlier` is that of the coordinator that answers.
    """

    outcome: Outcome
    name: str = ""
    start_offset: int = -1
    end_offset: int = -1
    time_ms: int = -1
    earlier: tuple[EarlierStretch, ...] = ()
    producers: tuple[SeededProducerBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptPartition(_WithOneOutcome):
    """The directory tells a coordinator that a partition goes on there."""

    topic_id: bytes
    partition: int
    move_id: int
    released: ReleasedPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStretches(_WithOneOutcome):
    """Tell of all partitions that came to a coordinator or went from it by a move; strict.

    `beside` are coordinators that the node which leads it has to follow, and to have read, before it answers.
    """

    beside: tuple[int, ...] = ()


class KnownStretch(NamedTuple):
    """A partition that moved, as a coordinator knows it."""

    topic_id: bytes
    partition: int
    stretch: Stretch
    start_offset: int = -1
    """The log start there: of the whole partition at its owner, else of the stretch."""


class NamedLog(NamedTuple):
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDisklessLogs:
    partitions: Sequence[NamedLog]

    def refused(self, error: ErrorCode, message: str) -> list[DescribedLog]:
        return [DescribedLog(_refused(_partition_text(one.topic_id, one.partition), error, message)) for one in self.partitions]


class DescribedLog(NamedTuple):
    outcome: Outcome
    facts: LogFacts = LogFacts()


class OffsetQuery(NamedTuple):
    topic_id: bytes
    partition: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsets:
    queries: list[OffsetQuery]

    def refused(self, error: ErrorCode, message: str) -> list[FoundOffset]:
        return [FoundOffset(_refused(_partition_text(one.topic_id, one.partition), error, message)) for one in self.queries]


class OlderStretches(NamedTuple):
    """The stretches of a partition that other coordinators have, the oldest first, without deleted ones, and where the partition starts."""

    log_start_offset: int
    stretches: tuple[EarlierStretch, ...]


class FoundOffset(NamedTuple):
    outcome: Outcome
    timestamp: int = -1
    offset: int = -1
    older: OlderStretches | None = None
    """Where else the answer to a time may be; None when it is here."""


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

    def refused(self, error: ErrorCode, message: str) -> list[DescribedFile]:
        return [DescribedFile(outcome=_refused(f"file {one}", error, message)) for one in self.object_keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFile:
    outcome: Outcome
    has_live_batches: bool = False


class FileStanding(IntEnum):
    """The standing of an object key at a coordinator."""

    UNKNOWN = 0
    """Not known here; answered only to a question that does not fence."""
    LIVE = 1
    EMPTY = 2
    """Committed here; no batch of it is left."""
    FENCED = 3
    REMOVED = 4
    HANDED_OVER = 5

    @property
    def is_out(self) -> bool:
        """Whether the coordinator never gets batches of the key again: that is logged, and stays so across leaders."""
        return self >= FileStanding.FENCED


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFiles:
    """Say of each key whether it is known here, and promise never to take those that are not; with `is_fencing` false, only say.

    `created_ms` are the times of creation of the objects, -1 where that is not known.
    """

    object_keys: list[str]
    created_ms: list[int]
    is_fencing: bool = True

    def refused(self, error: ErrorCode, message: str) -> list[FencedFile]:
        return [FencedFile(outcome=_refused(f"file {one}", error, message)) for one in self.object_keys]


class FencedFile(NamedTuple):
    """The answer for one key: UNKNOWN on an error."""

    outcome: Outcome
    standing: FileStanding = FileStanding.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFiles:
    """Log that the objects of empty files are gone from storage; the caller has seen that they are."""

    object_keys: list[str]

    def refused(self, error: ErrorCode, message: str) -> list[Outcome]:
        return [_refused(f"file {one}", error, message) for one in self.object_keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverFiles:
    """Log that this coordinator is done with empty files that other owners still have."""

    object_keys: list[str]
    next_owner_ids: list[int]

    def refused(self, error: ErrorCode, message: str) -> list[Outcome]:
        return [_refused(f"file {one}", error, message) for one in self.object_keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(_WithOneOutcome):
    """Prove that this replica leads and has every write acknowledged before the request arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopic:
    """A topic as CreatePartitions names it; `num_partitions` is the total wanted."""

    topic_id: bytes
    name: str
    num_partitions: int
    settings: tuple[tuple[str, str], ...] = ()
    """The settings that a new topic has of its own."""
    classic_pending: bool = False
    """Whether new partitions are classic ones that are to be migrated."""


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

    def refused(self, error: ErrorCode, message: str) -> list[Outcome]:
        return [_refused(f"topic {one.name}", error, message) for one in self.topics]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """Directory: decide that topics go."""

    topic_ids: list[bytes]

    def refused(self, error: ErrorCode, message: str) -> list[Outcome]:
        return [_refused(f"topic id {topic_id_text(one)}", error, message) for one in self.topic_ids]


class ConfigChange(NamedTuple):
    """A change of one setting of a topic; `operation` is a number of `ConfigOperation`, or unlawful."""

    name: str
    operation: int
    value: str | None


class TopicAlteration(NamedTuple):
    """The changes of the settings of the topic of a name."""

    topic: str
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfigs:
    """Directory: change settings of topics; a dry run is decided and not logged."""

    alterations: list[TopicAlteration]
    is_dry_run: bool = False

    def refused(self, error: ErrorCode, message: str) -> list[Outcome]:
        return [_refused(f"topic {one.topic}", error, message) for one in self.alterations]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmPlaced(_WithOneOutcome):
    """Directory: every owner has the partitions of these ranges."""

    topic_id: bytes
    ranges: list[PlacedRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmDeleted(_WithOneOutcome):
    """Directory: every owner has logged the deletion."""

    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode(_WithOneOutcome):
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
    log_dirs: tuple[bytes, ...] = ()
    """The ids of its data directories that are online, ascending."""
    is_any_dir_offline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNode(_WithOneOutcome):
    """Directory: a node is to give up what it leads, or to lead again (`core.directory.draining`). `members` are the nodes of the group."""

    node_id: int
    drain: int
    members: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirs(_WithOneOutcome):
    """Directory: a node says in which of its data directories replicas are; `node_epoch` is that of its process."""

    node_id: int
    node_epoch: int
    assignments: tuple[tuple[bytes, tuple[int, ...]], ...]
    """Ids of directories and the metadata partitions in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseSchemaLevel(_WithOneOutcome):
    """Directory: entries are written at this schema level from now on; 0 changes nothing. `gone_node_ids` do not come back."""

    level: int
    gone_node_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSnapshot(_WithOneOutcome):
    """Log a mark, at which every replica writes its state; `mark_id` is random."""

    mark_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSnapshot(_WithOneOutcome):
    """Log that a durable, verified snapshot exists."""

    snapshot: SnapshotCommitted


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRestore(_WithOneOutcome):
    """Directory: an operator calls this restore finished."""

    restore_id: bytes


SnapshotWrite: TypeAlias = MarkSnapshot | CommitSnapshot
MoveWrite: TypeAlias = ReleasePartition | AdoptPartition
PartitionWrite: TypeAlias = PlacePartitions | RemoveTopics | DeleteRecords | MigratePartitions | MoveWrite | SnapshotWrite | FinishRestore
FileWrite: TypeAlias = FenceFiles | RemoveFiles | HandOverFiles
NodeWrite: TypeAlias = RegisterNode | DrainNode | AssignReplicasToDirs
MoveOrder: TypeAlias = OrderMoves | EndMove | SettleMoves
TopicWrite: TypeAlias = CreateTopics | DeleteTopics | AlterTopicConfigs | ConfirmPlaced | ConfirmDeleted | MoveOrder
DirectoryWrite: TypeAlias = TopicWrite | NodeWrite | RaiseSchemaLevel
Write: TypeAlias = CommitFile | FileWrite | PartitionWrite | DirectoryWrite
StrictRead: TypeAlias = ListOffsets | DescribeFiles | DescribeDisklessLogs | DescribeStretches | Barrier
Command: TypeAlias = Write | StrictRead
PartitionAnswer: TypeAlias = list[DeletedTo] | list[MigratedLog] | list[FoundOffset] | list[DescribedLog]
MoveAnswer: TypeAlias = list[ReleasedPartition] | list[KnownStretch]
Answer: TypeAlias = CommitAnswer | list[Outcome] | PartitionAnswer | list[DescribedFile] | list[FencedFile] | MoveAnswer | Outcome
