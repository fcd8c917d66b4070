"""One Produce request on its way: what it asks, the results of its partitions, and its answer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.wire import MalformedMessage, varint
from gateway.produce.connections import RequestWindow
from gateway.produce.faults import PartitionRefusal
from gateway.produce.wire_loops import CODE, FLEXIBLE_FROM, RESULT_WIDTH, TOPIC_IDS_FROM, read_request, write_answer

UNDECIDED: Final = 1 << 15
"""Stands for a code in the results of partitions whose batch has no outcome: no code has more than 16 bits."""
MESSAGES_FROM: Final = 8
"""The first version with record errors and messages."""
_MESSAGE_BYTES_MAX: Final = 1_000
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")

Int64s = npt.NDArray[np.int64]


class ProduceRequest:
    """A request as it was read. Raises MalformedMessage."""

    def __init__(self, data: bytes, body_offset: int, version: int) -> None:
        self.data = data
        self.version = version
        self.topics: list[tuple[int, int, int, int, int]] = []
        """See `wire_loops.read_request`."""
        self.spans: list[int] = []
        self.is_transactional, self.acks, self.timeout_ms = read_request(data, body_offset, version, self.topics, self.spans)
        try:
            self.names: Sequence[str | bytes] = [
                data[key:stop] if version >= TOPIC_IDS_FROM else data[key:stop].decode() for _, key, stop, _, _ in self.topics
            ]
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"a topic name in a Produce request is not UTF-8: {error}") from error

    def drop_records(self) -> None:
        """Keep of the bytes what the answer needs: the names of topics."""
        topics, kept, end = [], list[bytes](), 0
        for name, _, stop, first, last in self.topics:
            kept.append(self.data[name:stop])
            begin, end = end, end + stop - name
            topics.append((begin, begin, end, first, last))
        self.topics, self.data = topics, b"".join(kept)

    @property
    def partition_count(self) -> int:
        return len(self.spans) // 3


class PendingProduce:
    """The results of a request's partitions, which come one file after the other, and the answer once all have come.

    `respond` is called once; `freed` once, when all batches have an outcome, which may be later.
    """

    def __init__(
        self,
        request: ProduceRequest,
        *,
        deadline_s: float,
        window: RequestWindow | None,
        respond: Callable[[PendingProduce], None],
        freed: Callable[[], None],
    ) -> None:
        self.request = request
        self.deadline_s = deadline_s
        self.window = window
        self.results: Int64s = np.full((request.partition_count, RESULT_WIDTH), -1, np.int64)
        self.results[:, CODE] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.is_answered = False
        self.parts = 0
        """Parts of the request that are in no file yet."""
        self._open = 0
        self._refusals: dict[int, PartitionRefusal] = {}
        self._respond = respond
        self._freed = freed

    def refuse(self, places: Iterable[int], refusal: PartitionRefusal) -> None:
        """Give partitions that have no batch on its way their final result."""
        for place in places:
            self.results[place] = int(refusal.code), -1, -1, -1
            self._refusals[place] = refusal

    def expect(self, places: Int64s) -> None:
        """Partitions will get their results from files."""
        self.results[places, CODE] = UNDECIDED
        self._open += len(places)

    def part_is_filed(self) -> None:
        """A part of the request was copied into a file: after the last one its records are not needed again."""
        self.parts -= 1
        if self.parts == 0:
            self.request.drop_records()

    def settle(self, places: Int64s, results: Int64s, refusals: dict[int, PartitionRefusal]) -> None:
        """Partitions have their results: rows of code, base offset, append time and log start offset. `refusals` are by place."""
        self.results[places] = results
        for place, refusal in refusals.items():
            # Clients that name topics need not know that topics have ids.
            is_foreign = refusal.code is ErrorCode.UNKNOWN_TOPIC_ID and self.request.version < TOPIC_IDS_FROM
            self.refuse([place], refusal._replace(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if is_foreign else refusal)
        self._open -= len(places)
        self.finish()

    def finish(self) -> None:
        """Answer if nothing is undecided."""
        if self._open == 0:
            self._answer()
            self._freed()

    def answer_unawaited(self) -> None:
        """Nobody waits for the outcome (acks=0): answer with what is known."""
        self._answer()

    def expire(self) -> None:
        """The client's time is over: what is undecided is answered so, and goes on."""
        if self.is_answered:
            return
        late = np.flatnonzero(self.results[:, CODE] == UNDECIDED)
        text = f"{self.request.timeout_ms} ms were over before the outcome was known; the batch may be written yet"
        self.refuse(late.tolist(), PartitionRefusal(ErrorCode.REQUEST_TIMED_OUT, text))
        self._answer()

    def _answer(self) -> None:
        if not self.is_answered:
            self.is_answered = True
            self._respond(self)

    @property
    def codes(self) -> list[int]:
        """The error codes of the partitions that have a result, in order."""
        return [code for code in self.results[:, CODE].tolist() if code != UNDECIDED]

    def encoded(self, throttle_ms: int = 0) -> bytes:
        """The body of the answer."""
        request, tails = self.request, dict[int, bytes]()
        if request.version >= MESSAGES_FROM and self._refusals:
            is_flexible = request.version >= FLEXIBLE_FROM
            tails = {place: _tail(refusal, is_flexible) for place, refusal in self._refusals.items()}
        return write_answer(request.data, request.version, request.topics, request.spans, self.results.data, tails, throttle_ms)


def _tail(refusal: PartitionRefusal, is_flexible: bool) -> bytes:
    """Record errors and message of a partition, without its tagged fields."""
    count = len(refusal.records)
    pieces = [varint(count + 1) if is_flexible else _INT32.pack(count)]
    for place, text in refusal.records:
        pieces += (_INT32.pack(place), _text(text, is_flexible), b"\0" if is_flexible else b"")
    return b"".join((*pieces, _text(refusal.message, is_flexible)))


def _text(text: str, is_flexible: bool) -> bytes:
    data = text.encode(errors="replace")[:_MESSAGE_BYTES_MAX].decode(errors="ignore").encode()
    return (varint(len(data) + 1) if is_flexible else _INT16.pack(len(data))) + data
