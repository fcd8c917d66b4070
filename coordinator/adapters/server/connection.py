"""One accepted connection: bytes to requests, replies to bytes, and every reason to stop reading or to hang up.

Invariants: replies leave in request order; bytes waiting here are bounded by the limits (see `ServerLimits`), because
a connection at a bound is not read; every connection ends in exactly one counted `CloseReason`.
Reads to a buffer that all connections share, so that it can read little at a time while memory is short.
Runs on the event loop only. Replies completed in one tick of the loop are written together.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, cast

from coordinator.adapters.server.close_log import CloseLog
from coordinator.adapters.server.contract import (
    CloseReason,
    Desk,
    Handler,
    IncomingRequest,
    ListenerSecurity,
    Peer,
    Promise,
    RequestKind,
    RequestRun,
    ServedApis,
    ServerLimits,
    ServerStats,
    TakeRun,
)
from coordinator.adapters.server.repeats import REQUEST_BYTES_MAX, SHORTEST_S, Repeats
from coordinator.adapters.server.repeats_loops import Remembered
from coordinator.adapters.server.request_memory import SHORT_READ_BYTES, RequestMemory
from coordinator.adapters.server.waiting_room import WaitingRoom
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.framing import FrameReader, Pending, ReplyQueue, key_of, read_request_head, read_request_header
from coordinator.protocol.framing_loops import HEAD_BYTES, KIND_BYTES, Body, same_heads
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.principal import ANONYMOUS, Principal

log = logging.getLogger(__name__)


REQUESTS_A_TICK: Final = 64
"""A connection begins no more requests in one tick of the loop, but for those that are taken together with one of them. One read may
hold tens of thousands that are answered at once, by a client that has not logged in: they took 600 ms."""

_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: the connection ends with a reset."""
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_LOGIN = frozenset({int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)})


class Owner(Protocol):
    """The server as its connections see it."""

    handler: Handler
    table: ServedApis
    limits: ServerLimits
    stats: ServerStats
    listener: str
    security: ListenerSecurity
    waiting_room: WaitingRoom
    close_log: CloseLog
    memory: RequestMemory
    repeats: Repeats

    def open_desk(self, connection: Connection) -> Desk:
        """Return who takes the login requests of a connection."""

    def admit(self, connection: Connection) -> bool:
        """Register a new connection, unless there are too many."""

    def forget(self, connection: Connection) -> None:
        """Note that a connection is gone."""


class _Head(NamedTuple):
    """The bytes before a request's body without the correlation id: `start` is before that and `rest` after it.

    The length of the client id is in `rest`, so no other head has the same bytes.
    """

    start: bytes
    rest: bytes
    kind: RequestKind
    is_answer_tagged: bool
    is_answer_unbounded: bool
    take_run: TakeRun | None


