"""CommitFile's fast codec: the batches of a request as one numpy view, results as rows of bytes.

A batch without tagged fields takes exactly 77 bytes, the last of which (the count of its tagged fields) is 0. So if
every 77th byte is 0, the whole list is an array of fixed rows and needs no decoding; otherwise the general codec reads
it and builds the same rows. The same holds for results without a message, 29 bytes each. The loops over bytes are in
`commit_loops.py`.
Invariant: bytes made and values read here are those of the general codec (`codec.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from coordinator.kafka.batches import BATCH as ROW
from coordinator.protocol.codec import ELEMENTS_MAX, decode
from coordinator.protocol.commit_loops import ANSWER_BYTES, RESULT_BYTES, Body, read_bodies, write_answers
from coordinator.protocol.messages import CommitBatch, CommitFileRequest, CommitFileResponse
from coordinator.protocol.wire import (
    STRING_BYTES_MAX,
    UnencodableMessage,
    compact_string,
    read_varint,
    varint,
)

_ROW_FIELDS: Final[Mapping[str, tuple[Any, ...]]] = ROW.fields or {}
_KEY_AT: Final = _ROW_FIELDS["topic_partition"][1]
_FIELDS: Final = sorted(
    [*((name, *place[:2]) for name, place in _ROW_FIELDS.items()), ("topic_id", "V16", _KEY_AT), ("partition", ">i4", _KEY_AT + 16)],
    key=lambda field: field[2],
)
BATCH: Final = np.dtype(
    {
        "names": [name for name, _, _ in _FIELDS],
        "formats": [form for _, form, _ in _FIELDS],
        "offsets": [offset for _, _, offset in _FIELDS],
        "itemsize": ROW.itemsize,
    }
)
"""The row of the core, and in it names for the two parts of `topic_partition`, the key to group by."""

RESULT: Final = np.dtype(
    [
        ("error_code", ">i2"),
        ("message_length", "u1"),
        ("base_offset", ">i8"),
        ("append_time_ms", ">i8"),
        ("log_start_offset", ">i8"),
        ("is_duplicate", "u1"),
        ("tags", "u1"),
    ]
)
Int64s: TypeAlias = npt.NDArray[np.int64]

_BATCH_ROW: Final = struct.Struct(">bi16siiiqqqbqhiix")
_RESULT_ROW: Final = struct.Struct(">hxqqq?x")
_RESULT_END: Final = struct.Struct(">qqq?x")
_FORMAT_AND_SIZE: Final = struct.Struct(">bq")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_INT16: Final = struct.Struct(">h")


class CommitFileBody(NamedTuple):
    """A CommitFile request. `batches` has the dtype BATCH and may be a read-only view of the received bytes."""

    object_key: str
    object_format: int
    file_size: int
    owner_ids: list[int]
    batches: npt.NDArray[np.void]
    timeout_ms: int = 60_000
    uploader_broker_id: int = -1
    created_ms: int = -1


class CommitResults(NamedTuple):
    """A CommitFile response. `results` has the dtype RESULT (`message_length` means nothing); messages by index."""

    throttle_time_ms: int
    results: npt.NDArray[np.void]
    error_messages: dict[int, str]


def decode_commit_file(data: bytes, offset: int = 0) -> CommitFileBody:
    """Decode the body of a CommitFile request that fills `data` from `offset` on. Raises MalformedMessage."""
    (body,) = read_commit_bodies((data,), offset)
    if body is None:
        return _decode_generally(data, offset)
    object_key, object_format, file_size, owner_ids, first, count, timeout_ms, broker_id, created_ms = body
    batches = np.frombuffer(data, BATCH, count, first)
    return CommitFileBody(object_key, object_format, file_size, owner_ids, batches, timeout_ms, broker_id, created_ms)


def read_commit_bodies(frames: Sequence[bytes], offset: int) -> list[Body | None]:
    """Read bodies whose batches already are rows of the dtype BATCH; None for one that the general codec has to read."""
    return read_bodies(frames, offset, STRING_BYTES_MAX, ELEMENTS_MAX)


def encode_commit_file(request: CommitFileBody) -> bytes:
    """Encode the body of a CommitFile request; the batches' `tags` must be 0. Raises UnencodableMessage."""
    if request.batches.dtype != BATCH or request.batches["tags"].any():
        raise UnencodableMessage("CommitFileRequest.batches: must have the dtype BATCH and tags 0")
    owner_ids = request.owner_ids
    try:
        head = _FORMAT_AND_SIZE.pack(request.object_format, request.file_size)
        owners = varint(len(owner_ids) + 1) + struct.pack(f">{len(owner_ids)}i", *owner_ids)
        timeout = _INT32.pack(request.timeout_ms)
        tagged = ((0, request.uploader_broker_id, _INT32), (1, request.created_ms, _INT64))
        tags = [varint(tag) + varint(layout.size) + layout.pack(value) for tag, value, layout in tagged if value != -1]
    except struct.error as error:
        raise UnencodableMessage(f"CommitFileRequest of {request.object_key!r}: {error}") from error
    key = compact_string(request.object_key, "CommitFileRequest.object_key")
    return b"".join((key, head, owners, varint(len(request.batches) + 1), request.batches.tobytes(), timeout, varint(len(tags)), *tags))


