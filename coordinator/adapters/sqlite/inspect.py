"""SQL for people: a read-only connection to a state database, also while the service runs, for the command line alone.

    SELECT object_key, sum(size) FROM batch WHERE topic_id = '...' GROUP BY object_key

Besides the tables of `schema` it has `batch`, the packed runs unfolded to a row per live batch; `batch('<topic id>', 3)`
unfolds one user partition only, which is the way to ask in a large database. `topic_id_text(topic_id)` shows an id.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import apsw.ext

from coordinator.adapters.sqlite.schema import connect_interruptible, fetch
from coordinator.core.tables.stored_rows import RunRow, unpack
from coordinator.kafka.names import topic_id_text

BATCH_COLUMNS = (
    "topic_id",
    "partition",
    "base_offset",
    "last_offset",
    "byte_offset",
    "size",
    "object_key",
    "timestamp_ms",
    "timestamp_type",
    "append_time_ms",
    "file_id",
    "entry_index",
)

FILES_REMEMBERED_MAX = 100_000

PARTITIONS = "SELECT id, topic_id, partition, log_start FROM partition WHERE NOT is_dead ORDER BY topic_id, partition"
RUNS = """
    SELECT partition_id, base_offset, last_offset, max_timestamp, file_base, timestamp_base, batches
    FROM run WHERE partition_id = ? ORDER BY last_offset
"""
FILE = "SELECT object_key, append_time_ms FROM file WHERE id = ?"


def open_for_inspection(path: Path) -> apsw.Connection:
    """Open a state database for reading. Raises FileNotFoundError and the library's errors."""
    if not path.exists():
        raise FileNotFoundError(f"there is no state database {path}; name a file partition-<n>.db in a data directory")
    connection = connect_interruptible(path)
    connection.create_scalar_function("topic_id_text", _topic_id_text, 1, deterministic=True)
    apsw.ext.make_virtual_module(connection, "batch", _table(connection))
    return connection


def _topic_id_text(*arguments: apsw.SQLiteValue) -> apsw.SQLiteValue:
    (topic_id,) = arguments
    return topic_id_text(topic_id) if isinstance(topic_id, bytes) else None


def _table(connection: apsw.Connection) -> Any:
    """The rows of `batch` with what the library wants to know about them."""
    table: Any = partial(_batches, connection)
    table.columns = BATCH_COLUMNS
    table.column_access = apsw.ext.VTColumnAccess.By_Index
    return table


def _batches(
    connection: apsw.Connection, of_topic: str | None = None, of_partition: int | None = None
) -> Iterator[tuple[apsw.SQLiteValue, ...]]:
    files: dict[int, tuple[str, int]] = {}
    for row, topic_id, partition, log_start in fetch(connection, PARTITIONS):
        topic = topic_id_text(topic_id)
        if of_topic in (None, topic) and of_partition in (None, partition):
            for run in connection.execute(RUNS, (row,)):
                for batch in _live_batches(RunRow(*run), log_start):
                    yield (topic, partition, *_with_file(connection, files, batch))


def _live_batches(run: RunRow, log_start: int) -> list[tuple[int, ...]]:
    rows = unpack(run)
    live: list[tuple[int, ...]] = rows[rows["base"] + rows["count"] > log_start].tolist()
    return live


def _with_file(connection: apsw.Connection, files: dict[int, tuple[str, int]], batch: tuple[int, ...]) -> tuple[apsw.SQLiteValue, ...]:
    base, count, byte_offset, size, file_id, index, timestamp, _, kind = batch
    if file_id not in files:
        if len(files) >= FILES_REMEMBERED_MAX:
            files.clear()
        found = fetch(connection, FILE, (file_id,))
        files[file_id] = found[0] if found else ("", 0)
    object_key, append_time_ms = files[file_id]
    return base, base + count - 1, byte_offset, size, object_key, timestamp, kind, append_time_ms, file_id, index
