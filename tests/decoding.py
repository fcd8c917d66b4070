"""Requests of any kind, decoded as a node decodes them."""

from __future__ import annotations

from coordinator.operations.table import APIS
from coordinator.protocol.codec import Message
from coordinator.protocol.wire import MalformedMessage


def decode_request(api_key: int, api_version: int, data: bytes, offset: int = 0) -> Message:
    """Decode a request body that fills `data` from `offset` on. Raises MalformedMessage, also for an unknown key or version."""
    api = APIS.get(api_key)
    if api is None or api_version not in api.versions:
        raise MalformedMessage(f"version {api_version} of request {api_key} is not known")
    return api.operation.decode(api_version, data, offset)
