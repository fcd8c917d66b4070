"""The general codec: every message survives, kio makes the same bytes, damage is refused cheaply."""

from __future__ import annotations

import dataclasses
import io
import struct
import tracemalloc
import typing
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioError
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from coordinator.operations.table import APIS
from coordinator.protocol import messages
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.commit_file import decode_commit_file, decode_commit_response
from coordinator.protocol.wire import MalformedMessage, UnencodableMessage, read_varint, text_bytes, varint
from tests.decoding import decode_request
from tests.protocol.forms import TOP, any_message


@given(any_message)
def test_every_message_survives(message: Message) -> None:
    assert decode(type(message), encode(message)) == message


@cache
def _kio_twin(message_type: type) -> type:
    """The same class with topic ids as kio declares them."""
    columns = []
    for item in dataclasses.fields(message_type):
        declared: typing.Any = item.type
        if item.metadata.get("kafka_type") == "uuid":
            declared = tuple[uuid.UUID | None, ...] if typing.get_origin(declared) is tuple else uuid.UUID | None
        elif typing.get_origin(declared) is tuple and dataclasses.is_dataclass(inner := typing.get_args(declared)[0]):
            declared = tuple[_kio_twin(inner), ...]
        columns.append((item.name, declared, dataclasses.field(default=item.default, metadata=item.metadata)))
    namespace = {name: getattr(message_type, name) for name in ("__type__", "__version__", "__flexible__", "__api_key__")}
    return dataclasses.make_dataclass(message_type.__name__, columns, namespace=namespace, frozen=True, kw_only=True)


def _to_uuid(raw: bytes) -> uuid.UUID | None:
    return uuid.UUID(bytes=raw) if any(raw) else None


def _to_kio(message: typing.Any) -> typing.Any:
    values = {}
    for item in dataclasses.fields(message):
        value = getattr(message, item.name)
        if item.metadata.get("kafka_type") == "uuid":
            value = tuple(map(_to_uuid, value)) if isinstance(value, tuple) else _to_uuid(value)
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            value = tuple(map(_to_kio, value))
        values[item.name] = value
    return _kio_twin(type(message))(**values)


@given(any_message)
@settings(max_examples=60)
def test_kio_makes_and_reads_the_same_bytes(message: Message) -> None:
    twin, out = _to_kio(message), io.BytesIO()
    entity_writer(type(twin))(out, twin)
    assert out.getvalue() == encode(message)
    assert entity_reader(type(twin))(out.getvalue(), 0) == (twin, len(out.getvalue()))


def _decode_or_refuse(message_type: type[Message], data: bytes) -> None:
    try:
        message = decode(message_type, data)
    except MalformedMessage:
        return
    # Not canonical perhaps (long varints, unknown tags, booleans above 1), but the same message.
    assert decode(message_type, encode(message)) == message


@st.composite
def _damaged(draw: st.DrawFn) -> tuple[type[Message], bytes]:
    message = draw(any_message)
    raw = bytearray(encode(message))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(raw)))
        kind = draw(st.sampled_from(["set", "insert", "delete", "cut"]))
        some = draw(st.sampled_from([b"\x00", b"\xff", b"\x80", b"\xff\xff\xff\xff\x07", b"\x01\x05\x00"]) | st.binary(max_size=3))
        if kind == "set":
            raw[place : place + len(some)] = some
        elif kind == "insert":
            raw[place:place] = some
        else:
            del raw[place : place + 1 if kind == "delete" else None]
    return type(message), bytes(raw)


@given(_damaged())
@settings(max_examples=300)
def test_damaged_messages_are_read_or_refused(case: tuple[type[Message], bytes]) -> None:
    _decode_or_refuse(*case)


@given(st.sampled_from(sorted(APIS)), st.integers(-1, 13), st.binary(max_size=60))
@settings(max_examples=300)
def test_random_bodies_raise_only_malformed_message(key: int, version: int, data: bytes) -> None:
    try:
        decode_request(key, version, data)
    except MalformedMessage:
        return
    assert version in APIS[key].versions


