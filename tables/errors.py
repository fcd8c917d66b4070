"""The errors of writers of tables."""

from __future__ import annotations


class TableError(Exception):
    """The table cannot be read or written; the text says why, and what to do."""


class OtherContentError(TableError):
    """The table holds something else: another topic, or a topic of this name that was deleted."""


class CommitConflictError(TableError):
    """The commit was refused, since another commit of the table came first; nothing was written."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place}: another commit of the table came first; if another process writes it, stop one of them")


class RivalWriterError(TableError):
    """Another process moves the position of this table."""