def batch_rows(batches: Iterable[CommitBatch]) -> npt.NDArray[np.void]:
    """Turn decoded batches into rows of the dtype BATCH."""
    packed = b"".join(
        _BATCH_ROW.pack(
            one.magic,
            one.request_id,
            one.topic_id,
            one.partition_index,
            one.byte_offset,
            one.size,
            one.base_offset,
            one.last_offset,
            one.batch_max_timestamp,
            one.timestamp_type,
            one.producer_id,
            one.producer_epoch,
            one.base_sequence,
            one.last_sequence,
        )
        for one in batches
    )
    return np.frombuffer(packed, BATCH)


def encode_commit_response(
    error_codes: Sequence[int],
    base_offsets: Sequence[int],
    append_times_ms: Sequence[int],
    log_start_offsets: Sequence[int],
    duplicates: Sequence[bool],
    error_messages: Mapping[int, str] | None = None,
    throttle_time_ms: int = 0,
) -> bytes:
    """Encode a response from columns of equal length; `error_messages` by index of the batch. Raises UnencodableMessage."""
    count = len(error_codes)
    if not count == len(base_offsets) == len(append_times_ms) == len(log_start_offsets) == len(duplicates):
        raise UnencodableMessage("CommitFileResponse: the columns differ in length")
    try:
        if error_messages:
            columns = zip(error_codes, base_offsets, append_times_ms, log_start_offsets, duplicates, strict=True)
            rows = [
                _INT16.pack(code) + compact_string(error_messages.get(index), "CommitBatchResult.error_message") + _RESULT_END.pack(*rest)
                for index, (code, *rest) in enumerate(columns)
            ]
            body = b"".join(rows)
        else:
            body = b"".join(map(_RESULT_ROW.pack, error_codes, base_offsets, append_times_ms, log_start_offsets, duplicates))
        return _INT32.pack(throttle_time_ms) + varint(count + 1) + body + b"\0"
    except struct.error as error:
        raise UnencodableMessage(f"CommitFileResponse: {error}") from error


class AnswerCells(NamedTuple):
    """Which cells of a line have what an answer tells: the verdict (0: accepted, 1: duplicate), base offset, timestamp type, log start
    offset, and the append time of a duplicate."""

    verdict: int
    base_offset: int
    timestamp_type: int
    log_start: int
    duplicate_time: int


def encode_commit_answers(lines: Int64s, cells: AnswerCells, append_times: Int64s, first_line: list[int]) -> list[bytes]:
    """Encode the responses to many requests from the lines of their batches; responses to requests with refused batches mean nothing.

    Only accepted batches with LogAppendTime get the append time of their file. `first_line` says where the batches of each
    request begin, and where those of the last one end.
    """
    out = bytearray(RESULT_BYTES * first_line[-1] + ANSWER_BYTES * (len(first_line) - 1))
    starts = write_answers(lines.data, *cells, append_times.data, first_line, out)
    raw = bytes(out)
    return [raw[start:stop] for start, stop in pairwise(starts)]


def decode_commit_response(data: bytes, offset: int = 0) -> CommitResults:
    """Decode the body of a CommitFile response. Raises MalformedMessage."""
    end = len(data)
    count, position = read_varint(data, offset + 4, end)
    count -= 1
    stop = position + 29 * count
    if 0 <= count <= ELEMENTS_MAX and stop + 1 == end and data[stop] == 0:
        results = np.frombuffer(data, RESULT, count, position)
        # In every row both bytes are 0: by induction this proves that the next row starts where it should.
        if data[position + 2 : stop : 29].count(0) == count == data[position + 28 : stop : 29].count(0):
            return CommitResults(_INT32.unpack_from(data, offset)[0], results, {})
    response = decode(CommitFileResponse, data, offset)
    packed = b"".join(
        _RESULT_ROW.pack(one.error_code, one.assigned_base_offset, one.log_append_time, one.log_start_offset, one.is_duplicate)
        for one in response.batches
    )
    messages = {index: one.error_message for index, one in enumerate(response.batches) if one.error_message is not None}
    return CommitResults(response.throttle_time_ms, np.frombuffer(packed, RESULT), messages)


def _decode_generally(data: bytes, offset: int) -> CommitFileBody:
    request = decode(CommitFileRequest, data, offset)
    return CommitFileBody(
        request.object_key,
        request.object_format,
        request.file_size,
        list(request.owner_ids),
        batch_rows(request.batches),
        request.timeout_ms,
        request.uploader_broker_id,
        request.created_ms,
    )
