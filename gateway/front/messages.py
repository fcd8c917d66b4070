"""Requests and answers of Kafka's own, decoded and encoded by their number and version (kio's classes)."""

from __future__ import annotations

from typing import Any, Final

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.operations.kafka_versions import schema_module
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.framing import reply_body
from gateway.front.apis import APIS, KafkaKey

PACKAGES: Final = {
    KafkaKey.METADATA: "metadata",
    KafkaKey.FIND_COORDINATOR: "find_coordinator",
    KafkaKey.API_VERSIONS: "api_versions",
    KafkaKey.DESCRIBE_CLUSTER: "describe_cluster",
    KafkaKey.DESCRIBE_CONFIGS: "describe_configs",
    KafkaKey.SHARE_FETCH: "share_fetch",
    KafkaKey.SHARE_ACKNOWLEDGE: "share_acknowledge",
}


def request_type(key: KafkaKey, version: int) -> Any:
    """Return the class of a request."""
    return getattr(schema_module(PACKAGES[key], version, "request"), f"{APIS[key].name}Request")


def answer_type(key: KafkaKey, version: int) -> Any:
    """Return the class of an answer."""
    return getattr(schema_module(PACKAGES[key], version, "response"), f"{APIS[key].name}Response")


def read_request(request: IncomingRequest) -> Any:
    """Decode a request of a client. Raises `MalformedMessage`.

    Bytes behind it are left alone, as brokers do: librdkafka sends some behind Metadata.
    """
    return decode(request_type(KafkaKey(request.api_key), request.api_version), request.data, request.body_offset, rest_allowed=True)


def read_answer(key: KafkaKey, version: int, frame: bytes) -> Any:
    """Decode an answer of a broker, correlation id first. Raises `MalformedMessage`."""
    return decode(answer_type(key, version), reply_body(frame, tagged=APIS[key].is_answer_tagged(version)))


def write_answer(key: KafkaKey, version: int, answer: Message) -> bytes:
    """Encode an answer with the tagged fields of its header."""
    body = encode(answer)
    return b"\0" + body if APIS[key].is_answer_tagged(version) else body
