"""The head of a snapshot: what it is of. The first data record of the file.

A head has one form: bytes that `encode_head` does not write are no head.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Final, NamedTuple, cast

from fastavro import parse_schema, schemaless_reader, schemaless_writer, validate

from records.history import read_schema_text
from records.snapshot.errors import BadSnapshot, MalformedRecord, NewerFormat
from records.snapshot.names import SnapshotId

FORMAT: Final = 1
"""The number of the format of head and rows. It precedes the head, so that every version can read it."""

HEAD_KEY: Final = b"diskless-snapshot"
HEAD_BYTES_MAX: Final = 1 << 20

_SCHEMA = parse_schema(json.loads(read_schema_text("snapshot-head-v1.avsc")))
_FORMAT_BYTES = 2


class SnapshotHead(NamedTuple):
    """The log and the place of a snapshot; `term` and `seq` are those of the last entry before `end_offset` that counted.

    Ids and hashes have 16 bytes. `table_version` is the version of the tables, `header` has further columns of their header row.
    """

    cluster_id: str
    topic_id: bytes
    metadata_partition: int
    end_offset: int
    epoch: int
    term: int
    seq: int
    log_time_ms: int
    last_entry_hash: bytes
    digest: bytes
    table_version: int
    header: dict[str, int | str]

    @property
    def snapshot_id(self) -> SnapshotId:
        return SnapshotId(self.end_offset, self.epoch)


def check_identity(head: SnapshotHead, cluster_id: str, topic_id: bytes, partition: int) -> None:
    """Raise `BadSnapshot` unless the snapshot is of this partition of this metadata topic."""
    found, wanted = (head.cluster_id, head.topic_id, head.metadata_partition), (cluster_id, topic_id, partition)
    if found != wanted:
        raise BadSnapshot(f"the snapshot up to offset {head.end_offset} is of {_in_words(*found)}; this is {_in_words(*wanted)}")


def encode_head(head: SnapshotHead) -> bytes:
    """Return the head as bytes. Raises ValueError for a value that its type cannot hold."""
    fields = head._asdict()
    if head.end_offset < 0 or head.epoch < 0 or not validate(fields, _SCHEMA, raise_errors=False):
        raise ValueError(f"no head of a snapshot: {head!r:.2000}")
    out = BytesIO()
    out.write(FORMAT.to_bytes(_FORMAT_BYTES, "big"))
    schemaless_writer(out, _SCHEMA, fields)
    if out.tell() > HEAD_BYTES_MAX:
        raise ValueError(f"no head of a snapshot: {out.tell()} bytes, at most {HEAD_BYTES_MAX} are allowed")
    return out.getvalue()


def decode_head(value: bytes) -> SnapshotHead:
    """Return the head of a snapshot. Raises `MalformedRecord`; `NewerFormat` for the head of a later format."""
    if len(value) > HEAD_BYTES_MAX:
        raise MalformedRecord(f"the head has {len(value)} bytes, at most {HEAD_BYTES_MAX} are allowed")
    number = int.from_bytes(value[:_FORMAT_BYTES], "big")
    if number > FORMAT:
        raise NewerFormat(f"it has format {number}, this version reads format {FORMAT}: use a version that knows format {number}")
    if number != FORMAT:
        raise MalformedRecord(f"there is no format {number}")
    body = BytesIO(value)
    body.seek(_FORMAT_BYTES)
    try:
        fields = cast(dict[str, object], schemaless_reader(body, _SCHEMA, None))
        head = SnapshotHead(**fields)  # type: ignore[arg-type]  # the schema has the fields and their types
        again = encode_head(head)
    except Exception as error:  # fastavro meets bytes that are no Avro with whatever they make it run into
        raise MalformedRecord(f"the head cannot be read: {error!r:.200}") from error
    if again != value:
        raise MalformedRecord(f"the head of {len(value)} bytes is not what its values make")
    return head


def _in_words(cluster_id: str, topic_id: bytes, partition: int) -> str:
    return f"cluster {cluster_id!r}, topic id {topic_id.hex()}, partition {partition}"
