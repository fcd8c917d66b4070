"""Events, the input of a shard, and effects, its output. Plain values; the runtime performs the effects in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from coordinator.core.leadership.states import State
from coordinator.core.log_entry import ContradictoryEntry, ReadEntry
from coordinator.core.request import Reply, Request


class Delivery(NamedTuple):
    """The delivery report of own entries that travelled together: `seq` and `offset` are those of the last of `entries`.

    Without an error the brokers have them all, at consecutive offsets; without an offset, their place is unknown.
    """

    seq: int
    offset: int | None
    error: str | None
    entries: int = 1


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group assigned the partition to this process."""


@dataclass(frozen=True, slots=True)
class Unassigned:
    """The group took the partition away, or membership is unknown."""


@dataclass(frozen=True, slots=True)
class MayClaim:
    """Asked for by `Recover`: the log ends at `end_offset`, membership is proved if it had to be; `term_id` is random."""

    end_offset: int
    term_id: int


@dataclass(frozen=True, slots=True)
class EntriesRead:
    entries: Sequence[ReadEntry]


@dataclass(frozen=True, slots=True)
class Delivered:
    """Reports of the term `term_id`."""

    term_id: int
    reports: Sequence[Delivery]


@dataclass(frozen=True, slots=True)
class ProduceFailed:
    """The producer of the term did not take an entry."""

    term_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Submitted:
    requests: Sequence[Request]


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed; looks at deadlines."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process is about to end: lead on until another node leads."""


@dataclass(frozen=True, slots=True)
class Closing:
    """The replica is about to be closed: lead no longer, and answer all that waits."""


@dataclass(frozen=True, slots=True)
class LogUnreadable:
    """The log cannot be read on from the position of this replica."""

    reason: str


@dataclass(frozen=True, slots=True)
class Invalidated:
    """The base of this replica is gone (topic recreated, database broken)."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accused:
    """Another node, to which our entry is a contradiction, says that this leader's state is not what the log says."""

    contradiction: ContradictoryEntry
    accuser_id: int


@dataclass(frozen=True, slots=True)
class SchemaLevel:
    """Entries are written at this level of the log's schema from now on."""

    level: int


@dataclass(frozen=True, slots=True)
class PartitionsGrew:
    """The metadata topic has so many partitions now."""

    partition_count: int


@dataclass(frozen=True, slots=True)
class ClockAhead:
    """Times are written into the log so much earlier than this process's clock shows them."""

    ahead_ms: int


Event: TypeAlias = (
    Assigned
    | Unassigned
    | MayClaim
    | EntriesRead
    | Delivered
    | ProduceFailed
    | Submitted
    | Ticked
    | Stopping
    | Closing
    | LogUnreadable
    | Invalidated
    | Accused
    | SchemaLevel
    | PartitionsGrew
    | ClockAhead
)


class NewEntry(NamedTuple):
    seq: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class OpenTerm:
    """Take a producer for this term and produce its claim."""

    term_id: int
    claim: NewEntry


@dataclass(frozen=True, slots=True)
class Append:
    """Produce entries in the open term, in order."""

    term_id: int
    entries: list[NewEntry]


@dataclass(frozen=True, slots=True)
class EndTerm:
    """Abandon the term's producer at once."""

    term_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Follow:
    """(Re)start reading the log at this offset."""

    next_offset: int


@dataclass(frozen=True, slots=True)
class Recover:
    """Find out where the log ends, then send `MayClaim`; with `prove`, first wait a little and prove membership anew."""

    prove: bool


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The life of the replica went on; an operator wants to know."""

    before: State
    after: State
    reason: str


@dataclass(frozen=True, slots=True)
class DirectoryChanged:
    """Partition 0 applied an entry that changed the directory."""


@dataclass(frozen=True, slots=True)
class Contradicted:
    """An entry contradicts the state; `is_certain` when it was in the log before that was folded, so that the entry is void.

    Otherwise this replica fails, and learns from a state built anew whether the entry or the old state was wrong.
    """

    entry: ContradictoryEntry
    is_certain: bool


Errand: TypeAlias = OpenTerm | Append | EndTerm | Follow | Recover | StateChanged | DirectoryChanged | Contradicted
Effect: TypeAlias = Reply | Errand
