"""One connection to a broker: requests are sent as they come, answers are given back in their order.

A broker answers the requests of a connection in the order in which they came. Invariant: every request that was sent is answered once,
or refused by `BrokerLost` when the connection ends; requests that get no answer (Produce with acks=0) must be sent by `tell`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import cycle, islice
from typing import Final, TypeVar, cast

from coordinator.client.routing.login import LoginRejected, log_in
from coordinator.operations.table import operation_of
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import FrameReader, read_correlation_id, reply_body, request_frame
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.client_security import ClientSecurity

LOG = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 10.0
FINISH_TIMEOUT_S: Final = 30.0
UNSENT_BYTES_MAX: Final = 64 * 1024
"""Requests wait for the opening of the connection, of so many bytes before the client is no longer read."""
ANSWER_BYTES_MAX: Final = 2**31 - 1
_SIZE: Final = struct.Struct(">i")
_OWN_CORRELATION_ID: Final = 0x4457
"""Of questions of this process's own: order, not the number, says which answer is whose."""

_API_VERSIONS: Final = 18

Answer = TypeVar("Answer", bound=Message)
Answered = Callable[[bytes | None], None]
"""Takes the frame of an answer without its length; None when the connection was lost."""
Place = tuple[str, int]
FindPlace = Callable[[Collection[Place]], Awaitable[Place]]
"""Returns host and port of a broker, not one of those given, which were tried in vain. Raises `BrokerLost` when there is none."""


def in_turns(places: Sequence[Place]) -> FindPlace:
    """Return a search that names one of the places after the other."""
    turns = cycle(places)

    async def find(unreached: Collection[Place]) -> Place:
        for place in islice(turns, len(places)):
            if place not in unreached:
                return place
        raise BrokerLost("no other broker is known")

    return find


class BrokerLost(Exception):
    """The connection to a broker was lost, or could not be made; the text says why."""


