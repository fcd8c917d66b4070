"""Tells why brokers refuse a client. librdkafka reports a refused login to `error_cb` only; calls just run into their timeout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import KafkaError

REMEDY: Final[Mapping[int, str]] = {
    KafkaError._AUTHENTICATION: "the login was refused, check sasl.mechanism, sasl.username and sasl.password",
    KafkaError._SSL: "no connection by TLS, check ssl.ca.location, and the own certificate if brokers ask for one",
}


class LoginWatch:
    """An `error_cb` that remembers the last refusal; the client must be polled for it to be called."""

    def __init__(self, count: Callable[[KafkaError], None]) -> None:
        """`count` is called with every error."""
        self._count = count
        self.refusal: str | None = None
        """The refused step and what to check; None while Kafka has refused nothing since `succeeded`."""

    def __call__(self, error: KafkaError) -> None:
        """Take an error of the client."""
        self._count(error)
        remedy = REMEDY.get(error.code())
        if remedy is not None:
            self.refusal = f"{remedy}: {error.str()}"

    def succeeded(self) -> None:
        """A broker has answered."""
        self.refusal = None
