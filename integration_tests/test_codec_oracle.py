"""Our codecs against Kafka's: every message and version we serve, byte for byte, with random and with damaged messages.

Kafka's side are the classes its own generator makes: from our JSON definitions for the KIP's messages and our extensions,
from Kafka's for its own. Needs no broker.

Where we are stricter than Kafka, on purpose: bytes after the end of a message of ours, text that is not UTF-8 (Kafka puts
U+FFFD), a negative length other than -1, a varint above 31 bits, a tagged field that says another size than it has or
comes twice, a message with more than a million array elements, an error code that has no meaning. Never the reverse:
what we accept, Kafka accepts as the same message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.java.jars import parse_lock
from coordinator.operations.table import APIS, ApiTable
from coordinator.protocol import messages
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.commit_file import decode_commit_file, decode_commit_response, encode_commit_file, encode_commit_response
from coordinator.protocol.find_batches import (
    BatchLocation,
    FindBatchesBody,
    FoundPartition,
    decode_find_batches,
    encode_find_batches_response,
)
from coordinator.protocol.framing import read_request_header, reply_body, reply_frame, request_frame
from coordinator.protocol.list_offsets import ListOffsetsBody, decode_list_offsets, encode_list_offsets_response
from coordinator.protocol.wire import MalformedMessage
from integration_tests.oracle.build import DEFINITIONS, LOCK, build_oracle
from integration_tests.oracle.definitions import Definition, from_kafka, kafka_definition, our_definition, to_kafka
from integration_tests.oracle.kafka_codec import KafkaCodec, KafkaRefused
from integration_tests.oracle.random_messages import messages_of, tagged_messages_of

# The first test may have to fetch the jars (16 MB).
pytestmark = pytest.mark.timeout(600)
few = settings(max_examples=10, deadline=None)
many = settings(max_examples=30, deadline=None)

# librdkafka and kio name Kafka's own requests as Kafka does.
KAFKAS_OWN = {3: "Metadata", 10: "FindCoordinator", 18: "ApiVersions", 34: "AlterReplicaLogDirs", 35: "DescribeLogDirs"} | {
    17: "SaslHandshake",
    32: "DescribeConfigs",
    36: "SaslAuthenticate",
    44: "IncrementalAlterConfigs",
    59: "FetchSnapshot",
    61: "DescribeProducers",
    73: "AssignReplicasToDirs",
}
WITH_RECORDS = {"FetchSnapshotResponse"}
"""Not compared: in Kafka's readable form a field of records is only its size. `tests/operations/test_snapshot_fetches.py` has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One version of one message, and our class for it."""

    name: str
    version: int
    message_type: type[Message]
    is_ours: bool

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}"


def _cases() -> Iterator[Case]:
    for key, api in APIS.items():
        for version, schema in api.versions.items():
            if key in KAFKAS_OWN:
                for name, message_type in (("Request", schema.request_type), ("Response", schema.response_type)):
                    if (whole := KAFKAS_OWN[key] + name) not in WITH_RECORDS:
                        yield Case(name=whole, version=version, message_type=message_type, is_ours=False)
            elif not api.is_kip_key:  # the KIP's own numbers have the same classes
                for message_type in (schema.request_type, schema.response_type):
                    yield Case(name=f"Diskless{message_type.__name__}", version=version, message_type=message_type, is_ours=True)


