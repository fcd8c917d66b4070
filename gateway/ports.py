"""What the rooms of the gateway know of each other: the session of a client, topics, rights, and the takers of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

from coordinator.adapters.server.contract import NO_REPLY, IncomingRequest, Promise, RememberedRequest, Respond
from coordinator.kafka.acls import AclOperation
from coordinator.protocol.codec import Message

Answer = TypeVar("Answer", bound=Message)

SPREAD_S: Final = 2.0
"""For so long a diskless topic that a broker does not know is asked for again: brokers learn of a new topic one after the other."""
SPREAD_PAUSE_S: Final = 0.1


class DisklessTopic(NamedTuple):
    """A topic of the coordinator. Its shadow in Kafka has the same name and the same id."""

    name: str
    topic_id: bytes
    """16 bytes."""
    partitions: int
    settings: Mapping[str, str]
    """The settings that the topic has of its own, by name (`coordinator.kafka.topic_configs`)."""
    coordinators: tuple[int, ...] = ()
    """The coordinator of each partition, as far as they are known: which gateway leads a partition follows from it."""
    leader_epochs: tuple[int, ...] = ()
    """Of partitions of a migrated topic: what was recorded at B0, at least that of every batch of the classic part."""
    is_migrated: bool = False
    """Whether partitions have a classic part, which stays with the brokers."""

    def leader_epoch(self, partition: int) -> int:
        """Return the leader epoch of a partition's batches: consumers commit nothing with a lower one than before."""
        return max(0, self.leader_epochs[partition]) if partition < len(self.leader_epochs) else 0


class Catalogue(Protocol):
    """The diskless topics, as the coordinator listed them last. Used on the event loop."""

    def named(self, name: str) -> DisklessTopic | None:
        """Return the diskless topic of a name."""

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        """Return the diskless topic of an id of 16 bytes."""

    async def refreshed(self) -> None:
        """Return when a listing that began after this call has come. Raises `coordinator.client.errors.ServiceError`."""


class Upstream(Protocol):
    """The connection to a real broker that belongs to one connection of a client, and is logged in as that client."""

    def forward(self, frame: bytes) -> Awaitable[bytes]:
        """Send a request of the client unread (without its length); return the answer, correlation id first. Raises `BrokerLost`."""

    def send(self, frame: bytes, answered: Callable[[bytes | None], None]) -> None:
        """Send a request as `forward`; `answered` gets the answer, or None when the connection is lost, perhaps before this returns."""

    def tell(self, frame: bytes, taken: Callable[[], None]) -> None:
        """Send a request that the broker gives no answer to; `taken` is called once, when it is no longer kept in memory."""

    async def ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        """Ask a question of the gateway's own with the client's rights. Raises `BrokerLost`."""


class Session(Protocol):
    """One connection of a client."""

    connection_id: int
    address: str
    listener: str
    relayed_broker_id: int | None
    """The real broker that the client thinks it is connected to; None at the gateway's own node."""
    client_id: str | None
    """Of the last request."""
    zone: str | None

    @property
    def upstream(self) -> Upstream:
        """The connection to a broker that is this client's own."""

    def remember(self, request: IncomingRequest, body: bytes, wait_s: float, promise: Promise) -> RememberedRequest | None:
        """Answer requests that are as this one by `body` after `wait_s`; see `coordinator.adapters.server.contract.Host`."""


class Rights(Protocol):
    """What the client of a session may do, as the Kafka cluster says on the client's own connection."""

    def known(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str] | None:
        """Return the topics that the client may not use so; None when the cluster has to be asked first (`forbidden`)."""

    async def forbidden(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
        """Return the topics that the client may not use so. Raises `BrokerLost`."""


NO_ANSWER: Final = NO_REPLY
"""What a taker gives `respond` when the request gets no answer (Produce with acks=0)."""


async def forbidden_topics(rights: Rights, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
    """Return the topics that the client may not use so, from what is known if that is enough. Raises `BrokerLost`."""
    known = rights.known(session, topics, operation)
    return await rights.forbidden(session, topics, operation) if known is None else known


class Taker(Protocol):
    """Serves the requests of one API of Kafka."""

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """Take a request on the event loop; call `respond` once with the encoded body, now or later, on the loop.

        Raises `coordinator.protocol.wire.MalformedMessage`, which closes the connection.
        """
