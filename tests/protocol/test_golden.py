"""Our bytes are those of Kafka's own generated classes."""

from __future__ import annotations

import pytest

from coordinator.operations.table import APIS
from coordinator.protocol import messages
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.commit_file import decode_commit_file, decode_commit_response, encode_commit_file
from coordinator.protocol.framing import read_request_header, reply_body, reply_frame, request_frame
from tests.protocol.forms import TOP, from_json, golden, schema

GOLDEN = golden()
OWN = [case for case in GOLDEN if case["message"].startswith("Diskless")]
STANDARD = {
    "ApiVersions": 18,
    "FindCoordinator": 10,
    "Metadata": 3,
}


def _has_unknown_tags(value: object) -> bool:
    if isinstance(value, dict):
        return "_tags" in value or any(map(_has_unknown_tags, value.values()))
    return isinstance(value, list) and any(map(_has_unknown_tags, value))


def test_every_message_has_golden_bytes() -> None:
    assert {case["message"] for case in OWN} == {f"Diskless{name}" for name in TOP}


@pytest.mark.parametrize("case", OWN, ids=lambda case: case["message"])
def test_own_messages(case: dict) -> None:
    name, raw = case["message"].removeprefix("Diskless"), bytes.fromhex(case["hex"])
    message = from_json(getattr(messages, name), case["values"], schema(name)["fields"])
    assert decode(type(message), raw) == message
    if not _has_unknown_tags(case["values"]):
        assert encode(message) == raw


@pytest.mark.parametrize("case", [case for case in OWN if "CommitFile" in case["message"]], ids=lambda case: case["message"])
def test_fast_commit_codec(case: dict) -> None:
    raw = bytes.fromhex(case["hex"])
    if case["message"].endswith("Response"):
        results = decode_commit_response(raw)
        assert results.results["base_offset"].tolist() == [one["assignedBaseOffset"] for one in case["values"]["batches"]]
        return
    request = decode_commit_file(raw)
    assert request.object_key == case["values"]["objectKey"]
    assert request.batches["last_sequence"].tolist() == [one["lastSequence"] for one in case["values"]["batches"]]
    assert request.uploader_broker_id == case["values"].get("uploaderBrokerId", -1)
    if not _has_unknown_tags(case["values"]):
        assert encode_commit_file(request) == raw


@pytest.mark.parametrize(
    "case",
    [case for case in GOLDEN if case["message"].removesuffix("Request").removesuffix("Response") in STANDARD],
    ids=lambda case: f"{case['message']}-v{case['version']}",
)
def test_standard_messages(case: dict) -> None:
    kind = "request_type" if case["message"].endswith("Request") else "response_type"
    version = APIS[STANDARD[case["message"].removesuffix("Request").removesuffix("Response")]].versions[case["version"]]
    raw = bytes.fromhex(case["hex"])
    message = decode(getattr(version, kind), raw)
    assert encode(message) == raw
    for key, value in case["values"].items():
        snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in key).removesuffix("_ms")
        if isinstance(value, int | str) and snake not in ("throttle_time", "error_code"):
            assert getattr(message, snake) == value, key


@pytest.mark.parametrize("case", [case for case in GOLDEN if case["message"] == "RequestHeader"], ids=lambda case: case["hex"])
def test_request_headers(case: dict) -> None:
    raw, values, flexible = bytes.fromhex(case["hex"]), case["values"], case["version"] == 2
    header = read_request_header(raw + b"body", flexible=flexible)
    assert header[:4] == (values["requestApiKey"], values["requestApiVersion"], values["correlationId"], values["clientId"])
    assert header.body_offset == len(raw)
    if "_tags" not in values:
        frame = request_frame(header.api_key, header.api_version, header.correlation_id, header.client_id, b"body", flexible=flexible)
        assert frame == (len(raw) + 4).to_bytes(4, "big") + raw + b"body"


@pytest.mark.parametrize("case", [case for case in GOLDEN if case["message"] == "ResponseHeader"], ids=lambda case: case["hex"])
def test_response_headers(case: dict) -> None:
    raw, tagged = bytes.fromhex(case["hex"]), case["version"] == 1
    assert reply_body(raw + b"body", tagged=tagged) == b"body"
    if "_tags" not in case["values"]:
        assert reply_frame(case["values"]["correlationId"], b"body", tagged=tagged) == (len(raw) + 4).to_bytes(4, "big") + raw + b"body"
