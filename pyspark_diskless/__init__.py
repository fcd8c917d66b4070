"""The data source `diskless` of Spark: records of diskless topics as DataFrames, in batch queries and in streams.

    spark.read.format("diskless").option("diskless.bootstrap.servers", "node-1:9192").option("subscribe", "orders") ...

Spark imports each module whose name begins with `pyspark_` when it first looks for a Python data source, so nothing is registered. This
module imports only Spark itself: every micro-batch stream starts a process that imports it, and gives up when that takes too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Options are checked when a DataFrame is made; they raise `SourceOptionError` of `tables.source.options`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "diskless"

    def schema(self) -> StructType:
        """Return the columns."""
        from tables.source.options import parse_options
        from tables.source.schema import schema_of

        return schema_of(parse_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        from tables.source.batch import batch_reader
        from tables.source.options import parse_batch_options
        from tables.source.schema import check_schema

        options = parse_batch_options(self.options)
        check_schema(schema, options.columns)
        return batch_reader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        from tables.source.options import parse_stream_options
        from tables.source.schema import check_schema
        from tables.source.stream import DisklessStreamReader

        options = parse_stream_options(self.options)
        check_schema(schema, options.columns)
        return DisklessStreamReader(options)