class _Awaited(Pending):
    """Requests that a handler has got. Implements `Replies`."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection, head: _Head, correlation_ids: list[int], request_bytes: list[int]) -> None:
        super().__init__(correlation_ids, request_bytes, head.is_answer_tagged, head.is_answer_unbounded)
        self._connection = connection

    @property
    def are_awaited(self) -> bool:
        return self._connection.is_open

    def give(self, place: int, body: Body | None) -> None:
        self._connection.answer(self, place, body)

    def give_all(self, answers: Sequence[tuple[int, Body]]) -> None:
        self._connection.answer_all(self, answers)

    def fail(self) -> None:
        self._connection.answer(self, 0, None)


class Connection(asyncio.BufferedProtocol):
    """See the module."""

    def __init__(self, owner: Owner, connection_id: int, loop: asyncio.AbstractEventLoop) -> None:
        self._peer = Peer(connection_id, owner.listener, "?", ANONYMOUS)
        self._owner = owner
        self._limits = owner.limits
        self._stats = owner.stats
        self._loop = loop
        self._memory = owner.memory
        limits = owner.limits
        self._frames = FrameReader(limits.request_bytes_max)
        self._desk = owner.open_desk(self)
        self._must_log_in = owner.security.has_login
        if self._must_log_in:
            self._frames.allow(limits.login_request_bytes_max, "sasl.server.max.receive.size")
        self._queue = ReplyQueue(limits.pending_requests_max, limits.pending_bytes_max, limits.pending_large_max)
        # Complete requests: those from `_dispatched` on may not be dispatched yet. Mostly it is one read's worth, and the time is when
        # the first of them was read.
        self._unfinished_bytes = 0
        self._backlog: list[bytes] = []
        self._backlog_bytes = 0
        self._counted_bytes = 0
        self._dispatched = 0
        self._received_s = 0.0
        self._active_s = 0.0
        # The head of the last request, kept since the next one mostly has the same bytes.
        self._head: _Head | None = None
        self._remembered: Remembered | None = None
        self._end: CloseReason | None = None
        self._is_draining = False
        self._is_dispatching = False
        self._is_flush_scheduled = False
        self._is_reading = True
        self._is_held = False
        self._is_paused = False
        self._is_output_paused = False
        self._has_answered = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._output_timer: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> Peer:
        """The client at the other end."""
        return self._peer

    @property
    def is_open(self) -> bool:
        """Whether it has not come to its end."""
        return self._end is None

    # --- called by asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the peer of a connection in plain text, or hang up."""
        self._transport = cast(asyncio.Transport, transport)
        self._peer = self._peer._replace(address=peer_name(transport))
        if not self._owner.admit(self):
            self._end = CloseReason.TOO_MANY
            self._transport.abort()
            return
        if self._must_log_in:
            self._owner.waiting_room.enter(self)
        self._begin()

    def secured(self, transport: asyncio.Transport, peer: Peer) -> None:
        """Serve a peer that was admitted and has finished the handshake of TLS."""
        self._transport = transport
        self._peer = peer
        self._begin()

    def _begin(self) -> None:
        self._transport.set_write_buffer_limits(high=self._limits.output_pause_bytes)
        self._active_s = self._loop.time()
        self._watch_idle()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where bytes are read to: all connections have the same place, one after the other."""
        buffer = self._memory.buffer
        return buffer if self._memory.is_plentiful_for(self) else buffer[:SHORT_READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that were read."""
        self.data_received(bytes(self._memory.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take bytes of the stream and serve the requests they complete."""
        if self._end is not None:
            return
        now_s, damage = self._loop.time(), None
        if self._remembered is not None and self._is_repeated(self._remembered, data, now_s):
            return
        self._stats.bytes_in += len(data)
        backlog = self._backlog
        if not backlog:
            self._received_s = now_s
        before = len(backlog)
        try:
            for frame in self._frames.feed(data):
                backlog.append(frame)
        except MalformedMessage as error:
            damage = error
        if len(backlog) > before:
            # Only whole requests count as activity: a request that trickles in for ever must not hold the connection.
            self._active_s = now_s
        self._count()
        self._proceed()
        if damage is not None:
            self.close(CloseReason.MALFORMED, str(damage))
        elif self._backlog:
            self._backlog_bytes = sum(map(len, self._backlog[self._dispatched :]))
            self._count()

    def _count(self) -> None:
        """Count the bytes of requests that are not served yet, and those of the unfinished one."""
        held = self._frames.bytes_held
        if held != self._unfinished_bytes:
            self._stats.unfinished_bytes += held - self._unfinished_bytes
            self._unfinished_bytes = held
        if held + self._backlog_bytes != self._counted_bytes:
            self._counted_bytes = held + self._backlog_bytes
            self._memory.hold(self, self._counted_bytes, waits=self._next_waiting() is not None)

    def pause_writing(self) -> None:
        """Stop serving: the peer does not take its replies."""
        self._is_output_paused = True
        self._owner.handler.backed_up(self._peer, True)
        if self._end is None:
            self._watch_output()

    def resume_writing(self) -> None:
        """Serve again."""
        self._is_output_paused = False
        self._owner.handler.backed_up(self._peer, False)
        if self._end is not None:
            return  # the timer now limits how long closing may take
        if self._output_timer is not None:
            self._output_timer.cancel()
        self._schedule_flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the end and let everything go."""
        for timer in (self._idle_timer, self._output_timer):
            if timer is not None:
                timer.cancel()
        self._desk.close()
        self._owner.waiting_room.leave(self)
        self.forget()
        if self._end is not CloseReason.TOO_MANY:
            if self._end is None:
                # A client that does not say goodbye to TLS seems to reset its connection: it matters only if something was asked.
                is_trouble = exc is not None and (self._queue or self._backlog or self._frames.bytes_held)
                self._note_end(CloseReason.NETWORK if is_trouble else CloseReason.CLIENT, str(exc or ""))
            self._owner.forget(self)
            self._owner.handler.gone(self._peer)
        self._forget_backlog()
        # Queue, desk and the transport of TLS refer to this connection. The cyclic GC would find them late, and with TLS they hold 300 KB.
        self._queue.clear()
        del self._desk, self._transport

    # --- called by the server ---

    def drain(self) -> None:
        """Read nothing more, answer what was read, then close."""
        self._is_draining = True
        if self._end is None:
            self.forget()
            self._proceed()

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        if self._end is None:
            self.forget()
            requests = len(self._queue) + len(self._backlog) - self._dispatched
            self._note_end(CloseReason.SHUTDOWN, f"{requests} requests were not answered in time")
        self._transport.abort()

    def turn_out(self, reason: CloseReason, detail: str) -> None:
        """See `Guest`."""
        if self._end is None:
            self._note_end(reason, detail)
        self.forget()
        self._transport.abort()

    def look_for_room(self) -> None:
        """See `Holder`."""
        if self._end is None and not self._is_dispatching:
            self._proceed()

    # --- called by the login

    def hold(self) -> None:
        """Serve nothing for a while: who the next requests come from is being found out."""
        self._is_held = True
        self._take_socket()

    def resume(self) -> None:
        """Serve again."""
        self._is_held = False
        self.look_for_room()

    def pause(self, paused: bool) -> None:
        """See `Host`."""
        self._is_paused = paused
        self._take_socket()
        if not paused:
            self.look_for_room()

    def remember(self, request: IncomingRequest, body: bytes, wait_s: float, promise: Promise) -> Remembered | None:
        """See `Host`."""
        self.forget()
        api = self._owner.table.find(request.wire_api_key)
        if self._end or self._is_draining or api is None or wait_s < SHORTEST_S or len(request.data) > REQUEST_BYTES_MAX:
            return None
        is_tagged = api.is_response_tagged(request.api_version)
        self._remembered = Remembered(self, request, body, wait_s, promise, is_answer_tagged=is_tagged)
        return self._remembered

    def forget(self) -> None:
        """See `Host`."""
        if self._remembered is not None:
            self.forget_request(self._remembered)

    def serve_as(self, principal: Principal) -> None:
        """Serve a principal that has logged in."""
        self.forget()
        self._owner.waiting_room.leave(self)
        self._must_log_in = False
        self._frames.allow(self._limits.request_bytes_max, "socket.request.max.bytes")
        self._peer = self._peer._replace(principal=principal)

    def end_session(self) -> None:
        """Serve nothing but a login: the last one has come to its end."""
        self._must_log_in = True
        self._head = None
        self._take_socket()

    def respond(self, pending: Pending, body: Body) -> None:
        """Answer a request of the login."""
        self.answer(pending, 0, body)

    def close(self, reason: CloseReason, detail: str) -> None:
        """Close for a reason; replies already in order are still sent if the peer takes them in time."""
        if self._end is not None:
            return
        self._note_end(reason, detail)
        self.forget()
        self._forget_backlog()
        if self._output_timer is not None:
            self._output_timer.cancel()
        if reason is CloseReason.HANDLER_FAILED and not self._has_answered and not self._queue.is_ready:
            self._reset()
            return
        if self._is_output_paused:
            self._transport.abort()
            return
        self._write_replies()
        # The transport closes when its buffer is sent, which a peer that reads nothing could delay for ever.
        self._output_timer = self._loop.call_later(self._limits.output_stall_timeout_ms / 1000, self._transport.abort)
        self._transport.close()

    def _reset(self) -> None:
        """End as connections to a process that died do: some clients take an orderly end before the first answer for a lasting fault."""
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    # --- requests in ---

    def _proceed(self) -> None:
        """Serve and write as much as the bounds allow, then decide whether to read on."""
        self._is_dispatching = True
        try:
            # Writing makes room, so the bounds are checked after each flush: nothing else would check them again.
            self._flush()
            left = REQUESTS_A_TICK
            while left > 0 and self._backlog and self._may_dispatch():
                while left > 0 and self._backlog and self._may_dispatch():
                    left -= self._serve()
                    self._memory.served(self)
                self._flush()
        finally:
            self._is_dispatching = False
        if self._end is not None:
            return
        if self._counted_bytes and not self._backlog:
            self._count()
        if self._backlog and self._may_dispatch():
            self._schedule_flush()  # the other connections first
        if self._is_draining and not self._backlog and not self._queue:
            self.close(CloseReason.SHUTDOWN, "")
            return
        self._set_reading(not self._is_draining and not self._backlog and self._may_dispatch())

    def _may_dispatch(self) -> bool:
        if self._queue.is_full or self._is_output_paused or self._is_held or self._is_paused or self._end is not None:
            return False
        # In this order: a connection that could not go on anyway asks for no room.
        return not self._memory.is_short or (size := self._next_waiting()) is None or self._memory.may_go_on(self, size)

    def _next_waiting(self) -> int | None:
        """The size of the next request, which may be unfinished, if it is one that waits while memory is short."""
        keys = self._memory.waiting_keys
        if not keys:
            return None
        if self._backlog:
            frame = self._backlog[self._dispatched]
            return len(frame) if key_of(frame) in keys else None
        begun = self._frames.begun
        return begun[1] if begun is not None and begun[0] in keys else None

    def _forget_backlog(self) -> None:
        self._backlog, self._dispatched, self._backlog_bytes = [], 0, 0

    def _serve(self) -> int:
        """Serve the next requests of the backlog: one, or as many as are taken together and there is room for; returns how many."""
        try:
            return self._hand_over()
        except MalformedMessage as error:
            self.close(CloseReason.MALFORMED, str(error))
        except Exception as error:  # an exception of a handler must not end the other connections' loop
            peer = self._peer
            log.exception("request handler failed listener=%s connection=%d peer=%s", peer.listener, peer.connection_id, peer.address)
            self.close(CloseReason.HANDLER_FAILED, repr(error))
        return 1

    def _hand_over(self) -> int:
        backlog, first, head = self._backlog, self._dispatched, self._head
        correlation_ids: list[int] = []
        if head is not None:
            count_max, bytes_max = (1, 1) if head.take_run is None else self._queue.room
            correlation_ids = same_heads(backlog, first, head.start, head.rest, count_max, bytes_max)
        stop = self._dispatched = first + (len(correlation_ids) or 1)
        if stop == len(backlog):
            self._forget_backlog()
        if head is None or not correlation_ids:
            frame = backlog[first]
            head = self._read_head(frame)
            if head is None:
                return 1
            correlation_ids = same_heads(backlog, first, head.start, head.rest, 1, 1)
        frames = backlog if stop - first == len(backlog) else backlog[first:stop]
        self._stats.requests[head.kind.wire_api_key] += stop - first
        awaited = _Awaited(self, head, correlation_ids, list(map(len, frames)))
        self._queue.expect(awaited)
        run = RequestRun(head.kind, correlation_ids, frames, self._received_s, self._peer, awaited)
        if head.take_run is not None:
            head.take_run(run)
        else:
            for request, respond in run.each():
                self._owner.handler.handle(request, respond)
        return stop - first

    def _read_head(self, frame: bytes) -> _Head | None:
        """Everything before a request's body; None if no handler has to see it: it is answered, or refused, already."""
        key, version, correlation_id = read_request_head(frame)
        api = self._owner.table.find(key)
        flexible = None if api is None else api.is_flexible(version)
        if api is None or (flexible is None and key != _API_VERSIONS):
            self.close(CloseReason.UNSUPPORTED, f"request {key} version {version}; ApiVersions tells what is served")
            return None
        if self._must_log_in and key != _API_VERSIONS and key not in _LOGIN:
            why = "its login has come to its end, log in again" if self._desk.has_logged_in else "log in first"
            self.close(CloseReason.NOT_LOGGED_IN, f"{api.name}: {why}")
            return None
        api_versions = self._owner.table.api_versions_body(version) if key == _API_VERSIONS else None
        if api_versions is not None:
            self._stats.requests[key] += 1
            pending = self._expect(correlation_id, frame, is_tagged=api.is_response_tagged(version))
            if flexible is not None:
                api.check(version, frame, read_request_header(frame, flexible=flexible).body_offset)
            # A client that knows a later ApiVersions than we do asks again with one we do know, so nothing more is read here.
            self.answer(pending, 0, api_versions)
            return None
        _, _, _, client_id, body_offset = read_request_header(frame, flexible=bool(flexible))
        if key in _LOGIN:
            self._stats.requests[key] += 1
            pending = self._expect(correlation_id, frame, is_tagged=api.is_response_tagged(version))
            self._desk.take(key, version, frame, body_offset, pending)
            return None
        kind = RequestKind(api.canonical, version, client_id, body_offset, key)
        self._head = _Head(
            frame[:KIND_BYTES],
            frame[HEAD_BYTES:body_offset],
            kind,
            api.is_response_tagged(version),
            api.is_unbounded,
            self._owner.handler.runs.get(kind.api_key),
        )
        return self._head

    def _expect(self, correlation_id: int, frame: bytes, *, is_tagged: bool) -> Pending:
        pending = Pending([correlation_id], [len(frame)], is_tagged)
        self._queue.expect(pending)
        return pending

    def _set_reading(self, wanted: bool) -> None:
        if wanted == self._is_reading or self._transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._stats.reading_paused += 1
            self._transport.pause_reading()

    # --- requests that repeat ---

    def _is_repeated(self, one: Remembered, data: bytes, now_s: float) -> bool:
        """Whether what was read is a request that waits to be answered as before; else a request that waits already is read before it."""
        if one.waits is not None:
            self._hand_back(one)
        elif self._may_repeat() and one.take(data, now_s):
            self._owner.repeats.put([one], now_s, self._loop)
            return True
        return False

    def _may_repeat(self) -> bool:
        """Whether a request may be answered without being read: it is the only one, and reading it would begin it at once."""
        is_busy = self._queue or self._backlog or self._frames.bytes_held or self._is_output_paused
        return not (is_busy or self._is_held or self._is_paused or self._is_draining or self._must_log_in)

    def _hand_back(self, one: Remembered) -> None:
        """Have the request that waits read, before all that comes."""
        self._take_socket()
        self._backlog.append(one.take_back())
        self._received_s = one.since_s

    def _take_socket(self) -> None:
        """Have the event loop read and write again, if the socket is lent."""
        if self._remembered is not None and self._remembered.socket >= 0:
            self._owner.repeats.give_back(self._remembered, self._transport)

    def lend_socket(self, one: Remembered) -> None:
        """See `Repeated`."""
        if self._may_repeat():
            self._owner.repeats.lend(one, self._transport, self._loop)

    def send_again(self, reply: bytes) -> None:
        """See `Repeated`."""
        self._take_socket()
        self._transport.write(reply)

    def read_lent(self, data: bytes) -> None:
        """See `Repeated`."""
        self._take_socket()
        if data:
            self.data_received(data)

    def forget_request(self, one: Remembered) -> None:
        """See `Repeated`."""
        if self._remembered is one:
            self._take_socket()
            self._remembered = None
            self._active_s = max(self._active_s, one.since_s)
            if one.waits is not None:
                self._hand_back(one)
                self._schedule_flush()
            one.forgotten()

    # --- replies out ---

    def answer(self, pending: Pending, place: int, body: Body | None) -> None:
        """Give a request its reply, which is sent with the others of this tick; without one the connection is closed."""
        if self._end is not None:
            self._stats.replies_too_late += 1
            return
        if body is None:
            self.close(CloseReason.HANDLER_FAILED, "the request could not be answered")
            return
        self._queue.complete(pending, place, body)
        if self._has_to_flush():
            self._schedule_flush()

    def answer_all(self, pending: Pending, answers: Sequence[tuple[int, Body]]) -> None:
        """Give requests their replies, and send what may be sent."""
        if self._end is not None:
            self._stats.replies_too_late += len(answers)
            return
        self._queue.complete_all(pending, answers)
        if self._has_to_flush():
            self._proceed()

    def _has_to_flush(self) -> bool:
        return not (self._is_flush_scheduled or self._is_dispatching) and (self._queue.is_ready or self._is_output_paused)

    def _schedule_flush(self) -> None:
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush_scheduled)

    def _flush_scheduled(self) -> None:
        self._is_flush_scheduled = False
        if self._end is None:
            self._proceed()

    def _flush(self) -> None:
        if self._end is not None:
            return
        if not self._is_output_paused:
            self._write_replies()
            return
        waiting = self._queue.bytes_waiting + self._transport.get_write_buffer_size()
        if waiting > self._limits.output_bytes_max:
            self.close(CloseReason.OUTPUT_FULL, f"{waiting} bytes wait, the limit is {self._limits.output_bytes_max}")

    def _write_replies(self) -> None:
        replies = self._queue.take()
        if not replies:
            return
        self._active_s = self._loop.time()
        self._has_answered = True
        if isinstance(replies, bytes):
            self._stats.bytes_out += len(replies)
            self._transport.write(replies)
        else:
            self._stats.bytes_out += sum(map(len, replies))
            self._transport.writelines(replies)

    # --- ends ---

    def _watch_idle(self) -> None:
        limit_s = self._limits.connection_idle_ms_max / 1000
        now_s = self._loop.time()
        if self._remembered is not None:
            self._active_s = max(self._active_s, self._remembered.since_s)
        if self._queue or self._backlog or (self._remembered is not None and self._remembered.waits is not None):
            self._active_s = now_s
        idle_s = now_s - self._active_s
        if idle_s >= limit_s:
            self.close(CloseReason.IDLE, f"for {self._limits.connection_idle_ms_max} ms (connections.max.idle.ms)")
        else:
            self._idle_timer = self._loop.call_later(limit_s - idle_s, self._watch_idle)

    def _watch_output(self, left_bytes: int | None = None) -> None:
        """While output is paused nothing is added to the transport's buffer: if it did not shrink, the peer took nothing."""
        size = self._transport.get_write_buffer_size()
        if left_bytes is not None and size >= left_bytes:
            self.close(CloseReason.SLOW_READER, f"took nothing of {size} bytes for {self._limits.output_stall_timeout_ms} ms")
        else:
            self._output_timer = self._loop.call_later(self._limits.output_stall_timeout_ms / 1000, self._watch_output, size)

    def _note_end(self, reason: CloseReason, detail: str) -> None:
        self._end = reason
        self._memory.forget(self)
        self._stats.unfinished_bytes -= self._unfinished_bytes
        self._unfinished_bytes = 0
        self._stats.closed[reason] += 1
        self._owner.close_log.note(reason, detail, connection_id=self._peer.connection_id, peer=self._peer.address, now_s=self._loop.time())


def peer_name(transport: asyncio.BaseTransport) -> str:
    """Return the address of the other end as text."""
    address = transport.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
