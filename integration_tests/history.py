"""What concurrent clients did to a service and were told, and what was left in the end: the input of the checker.

Plain values, recorded by `integration_tests.load` and `integration_tests.final_state`. Times are seconds of one
monotonic clock in one process, so that "answered before the other was invoked" means something.
Invariant: an attempt without `answers` may or may not have taken effect; nothing is ever taken out of a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from integration_tests.unusual_keys import is_plain

NO_PRODUCER = -1
SENT_MS = 1_700_000_000_000
"""The time of a batch."""
RETRIABLE_CODES = frozenset({7, 14, 15, 16, 78})
UNKNOWN_CODES = frozenset({3, 6, 100})
"""Topic or partition unknown, or not begun yet. A client asks again; of a partition that exists it is a wrong answer."""


class UserPartition(NamedTuple):
    """A partition of a diskless topic."""

    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id.hex()[:8]}-{self.partition}"


class Origin(NamedTuple):
    """A batch by the file that holds it and its place among the file's batches."""

    object_key: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """One batch of a file. `repeats` names the batch, acknowledged before, whose producer sequences this one has again."""

    where: UserPartition
    coordinator_id: int
    byte_offset: int
    size_bytes: int
    record_count: int
    timestamp_type: int = 0
    producer_id: int = NO_PRODUCER
    base_sequence: int = -1
    repeats: Origin | None = None
    timestamp_ms: int = SENT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file as its client sends it, the same bytes in every attempt."""

    object_key: str
    batches: tuple[SentBatch, ...]


class BatchAnswer(NamedTuple):
    """What the service said about one batch."""

    error_code: int
    base_offset: int
    append_time_ms: int
    log_start_offset: int
    is_duplicate: bool

    @property
    def is_final(self) -> bool:
        """Whether a client takes this for the outcome; otherwise it asks again."""
        return self.error_code not in RETRIABLE_CODES and self.error_code not in UNKNOWN_CODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One CommitFile request with the batches at `places`; no `answers`: it ended without a reply."""

    object_key: str
    places: tuple[int, ...]
    node_id: int
    client: str
    invoked_s: float
    answered_s: float
    answers: tuple[BatchAnswer, ...] = ()


class Unknown(NamedTuple):
    """An answer other than to a commit that calls a partition unknown; `operation` names the request."""

    operation: str
    where: UserPartition
    node_id: int
    invoked_s: float
    answered_s: float
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLife:
    """When the creation of a topic was acknowledged, and when its deletion was sent first (None: never)."""

    topic_id: bytes
    created_s: float
    deletion_sent_s: float | None = None

    def spans(self, start_s: float, end_s: float) -> bool:
        """Whether the topic existed for certain from one moment to the other."""
        return self.created_s <= start_s and (self.deletion_sent_s is None or end_s < self.deletion_sent_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgery:
    """An entry that a fault wrote to a coordinator's log, or tried to: at the place that its key is for it contradicts the log."""

    coordinator_id: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictRead:
    """One answered ListOffsets (latest) of one partition."""

    where: UserPartition
    node_id: int
    invoked_s: float
    answered_s: float
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRead:
    """One answered ListOffsets (earliest) of one partition."""

    where: UserPartition
    node_id: int
    invoked_s: float
    answered_s: float
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """One DeleteRecords of one partition up to an explicit offset; no `error_code`: it ended without a reply."""

    where: UserPartition
    node_id: int
    invoked_s: float
    answered_s: float
    offset: int
    error_code: int | None = None
    low_watermark: int = -1


class FoundBatch(NamedTuple):
    """One batch as FindBatches tells it."""

    object_key: str
    byte_offset: int
    size_bytes: int
    base_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One answered FindBatches of one partition from `asked` on, by any node, which may be a standby."""

    where: UserPartition
    node_id: int
    invoked_s: float
    answered_s: float
    asked: int
    error_code: int
    log_start_offset: int
    high_watermark: int
    batches: tuple[FoundBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What the client library said of one file after asking all coordinators (DescribeFiles)."""

    object_key: str
    invoked_s: float
    answered_s: float
    error_code: int
    has_live_batches: bool


class Acknowledgement(NamedTuple):
    """One batch's final answer in one attempt."""

    origin: Origin
    attempt: Attempt
    answer: BatchAnswer


@dataclass(slots=True)
class History:
    """Everything the clients of one run did, in the order in which it ended."""

    files: dict[str, SentFile] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    reads: list[StrictRead] = field(default_factory=list)
    start_reads: list[StartRead] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    finds: list[Find] = field(default_factory=list)
    descriptions: list[Description] = field(default_factory=list)
    unknowns: list[Unknown] = field(default_factory=list)
    topics: list[TopicLife] = field(default_factory=list)
    forgeries: list[Forgery] = field(default_factory=list)

    def batch(self, origin: Origin) -> SentBatch:
        """The batch as it was sent."""
        return self.files[origin.object_key].batches[origin.place]

    def acknowledgements(self) -> Iterator[Acknowledgement]:
        """Every final answer to a batch of a file that may be committed."""
        for attempt in self.attempts:
            if not is_plain(attempt.object_key):
                continue
            for place, answer in zip(attempt.places, attempt.answers, strict=False):
                if answer.is_final:
                    yield Acknowledgement(Origin(attempt.object_key, place), attempt, answer)

    def acknowledged_at_s(self, coordinator_id: int, *, node_id: int | None = None) -> list[float]:
        """When batches of a coordinator were acknowledged (by one node, or any), ascending."""
        return sorted(
            ack.attempt.answered_s
            for ack in self.acknowledgements()
            if self.batch(ack.origin).coordinator_id == coordinator_id and node_id in (None, ack.attempt.node_id)
        )


def longest_gap_s(times_s: Iterable[float], start_s: float, end_s: float) -> float:
    """The longest time without an event between two moments."""
    inside = [start_s, *(time_s for time_s in times_s if start_s < time_s < end_s), end_s]
    return max(after - before for before, after in pairwise(inside))


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalPartition:
    """A user partition after everything: what FindBatches found from the log start on, and what ListOffsets says."""

    coordinator_id: int
    log_start_offset: int
    high_watermark: int
    latest_offset: int
    batches: tuple[FoundBatch, ...]


class LogMessage(NamedTuple):
    """One message of the metadata topic as Kafka has it; the time is the producing process's clock."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0


class ReplicaDigest(NamedTuple):
    """A replica's digest of its state at an offset of the metadata partition."""

    node_id: int
    coordinator_id: int
    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """What is left when the clients have stopped."""

    partitions: Mapping[UserPartition, FinalPartition]
    logs: Mapping[int, tuple[LogMessage, ...]]
    digests: tuple[ReplicaDigest, ...]
    copies: Mapping[int, Mapping[UserPartition, tuple[FoundBatch, ...]]] = field(default_factory=dict)
    """What every node, leader or standby, answers to FindBatches from the log start on."""
