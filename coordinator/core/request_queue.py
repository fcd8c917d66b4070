"""The requests that no group has taken yet: bounded in bytes; refused when they do not fit, are late, or no leader serves them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from coordinator.core.events import Effect
from coordinator.core.request import Reply, Request
from coordinator.kafka.errors import ErrorCode


class RequestQueue:
    """See the module's text. `effects` is the list of the shard, to which this adds refusals."""

    def __init__(self, *, partition: int, bytes_max: int, effects: list[Effect]) -> None:
        self.size_bytes = 0
        self._partition = partition
        self._bytes_max = bytes_max
        self._effects = effects
        self._requests: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, requests: Sequence[Request]) -> None:
        """Queue requests. Those that do not fit are refused: memory stays bounded while Kafka acknowledges less than clients send."""
        size_bytes = self.size_bytes + sum([request.size_bytes for request in requests])
        if size_bytes <= self._bytes_max:
            self._requests.extend(requests)
            self.size_bytes = size_bytes
            return
        for request in requests:
            if self._requests and self.size_bytes + request.size_bytes > self._bytes_max:
                self._refuse_excess(request)
                continue
            self._requests.append(request)
            self.size_bytes += request.size_bytes

    def _refuse_excess(self, request: Request) -> None:
        message = (
            f"{self.size_bytes} bytes of requests wait for coordinator {self._partition}, {self._bytes_max} may"
            " (partition.pending.max.bytes); nothing of this request was done: retry"
        )
        self._effects.append(Reply(request.token, request.command.refused(ErrorCode.REQUEST_TIMED_OUT, message)))

    def take(self) -> Request:
        """The oldest request, which is queued no longer. Raises `IndexError` when there is none."""
        request = self._requests.popleft()
        self.size_bytes -= request.size_bytes
        return request

    def refuse_all(self, error: ErrorCode, message: str) -> None:
        """Refuse everything that is queued."""
        self._effects += [Reply(request.token, request.command.refused(error, message)) for request in self._requests]
        self._requests.clear()
        self.size_bytes = 0

    def expire(self, now_ms: int, message: str) -> None:
        """Refuse requests whose deadline has passed."""
        if not any(request.deadline_ms <= now_ms for request in self._requests):
            return
        kept: deque[Request] = deque()
        for request in self._requests:
            if request.deadline_ms > now_ms:
                kept.append(request)
            else:
                self.size_bytes -= request.size_bytes
                self._effects.append(Reply(request.token, request.command.refused(ErrorCode.REQUEST_TIMED_OUT, message)))
        self._requests = kept
