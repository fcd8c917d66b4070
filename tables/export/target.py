"""The table that an export fills: the port, what the table holds, and a commit whose outcome is known in the end.

Invariant: a commit moves the position of the partitions whose rows it brings, and is refused unless the table's position is where these
rows begin.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from tables.errors import CommitConflictError, RivalWriterError, TableError
from tables.export.columns import ValueType, table_schema

LOG = logging.getLogger("tables.export")

Position = Mapping[int, int]
"""The next offset to export, by partition."""
TRIES: Final = 5
MAINTAINED_EVERY_S: Final = 86_400
KEPT_HOURS: Final = 7 * 24
"""How old versions of the table are whose files maintenance deletes."""


def next_offsets(position: Position, partitions: Iterable[int]) -> dict[int, int]:
    """Return the next offset of each partition. A table is made with those of all partitions: one that it does not know is new, at 0."""
    return {partition: position.get(partition, 0) for partition in partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTopic:
    """The topic that a table is an export of, and the type of its values there."""

    name: str
    topic_id: str
    cluster_id: str
    value_type: ValueType

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return table_schema(self.value_type)

    @property
    def identity(self) -> dict[str, str]:
        """What tells the topic from others, also from one that is made anew under its name."""
        return {"topic_id": self.topic_id, "cluster_id": self.cluster_id}


class ExportTarget(Protocol):
    """A table. Methods block, and raise `TableError`."""

    @property
    def place(self) -> str:
        """The table, for messages."""

    def position(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the position in the newest version; partitions that were never exported are left out."""

    def append(self, rows: Sequence[pa.RecordBatch], before: Position, after: Position) -> None:
        """Append rows and move the position of the partitions of `after`, in one commit.

        Raises `RivalWriterError` unless the table is at `before` in these partitions (no entry: never exported), `CommitConflictError` when
        another commit came first, and `TableError`, after which the commit may be there.
        """

    def is_maintenance_due(self) -> bool:
        """Whether the last maintenance, by whichever process, is a day ago."""

    def maintain(self) -> str:
        """Join small files and delete what no recent version needs, as far as the library can; return what was done."""


def commit(target: ExportTarget, rows: Sequence[pa.RecordBatch], before: Position, after: Position) -> None:
    """Append rows, and find out what became of a commit that failed.

    A commit that lost to one of another kind, such as a compaction, is repeated. Raises `RivalWriterError` when another export moved the
    position, `TableError` when the table cannot be written.
    """
    for left in reversed(range(TRIES)):
        try:
            target.append(rows, before, after)
            return
        except RivalWriterError:
            raise
        except TableError as error:
            found = target.position(after)
            if found == dict(after) and not isinstance(error, CommitConflictError):
                LOG.warning("the commit is in the table, though an error was reported: %s", error)
                return
            if any(found.get(partition) != before.get(partition) for partition in after):
                raise RivalWriterError(f"another export writes {target.place}; stop one of the two") from error
            if not left:
                raise
            LOG.warning("the commit is repeated: %s", error)