@pytest.mark.parametrize("name", TOP)
def test_every_proper_prefix_is_refused(name: str) -> None:
    from tests.protocol.forms import from_json, golden, schema

    case = next(case for case in golden()[1:] if case["message"] == f"Diskless{name}" and len(case["hex"]) >= 10)
    message_type = getattr(messages, name)
    raw = encode(from_json(message_type, case["values"], schema(name)["fields"]))
    for length in range(min(len(raw), 600)):
        with pytest.raises(MalformedMessage):
            decode(message_type, raw[:length])
    with pytest.raises(MalformedMessage, match="follow the end"):
        decode(message_type, raw + b"\0")


@pytest.mark.parametrize("is_null", [True, False])
def test_a_structure_that_may_be_null_has_kios_bytes(is_null: bool) -> None:
    import kio.schema.share_group_heartbeat.v1.response as heartbeat

    moved = heartbeat.TopicPartitions(topic_id=uuid.UUID(int=5), partitions=(i32(1), i32(2)))
    message = heartbeat.ShareGroupHeartbeatResponse(
        throttle_time=timedelta(0),  # type: ignore[arg-type]
        error_code=KioError.none,
        member_epoch=i32(3),
        heartbeat_interval=timedelta(seconds=5),  # type: ignore[arg-type]
        assignment=None if is_null else heartbeat.Assignment(topic_partitions=(moved,)),
    )
    out = io.BytesIO()
    entity_writer(heartbeat.ShareGroupHeartbeatResponse)(out, message)
    assert encode(message) == out.getvalue()
    assert decode(heartbeat.ShareGroupHeartbeatResponse, out.getvalue()) == message


@pytest.mark.parametrize("start_ms", [0, 1_700_000_000_123, -5_000])
def test_points_in_time_have_kios_bytes(start_ms: int) -> None:
    import kio.schema.describe_transactions.v0.response as transactions

    state = transactions.TransactionState(
        error_code=KioError.none,
        transactional_id="t",  # type: ignore[arg-type]
        transaction_state="Ongoing",
        transaction_timeout=timedelta(seconds=60),  # type: ignore[arg-type]
        transaction_start_time=datetime.fromtimestamp(start_ms / 1000, tz=UTC),  # type: ignore[arg-type]
        producer_id=7,  # type: ignore[arg-type]
        producer_epoch=1,  # type: ignore[arg-type]
        topics=(),
    )
    message = transactions.DescribeTransactionsResponse(throttle_time=timedelta(0), transaction_states=(state,))  # type: ignore[arg-type]
    raw = encode(message)
    assert decode(transactions.DescribeTransactionsResponse, raw) == message
    if start_ms >= 0:  # kio refuses times before 1970, which brokers answer for transactions that have not begun
        out = io.BytesIO()
        entity_writer(transactions.DescribeTransactionsResponse)(out, message)
        assert raw == out.getvalue()
    at = raw.index(struct.pack(">q", start_ms))
    with pytest.raises(MalformedMessage, match="transaction_start_time"):
        decode(transactions.DescribeTransactionsResponse, raw[:at] + struct.pack(">q", 1 << 62) + raw[at + 8 :])


def test_unknown_tagged_fields_are_skipped_and_known_ones_checked() -> None:
    request = messages.CommitFileRequest(object_key="k", object_format=1, file_size=2, owner_ids=(), batches=())
    bare = encode(request)[:-1]
    assert decode(messages.CommitFileRequest, bare + b"\x03\x00\x04\x00\x00\x00\x05\x09\x02zz\x01\x08" + b"\0" * 7 + b"\x06") == (
        dataclasses.replace(request, uploader_broker_id=5, created_ms=6)
    )
    for damage in (
        b"\x01\x00\x03\x00\x00\x05",
        b"\x01\x00\x05\x00\x00\x00\x05\x00",
        b"\x01\x09\x05zz",
        b"\x02\x09\x00",
        b"\x02" + b"\x00\x04\x00\x00\x00\x05" * 2,
    ):
        with pytest.raises(MalformedMessage):
            decode(messages.CommitFileRequest, bare + damage)
        with pytest.raises(MalformedMessage):
            decode_commit_file(bare + damage)


HUGE = b"\xff\xff\xff\xff\x07"


