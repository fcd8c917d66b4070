"""Questions to any broker of the cluster: the bootstrap servers are asked in turn, each over a connection of this process's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException

from coordinator.adapters.kafka.broker import Answer, connect, refused
from coordinator.protocol.codec import Message
from coordinator.security.client_security import ClientSecurity, SecurityUnsupported

BOOTSTRAP_WAIT_S: Final = 1.0
"""How long one bootstrap server may take while others are left to ask."""
BROKER_PORT: Final = 9092

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The bootstrap servers, and how a process presents itself to brokers."""

    servers: Sequence[tuple[str, int]]
    security: ClientSecurity
    client_id: str

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> Self:
        """Read librdkafka's properties. Raises `KafkaException` for security that the own connection does not know."""
        try:
            security = ClientSecurity(properties)
        except (SecurityUnsupported, OSError) as error:
            raise refused(KafkaError._UNSUPPORTED_FEATURE, f"brokers cannot be asked over a connection of our own: {error}") from error
        return cls(bootstrap_addresses(str(properties["bootstrap.servers"])), security, str(properties["client.id"]))

    def ask(self, request: Message, answer_type: type[Answer], read: Callable[[Answer], Found], end_s: float) -> Found:
        """Return what `read` makes of the first answer that it takes. Raises the last server's `KafkaException`."""
        failed = refused(KafkaError._TIMED_OUT, "no bootstrap server answered in time")
        for place, (host, port) in enumerate(self.servers):
            wait_s = rest_s(end_s) if place == len(self.servers) - 1 else min(BOOTSTRAP_WAIT_S, rest_s(end_s))
            try:
                with connect(host, port, security=self.security, client_id=self.client_id, timeout_s=wait_s) as server:
                    return read(server.ask(request, answer_type))
            except KafkaException as error:
                failed = error
        raise failed


def bootstrap_addresses(servers: str) -> list[tuple[str, int]]:
    """Read `bootstrap.servers` as librdkafka does: a port may be missing, a protocol and brackets around IPv6 may be there."""
    addresses = []
    for text in filter(None, (part.strip() for part in servers.split(","))):
        place = text.rpartition("://")[2]
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or place.endswith("]"):
            host, port = place, str(BROKER_PORT)
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


def rest_s(end_s: float) -> float:
    """Return the seconds that are left. Raises `KafkaException` when none are."""
    if (left_s := end_s - time.monotonic()) <= 0:
        raise refused(KafkaError._TIMED_OUT, "the brokers did not answer in time")
    return left_s
