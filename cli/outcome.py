"""How a command ends: the exit statuses, and the one exception that carries them.

Code that talks to the outside (nodes, Kafka, object store, files) turns the errors it expects into `Failed`; what is left
is reported by `cli.ending`.
"""

from __future__ import annotations

from enum import IntEnum

from coordinator.printable import plain


class Exit(IntEnum):
    """Exit statuses of every command."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    AUDIT = 5
    TIMEOUT = 6


MEANINGS = {
    Exit.OK: "success",
    Exit.FAILURE: "failure",
    Exit.USAGE: "wrong options or configuration",
    Exit.NOT_FOUND: "not found",
    Exit.UNAVAILABLE: "unavailable now, retry",
    Exit.AUDIT: "an audit found something",
    Exit.TIMEOUT: "timed out",
}


class Failed(Exception):
    """A command cannot do what it was asked; the text says what, why and what to do, without the internals of Kafka's clients."""

    def __init__(self, message: str, status: Exit = Exit.FAILURE) -> None:
        super().__init__(plain(message))
        self.status = status
