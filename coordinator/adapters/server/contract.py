"""The interface between the socket server and its user: requests, the handler, limits and counters.

The server never interprets a request's body (ApiVersions aside), and the handler never sees a socket.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, Protocol

from coordinator.protocol.framing import Pending
from coordinator.protocol.framing_loops import Body
from coordinator.security.login import Logins
from coordinator.security.principal import ANONYMOUS, Principal


class Peer(NamedTuple):
    """The client of a connection. Every request of the connection carries the same one until the client logs in."""

    connection_id: int
    listener: str
    address: str
    principal: Principal


class IncomingRequest(NamedTuple):
    """One received request; its body fills `data` from `body_offset` on.

    `api_key` is the canonical number: a request under one of the KIP's own numbers comes as the one 10000 higher, and
    `wire_api_key` tells which it was. `received_s` is the loop's clock when its last byte was read.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    data: bytes
    body_offset: int
    wire_api_key: int
    received_s: float
    peer: Peer


Respond = Callable[[Body | None], None]
"""Takes an encoded body, or None when the request cannot be answered: then the connection is closed.

A body may be in several buffers, which are not copied and must not change; `NO_REPLY` is for a request that its client wants no reply to.
"""

NO_REPLY: Final[Body] = ()


class Replies(Protocol):
    """Where the answers to a run of requests go; each is known by its place in the run. Used on the loop."""

    @property
    def are_awaited(self) -> bool:
        """Whether the connection has not ended; else giving does nothing."""

    def give(self, place: int, body: Body | None) -> None:
        """Answer one request; see `Respond`."""

    def give_all(self, answers: Sequence[tuple[int, Body]]) -> None:
        """Answer several, and send at once what may be sent."""

    def fail(self) -> None:
        """Some request of the run cannot be answered: close the connection."""


class RequestKind(NamedTuple):
    """The fields that requests with the same head share; see `IncomingRequest`."""

    api_key: int
    api_version: int
    client_id: str | None
    body_offset: int
    wire_api_key: int


class RequestRun(NamedTuple):
    """Consecutive requests of one connection with the same head that were read together; see `IncomingRequest`."""

    kind: RequestKind
    correlation_ids: list[int]
    frames: list[bytes]
    received_s: float
    peer: Peer
    replies: Replies

    def each(self) -> Iterator[tuple[IncomingRequest, Respond]]:
        """One request after the other, as long as answers are awaited."""
        key, version, client_id, body_offset, wire_key = self.kind
        for place, (correlation_id, frame) in enumerate(zip(self.correlation_ids, self.frames, strict=True)):
            if not self.replies.are_awaited:
                return
            request = IncomingRequest(key, version, correlation_id, client_id, frame, body_offset, wire_key, self.received_s, self.peer)
            yield request, partial(self.replies.give, place)


class _OneReply:
    """Replies to a run of one request that came with a `Respond`."""

    are_awaited = True

    def __init__(self, respond: Respond) -> None:
        self._respond = respond

    def give(self, place: int, body: Body | None) -> None:
        self._respond(body)

    def give_all(self, answers: Sequence[tuple[int, Body]]) -> None:
        for place, body in answers:
            self.give(place, body)

    def fail(self) -> None:
        self._respond(None)


def run_of_one(request: IncomingRequest, respond: Respond) -> RequestRun:
    """A single request as a run."""
    key, version, correlation_id, client_id, data, body_offset, wire_key, received_s, peer = request
    kind = RequestKind(key, version, client_id, body_offset, wire_key)
    return RequestRun(kind, [correlation_id], [data], received_s, peer, _OneReply(respond))


TakeRun = Callable[[RequestRun], None]
"""Takes requests, on the loop, as `Handler.handle` would take one after the other. Raises MalformedMessage after taking those before it."""


class Handler(Protocol):
    """Serves requests."""

    @property
    def runs(self) -> Mapping[int, TakeRun]:
        """The operations, by canonical number, whose requests are taken together when they were read together."""
        return {}

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        """Take a request, on the event loop; call `respond` once with the encoded body, now or later, on the loop.

        Requests of one connection come in order, and replies leave in that order whenever they are given. Raising
        MalformedMessage closes the connection with the reason in the log. After the connection is gone `respond` does nothing.
        """

    def backed_up(self, peer: Peer, is_backed_up: bool) -> None:
        """Note that a client does not take its replies as fast as they come, or does again."""
        return

    def gone(self, peer: Peer) -> None:
        """Note that a connection has come to its end: nothing more comes from it."""
        return


class Promise(Protocol):
    """What a handler knows of a request that it has remembered (`Host.remember`)."""

    def holds_until_s(self) -> float:
        """Return until when, by the loop's clock, the answer holds without asking here again; a time that is over: it does not."""

    def ended(self) -> None:
        """Note that the request is remembered no more."""


class RememberedRequest(Protocol):
    """A request that a connection remembers."""

    repeated: int
    """How often it came again and was answered without the handler."""

    def forget(self) -> None:
        """Forget it. One that waits goes to the handler."""


