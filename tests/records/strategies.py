"""Hypothesis strategies for every record type, built from the newest schema, and for consistent FileCommitted."""

from __future__ import annotations

from itertools import pairwise
from typing import assert_never

from hypothesis import strategies as st

from records import model
from records.avro import Array, AvroType, Fixed, Primitive, RecordType, Union
from records.entry_key import EntryKey
from records.history import NEWEST
from records.model import FileCommitted, FilesFenced, Record
from records.shapes import RECORD_CLASSES
from records.wire import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

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


def _mixed(high: int) -> st.SearchStrategy[int]:
    """Numbers from 0 on whose varints have all lengths."""
    return st.integers(0, high) | st.sampled_from([size for bits in range(1, 63) for size in (2**bits - 1, 2**bits) if size <= high])


def _distances(indexes: list[int]) -> list[int]:
    return [index - before for before, index in zip([0, *indexes], indexes, strict=False)]


@st.composite
def files_committed(draw: st.DrawFn, max_batches: int = 12) -> FileCommitted:
    """FileCommitted whose columns agree: some accepted batches in runs, some idempotent, some others in between."""
    accepted = draw(st.integers(0, max_batches))
    others = draw(st.integers(0, 3))
    topic_ids = draw(st.lists(IDS, min_size=1, max_size=3))
    cuts = sorted(draw(st.sets(st.integers(1, accepted - 1)))) if accepted > 1 else []
    edges = [0, *cuts, accepted] if accepted else [0]
    runs = len(edges) - 1

    def column(values: st.SearchStrategy[int], size: int) -> list[int]:
        return draw(st.lists(values, min_size=size, max_size=size))

    def sparse(values: st.SearchStrategy[int], size: int) -> list[int]:
        return column(values, size) if draw(st.booleans()) else []

    idempotent = sorted(draw(st.sets(st.integers(0, accepted - 1)))) if accepted else []
    places = sorted(draw(st.sets(st.integers(0, accepted + others - 1), min_size=others, max_size=others))) if others else []
    return FileCommitted(
        object_key=draw(TEXTS),
        object_format=draw(INTS),
        file_size=draw(LONGS),
        uploader_broker_id=draw(INTS),
        owner_ids=draw(st.lists(INTS, max_size=3)),
        created_ms=draw(LONGS),
        append_time_ms=draw(_mixed(2**62)),
        content_hash=draw(IDS),
        topic_ids=topic_ids,
        run_topic=column(st.integers(0, len(topic_ids) - 1), runs),
        run_partition=column(_mixed(INT_MAX), runs),
        run_length=[end - start for start, end in pairwise(edges)],
        run_base_offset=column(_mixed(2**62), runs),
        run_log_start=sparse(_mixed(LONG_MAX), runs),
        byte_gap=sparse(_mixed(2**40), accepted),
        byte_size=column(_mixed(INT_MAX), accepted),
        record_count_minus_one=column(_mixed(INT_MAX), accepted),
        timestamp_age=column(st.integers(-(2**61), 2**61) | st.integers(-300, 300), accepted),
        timestamp_type=sparse(st.integers(0, 1), accepted),
        producer_index=_distances(idempotent),
        producer_id=column(_mixed(LONG_MAX), len(idempotent)),
        producer_epoch=column(_mixed(32767), len(idempotent)),
        base_sequence=column(_mixed(INT_MAX), len(idempotent)),
        other_index=_distances(places),
        other_code=column(INTS, others),
        other_base_offset=column(LONGS, others),
        other_time=column(LONGS, others),
        other_log_start=column(LONGS, others),
        other_message=draw(st.lists(TEXTS, min_size=others, max_size=others)),
    )


def records_of(name: str) -> st.SearchStrategy[Record]:
    """Any consistent record of a type."""
    if name == "FileCommitted":
        return files_committed()
    if name == "FilesFenced":
        return files_fenced()
    return values(NEWEST.record_types[name])  # type: ignore[return-value]


ANY_RECORD = st.sampled_from(sorted(RECORD_CLASSES)).flatmap(records_of)
