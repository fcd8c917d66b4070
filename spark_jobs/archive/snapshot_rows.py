"""Rows of the archive for what a snapshot has of deleted entries: the live batches of their files.

A row stands for neighbours in a file and in the offsets of a partition, as in the log; its number within the file is the place of its
first batch. Kafka's time of the entry is not known. Nothing is told of other records, and of batches that are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from records.committed_files.codec import FileCommitted
from spark_jobs.archive.columns import APPLIED, SCHEMA, days_of, id_text, time_column
from spark_jobs.snapshots.content import SnapshotContent


def snapshot_rows(content: SnapshotContent, first_offset: int | None) -> Iterator[pa.RecordBatch]:
    """The live batches of files that were committed from an offset on; None: of all, also those of before a restore.

    Raises `BadSnapshot`, OSError.
    """
    head, files = content.head, content.files
    offsets = np.array([file.file_id for file in files], np.int64) - content.file_id_base
    append_ms = np.array([file.append_time_ms for file in files], np.int64)
    keys = pa.array([file.object_key for file in files], pa.string())
    uploaders = np.array([file.uploader_broker_id for file in files], np.int64)
    sizes = np.array([file.file_size for file in files], np.int64)
    topics = pa.array([id_text(one.topic_id) for one in content.partitions], pa.string())
    numbers = np.array([one.partition for one in content.partitions], np.int64)
    for chunk in content.batches():
        at = chunk.live.nonzero()[0]
        if first_offset is not None:
            at = at[offsets[chunk.file[at]] >= first_offset]
        if not len(at):
            continue
        at = at[np.lexsort((chunk.columns["base"][at], chunk.partition[at]))]
        file, partition = chunk.file[at], chunk.partition[at]
        base, count, size, index = (chunk.columns[name][at] for name in ("base", "count", "size", "index"))
        is_next = (partition[1:] == partition[:-1]) & (file[1:] == file[:-1])
        is_next &= (base[1:] == base[:-1] + count[:-1]) & (index[1:] == index[:-1] + 1)
        first = np.concatenate(([0], (~is_next).nonzero()[0] + 1))
        last = np.append(first[1:], len(at)) - 1
        of, rows = file[first], len(first)
        columns: dict[str, object] = {
            "kpart": np.full(rows, head.metadata_partition),
            "offset": offsets[of],
            "record_number": np.zeros(rows, np.int64),
            "run_number": index[first],
            "date": pa.array(days_of(append_ms[of]), pa.int32()).cast(pa.date32()),
            "verdict": pa.array([APPLIED] * rows),
            "record": pa.array([FileCommitted.__name__] * rows),
            "append_time": time_column(append_ms[of]),
            "object_key": keys.take(pa.array(of)),
            "topic_id": topics.take(pa.array(partition[first])),
            "partition": numbers[partition[first]],
            "base_offset": base[first],
            "next_offset": base[last] + count[last],
            "batches": last - first + 1,
            "records": np.add.reduceat(count, first),
            "bytes": np.add.reduceat(size, first),
            "uploader": uploaders[of],
            "file_bytes": sizes[of],
            "snapshot": np.full(rows, head.end_offset),
        }
        arrays = [_typed(columns.get(field.name), field.type, rows) for field in SCHEMA]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _typed(values: object, data_type: pa.DataType, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, data_type)
    return values if isinstance(values, pa.Array) else pa.array(values, data_type)
