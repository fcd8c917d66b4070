"""The ports: every call that the runtime makes to the outside world.

Every port calls back on the runtime's event loop, never on a thread of its own. `coordinator.testing` has a small
real implementation of each, which passes the same contract tests as the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from coordinator.core.events import Delivery, NewEntry
from coordinator.core.log_entry import ReadEntry
from coordinator.core.state.packing import Flush
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import ColdStore
from coordinator.core.yielding import Rest, no_rest
from coordinator.protocol.codec import Message

LogEntry = ReadEntry
"""One message of a metadata partition as it stands in the log."""


class LogBroken(Enum):
    """Why a reader stopped."""

    BELOW_START = "below log start"
    PAST_END = "past log end"
    GAP = "offsets are not contiguous"
    FAILED = "reading failed"


class LogListener(Protocol):
    """Receives what a `LogReader` reads. `generation` is the one given to `follow`; others are to be ignored."""

    def on_entries(self, partition: int, generation: int, entries: Sequence[LogEntry]) -> None: ...

    def on_log_broken(self, partition: int, generation: int, why: LogBroken, detail: str) -> None: ...


class LogReader(Protocol):
    """Tails metadata partitions, each from a given offset, in order and without a hole."""

    def follow(self, partition: int, next_offset: int, generation: int) -> None:
        """(Re)start reading a partition at `next_offset`."""

    def unfollow(self, partition: int) -> None: ...


Report = Delivery
"""The delivery report of one entry; `offset` is None exactly when `error` is not."""


class TermProducer(Protocol):
    """The producer of one leadership term on one metadata partition. It survives no error of any entry."""

    def produce(self, entries: Sequence[NewEntry]) -> None:
        """Hand the entries of a group over together. Raises `ProduceRefused` when some were definitely not sent.

        Others of the group may be sent then, also behind the first that was not: the log's rules make those void.
        """

    def abandon(self) -> None:
        """End at once without waiting for the network; entries under way may or may not land. No report follows."""


class ProduceRefused(Exception):
    """The producer did not take an entry (too large, queue full, fatal error); nothing of that one was sent."""


class TermProducers(Protocol):
    """Hands out producers; keeps a spare one ready, its producer id already fetched."""

    def open(self, partition: int, on_reports: Callable[[Sequence[Report]], None]) -> TermProducer: ...


class Proof(Enum):
    """Answer of the group to "am I still a member, in the current generation?"."""

    MEMBER = "member"
    ASK_AGAIN = "ask again after the next assignment"
    NOT_A_MEMBER = "not a member"


class MembershipListener(Protocol):
    def on_assignment(self, partitions: frozenset[int]) -> None:
        """The whole current assignment; empty when revoked or lost."""


class Membership(Protocol):
    """The consumer group member whose assignment is the permission to claim partitions."""

    def join(self, listener: MembershipListener) -> None: ...

    def leave(self) -> None:
        """Leave the group at once (idempotent); the listener hears an empty assignment."""

    def prove(self, partition: int, callback: Callable[[Proof], None]) -> None:
        """Ask the group coordinator asynchronously; the callback comes within a bounded time."""

    def alive(self) -> None:
        """The event loop is alive: postpones the watchdog that leaves the group when the loop hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """The cluster's description of one metadata partition."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The cluster's description of the metadata topic. `topic_id` is 16 bytes; `config` the effective values."""

    cluster_id: str
    topic: str
    topic_id: bytes
    partitions: tuple[PartitionFacts, ...]
    config: Mapping[str, str]


class TopicMissing(Exception):
    """The metadata topic does not exist."""


class KafkaUnavailable(Exception):
    """The cluster did not answer in time; try again."""


class ClusterRefused(KafkaUnavailable):
    """The cluster refused (authorization, invalid value); the message names the reason.

    A node that starts gives up. One that serves goes on as when the cluster does not answer: permissions are taken away and
    given back by people, and a leader whose appends are acknowledged does no harm.
    """


def group_client_id(node_id: int) -> str:
    """Return the client id of a node at the brokers, by which other nodes recognise it among the members of the group."""
    return f"diskless-{node_id}"


class Cluster(Protocol):
    """Administration of the metadata topic. Every call retries once and is bounded in time.

    Where a call raises `KafkaUnavailable` it may be a `ClusterRefused`.
    """

    async def describe_topic(self) -> TopicFacts:
        """Raises `TopicMissing`, `KafkaUnavailable`."""

    async def create_topic(self, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None: ...

    async def topic_id(self) -> bytes:
        """Only the topic id, cheap enough to ask every few seconds. Raises `TopicMissing`, `KafkaUnavailable`."""

    async def log_range(self, partition: int) -> tuple[int, int]:
        """(log start offset, log end offset), read from the partition's leader. Raises `KafkaUnavailable`."""

    async def read_entry(self, partition: int, offset: int) -> LogEntry | None:
        """One entry of the log, or None when that offset is not there any more."""

    async def group_members(self) -> frozenset[str]:
        """The client ids of the members of the service's consumer group (`group_client_id`). Raises `KafkaUnavailable`."""


class StateStore(Protocol):
    """The state database of one replica. `write` and `close` run in the writer's thread, everything else on the loop."""

    def load(self) -> Stored | None:
        """Read the state of the database; None when it is new."""

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Write one flush and the applied offset in one transaction."""

    def reader(self) -> ColdStore:
        """A connection of its own for the event loop."""

    def close(self, *, clean: bool) -> None:
        """Close; a database that was not closed cleanly is only trusted while the machine was not restarted."""


class StateStores(Protocol):
    """The state databases of this process, one per replica."""

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> StateStore:
        """Open or create; one that belongs to another log or cannot be read is discarded and begun anew. Blocks."""

    def set_aside(self, partition: int) -> str | None:
        """Keep a closed database as evidence under another name; returns the name. Blocks."""


class PeerUnavailable(Exception):
    """Another node did not answer in time."""


class PeerGone(PeerUnavailable):
    """The machine refused the connection: no process listens at the address."""


class Peers(Protocol):
    """Requests to other nodes of the service."""

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        """Send a request and return its response. Raises `PeerUnavailable`."""
