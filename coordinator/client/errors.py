"""Exceptions in which an operation of the client can end; all of them are a `DisklessError`.

Operations on one thing raise them. Operations on lists answer one result per element instead, whose `raise_for_error`
raises the same exceptions.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator.errors import DisklessError as DisklessError
from coordinator.kafka.errors import ErrorCode


class ServiceError(DisklessError):
    """An operation of the service failed. `code` is Kafka's error code, `message` the server's text or the client's own."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name} ({int(code)}): {message}")
        self.code = code
        self.message = message


class ClientClosed(DisklessError):
    """The client was closed before or during the operation. A write may have taken effect."""

    def __init__(self) -> None:
        super().__init__("this client is closed; open another one, and repeat a write unchanged to learn its outcome")


class InvalidArgument(DisklessError, ValueError):
    """An argument of a function of the client is wrong; the text names it, what was given and what is wanted."""


class NotFound(ServiceError):
    """No such topic, partition or file."""


class AlreadyExists(ServiceError):
    """The name is taken by another topic, or the object key by other content."""


class InvalidRequest(ServiceError):
    """The service refuses the request as it is; repeating it changes nothing."""


class OffsetOutOfRange(ServiceError):
    """The offset lies outside what the partition holds."""


class SequenceRejected(ServiceError):
    """A batch of an idempotent producer was out of order, or of a fenced epoch."""


class Fenced(ServiceError):
    """The caller was replaced: a step with a higher leader epoch of the partition is recorded."""


class NotAuthorized(ServiceError):
    """The service does not allow this client to do that."""


class Unavailable(ServiceError):
    """No node could serve the request before its deadline. A write definitely did not take effect."""


class TimedOut(ServiceError):
    """No answer before the deadline. A write may have taken effect or may yet: repeat it unchanged to learn its outcome."""


class Refusal(NamedTuple):
    """Why an element has no answer; `code` 0 means that it has one, and `message` is then a remark on it or empty."""

    code: ErrorCode
    message: str

    def raise_for_error(self) -> None:
        """Raise the exception that fits the code, if it is an error."""
        if self.code is not ErrorCode.NONE:
            raise error_of(self.code, self.message)


SERVED = Refusal(ErrorCode.NONE, "")

_CLASSES: dict[ErrorCode, type[ServiceError]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRange,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NotFound,
    ErrorCode.UNKNOWN_TOPIC_ID: NotFound,
    ErrorCode.RESOURCE_NOT_FOUND: NotFound,
    ErrorCode.BROKER_ID_NOT_REGISTERED: NotFound,
    ErrorCode.TOPIC_ALREADY_EXISTS: AlreadyExists,
    ErrorCode.DUPLICATE_RESOURCE: AlreadyExists,
    ErrorCode.INVALID_TOPIC_EXCEPTION: InvalidRequest,
    ErrorCode.INVALID_PARTITIONS: InvalidRequest,
    ErrorCode.INVALID_CONFIG: InvalidRequest,
    ErrorCode.INVALID_REQUEST: InvalidRequest,
    ErrorCode.UNSUPPORTED_VERSION: InvalidRequest,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: SequenceRejected,
    ErrorCode.INVALID_PRODUCER_EPOCH: SequenceRejected,
    ErrorCode.FENCED_LEADER_EPOCH: Fenced,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NotAuthorized,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NotAuthorized,
    ErrorCode.REQUEST_TIMED_OUT: TimedOut,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Unavailable,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Unavailable,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Unavailable,
    ErrorCode.NOT_COORDINATOR: Unavailable,
    ErrorCode.OFFSET_NOT_AVAILABLE: Unavailable,
}


NOT_ALLOWED = frozenset(code for code, raised in _CLASSES.items() if raised is NotAuthorized)
"""What a node tells of a client without the right: certain at any node, and not healed by asking again."""


def error_of(code: ErrorCode, message: str) -> ServiceError:
    """Return the exception for an error code."""
    return _CLASSES.get(code, ServiceError)(code, message)


def refusal_of(code: int, message: str | None) -> Refusal:
    """Return a response's code and text; a code this client does not know becomes UNKNOWN_SERVER_ERROR and is named in the text."""
    if code == 0:
        return Refusal(ErrorCode.NONE, message) if message else SERVED
    try:
        return Refusal(ErrorCode(code), message or ErrorCode(code).name.lower().replace("_", " "))
    except ValueError:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"error code {code}, unknown to this client: {message or 'no text'}")
