"""The first error of an answer, for the count of requests by error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coordinator.core.commands import CommitAnswer, CommitResult, FoundBatches, FoundOffset
from coordinator.protocol.codec import Message

NESTED: Final = ("topics", "responses", "partitions", "files", "coordinators")
"""Fields whose elements have error codes of their own."""


def first_error(message: Message) -> int:
    """The error code of an answer, else the first one among its elements; 0 without any."""
    if code := int(getattr(message, "error_code", 0)):
        return code
    for name in NESTED:
        for element in getattr(message, name, None) or ():
            if code := first_error(element):
                return code
    return 0


def first_commit_error(answer: CommitAnswer) -> int:
    """The first error of a commit; what was decided with many others has none."""
    return next(filter(None, answer.errors), 0) if isinstance(answer, CommitResult) else 0


def first_found_error(answers: Sequence[FoundBatches] | Sequence[FoundOffset]) -> int:
    """The first error of a look for batches or offsets."""
    for answer in answers:
        if answer.outcome.error:
            return int(answer.outcome.error)
    return 0