CASES = list(_cases())
each_message = pytest.mark.parametrize("case", CASES, ids=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """Kafka's codec, and the definitions its classes were made from."""

    kafka: KafkaCodec
    clients_jar: Path

    def definition(self, name: str, version: int) -> Definition:
        return our_definition(name) if name.startswith("Diskless") else kafka_definition(self.clients_jar, name, version)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    built = build_oracle()
    with KafkaCodec(built) as kafka:
        yield Oracle(kafka=kafka, clients_jar=built.clients_jar)


def test_every_definition_and_every_request_is_compared() -> None:
    assert {case.name for case in CASES if case.is_ours} == {path.stem for path in DEFINITIONS.glob("*.json")}
    served = {(key, version) for key, low, high in ApiTable(wire_kip_keys_enabled=False).ranges() for version in range(low, high + 1)}
    assert len(CASES) == 2 * len(served) - len(APIS[59].versions)


def test_the_oracle_s_jars_are_the_broker_s() -> None:
    of_broker = {jar.file_name: jar for jar in parse_lock((LOCK.parents[2] / "cli/dev/kafka/jars.lock").read_text("utf-8"))}
    shared = [jar for jar in parse_lock(LOCK.read_text("utf-8")) if jar.file_name in of_broker]
    assert "kafka-clients-4.3.1.jar" in [jar.file_name for jar in shared]
    assert shared == [of_broker[jar.file_name] for jar in shared]


@each_message
def test_both_make_and_read_the_same_bytes(oracle: Oracle, case: Case) -> None:
    definition = oracle.definition(case.name, case.version)

    @given(messages_of(definition))
    @few
    def holds(form: dict[str, Any]) -> None:
        message = from_kafka(case.message_type, definition.fields, form)
        raw = oracle.kafka.encode(case.name, case.version, form)
        assert encode(message) == raw
        assert decode(case.message_type, raw) == message
        assert to_kafka(definition.fields, message) == form
        read = oracle.kafka.decode(case.name, case.version, raw)
        assert from_kafka(case.message_type, definition.fields, read.message) == message
        assert read.rest_bytes == 0

    holds()


@pytest.mark.parametrize("case", [case for case in CASES if case.message_type.__flexible__], ids=str)
def test_unknown_tagged_fields_of_any_structure_are_skipped(oracle: Oracle, case: Case) -> None:
    definition = oracle.definition(case.name, case.version)

    @given(tagged_messages_of(definition))
    @few
    def holds(form: dict[str, Any]) -> None:
        raw = oracle.kafka.encode(case.name, case.version, form)
        assert decode(case.message_type, raw) == from_kafka(case.message_type, definition.fields, form)

    holds()


_PIECES = [
    b"\x00",
    b"\xff",
    b"\x80",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x01\x00\x00",
    b"\x01\x05\x00",
    b"\x02\x00\x00\x00\x00",
]


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[str, int, bytes]]:
    """A few changes: what to do, where (modulo the size), with which bytes."""
    one = st.tuples(
        st.sampled_from(["set", "insert", "delete", "cut", "append"]),
        st.integers(0, 4000),
        st.sampled_from(_PIECES) | st.binary(min_size=1, max_size=3),
    )
    return draw(st.lists(one, min_size=1, max_size=3))


def damaged(raw: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    """Apply damages to bytes."""
    out = bytearray(raw)
    for kind, where, some in changes:
        place = where % (len(out) + 1)
        match kind:
            case "set":
                out[place : place + len(some)] = some
            case "insert":
                out[place:place] = some
            case "delete":
                del out[place : place + len(some)]
            case "cut":
                del out[place:]
            case _:
                out += some
    return bytes(out)


@each_message
def test_what_we_accept_kafka_accepts_as_the_same_message(oracle: Oracle, case: Case) -> None:
    definition = oracle.definition(case.name, case.version)

    @given(messages_of(definition), damages())
    @many
    def holds(form: dict[str, Any], changes: list[tuple[str, int, bytes]]) -> None:
        raw = damaged(encode(from_kafka(case.message_type, definition.fields, form)), changes)
        try:
            # As the server does: bytes after the end of Kafka's own requests are ignored.
            message = decode(case.message_type, raw, rest_allowed=not case.is_ours)
        except MalformedMessage:
            return
        read = oracle.kafka.decode(case.name, case.version, raw)
        assert from_kafka(case.message_type, definition.fields, read.message) == message
        assert read.rest_bytes == 0 or not case.is_ours

    holds()


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("DisklessDescribeFilesRequest", b"\x00" + bytes(5)),
        ("DisklessDescribeFilesRequest", b"\x02\x00" + bytes(6)),
        ("DisklessDescribeFilesRequest", b"\xff\xff\xff\xff\x07"),
        ("DisklessDescribeFilesRequest", b"\x02" + b"\x81\x80\x02" + b"y" * 32_768 + bytes(6)),
        ("DisklessCommitFileRequest", b"\x02k" + bytes(9)),
    ],
    ids=["null array", "null string", "huge array", "long string", "cut"],
)
def test_both_refuse(oracle: Oracle, name: str, raw: bytes) -> None:
    with pytest.raises(KafkaRefused):
        oracle.kafka.decode(name, 0, raw)
    with pytest.raises(MalformedMessage):
        decode(getattr(messages, name.removeprefix("Diskless")), raw)


