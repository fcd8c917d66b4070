"""How an operation is declared, once, for everything that needs to know of it.

The declaration is read by the server (numbers, versions, limits), the dispatcher (order, metrics), `runtime.serving` (who
answers, split and merge), the client (where a request goes), the simulator and the test of the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from coordinator.core.commands import Command, Outcome
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.api_keys import KIP_KEY_SHIFT
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.entity import RequestPart, ResponsePart, blank

Acl = frozenset[AclOperation]
"""A principal needs one of these on the cluster; none of them: everybody may."""

CLUSTER_ACTION: Final[Acl] = frozenset({AclOperation.CLUSTER_ACTION})
"""Requests of the KIP, which brokers send, and requests between nodes."""
DISCOVERY: Final[Acl] = frozenset({AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE})
"""Requests by which gateways find partitions and nodes, and operators look at them."""
DESCRIBE: Final[Acl] = frozenset({AclOperation.DESCRIBE})
ALTER: Final[Acl] = frozenset({AclOperation.ALTER})
EVERYBODY: Final[Acl] = frozenset()
"""Requests without which a client could not log in, or find out why not."""

Refuse = Callable[[int, Any, Outcome], Message]
"""Takes the version, the request, and why it is refused as a whole; returns an answer that says so in each of its elements."""
RefuseBody = Callable[[bytes, int, Outcome], bytes]
"""Does the work of `Refuse` on bytes: takes the data, the offset of the request in it, and the reason; returns the encoded answer."""

Q = TypeVar("Q")
E = TypeVar("E")
A = TypeVar("A")


class TopicScope(Protocol):
    """The topics of which a principal is served, when it has none of an operation's rights on the cluster."""

    def allows(self, topic_id: bytes, name: str | None) -> bool:
        """Tell whether it is served of a topic, given by its id or, when that is zero, by its name.

        An id that is not known is judged as a topic that no ACL names, so that only who may see all topics learns that there is none.
        """

    def refusal(self, topic_id: bytes, name: str | None) -> Outcome:
        """Return why it is not served of a topic; names nothing but what the request names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByTopic:
    """How an operation is served to a principal that has rights on topics alone."""

    acl: AclOperation
    """The operation that the principal needs on a topic."""
    whole: Callable[[Any], Message] = lambda request: request
    """Makes the request such that its answer can be narrowed."""
    narrow: Callable[[int, Any, Any, TopicScope], Message] | None = None
    """Takes the version, the request and the answer; returns the answer with refusals, or nothing, in place of topics outside of the scope.
    None for operations with codecs of their own."""


class Lane(Enum):
    """Which requests of one connection may be under way together: those of one lane, except `ALONE`."""

    COMMIT = "commit"
    READ = "read"
    ALONE = "alone"
    UNORDERED = "unordered"
    """Requests between nodes. They are repeated until they succeed and ordered by what they carry, so none waits for another."""


class AnsweredBy(Enum):
    """Which node has the answer."""

    PARTITION = "the leader of the coordinator that owns the partition, for each partition"
    COORDINATOR = "the leader of the coordinator that the request names"
    EVERY_COORDINATOR = "the leaders of all coordinators together"
    DIRECTORY = "the leader of the directory"
    ANY_NODE = "any node"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """The classes of one version of one request."""

    request_type: type[Message]
    response_type: type[Message]
    flexible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation(Generic[Q, E, A]):
    """An operation on a list of elements, between its messages (Q: the request) and the core.

    Each element gets one answer, in the order of the request: the responses of the KIP have no error for a whole request.
    """

    elements: Callable[[Q], Sequence[E]]
    """The elements of the request; those of `AnsweredBy.PARTITION` have a `topic_id` and a `partition`."""
    refused: Callable[[Outcome], A]
    """The answer of an element that is not served."""
    response: Callable[[Q, Sequence[A]], Message]
    command: Callable[[list[E]], Command] | None = None
    """The command to one coordinator for some elements; None when the node does more than ask one (`runtime.serving`)."""
    best: Callable[[Sequence[A]], A] | None = None
    """Merges what several coordinators say of one element (`AnsweredBy.EVERY_COORDINATOR`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. `key` is the number handlers know it by; the KIP's own number, if it has one, is accepted as well."""

    name: str
    """The operation in metrics and logs."""
    key: int
    versions: Mapping[int, ApiVersion]
    answered_by: AnsweredBy
    acl: Acl
    lane: Lane = Lane.READ
    kip_key: int | None = None
    is_standard: bool = False
    """Kafka's own request. Like Kafka we ignore bytes after its end: librdkafka sends some after Metadata."""
    is_internal: bool = False
    """Sent by nodes only; a timeout of 0 or less counts as 1 ms, where others are refused."""
    is_unbounded: bool = False
    """A small request can ask for a large answer, so a server does not work on many at a time."""
    has_own_codec: bool = False
    """Read and answered without message objects, by callback (`app.dispatch`, `app.reads`): the ways that must be fast."""
    translation: Translation[Any, Any, Any] | None = None
    """None when the node itself is asked (`runtime.serving`)."""
    refuse: Refuse | None = None
    """None when the translation, or `refuse_body`, says how."""
    refuse_body: RefuseBody | None = None
    only_looks: Callable[[Any], bool] | None = None
    """Holds for a request that changes nothing; `DESCRIBE` is enough for it whatever `acl` says."""
    by_topic: ByTopic | None = None
    """None when it is only served to principals with rights on the cluster."""

    @property
    def needs(self) -> str:
        """The rights of which a principal needs one, as text."""
        on_cluster = " or ".join(sorted(one.name for one in self.acl))
        return f"{on_cluster} on the cluster" + ("" if self.by_topic is None else f", or {self.by_topic.acl.name} on the topic")

    @property
    def is_write(self) -> bool:
        """True for a client's request that changes something, so that its outcome may be unknown when the answer is lost."""
        return self.lane in (Lane.COMMIT, Lane.ALONE)

    def decode(self, api_version: int, data: bytes, offset: int) -> Message:
        """Return the request that fills `data` from `offset` on. Raises MalformedMessage; KeyError for a version there is not."""
        return decode(self.versions[api_version].request_type, data, offset, rest_allowed=self.is_standard)

    def refusal(self, api_version: int, data: bytes, offset: int, outcome: Outcome) -> bytes:
        """Return the encoded answer to a request that is refused as a whole. Raises as `decode`."""
        if self.refuse_body is not None:
            return self.refuse_body(data, offset, outcome)
        request = self.decode(api_version, data, offset)
        if self.refuse is not None:
            return encode(self.refuse(api_version, request, outcome))
        if self.translation is None:
            raise TypeError(f"{self.name} declares no refusal")
        refused = self.translation.refused(outcome)
        return encode(self.translation.response(request, [refused] * len(self.translation.elements(request))))


def version_of(request_type: type[Message], response_type: type[Message]) -> ApiVersion:
    """Return one version of a request."""
    return ApiVersion(request_type=request_type, response_type=response_type, flexible=request_type.__flexible__)


def declare(
    request: type[RequestPart],
    response: type[ResponsePart],
    *,
    answered_by: AnsweredBy,
    acl: Acl,
    lane: Lane = Lane.READ,
    is_internal: bool = False,
    is_unbounded: bool = False,
    has_own_codec: bool = False,
    translation: Translation[Any, Any, Any] | None = None,
    refuse: Refuse | None = None,
    refuse_body: RefuseBody | None = None,
    only_looks: Callable[[Any], bool] | None = None,
    by_topic: ByTopic | None = None,
) -> Operation:
    """Return an operation of the KIP or of this service; name and numbers are those of its request class."""
    number = int(request.__api_key__)
    return Operation(
        name=re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", request.__name__.removesuffix("Request")).upper(),
        key=number if number > KIP_KEY_SHIFT else number + KIP_KEY_SHIFT,
        kip_key=None if number > KIP_KEY_SHIFT else number,
        versions={0: version_of(request, response)},
        answered_by=answered_by,
        acl=acl,
        lane=lane,
        is_internal=is_internal,
        is_unbounded=is_unbounded,
        has_own_codec=has_own_codec,
        translation=translation,
        refuse=refuse,
        refuse_body=refuse_body,
        only_looks=only_looks,
        by_topic=by_topic,
    )


def refuse_whole(response: type[ResponsePart]) -> Refuse:
    """Return the refusal of a request whose response has one error for all of it; it contains nothing else."""

    def refuse(_: int, __: Any, outcome: Outcome) -> Message:
        return blank(response, error_code=outcome.error, error_message=outcome.message)

    return refuse


def bad_timeout(timeout_ms: int) -> Outcome:
    """Return the refusal of a request that allows no time."""
    return Outcome(error=ErrorCode.INVALID_REQUEST, message=f"timeout {timeout_ms} ms; it must be above 0")


def itself(outcome: Outcome) -> Outcome:
    """Return the outcome: the answer of an element that has nothing but an outcome."""
    return outcome
