"""The columns of the data source: those of Spark's Kafka source, by name and type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from tables.reading.span import HEADERS

TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


class SchemaGiven(ValueError):
    """A query declares columns that the source does not have; the text says how to choose columns."""


def schema_of(columns: Sequence[str]) -> StructType:
    """Return the schema of columns."""
    return StructType([StructField(name, TYPES[name]) for name in columns])


def check_schema(given: StructType, columns: Sequence[str]) -> None:
    """Compare the schema of a query with that of the source. Raises `SchemaGiven`."""
    own = schema_of(columns)
    if given != own:
        raise SchemaGiven(
            f"The diskless source has a fixed schema, {own.simpleString()}, and was given {given.simpleString()}. Leave out schema(...); "
            "the option 'columns' chooses columns, and 'includeHeaders' adds the headers."
        )
