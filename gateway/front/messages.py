"""Requests and answers of Kafka's own, decoded and encoded by their number and version (kio's classes)."""

from __future__ import annotations

from typing import Any, Final

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.operations.kafka_versions import schema_module
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import reply_body
from gateway.front.apis import APIS, Key

PACKAGES: Final = {
    Key.METADATA: "metadata",
    Key.FIND_COORDINATOR: "find_coordinator",
    Key.API_VERSIONS: "api_versions",
    Key.DESCRIBE_CLUSTER: "describe_cluster",
    Key.DESCRIBE_CONFIGS: "describe_configs",
    Key.SHARE_FETCH: "share_fetch",
    Key.SHARE_ACKNOWLEDGE: "share_acknowledge",
}


def request_type(key: Key, version: int) -> Any:
    """Return the class of a request."""
    return getattr(schema_module(PACKAGES[key], version, "request"), f"{APIS[key].name}Request")


def answer_type(key: Key, version: int) -> Any:
    """Return the class of an answer."""
    return getattr(schema_module(PACKAGES[key], version, "response"), f"{APIS[key].name}Response")


def read_request(request: IncomingRequest) -> Any:
    """Decode a request of a client. Raises `MalformedMessage`.

    Bytes behind it are left alone, as brokers do: librdkafka sends some behind Metadata.
    """
    return decode(request_type(Key(request.api_key), request.api_version), request.data, request.body_offset, rest_allowed=True)


def read_answer(key: Key, version: int, frame: bytes) -> Any:
    """Decode an answer of a broker, correlation id first. Raises `MalformedMessage`."""
    return decode(answer_type(key, version), reply_body(frame, tagged=APIS[key].is_answer_tagged(version)))


def write_answer(key: Key, version: int, answer: Message) -> bytes:
    """Encode an answer with the tagged fields of its header."""
    body = encode(answer)
    return b"\0" + body if APIS[key].is_answer_tagged(version) else body
