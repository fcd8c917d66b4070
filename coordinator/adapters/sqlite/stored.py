"""Reads everything that a state database holds, and proves it before it is used.

The rows may come from a database or from a snapshot: they are the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from operator import itemgetter
from typing import Any, TypeAlias

import apsw

from coordinator.adapters.sqlite.errors import DamagedRow
from coordinator.adapters.sqlite.proofs import file_of, header_proof, run_of, tombstone_of
from coordinator.adapters.sqlite.schema import fetch, state_tables
from coordinator.core.state.frozen import PartitionRow, ProducerRow
from coordinator.core.state.packing import TopicRow
from coordinator.core.state.proof import StoredRows, Unproven, prove
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import Header
from coordinator.kafka.batches import partition_key

TOPIC_ID_BYTES = 16
PARTITION_MAX = (1 << 31) - 1

HEADER_COLUMNS = tuple(field.name for field in fields(Header))
HEADER = f"SELECT {', '.join(HEADER_COLUMNS)}, flushes, proof FROM header"
CHECK = "PRAGMA integrity_check(1)"
"""Whether the pages hang together, every index has exactly the rows of its table, and every column is of its type."""
ANY_ROW = "SELECT 1 FROM " + " UNION ALL SELECT 1 FROM ".join(("partition", "run", "file", "producer", "topic", "tombstone")) + " LIMIT 1"

RowsOf: TypeAlias = Callable[[str], Iterable[tuple[Any, ...]]]
"""The rows of a table by its name, in the order of the key; the columns as in the schema."""


def read_state(connection: apsw.Connection) -> Stored | None:
    """The state in a database, all rows proven; None when nothing was written yet. Raises `DamagedRow` and the library's errors."""
    complaint = fetch(connection, CHECK)[0][0]
    if complaint != "ok":
        raise DamagedRow(f"{complaint!r:.200}")
    header = read_header(connection)
    if header is None:
        if fetch(connection, ANY_ROW):
            raise DamagedRow("it has rows and no header")
        return None
    return proven(header, lambda table: connection.execute(select_all(table)))


def read_header(connection: apsw.Connection) -> Header | None:
    """The header, which is proven; None when nothing was written yet. Raises `DamagedRow` and the library's errors."""
    rows = fetch(connection, HEADER)
    if not rows:
        return None
    *columns, proof = rows[0]
    if header_proof(tuple(columns)) != proof:
        raise DamagedRow("its header is not the one that was written")
    return Header(**dict(zip(HEADER_COLUMNS, columns, strict=False)))


def select_all(table: str, where: str = "") -> str:
    """The statement that reads a table, or the rows that a WHERE clause chooses, in the order of its key."""
    _, key, columns = state_tables()[table]
    return f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {key}"


def proven(header: Header, rows_of: RowsOf) -> Stored:
    """The state that rows make, if it is the one that the header describes. Raises `DamagedRow`."""
    try:
        return prove(
            StoredRows(
                header=header,
                partitions=[partition_of(*row) for row in rows_of("partition")],
                producers=[ProducerRow(*row) for row in rows_of("producer")],
                topics=[TopicRow(*row) for row in rows_of("topic")],
                directory=next(map(itemgetter(1, 2), rows_of("directory")), None),
                runs=(run_of(row[0], row[1:]) for row in rows_of("run")),
                files=map(file_of, rows_of("file")),
                tombstones=[tombstone_of(row) for row in rows_of("tombstone")],
            )
        )
    except Unproven as unproven:
        raise DamagedRow(str(unproven)) from unproven


def partition_of(row: int, topic_id: bytes, partition: int, *numbers: int) -> tuple[PartitionRow, int]:
    """A partition as it was read, and its proof, which `prove` checks. Raises `DamagedRow` when there is no such partition."""
    if len(topic_id) != TOPIC_ID_BYTES or not 0 <= partition <= PARTITION_MAX:
        raise DamagedRow(f"the row of partition {partition} of topic {topic_id.hex()} was changed")
    *columns, is_dead, proof = numbers
    return PartitionRow._make((row, partition_key(topic_id, partition), *columns, bool(is_dead))), proof
