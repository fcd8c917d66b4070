"""Hypothesis strategies for every record type, built from the newest schema, and for consistent FileCommitted."""

from __future__ import annotations

from typing import assert_never, get_args

from hypothesis import strategies as st

from records import model
from records.avro import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, Array, AvroType, Fixed, Primitive, RecordType, Union
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey
from records.history import NEWEST
from records.model import FilesFenced, FilesHandedOver, Record, TopicConfigured

RECORD_CLASSES: dict[str, type[Record]] = {cls.__name__: cls for cls in get_args(Record)}
INTS = st.integers(INT_MIN, INT_MAX)
LONGS = st.integers(LONG_MIN, LONG_MAX)
TEXTS = st.text(max_size=12)
IDS = st.binary(min_size=16, max_size=16)
KEYS = st.builds(EntryKey, st.integers(0, INT_MAX), LONGS, st.integers(0, LONG_MAX))


def values(avro_type: AvroType) -> st.SearchStrategy[object]:
    """Any value of a type."""
    match avro_type:
        case Primitive.INT:
            return INTS
        case Primitive.LONG:
            return LONGS
        case Primitive.STRING:
            return TEXTS
        case Primitive.BOOLEAN:
            return st.booleans()
        case Fixed(size=size):
            return st.binary(min_size=size, max_size=size)
        case Array(items=items):
            return st.lists(values(items), max_size=4)
        case RecordType(name=name, fields=fields):
            cls = RECORD_CLASSES.get(name) or getattr(model, name)
            return st.builds(cls, **{field.name: values(field.type) for field in fields})
        case Union():
            raise AssertionError("no record holds a union")
        case _:
            assert_never(avro_type)


@st.composite
def files_fenced(draw: st.DrawFn) -> FilesFenced:
    """FilesFenced with columns of one length."""
    pairs = draw(st.lists(st.tuples(TEXTS, LONGS), max_size=4))
    return FilesFenced(object_keys=[key for key, _ in pairs], created_ms=[created_ms for _, created_ms in pairs])


@st.composite
def topic_configured(draw: st.DrawFn) -> TopicConfigured:
    """TopicConfigured with columns of one length."""
    pairs = draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=3))
    return TopicConfigured(
        topic_id=draw(st.binary(min_size=16, max_size=16)), names=[name for name, _ in pairs], values=[value for _, value in pairs]
    )


@st.composite
def files_handed_over(draw: st.DrawFn) -> FilesHandedOver:
    """FilesHandedOver with columns of one length."""
    pairs = draw(st.lists(st.tuples(TEXTS, INTS), max_size=4))
    return FilesHandedOver(object_keys=[key for key, _ in pairs], next_owner_ids=[owner_id for _, owner_id in pairs])


def _mixed(high: int) -> st.SearchStrategy[int]:
    """Numbers from 0 on whose varints have all lengths."""
    return st.integers(0, high) | st.sampled_from([size for bits in range(1, 63) for size in (2**bits - 1, 2**bits) if size <= high])


IDEMPOTENT = st.tuples(_mixed(LONG_MAX), _mixed(INT_MAX), _mixed(INT_MAX))
REFUSED = st.tuples(_mixed(LONG_MAX), _mixed(INT_MAX), INTS)


@st.composite
def files_committed(draw: st.DrawFn, max_batches: int = 8) -> FileCommitted:
    """FileCommitted that may be written: runs of partitions, accepted batches and others, gaps in offsets and in bytes."""
    append_time_ms = draw(_mixed(2**62))
    topic_ids = draw(st.lists(IDS, min_size=1, max_size=3))
    places = st.tuples(st.sampled_from(topic_ids), _mixed(INT_MAX), st.just(0) | _mixed(LONG_MAX))
    batches: list[CommittedBatch] = []
    place, due, end = draw(places), draw(_mixed(2**62)), 0
    gaps = st.just(0) | st.integers(-end, 2**40) if draw(st.booleans()) else st.just(0)
    types = st.integers(0, 1) if draw(st.booleans()) else st.just(0)
    for _ in range(draw(st.integers(0, max_batches))):
        if draw(st.booleans()):
            place, due = draw(places), draw(_mixed(2**62))
        topic_id, partition, log_start = place
        count = draw(_mixed(INT_MAX)) + 1
        verdict = draw(st.just(0) | st.sampled_from(BatchVerdict))
        base = due if verdict == 0 else draw(_mixed(2**62)) if verdict == BatchVerdict.DUPLICATE else -1
        due += count if verdict == 0 else 0
        byte_offset, byte_size = max(0, end + draw(gaps)), draw(_mixed(INT_MAX))
        end = byte_offset + byte_size
        batches.append(
            CommittedBatch(
                topic_id=topic_id,
                partition=partition,
                verdict=int(verdict),
                base_offset=base,
                record_count=count,
                byte_offset=byte_offset,
                byte_size=byte_size,
                timestamp_ms=append_time_ms - draw(st.integers(-(2**61), 2**61) | st.integers(-300, 300)),
                timestamp_type=draw(types),
                **dict(zip(_PRODUCER, draw(st.just((-1, -1, -1)) | (REFUSED if verdict > 1 else IDEMPOTENT)), strict=True)),
                log_start=log_start,
                detail=0 if verdict == 0 else draw(LONGS),
            )
        )
    return FileCommitted(
        object_key=draw(TEXTS),
        object_format=draw(INTS),
        file_size=draw(LONGS),
        uploader_broker_id=draw(INTS),
        owner_ids=draw(st.lists(INTS, max_size=3)),
        created_ms=draw(LONGS),
        append_time_ms=append_time_ms,
        content_hash=draw(IDS),
        batches=batches,
    )


_PRODUCER = ("producer_id", "producer_epoch", "base_sequence")


def records_of(name: str) -> st.SearchStrategy[Record]:
    """Any consistent record of a type."""
    if name == "FileCommitted":
        return files_committed()
    if name == "FilesHandedOver":
        return files_handed_over()
    if name == "FilesFenced":
        return files_fenced()
    if name == "TopicConfigured":
        return topic_configured()
    return values(NEWEST.record_types[name])  # type: ignore[return-value]


ANY_RECORD = st.sampled_from(sorted(RECORD_CLASSES)).flatmap(records_of)
