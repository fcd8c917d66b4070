"""The files a metadata partition knows, or once knew, from its log alone: rows for use with `mapInArrow`.

A task must see one Kafka partition whole and in order. The walk is that of `verify`, whose rules of what counts and what
was deleted are the service's; a log that cannot be followed to its end yields one row in state FAULT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from spark_jobs.log_begin import Start
from spark_jobs.verify.judged import LogFault
from spark_jobs.verify.passes import Batches, begin_rebuild, to_batches, walk
from spark_jobs.verify.rebuild import Rebuild
from spark_jobs.verify.tally import Tally

KNOWN_DDL = "object_key string, kpart int, file_offset long, state string, size_bytes long, append_ms long"
KNOWN_SCHEMA = pa.schema(
    [
        ("object_key", pa.string()),
        ("kpart", pa.int32()),
        ("file_offset", pa.int64()),
        ("state", pa.string()),
        ("size_bytes", pa.int64()),
        ("append_ms", pa.int64()),
    ]
)

LIVE, EMPTY, FAULT = "live", "empty", "fault"
"""Known with batches, known without; the other states are the reasons of tombstones: fenced, removed, handed over."""


def known_files(deletions: Mapping[int, bytes], starts: Mapping[int, Start]) -> Callable[[Batches], Batches]:
    """Walk the log and tell every file and tombstone it leaves. `deletions` are those of the first pass of `verify`.

    `starts` are where partitions begin that begin with a snapshot. Of files from before a restore the offset is less than 0.
    """

    def run(batches: Batches) -> Batches:
        readers: dict[int, Rebuild] = {}
        faults: dict[int, str] = {}

        def reader_of(kpart: int) -> Rebuild:
            if kpart not in readers:
                readers[kpart] = begin_rebuild(deletions, starts, kpart, Tally())
            return readers[kpart]

        walk(batches, reader_of, faults)
        for kpart, reader in readers.items():
            yield from to_batches(_rows(kpart, reader, faults.get(kpart)), KNOWN_SCHEMA)

    return run


def known_at_start(starts: Mapping[int, Start], kpart: int) -> list[dict[str, object]]:
    """The rows where no entry is read: those of the snapshot."""
    return list(_rows(kpart, begin_rebuild({}, starts, kpart, Tally()), None))


def _rows(kpart: int, reader: Rebuild, fault: str | None) -> Iterator[dict[str, object]]:
    try:
        reader.apply_waiting()
    except LogFault as late:
        fault = fault or str(late)
    if fault is not None:
        yield {"object_key": fault, "kpart": kpart, "file_offset": -1, "state": FAULT, "size_bytes": 0, "append_ms": -1}
        return
    for file, live_batches, _ in reader.files.values():
        yield {
            "object_key": file.object_key,
            "kpart": kpart,
            "file_offset": file.file_offset - reader.file_id_base,
            "state": LIVE if live_batches else EMPTY,
            "size_bytes": file.size_bytes,
            "append_ms": file.append_time_ms,
        }
    for object_key, stone in reader.tombstones.items():
        yield {
            "object_key": object_key,
            "kpart": kpart,
            "file_offset": -1,
            "state": stone.reason,
            "size_bytes": 0,
            "append_ms": stone.time_ms,
        }