@pytest.mark.parametrize("version", [1, 2])
def test_request_headers(oracle: Oracle, version: int) -> None:
    definition, flexible = oracle.definition("RequestHeader", version), version == 2

    @given(messages_of(definition), tagged_messages_of(definition), damages())
    @many
    def holds(form: dict[str, Any], tagged: dict[str, Any], changes: list[tuple[str, int, bytes]]) -> None:
        raw = oracle.kafka.encode("RequestHeader", version, form)
        values = [form[name] for name in ("requestApiKey", "requestApiVersion", "correlationId", "clientId")]
        assert request_frame(*values, b"body", flexible=flexible) == (len(raw) + 4).to_bytes(4, "big") + raw + b"body"
        assert list(read_request_header(raw + b"body", flexible=flexible)) == [*values, len(raw)]
        if flexible:
            with_tags = oracle.kafka.encode("RequestHeader", version, tagged)
            assert read_request_header(with_tags + b"body", flexible=True).body_offset == len(with_tags)
        broken = damaged(raw, changes)
        try:
            header = read_request_header(broken, flexible=flexible)
        except MalformedMessage:
            return
        read = oracle.kafka.decode("RequestHeader", version, broken)
        assert list(header) == [*(read.message[field.name] for field in definition.fields), len(broken) - read.rest_bytes]

    holds()


@pytest.mark.parametrize("version", [0, 1])
def test_response_headers(oracle: Oracle, version: int) -> None:
    definition, tagged = oracle.definition("ResponseHeader", version), version == 1

    @given(messages_of(definition), tagged_messages_of(definition))
    @few
    def holds(form: dict[str, Any], with_tags: dict[str, Any]) -> None:
        raw = oracle.kafka.encode("ResponseHeader", version, form)
        assert reply_frame(form["correlationId"], b"body", tagged=tagged) == (len(raw) + 4).to_bytes(4, "big") + raw + b"body"
        assert reply_body(raw + b"body", tagged=tagged) == b"body"
        if tagged:
            assert reply_body(oracle.kafka.encode("ResponseHeader", version, with_tags) + b"body", tagged=True) == b"body"

    holds()


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_kafka_reads_our_list_of_requests(oracle: Oracle, version: int) -> None:
    table = ApiTable()
    read = oracle.kafka.decode("ApiVersionsResponse", version, table.api_versions_body(version))
    assert [(one["apiKey"], one["minVersion"], one["maxVersion"]) for one in read.message["apiKeys"]] == table.ranges()
    assert (read.message["errorCode"], read.rest_bytes) == (0, 0)


# --- the fast codecs ---


