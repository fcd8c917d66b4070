"""Takes addresses out of the settings of brokers that clients are shown: DescribeConfigs of brokers is answered by the brokers themselves.

A setting that may hold an address is shown without its value, as Kafka shows secrets.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.framing_loops import Body
from gateway.kafka_apis import KafkaApi
from gateway.ports import Session, Taker

BROKER: Final = 4
_WORDS: Final = ("listeners", "voters", "bootstrap.servers", "host.name", "advertised", "listener.name.")


class HidingTaker:
    """Answers DescribeConfigs as another taker does, without addresses of brokers. Implements `Taker`."""

    def __init__(self, inner: Taker) -> None:
        self._inner = inner

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        self._inner.take(session, request, partial(_answer, request.api_version, respond))


def _answer(version: int, respond: Respond, body: Body | None) -> None:
    if body:
        whole = body if isinstance(body, bytes) else b"".join(body)
        answer = decode(KafkaApi.DESCRIBE_CONFIGS.answer_type(version), whole)
        if any(int(one.resource_type) == BROKER for one in answer.results):
            body = encode(replace(answer, results=tuple(map(_hidden, answer.results))))
    respond(body)


def _hidden(result: Any) -> Any:
    if int(result.resource_type) != BROKER:
        return result
    return replace(result, configs=tuple(map(_masked, result.configs)))


def _masked(config: Any) -> Any:
    if not any(word in config.name for word in _WORDS) and "://" not in (config.value or ""):
        return config
    synonyms = {"synonyms": ()} if hasattr(config, "synonyms") else {}
    return replace(config, value=None, is_sensitive=True, **synonyms)
