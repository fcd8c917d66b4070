"""A command with the receiver of its answer, and the answer on its way there."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from coordinator.core.commands import Answer, Command

Token: TypeAlias = object
"""The receiver of an answer; opaque to the core."""


class Request(NamedTuple):
    """A command and the token of the request that waits for its answer."""

    token: Token
    command: Command
    deadline_ms: int
    size_bytes: int = 0


class Reply(NamedTuple):
    """The answer to a request: an effect."""

    token: Token
    answer: Answer
