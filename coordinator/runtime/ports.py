"""The ports: every call that the runtime makes to the outside world.

Every port calls back on the runtime's event loop, never on a thread of its own. `simulation.fakes` has a small
real implementation of each, which passes the same contract tests as the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.assignor.member import GroupMember
from coordinator.core.events import Delivery, NewEntry
from coordinator.core.log_entry import ReadEntry
from coordinator.core.state.packing import Flush
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import ColdStore, Header
from coordinator.core.yielding import Rest, no_rest
from coordinator.protocol.codec import Message
from records.snapshot import SnapshotFile, SnapshotHead, SnapshotId, TableRows

LogEntry = ReadEntry
"""One message of the log of a metadata partition."""


class LogBroken(Enum):
    """Why a reader stopped."""

    BELOW_START = "below log start"
    PAST_END = "past log end"
    GAP = "offsets are not contiguous"
    CUT = "the log lost entries, and others have their offsets"
    FAILED = "reading failed"


class LogListener(Protocol):
    """Receives what a `LogReader` reads. `generation` is the one given to `follow`; others are to be ignored."""

    def on_entries(self, partition: int, generation: int, entries: Sequence[LogEntry], size_bytes: int) -> None:
        """Entries of the log, in order, and what their keys and values come to."""

    def on_log_broken(self, partition: int, generation: int, why: LogBroken, detail: str) -> None: ...


class LogReader(Protocol):
    """Tails metadata partitions, each from a given offset, in order and without a hole.

    A control record, which Kafka writes at the end of a transaction, is an entry without key and value.
    """

    def follow(self, partition: int, next_offset: int, generation: int, last_hash: bytes | None = None) -> None:
        """(Re)start reading a partition at `next_offset`.

        `last_hash` identifies the entry before it (`entry_hash`): a log that has another one there is reported as `LogBroken.CUT`.
        """

    def unfollow(self, partition: int) -> None: ...

    def hurry(self, partition: int, is_urgent: bool) -> None:
        """Deliver all entries as they come while a partition is urgent; else many may wait together for `deliver`."""

    def deliver(self) -> None:
        """Give the listener all that was read so far; called at every tick."""


Report = Delivery
"""The delivery report of entries that travelled together, most often of one: `seq` and `offset` are those of the last.

Without an error the brokers have them side by side; `offset` is None when they did not tell where, and never
negative. A reported one may be later than the entry's offset, never earlier: librdkafka repeats requests."""


class TermProducer(Protocol):
    """The producer of one leadership term on one metadata partition. It survives no error of any entry."""

    def produce(self, entries: Sequence[NewEntry]) -> None:
        """Hand the entries of a group over together. Raises `ProduceRefused` when some were definitely not sent.

        Others of the group may be sent then, also after the first that was not: the log's rules make those void.
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
    def on_assignment(self, assignment: GroupAssignment) -> None:
        """The whole current assignment; `NOT_ASSIGNED` when this node is no member any longer."""


class Membership(Protocol):
    """The consumer group member whose assignment is the permission to claim partitions."""

    def join(self, listener: MembershipListener) -> None: ...

    def leave(self) -> None:
        """Leave the group at once (idempotent); the listener hears `NOT_ASSIGNED`."""

    def tell(self, member: GroupMember, partitions: int) -> None:
        """Set what the others are told in the next round, and how many partitions there are to be assigned."""

    def refresh(self, why: str) -> None:
        """Ask for a round, in which what was told last counts."""

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


class KafkaBroker(NamedTuple):
    """A broker of the Kafka cluster in service; `rack` is empty when it has none."""

    broker_id: int
    rack: str
    host: str
    port: int


class TopicMissing(Exception):
    """The metadata topic does not exist."""


class KafkaUnavailable(Exception):
    """The cluster did not answer in time; try again."""


class ClusterRefused(KafkaUnavailable):
    """The cluster refused (authorization, invalid value); the message names the reason.

    A node that starts gives up. One that serves goes on as when the cluster does not answer: permissions are taken away and
    given back by people, and a leader whose appends are acknowledged does no harm.
    """


class LoginRefused(ClusterRefused):
    """No broker lets this client in: its login or its TLS; the message says what to check."""


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
        """One entry of the log, as a `LogReader` reads it, or None when that offset is not there any more."""

    async def delete_before(self, partition: int, offset: int) -> int:
        """Delete the log's entries below `offset` and return the log's new start; a start beyond `offset` stays.

        Raises `KafkaUnavailable` (the entries may be deleted then), and its `ClusterRefused` when the log ends before `offset`.
        """

    async def group_members(self) -> frozenset[str]:
        """The client ids of the members of the service's consumer group (`group_client_id`). Raises `KafkaUnavailable`."""

    async def brokers(self) -> tuple[KafkaBroker, ...]:
        """The brokers in service, by id; at least one. Raises `KafkaUnavailable`."""


class ClassicPlace(NamedTuple):
    """A partition of a classic topic."""

    topic_id: bytes
    partition: int


class ClassicLogs(Protocol):
    """The logs of classic topics of the Kafka cluster."""

    async def log_starts(self, places: Collection[ClassicPlace]) -> Mapping[ClassicPlace, int | str]:
        """Return the first offset of each log, or why it is unknown, in bounded time and with few requests.

        A place that is not in the answer is unknown, too. Raises `KafkaUnavailable`.
        """


