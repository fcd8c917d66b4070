"""The first error of an answer, for the count of requests by error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import cast

from coordinator.core.commands import CommitAnswer, CommitResult, FoundBatches, FoundOffset
from coordinator.protocol.codec import Message
from coordinator.protocol.codec_fields import shape


@cache
def _places_of_errors(message_type: type[Message]) -> tuple[str, ...]:
    """Return the arrays of a message whose elements have error codes, in its order."""
    found = []
    for item in fields(message_type):
        is_array, inner, _ = shape(item)
        if is_array and is_dataclass(inner):
            element = cast(type[Message], inner)
            if "error_code" in element.__dataclass_fields__ or _places_of_errors(element):
                found.append(item.name)
    return tuple(found)


def first_error(message: Message) -> int:
    """Return the error code of an answer, else the first one among its elements; 0 without any."""
    if code := int(getattr(message, "error_code", 0)):
        return code
    for name in _places_of_errors(type(message)):
        for element in getattr(message, name) or ():
            if code := first_error(element):
                return code
    return 0


def first_commit_error(answer: CommitAnswer) -> int:
    """Return the first error of a commit; what was decided with many others has none."""
    return next(filter(None, answer.errors), 0) if isinstance(answer, CommitResult) else 0


def first_found_error(answers: Sequence[FoundBatches] | Sequence[FoundOffset]) -> int:
    """Return the first error of a look for batches or offsets."""
    for answer in answers:
        if answer.outcome.error:
            return int(answer.outcome.error)
    return 0
