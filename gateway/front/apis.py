"""Which requests of `KafkaApi` a kind of ports offers, and in which versions.

`OWN` narrows what the gateway's own node offers, `RELAYED` what relay ports offer. A request or a version that `KafkaApi` does not list is
offered on no port, whatever brokers offer: its answers might name addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.kafka_apis import KafkaApi

OWN: Final[Mapping[int, tuple[int, int]]] = {
    KafkaApi.PRODUCE: (3, 12),  # version 13 names topics by id
    KafkaApi.FETCH: (4, 17),
}
"""What the gateway's own node offers of requests that it serves itself."""

RELAYED: Final[Mapping[int, tuple[int, int]]] = {
    # Later versions name the addresses of new leaders in their answers, which pass unread here.
    KafkaApi.PRODUCE: (3, 9),
    KafkaApi.FETCH: (4, 15),
}
"""What relay ports offer of requests whose later versions may not pass."""

PARTITIONS_OF_LEADERS: Final = frozenset(
    {
        KafkaApi.PRODUCE,
        KafkaApi.FETCH,
        KafkaApi.LIST_OFFSETS,
        KafkaApi.DELETE_RECORDS,
        KafkaApi.OFFSET_FOR_LEADER_EPOCH,
        KafkaApi.WRITE_TXN_MARKERS,
        KafkaApi.DESCRIBE_PRODUCERS,
    }
)
"""Requests that go to the leaders of partitions: the own node offers only those that it serves itself, since it leads no classic one."""

_LOGIN: Final = frozenset({KafkaApi.SASL_HANDSHAKE, KafkaApi.SASL_AUTHENTICATE})

LARGE_ANSWERS: Final = frozenset({KafkaApi.FETCH, KafkaApi.METADATA, KafkaApi.SHARE_FETCH})


@dataclass(frozen=True, slots=True)
class ServedKafkaApi:
    """A request on one kind of ports. Implements `coordinator.adapters.server.contract.ServedApi`."""

    api: KafkaApi
    low: int
    high: int
    is_taken: bool
    """Whether answers are made here, without their header; else they come from a broker and are given with its tagged fields."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.api.text

    @property
    def canonical(self) -> int:
        """Its number."""
        return self.api

    @property
    def is_unbounded(self) -> bool:
        """Whether a small request can have a large answer."""
        return self.api in LARGE_ANSWERS

    def is_flexible(self, version: int) -> bool | None:
        """Whether a version has tagged fields; None for a version that is not served. Brokers refuse unknown versions of ApiVersions."""
        if self.api != KafkaApi.API_VERSIONS and not self.low <= version <= self.high:
            return None
        return self.api.is_flexible(version)

    def is_response_tagged(self, version: int) -> bool:
        """Whether the server adds the tagged fields of an answer's header."""
        return self.is_taken and self.api.is_answer_tagged(version)

    def check(self, version: int, data: bytes, body_offset: int) -> None:
        """Accept any body: who takes the request reads it."""


class PortApis:
    """The requests that one kind of ports serves. Implements `ServedApis`."""

    def __init__(self, narrowed: Mapping[int, tuple[int, int]], taken: Collection[int], hidden: Collection[int]) -> None:
        """`taken` are the requests whose answers are made here; `hidden` ones are not served."""
        self._apis: dict[int, ServedKafkaApi] = {
            api: ServedKafkaApi(api, *narrowed.get(api, (api.first, api.last)), api in taken or api in _LOGIN)
            for api in KafkaApi
            if api not in hidden
        }

    def find(self, api_key: int) -> ServedKafkaApi | None:
        """Return the request of a number if it is served."""
        return self._apis.get(api_key)

    def api_versions_body(self, _version: int) -> None:
        """Leave ApiVersions to the handler, which asks the broker."""

    def narrowed(self, api_key: int, low: int, high: int) -> tuple[int, int] | None:
        """Return the versions to offer of those that a broker offers, None for none."""
        api = self._apis.get(api_key)
        if api is None or max(low, api.low) > min(high, api.high):
            return None
        # librdkafka finds out by version 0 of Produce, which brokers name and do not serve, how batches may be compressed.
        return (low if api_key == KafkaApi.PRODUCE else max(low, api.low)), min(high, api.high)
