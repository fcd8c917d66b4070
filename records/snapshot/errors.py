"""Faults of a snapshot file."""

from __future__ import annotations


class BadSnapshot(Exception):
    """The file is no whole snapshot, or not one of the log it was taken for. The text names the file and the reason."""


class NewerFormat(BadSnapshot):
    """The snapshot was written in a format that this version does not know."""


class MalformedRecord(ValueError):
    """The bytes of a record are not what its schema says. Readers of files make a `BadSnapshot` of it, which names the file."""