class PinnedState(Protocol):
    """The state as of one write, readable while further ones are written. Belongs to one thread at a time; it has to be closed."""

    @property
    def header(self) -> Header:
        """The position of the state in the log."""

    @property
    def head(self) -> SnapshotHead:
        """The head of a snapshot of this state."""

    def tables(self, rest: Rest = no_rest) -> Iterator[TableRows]:
        """All rows of all tables as they are stored, about a megabyte at a time; pauses between pieces of a millisecond."""

    def close(self) -> None:
        """Let go of the state (idempotent): as long as it is held, the log of the database's writes grows."""


class StateStore(Protocol):
    """The state database of one replica. `write`, `pin` and `close` run in the writer's thread, everything else on the loop."""

    def load(self) -> Stored | None:
        """Read the state of the database; None when it is new."""

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Write one flush and the applied offset in one transaction."""

    def pin(self) -> PinnedState:
        """Hold on to the state that the last write left. Raises `StateFailed`, also when nothing was written yet."""

    def reader(self) -> ColdStore:
        """A connection of its own for the event loop."""

    def close(self, *, clean: bool) -> None:
        """Close; a database that was not closed cleanly is only trusted while the machine was not restarted."""


class StateStores(Protocol):
    """The state databases of this process, one per replica."""

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> StateStore:
        """Open or create; one that belongs to another log or cannot be read is discarded and begun anew. Blocks."""

    def build(self, partition: int, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
        """Make the database of a partition from a snapshot, in the place of an earlier one, which must not be open. Blocks.

        Returns the state in it, proven: a database that is opened now holds that, and need not be loaded. Nothing half made is ever
        taken for a database. Raises `BadSnapshot`, `StateFailed`, and what `rows` raises.
        """

    def prove(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Build a database in another place, and delete it: a snapshot that passes can be loaded. Blocks. Raises as `build`."""

    def set_aside(self, partition: int) -> str | None:
        """Keep a closed database as evidence under another name; returns the name. Blocks."""


class SnapshotStoreFailed(Exception):
    """The object store did not do its part for a snapshot; the text names store, key and reason. Trying again later is safe."""


class StoredSnapshot(NamedTuple):
    """One durable copy of a snapshot as the object store lists it; its content is unproven. `location` is the object's key."""

    location: str
    end_offset: int
    epoch: int
    size_bytes: int
    modified_ms: int


class SnapshotPiece(NamedTuple):
    """Bytes of a snapshot's file from a position on, and the size of the whole file."""

    size: int
    data: bytes


class LocalSnapshots(Protocol):
    """The snapshots of one metadata partition in the data directory. Every call blocks and raises `DirectoryFailed`."""

    def write(self, head: SnapshotHead, rows: Iterable[TableRows], *, log_timestamp_ms: int, rest: Rest = no_rest) -> SnapshotFile:
        """Write a snapshot; it is there whole, or not at all. Raises what `rows` raises."""

    def ids(self) -> list[SnapshotId]:
        """The snapshots that are there whole, the newest first."""

    def path(self, snapshot_id: SnapshotId) -> Path:
        """The file of a snapshot."""

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> SnapshotPiece | None:
        """At most so many bytes of a snapshot from a position on, none after its end; None when it is not there."""

    def part(self, snapshot_id: SnapshotId) -> Path:
        """Where a snapshot that comes from elsewhere is written; `adopt` makes it one that is there."""

    def append(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Write bytes to the end of `part`."""

    def adopt(self, snapshot_id: SnapshotId) -> None:
        """Give the file `part`, which is whole now, its name."""

    def remove(self, snapshot_id: SnapshotId) -> None:
        """Remove a snapshot, if it is there."""

    def keep(self, newest: int) -> None:
        """Remove all but the newest ones, and what is left of unfinished ones."""


class DurableSnapshots(Protocol):
    """The durable copies of snapshots. Every call is bounded in time and raises `SnapshotStoreFailed`."""

    async def upload(
        self, file: SnapshotFile, *, cluster_id: str, topic_id: bytes, partition: int, end_offset: int, epoch: int, suffix: str
    ) -> str:
        """Store a snapshot under a key of its own, read it back whole, and return its location.

        `suffix` is random and used for one upload only. It returns only when the object has the size and the sha256 of `file`. When
        it raises, there may be an object of any content, now or later: the caller does not commit it, and its age lets it be removed.
        """

    async def download(self, location: str, target: Path) -> SnapshotFile:
        """Write an object into the file `target`; the caller compares size and sha256 with those committed.

        When it raises, there is no file. Raises OSError when the file cannot be written.
        """

    async def list(self, cluster_id: str, topic_id: bytes, partition: int) -> list[StoredSnapshot]:
        """The snapshots of a partition, unfinished uploads included, the newest first."""

    async def remove(self, locations: Sequence[str]) -> None:
        """Remove objects; missing ones count as removed. Refuses a location that does not name a snapshot."""


class PeerUnavailable(Exception):
    """Another node did not answer in time."""


class PeerGone(PeerUnavailable):
    """The machine refused the connection: no process listens at the address."""


class PeerAddress(NamedTuple):
    """Where another node listens. `node_id` is None for one that the settings name."""

    node_id: int | None
    host: str
    port: int


class Peers(Protocol):
    """Requests to other nodes of the service."""

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        """Send a request and return its response. Raises `PeerUnavailable`."""
