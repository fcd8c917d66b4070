"""Faults of an entry, as exceptions of the codec.

Readers meet exactly two of them, `UnknownSchema` and `UndecodableEntry`, whatever the bytes are; the caller adds the
partition and offset. `InvalidRecord` is raised before anything is written and is always a fault of the writer.
"""

from __future__ import annotations


class UnreadableEntry(Exception):
    """Base of the two ways in which an entry cannot be read."""


class UnknownSchema(UnreadableEntry):
    """The entry was written with a schema that this version does not have."""

    def __init__(self, fingerprint: int) -> None:
        super().__init__(
            f"entry was written with unknown schema fingerprint {fingerprint:016x}; run a version that has this schema in records/schemas"
        )
        self.fingerprint = fingerprint


class UndecodableEntry(UnreadableEntry):
    """The bytes are not an entry, or its records contradict themselves."""


class InvalidRecord(ValueError):
    """A record that must not be written: a value out of its type's range, columns that contradict each other."""
