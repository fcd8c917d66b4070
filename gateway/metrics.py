"""Every metric of a gateway: name, kind, labels, help. Exported names begin with `diskless_gateway_`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.adapters.metrics.registry import Sample
from coordinator.adapters.metrics.table import Metric, MetricKind
from coordinator.adapters.server.server import Server
from gateway.front.apis import APIS

PREFIX: Final = "diskless_gateway_"


def counter(name: str, help_text: str, *labels: str) -> Metric:
    """Declare a counter that is read at each scrape."""
    return Metric(name=name, kind=MetricKind.COUNTER, help=help_text, labels=labels, is_read=True)


def gauge(name: str, help_text: str, *labels: str) -> Metric:
    """Declare a level that is read at each scrape."""
    return Metric(name=name, kind=MetricKind.GAUGE, help=help_text, labels=labels, is_read=True)


FRONT: Final = (
    gauge("ready", "1 if this gateway serves clients and is a member of the group of gateways"),
    gauge("gateways", "Live gateways that this one knows of, itself among them"),
    gauge("brokers", "Real brokers in service"),
    gauge("brokers_relayed", "Real brokers that have a relay port here", "listener"),
    gauge("connections", "Connections of clients", "listener"),
    counter("connection_reading_paused_total", "Times that a connection was not read because it reached a bound", "listener"),
    counter("connections_closed_total", "Connections that ended, by reason", "listener", "reason"),
    counter("received_bytes_total", "Bytes received from clients", "listener"),
    counter("sent_bytes_total", "Bytes sent to clients", "listener"),
    counter("requests_total", "Requests of clients, by API", "listener", "api"),
    counter("stale_requests_total", "Requests on relay ports for diskless topics, answered NOT_LEADER_OR_FOLLOWER", "api"),
    counter("topic_lookups_total", "Metadata answers that had to wait for a look at topics that were not known"),
    counter("group_generations_total", "Generations of the group of gateways that this one was in"),
)


def server_samples(listener: str, servers: Sequence[Server]) -> Iterable[Sample]:
    """The counters of all ports of one listener together."""
    totals: dict[tuple[str, tuple[str, ...]], float] = {}

    def add(name: str, value: float, *labels: str) -> None:
        key = (name, (listener, *labels))
        totals[key] = totals.get(key, 0) + value

    for server in servers:
        stats = server.stats
        add("connections", stats.connections_open)
        add("connection_reading_paused_total", stats.reading_paused)
        add("received_bytes_total", stats.bytes_in)
        add("sent_bytes_total", stats.bytes_out)
        for reason, count in stats.closed.items():
            add("connections_closed_total", count, reason.name.lower())
        for key, count in stats.requests.items():
            add("requests_total", count, APIS[key].name)
    return [Sample(name, labels, value) for (name, labels), value in totals.items()]
