"""What the bulk decoder has to take, in terms of the codec, and comparing its columns."""

from __future__ import annotations

import dataclasses

import numpy as np

from records.bulk_decode import OWNERS_MAX, FileColumns
from records.codec import decode_entry, encode_entry
from records.errors import UnreadableEntry
from records.history import schema_of_header
from records.model import FileCommitted


def plain_file(value: bytes) -> FileCommitted | None:
    """The record of a plain file as the codec reads it; None for everything else."""
    try:
        records = decode_entry(value)
    except UnreadableEntry:
        return None
    if len(records) != 1 or not isinstance(records[0], FileCommitted):
        return None
    record = records[0]
    level = schema_of_header(value[:10]).level
    is_plain = not any(record.other_message) and len(record.owner_ids) <= OWNERS_MAX and encode_entry([record], level) == value
    return record if is_plain else None


def assert_equal_columns(found: FileColumns, expected: FileColumns) -> None:
    """Compare every column."""
    for field in dataclasses.fields(FileColumns):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if dataclasses.is_dataclass(one):
            for column in dataclasses.fields(one):
                values = getattr(one, column.name)
                assert values.dtype == np.int64
                assert (column.name, values.tolist()) == (column.name, getattr(other, column.name).tolist())
        else:
            assert (field.name, list(one)) == (field.name, list(other))


def without_messages(record: FileCommitted) -> FileCommitted:
    """The record with empty messages for the batches that were not accepted."""
    return dataclasses.replace(record, other_message=[""] * len(record.other_index))
