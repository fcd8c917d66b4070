"""The pure heart of the monitor: an ordered pass over the metadata log, and what it sends to the store.

`scan_function(heads)` is for Spark's mapInArrow: one task per partition of the metadata topic, whose rows come in offset
order. Nothing here reads a clock, Kafka or a database, and no bytes of the log make it fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_jobs.scan.head import Head
from spark_jobs.scan.partition import PartitionScan
from spark_jobs.scan.summary import SUMMARY_DDL, SUMMARY_SCHEMA, FindingRow

__all__ = ["INPUT_COLUMNS", "SUMMARY_DDL", "SUMMARY_SCHEMA", "Head", "scan_function"]

INPUT_COLUMNS = ("partition", "offset", "key", "value", "timestamp_ms")


def scan_function(
    heads: Mapping[int, Head], void: Mapping[int, Mapping[int, FindingRow]] | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function from `INPUT_COLUMNS` to `SUMMARY_SCHEMA` that scans on from these heads.

    `void` are entries that contradict what the store knows, by partition and offset.
    """
    known = void or {}

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scans: dict[int, PartitionScan] = {}
        for batch in batches:
            if not batch.num_rows:
                continue
            kparts = batch.column("partition").to_numpy(zero_copy_only=False)
            edges = [0, *(np.flatnonzero(np.diff(kparts)) + 1).tolist(), len(kparts)]
            for start, stop in pairwise(edges):
                kpart = int(kparts[start])
                if kpart not in scans:
                    scans[kpart] = PartitionScan(kpart, heads.get(kpart), known.get(kpart, {}))
                scans[kpart].feed(batch.slice(start, stop - start))
        for one in scans.values():
            yield from one.summary()

    return scan
