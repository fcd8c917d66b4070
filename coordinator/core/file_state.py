"""The names and numbers of the states of a file; `core.reads.file_life` has the rule."""

from __future__ import annotations

from enum import IntEnum


class FileState(IntEnum):
    """The states of a file at one coordinator, as ListFiles tells them; from FENCED on they are those of a key without a file."""

    LIVE = 0
    """Some batches of the file here are not deleted."""
    EMPTY = 1
    """All batches of the file here are deleted; the object stays until the file is past file.commit.max.age.ms and file.delete.grace.ms."""
    WAITING = 2
    """Past these times. An owner that is responsible earlier is asked first whether it is done."""
    DELETABLE = 3
    """Past these times, and this coordinator is responsible: it hands the file over to one that has it still, or deletes it."""
    FENCED = 4
    """A commit of the key is ruled out for good."""
    REMOVED = 5
    """The object of the key is deleted."""
    HANDED_OVER = 6
    """A later owner is responsible for the object of the key."""
