"""An administration client of Kafka for the questions of one command."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient

from cli.kafka.cluster import KafkaPlace, kafka_errors

_WARNINGS = 4


class KafkaQuestions:
    """Asks Kafka, and waits for its answers. A context manager: left to the garbage collector, a client can end the whole process.

    The collector may run in a thread of the client itself, while that tells what a question came to; librdkafka aborts when a client
    is destroyed there.
    """

    def __init__(self, place: KafkaPlace, timeout_s: float) -> None:
        """Raises `Failed` when no broker can be at the addresses, and for properties that librdkafka does not take."""
        place.check()
        self._timeout_s = timeout_s
        own: dict[str, str | int] = {"bootstrap.servers": place.bootstrap_servers, "client.id": "diskless-cli", "log_level": _WARNINGS}
        with kafka_errors():
            self._admin = AdminClient({**own, **dict(place.properties)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._admin.__exit__(kind, error, trace)