def test_fast_commit_file_codec(oracle: Oracle) -> None:
    request, response = our_definition("DisklessCommitFileRequest"), our_definition("DisklessCommitFileResponse")

    @given(messages_of(request), tagged_messages_of(request), messages_of(response))
    @many
    def holds(plain: dict[str, Any], tagged: dict[str, Any], answer: dict[str, Any]) -> None:
        for form in (plain, tagged):
            read = decode_commit_file(oracle.kafka.encode(request.name, 0, form))
            without_tags = {**form, "batches": [_without_tags(one) for one in form["batches"]], "_tags": {}}
            assert encode_commit_file(read) == oracle.kafka.encode(request.name, 0, without_tags)
        raw, rows = oracle.kafka.encode(response.name, 0, answer), answer["batches"]
        error_messages = {place: one["errorMessage"] for place, one in enumerate(rows) if one["errorMessage"] is not None}
        names = ("errorCode", "assignedBaseOffset", "logAppendTime", "logStartOffset", "isDuplicate")
        columns = [[one[name] for one in rows] for name in names]
        errors, bases, times, starts, duplicates = columns
        assert encode_commit_response(errors, bases, times, starts, duplicates, error_messages, answer["throttleTimeMs"]) == raw
        results = decode_commit_response(raw)
        assert (results.error_messages, results.throttle_time_ms) == (error_messages, answer["throttleTimeMs"])
        ours = ("error_code", "base_offset", "append_time_ms", "log_start_offset", "is_duplicate")
        assert [results.results[name].tolist() for name in ours] == columns

    holds()


def _without_tags(form: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name != "_tags"}


def test_fast_find_batches_codec(oracle: Oracle) -> None:
    request, response = our_definition("DisklessFindBatchesRequest"), our_definition("DisklessFindBatchesResponse")

    @given(messages_of(request), tagged_messages_of(request), messages_of(response))
    @many
    def holds(plain: dict[str, Any], tagged: dict[str, Any], answer: dict[str, Any]) -> None:
        for form in (plain, tagged):
            message = from_kafka(messages.FindBatchesRequest, request.fields, form)
            asked = [
                (topic.topic_id, [(one.partition_index, one.offset, one.max_partition_fetch_bytes) for one in topic.partitions])
                for topic in message.topics
            ]
            waits = (message.min_bytes, message.max_wait_ms)
            expected = FindBatchesBody(message.fetch_max_bytes, message.max_batches_per_partition, asked, message.timeout_ms, *waits)
            assert decode_find_batches(oracle.kafka.encode(request.name, 0, form)) == expected
        found = from_kafka(messages.FindBatchesResponse, response.fields, answer)
        topics = [(topic.topic_id, [_found_partition(one) for one in topic.partitions]) for topic in found.topics]
        assert encode_find_batches_response(topics, found.throttle_time_ms) == oracle.kafka.encode(response.name, 0, answer)

    holds()


def test_fast_list_offsets_codec(oracle: Oracle) -> None:
    request, response = our_definition("DisklessListOffsetsRequest"), our_definition("DisklessListOffsetsResponse")

    @given(messages_of(request), tagged_messages_of(request), messages_of(response))
    @many
    def holds(plain: dict[str, Any], tagged: dict[str, Any], answer: dict[str, Any]) -> None:
        for form in (plain, tagged):
            message = from_kafka(messages.ListOffsetsRequest, request.fields, form)
            asked = [(topic.topic_id, [(one.partition_index, one.timestamp) for one in topic.partitions]) for topic in message.topics]
            assert decode_list_offsets(oracle.kafka.encode(request.name, 0, form)) == ListOffsetsBody(asked, message.timeout_ms)
        found = from_kafka(messages.ListOffsetsResponse, response.fields, answer)
        topics = [
            (
                topic.topic_id,
                [(one.partition_index, one.error_code, one.error_message, one.timestamp, one.offset) for one in topic.partitions],
            )
            for topic in found.topics
        ]
        assert encode_list_offsets_response(topics, found.throttle_time_ms) == oracle.kafka.encode(response.name, 0, answer)

    holds()


def _found_partition(one: messages.FindBatchesPartitionResponse) -> FoundPartition:
    batches = [BatchLocation(*(getattr(batch, name) for name in BatchLocation._fields)) for batch in one.batches]
    return FoundPartition(one.partition_index, one.error_code, one.log_start_offset, one.high_watermark, batches)