@pytest.mark.parametrize(
    ("message_type", "data", "text"),
    [
        (messages.DescribeFilesRequest, HUGE, "cannot fit"),
        (messages.CommitFileRequest, b"\x02k" + bytes(9) + HUGE, "cannot fit"),
        (messages.CommitFileRequest, b"\x02k" + bytes(9) + b"\x01" + HUGE, "cannot fit"),
        (messages.DescribeFilesRequest, b"\x02" + HUGE, "longer than 32767"),
        (messages.DescribeFilesRequest, b"\x00" + bytes(5), "null is not allowed"),
        (messages.DescribeFilesRequest, b"\x02\x00" + bytes(6), "null is not allowed"),
        (messages.DescribeFilesRequest, b"\x02\x03\xff\xfe" + bytes(6), "not UTF-8"),
        (messages.DescribeFilesRequest, b"\xff\xff\xff\xff\xff\x01", "larger than"),
        (messages.DescribeFilesRequest, b"\x01" + bytes(4) + HUGE, "end inside a varint"),
    ],
)
def test_damage_is_named_and_allocates_nothing(message_type: type[Message], data: bytes, text: str) -> None:
    with pytest.raises(MalformedMessage, match=text):
        decode(message_type, data)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            decode(message_type, data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_the_number_of_elements_is_limited() -> None:
    request = messages.DescribeFilesRequest(files=(messages.DescribeFileEntry(object_key=""),) * 11)
    assert decode(messages.DescribeFilesRequest, encode(request), elements_max=11) == request
    with pytest.raises(MalformedMessage, match="too many array elements"):
        decode(messages.DescribeFilesRequest, encode(request), elements_max=10)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (messages.DescribeFilesRequest(files=(), timeout_ms=1 << 31), "timeout_ms"),
        (messages.DescribeFilesRequest(files=(messages.DescribeFileEntry(object_key="x" * 32_768),)), "DescribeFileEntry.object_key"),
        (messages.DescribeFilesRequest(files=(messages.DescribeFileEntry(object_key="\ud800"),)), "surrogate"),
        (messages.DescribeFilesRequest(files=(messages.DescribeFileEntry(object_key=typing.cast(str, None)),)), "None is not allowed"),
        (messages.DeleteTopicsRequest(topics=(messages.DeletableTopicState(topic_id=b"short"),)), "a uuid has 16"),
        (messages.ListFilesRequest(coordinator_ids=(1 << 31,), states=(), object_keys=()), "ListFilesRequest.coordinator_ids"),
    ],
)
def test_values_that_do_not_fit_are_named(message: Message, text: str) -> None:
    with pytest.raises(UnencodableMessage, match=text):
        encode(message)


@given(st.integers(0, 0x7FFF_FFFF))
@example(127)
@example(128)
@example(0x7FFF_FFFF)
def test_varints_survive(value: int) -> None:
    raw = varint(value)
    assert read_varint(raw, 0, len(raw)) == (value, len(raw))


@given(st.binary(max_size=120))
@settings(max_examples=200)
def test_fast_decoders_refuse_what_the_codec_refuses(data: bytes) -> None:
    for message_type, fast in ((messages.CommitFileRequest, decode_commit_file), (messages.CommitFileResponse, decode_commit_response)):
        try:
            decode(message_type, data)
        except MalformedMessage:
            with pytest.raises(MalformedMessage):
                fast(data)
        else:
            fast(data)


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("x" * 40_000, "x" * (32_767 - 10) + " ... (cut)"),
        ("é" * 20_000, "é" * ((32_767 - 10) // 2) + " ... (cut)"),
        ("no file \udcff", "no file \\udcff"),
    ],
    ids=["long", "long, of two bytes each", "a path that is not UTF-8"],
)
def test_explanations_are_cut_instead_of_leaving_a_request_without_an_answer(told: str, read: str) -> None:
    response = messages.RegisterNodeResponse(error_code=42, error_message=told)
    assert decode(messages.RegisterNodeResponse, encode(response)).error_message == read
    assert "store_problem" in {one.name for one in dataclasses.fields(messages.DescribeCoordinatorsResponse)}
    assert text_bytes(told, "DescribeCoordinatorsResponse.store_problem").decode() == read
