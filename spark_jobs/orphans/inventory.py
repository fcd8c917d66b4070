"""The objects of the bucket, as one frame of (key, size_bytes, modified_ms): from a listing or from an inventory file.

Inventory files are Parquet, CSV or JSON lines; the columns are found by the names that stores and tools give them. A row
that says no key, size or time is refused with the whole file: a guess here would call live data orphaned, or lose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OBJECTS_SCHEMA = pa.schema([("key", pa.string()), ("size_bytes", pa.int64()), ("modified_ms", pa.int64())])

NAMES = {
    "key": ("key", "object_key", "name"),
    "size": ("size", "size_bytes", "contentlength", "content_length"),
    "modified": ("modified_ms", "last_modified", "lastmodified", "last_modified_date", "lastmodifieddate", "updated", "timecreated"),
}

FORMATS = ("parquet", "csv", "json")
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


class InventoryError(ValueError):
    """The inventory cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """An inventory file or a folder of them. `columns` name those of a CSV file without a header line.

    `strip_prefix` is cut off the keys, which in the log are relative to the store's URL; others are left out. Keys of S3
    Inventory's CSV files are URL-encoded.
    """

    path: Path
    format: str | None = None
    columns: Sequence[str] = ()
    strip_prefix: str = ""
    is_url_encoded: bool = False

    def read(self, session: SparkSession) -> DataFrame:
        """The objects. Raises `InventoryError` when columns are missing or not named."""
        from pyspark.sql import functions as f

        raw = self._read_raw(session)
        key, size, modified = (f.col(f"`{_find(raw.columns, kind)}`") for kind in NAMES)
        text = f.expr(f"url_decode(`{_find(raw.columns, 'key')}`)") if self.is_url_encoded else key
        time_ms = _milliseconds(modified, dict(raw.dtypes)[_find(raw.columns, "modified")])
        frame = raw.select(text.alias("key"), size.try_cast("long").alias("size_bytes"), time_ms.alias("modified_ms"))
        if self.strip_prefix:
            cut = f.expr(f"substring(key, {len(self.strip_prefix) + 1})")
            frame = frame.where(f.col("key").startswith(self.strip_prefix)).withColumn("key", cut)
        return frame

    def _read_raw(self, session: SparkSession) -> DataFrame:
        place = self.path.absolute().as_uri()
        match self.format or self.guess_format():
            case "parquet":
                return session.read.parquet(place)
            case "json":
                return session.read.json(place)
            case "csv" if self.columns:
                frame = session.read.csv(place, header=False)
                if len(frame.columns) != len(self.columns):
                    raise InventoryError(f"{self.path} has {len(frame.columns)} columns, {len(self.columns)} are named")
                return frame.toDF(*(name.strip() for name in self.columns))
            case _:
                return session.read.csv(place, header=True)

    def guess_format(self) -> str:
        """The format that the name tells. Raises `InventoryError`."""
        files = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path]
        for file in files:
            for suffix in reversed(file.suffixes):
                if suffix.lower() in _SUFFIXES:
                    return _SUFFIXES[suffix.lower()]
        raise InventoryError(f"{self.path}: the name does not tell the format; give it with --inventory-format")


def _find(columns: Sequence[str], kind: str) -> str:
    for name in NAMES[kind]:
        for column in columns:
            if column.lower() == name:
                return column
    raise InventoryError(
        f"the inventory has no column for the {kind}: it has {', '.join(columns)}; one of {', '.join(NAMES[kind])} is needed "
        "(--inventory-columns names those of a CSV file without a header)"
    )


def _milliseconds(column: Column, data_type: str) -> Column:
    from pyspark.sql import functions as f

    if data_type.startswith(("timestamp", "date")):
        return f.unix_millis(column.cast("timestamp"))
    # Whole numbers are milliseconds since the epoch; texts those or ISO 8601.
    return f.coalesce(column.try_cast("long"), f.unix_millis(column.try_cast("string").try_cast("timestamp")))


class ObjectWriter:
    """Writes a listing into a Parquet file, chunk by chunk. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.objects = 0
        self._writer = pq.ParquetWriter(path, OBJECTS_SCHEMA)

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        self._writer.close()

    def write(self, rows: Sequence[tuple[str, int, int]]) -> None:
        """Add objects: key, size in bytes, time in ms."""
        columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, OBJECTS_SCHEMA, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=OBJECTS_SCHEMA))
        self.objects += len(rows)