class BrokerLink(asyncio.Protocol):
    """See the module. Opened by its first request; used on one event loop."""

    def __init__(self, find_place: FindPlace, security: ClientSecurity, client_id: str, *, logs_in: bool = False) -> None:
        """With `logs_in` the security's own login comes first; without it the connection is as anonymous as the client's."""
        self._find_place = find_place
        self._security = security
        self._client_id = client_id
        self._logs_in = logs_in
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._unsent: list[bytes] = []
        self._waiting: deque[Answered] = deque()
        self._frames = FrameReader(ANSWER_BYTES_MAX, "an answer")
        self._lost: str | None = None
        self._finishing: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._may_ask = asyncio.Event()
        self._may_ask.set()
        self._unsent_bytes = 0
        self._is_paused = False
        self._is_backed_up = False
        self._kept: list[Callable[[], None]] = []
        self.backed_up: Callable[[bool], None] = lambda _backed_up: None
        """Told when the broker does not take requests as fast as they come (True), or does again."""
        self.place: Place | None = None
        """Where it is connected to, or was last."""

    @property
    def is_lost(self) -> bool:
        """Whether it has come to its end."""
        return self._lost is not None

    @property
    def why_lost(self) -> str:
        """Why it ended."""
        return self._lost or ""

    # ---- asking

    def send(self, frame: bytes, answered: Answered) -> None:
        """Send a request (without its length); `answered` is called once, at once when the connection is lost already."""
        if self._lost is not None:
            answered(None)
            return
        self._waiting.append(answered)
        self._write(frame)

    def tell(self, frame: bytes, taken: Callable[[], None]) -> None:
        """Send a request that gets no answer; `taken` is called once, when it is no longer kept here, perhaps before this returns."""
        if self._lost is None:
            self._write(frame)
        if self._is_backed_up:
            self._kept.append(taken)
        else:
            taken()

    def forward(self, frame: bytes) -> asyncio.Future[bytes]:
        """Send a request; the future has the answer, or raises `BrokerLost`."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def answered(answer: bytes | None) -> None:
            if future.done():  # whoever waited was cancelled
                return
            if answer is None:
                future.set_exception(BrokerLost(self.why_lost))
            else:
                future.set_result(answer)

        self.send(frame, answered)
        return future

    async def ask(self, request: Message, answer_type: type[Answer]) -> Answer:
        """Ask a question of this process's own. Raises `BrokerLost`."""
        await self._may_ask.wait()
        return _read(await self.forward(self._question(request)), request, answer_type)

    def keep_questions(self, kept: bool) -> None:
        """Keep this process's own questions back while the client logs in: the broker would end the connection. Then let them go."""
        if kept and self._lost is None:
            self._may_ask.clear()
        else:
            self._may_ask.set()

    def _question(self, request: Message) -> bytes:
        key, version, flexible = int(request.__api_key__), int(request.__version__), request.__flexible__
        return request_frame(key, version, _OWN_CORRELATION_ID, self._client_id, encode(request), flexible=flexible)[4:]

    def pause(self, paused: bool) -> None:
        """Read no answers while paused: the client takes none."""
        self._is_paused = paused
        if self._transport is None or self._transport.is_closing():
            return
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self, why: str = "closed here") -> None:
        """End it; what waits for an answer is refused."""
        self._end(why)

    def finish(self, why: str) -> None:
        """Send what is left, wait for the answers, and end: what a client sent before it hung up has its effect, as at a broker."""
        self._finishing = why
        self.pause(False)
        self._deadline = asyncio.get_running_loop().call_later(FINISH_TIMEOUT_S, self._end, why)
        self._look_finished()

    # ---- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)
        if self._lost is not None:
            self._transport.abort()
        elif self._is_paused:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Take no more: the broker does not take it."""
        self._back_up(True)

    def resume_writing(self) -> None:
        """Take requests again."""
        self._back_up(False)

    def _back_up(self, is_backed_up: bool) -> None:
        if is_backed_up is not self._is_backed_up:
            self._is_backed_up = is_backed_up
            kept, self._kept = self._kept, []
            for taken in kept:
                taken()
            self.backed_up(is_backed_up)

    def data_received(self, data: bytes) -> None:
        """Give answers to those who wait for them."""
        try:
            for frame in self._frames.feed(data):
                if not self._waiting:
                    raise MalformedMessage("an answer came that nothing was asked for")
                self._waiting.popleft()(frame)
            self._look_finished()
        except MalformedMessage as error:
            self._end(f"{self._name} does not answer as a broker: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Refuse what waits for an answer."""
        self._end(f"the connection to {self._name} was lost: {exc or 'closed by the broker'}")

    # ---- inside

    @property
    def _name(self) -> str:
        return "the broker" if self.place is None else f"broker {self.place[0]}:{self.place[1]}"

    def _write(self, frame: bytes) -> None:
        if self._transport is not None and not self._unsent and self._opening is None:
            self._transport.writelines((_SIZE.pack(len(frame)), frame))
            return
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > UNSENT_BYTES_MAX:
            self._back_up(True)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="open-upstream")

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._connect()
                if self._logs_in and self._security.mechanism is not None:
                    await log_in(self._security, self._first)
        except TimeoutError:
            self._end(f"{self._name} did not answer in {CONNECT_TIMEOUT_S:g} s")
        except LoginRejected as error:
            self._end(f"{self._name}: {error}")
        except BrokerLost as error:
            self._end(str(error))
        else:
            self._opening = None
            unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
            self._back_up(False)
            for frame in unsent:
                self._write(frame)
            self._look_finished()

    async def _connect(self) -> None:
        """Connect to the first broker that can be reached. Raises `BrokerLost`."""
        unreached: dict[Place, str] = {}
        while True:
            try:
                self.place = host, port = await self._find_place(unreached)
            except BrokerLost as error:
                raise BrokerLost("; ".join([*unreached.values(), str(error)])) from error
            context: ssl.SSLContext | None = self._security.context()
            name = None if context is None else host
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, host, port, ssl=context, server_hostname=name)
            except (OSError, UnicodeError, OverflowError) as error:
                unreached[self.place] = f"{self._name} cannot be reached: {error}"
            else:
                return

    async def _first(self, request: Message) -> Message:
        """Ask, for the login, before everything that waits to be sent. Raises `BrokerLost`."""
        future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._waiting.appendleft(lambda answer: None if future.done() else future.set_result(answer))
        assert self._transport is not None
        frame = self._question(request)
        self._transport.writelines((_SIZE.pack(len(frame)), frame))
        answer = await future
        if answer is None:
            raise BrokerLost(self.why_lost)
        operation, version = operation_of(type(request))
        return _read(answer, request, operation.versions[version].response_type)

    def _look_finished(self) -> None:
        if self._finishing is None or self._waiting or self._unsent or self._opening is not None or self._lost is not None:
            return
        if self._transport is not None:
            self._transport.close()  # sends what the socket has not taken yet
            self._transport = None
        self._end(self._finishing)

    def _end(self, why: str) -> None:
        if self._lost is not None:
            return
        self._lost = why
        if self._deadline is not None:
            self._deadline.cancel()
        self._may_ask.set()
        if self._opening is not None and self._opening is not asyncio.current_task():
            self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._unsent = []
        self._back_up(False)
        waiting, self._waiting = self._waiting, deque()
        for answered in waiting:
            answered(None)


def _read(frame: bytes, request: Message, answer_type: type[Answer]) -> Answer:
    """Read the answer to a question. Raises `BrokerLost`."""
    try:
        read_correlation_id(frame)
        return decode(answer_type, reply_body(frame, tagged=answer_type.__flexible__ and int(request.__api_key__) != _API_VERSIONS))
    except MalformedMessage as error:
        raise BrokerLost(f"an answer to {type(request).__name__} cannot be read: {error}") from error