class Host(Protocol):
    """A connection as its login and its handler see it."""

    @property
    def peer(self) -> Peer:
        """The client at the other end."""

    def respond(self, pending: Pending, body: Body) -> None:
        """Answer a request."""

    def hold(self) -> None:
        """Serve no request until `resume`."""

    def resume(self) -> None:
        """Serve requests again."""

    def pause(self, paused: bool) -> None:
        """Serve and read nothing while paused, whatever the login does: memory has no room for more."""

    def remember(self, request: IncomingRequest, body: bytes, wait_s: float, promise: Promise) -> RememberedRequest | None:
        """Answer requests that are as this one by `body` after `wait_s`, as long as that holds; None for one that is not remembered.

        One request is remembered at a time, the last one. A request that comes again, and waits when the answer holds no more, goes to the
        handler with the time at which it was received.
        """

    def forget(self) -> None:
        """Forget the remembered request, if there is one."""

    def serve_as(self, principal: Principal) -> None:
        """Serve requests of a principal from now on."""

    def end_session(self) -> None:
        """Serve nothing but logins from now on."""

    def close(self, reason: CloseReason, detail: str) -> None:
        """Close the connection, after what was answered."""


class Desk(Protocol):
    """Takes the requests of one connection that are about its login. Used on one event loop."""

    @property
    def has_logged_in(self) -> bool:
        """Whether a login succeeded, however long ago."""

    def take(self, key: int, version: int, frame: bytes, body_offset: int, pending: Pending) -> None:
        """Take a SaslHandshake or SaslAuthenticate. Raises MalformedMessage."""

    def close(self) -> None:
        """Let everything go: the connection is gone."""


OpenDesk = Callable[[Host], Desk]


class ServedApi(Protocol):
    """A request that a listener serves, under one of its numbers."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def canonical(self) -> int:
        """The number by which handlers know it."""

    @property
    def is_unbounded(self) -> bool:
        """Whether a small request can have a large answer."""

    def is_flexible(self, version: int) -> bool | None:
        """Whether a version has tagged fields; None for a version that is not served."""

    def is_response_tagged(self, version: int) -> bool:
        """Whether responses of a version have header version 1; also for a version that is not served."""

    def check(self, version: int, data: bytes, body_offset: int) -> None:
        """Raise MalformedMessage for a body that is no request of a version."""


class ServedApis(Protocol):
    """The requests that a listener serves."""

    def find(self, api_key: int) -> ServedApi | None:
        """Return the request of a number if it is served."""

    def api_versions_body(self, version: int) -> bytes | None:
        """Encode the answer to ApiVersions, which says what is served; also for a version that there is not.

        None leaves the answer to the handler.
        """


class CloseReason(Enum):
    """Why a connection ended."""

    CLIENT = "client closed"
    NETWORK = "network error"
    MALFORMED = "malformed message"
    UNSUPPORTED = "unsupported request or version"
    SLOW_READER = "client does not read its replies"
    OUTPUT_FULL = "client reads its replies too slowly"
    UNFINISHED = "request not finished while many others are not"
    IDLE = "idle"
    TOO_MANY = "too many connections"
    TLS_FAILED = "no TLS"
    LOGIN_FAILED = "login failed"
    LOGIN_SLOW = "no login in time"
    LOGIN_DISPLACED = "no login yet, and newer connections need the place"
    NOT_LOGGED_IN = "request without a login"
    HANDLER_FAILED = "request handler failed"
    SHUTDOWN = "server stops"


def _nobody(_certificate_der: bytes) -> Principal:
    return ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """How a listener is secured. The default is plain text without logins."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Returns the newest context, for each handshake; None for plain text."""
    has_login: bool = False
    """Whether nothing is served before a login."""
    logins: Logins | None = None
    """The logins that are offered; on a listener without `has_login` they may be used and need not be."""
    principal_of: Callable[[bytes], Principal] = _nobody
    """Names the client by its certificate, which TLS has verified. Raises `coordinator.security.login.LoginFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Bounds of one listener. A connection holds at most about `pending_bytes_max` plus one request plus its output.

    While a connection has `pending_requests_max` requests or `pending_bytes_max` bytes pending (read and not answered,
    or answered and not sent), or `pending_large_max` whose answers may be large, or its peer lets more than
    `output_pause_bytes` of output wait, it is not read.
    A peer that takes no byte of waiting output for `output_stall_timeout_ms`, or lets more than `output_bytes_max`
    collect, is disconnected.

    When the unfinished requests of all connections together have more than `unfinished_bytes_max`, the connection with the largest one
    is disconnected.

    Before its login a connection may send requests of `login_request_bytes_max`, and has `login_timeout_ms` from its beginning. Of
    `logins_waiting_max` connections without a login one more displaces the oldest. A failed login is answered after
    `login_failure_delay_ms`. A login holds for `session_ms_max`; 0 is without end.
    """

    request_bytes_max: int = 100 * 1024 * 1024
    unfinished_bytes_max: int = 512 * 1024 * 1024
    connections_max: int = 10_000
    connection_idle_ms_max: int = 600_000
    pending_requests_max: int = 256
    pending_bytes_max: int = 16 * 1024 * 1024
    pending_large_max: int = 4
    output_pause_bytes: int = 1024 * 1024
    output_bytes_max: int = 64 * 1024 * 1024
    output_stall_timeout_ms: int = 30_000
    login_request_bytes_max: int = 512 * 1024
    logins_waiting_max: int = 1_000
    login_timeout_ms: int = 10_000
    login_failure_delay_ms: int = 100
    session_ms_max: int = 0


@dataclass(slots=True, kw_only=True)
class ServerStats:
    """Counters of one listener since it was made; `connections_open` and `unfinished_bytes` are levels.

    Requests are counted by wire number.
    """

    connections_open: int = 0
    connections_opened: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    unfinished_bytes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    replies_too_late: int = 0
    reading_paused: int = 0
    closed: Counter[CloseReason] = field(default_factory=Counter)
