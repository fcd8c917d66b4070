"""The Kafka clients of one process, and the arguments that they have in common."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypedDict

from coordinator.adapters.kafka.cluster import KafkaAdmin
from coordinator.adapters.kafka.member.membership import KafkaMembership
from coordinator.adapters.kafka.producing.producer import KafkaTermProducers
from coordinator.adapters.kafka.reading.reader import KafkaLogReader
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.config.settings import Settings
from coordinator.runtime.ports import LogListener, LogReader, TermProducers, group_client_id

LOG = logging.getLogger("coordinator.app")

CLOSE_TIMEOUT_S = 3.0


class ConnectionArguments(TypedDict):
    """The arguments of the adapters that ask Kafka over connections of their own."""

    bootstrap_servers: str
    client_id: str
    kafka_properties: Mapping[str, str]


class KafkaArguments(ConnectionArguments):
    """The arguments of every other Kafka adapter."""

    topic: str
    stats: KafkaStats


def connection_arguments(settings: Settings) -> ConnectionArguments:
    """Return how this process connects to Kafka."""
    return {
        "bootstrap_servers": ",".join(settings.bootstrap_servers),
        "client_id": group_client_id(settings.node_id),
        "kafka_properties": dict(settings.kafka),
    }


class KafkaClients:
    """See the module's text; one per process. The reader and the producers are opened when the topic is known."""

    def __init__(self, settings: Settings, stats: KafkaStats, *, on_load: Callable[[bool], None]) -> None:
        """`on_load` is called as in `KafkaTermProducers`."""
        self._settings = settings
        self._on_load = on_load
        self._arguments: KafkaArguments = {"topic": settings.metadata_topic, "stats": stats, **connection_arguments(settings)}
        self.cluster = KafkaAdmin(group_id=settings.group_id, **self._arguments)
        self.membership = KafkaMembership(
            loop=asyncio.get_running_loop(),
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            **self._arguments,
        )
        self._opened: list[KafkaLogReader | KafkaTermProducers] = []

    def start(self) -> None:
        """Begin to connect."""
        self.cluster.start()
        self.membership.start()

    def open_reader(self, listener: LogListener) -> LogReader:
        """Open the reader of the log."""
        reader = KafkaLogReader(loop=asyncio.get_running_loop(), listener=listener, **self._arguments)
        reader.start()
        self._opened.append(reader)
        return reader

    def open_producers(self, message_max_bytes: int) -> TermProducers:
        """Open the producers of terms."""
        producers = KafkaTermProducers(
            loop=asyncio.get_running_loop(),
            message_max_bytes=message_max_bytes,
            report_signals=self._settings.producer_report_signals_enabled,
            on_load=self._on_load,
            **self._arguments,
        )
        producers.start()
        self._opened.append(producers)
        return producers

    async def close(self) -> None:
        """End all clients."""
        clients = (self.membership, self.cluster, *self._opened)
        if not all(await asyncio.gather(*(client.close(CLOSE_TIMEOUT_S) for client in clients))):
            LOG.warning("a Kafka client did not end within %.0f s; its thread ends with the process", CLOSE_TIMEOUT_S)
