"""Gateways as commands see them: what they tell each other through their group in Kafka, and what their HTTP ports say."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final

from cli.looks.http_access import HttpAccess
from cli.outcome import Exit, Failed
from coordinator.kafka.object_key import created_ms_of_key

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from gateway.view.model import Gateway

CLIENT_ID: Final = "diskless-cli"
PREFIX: Final = "diskless_gateway_"
RETRY_S: Final = 0.2

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLook:
    """What the HTTP port of a gateway says. `problem` says why it does not, or not all of it."""

    gateway: Gateway
    problem: str = ""
    is_ready: bool | None = None
    ready: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    """Values by name without the prefix, then by labels."""

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over the series that have these labels."""
        wanted = set(labels.items())
        return sum(value for found, value in self.metrics.get(name, {}).items() if wanted <= set(found))

    def mean(self, name: str) -> float | None:
        """Return the mean of a histogram; None without a value."""
        count = self.total(f"{name}_count")
        return round(self.total(f"{name}_sum") / count, 6) if count else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of a metric by one of its labels, without those that are 0."""
        sums: dict[str, float] = {}
        for labels, value in self.metrics.get(name, {}).items():
            key = dict(labels).get(label, "")
            sums[key] = sums.get(key, 0.0) + value
        return {key: value for key, value in sorted(sums.items()) if value}


async def find_gateways(kafka: KafkaPlace, group_id: str, timeout_s: float) -> tuple[Gateway, ...]:
    """Return the live gateways by node id, asked from Kafka's group of them. Raises `Failed`."""
    from cli.kafka.cluster import kafka_errors
    from coordinator.adapters.kafka.brokers import describe_brokers
    from coordinator.runtime.failures import FatalError
    from coordinator.security.client_security import ClientSecurity
    from gateway.brokers.connection import BrokerLink, FindPlace, Place
    from gateway.ports import UpstreamLost
    from gateway.view.group import GroupCoordinator, GroupTrouble
    from gateway.view.model import distinct

    await asyncio.to_thread(kafka.check)
    properties = {**kafka.properties, "bootstrap.servers": kafka.bootstrap_servers, "client.id": CLIENT_ID}
    with kafka_errors():  # raised for security that connections of our own do not know, too
        brokers = await asyncio.to_thread(describe_brokers, properties, timeout_s)
    turns = cycle((one.host, one.port) for one in brokers)
    security = ClientSecurity(properties)

    async def any_place(unreached: Collection[Place]) -> Place:
        for place in islice(turns, len(brokers)):
            if place not in unreached:
                return place
        raise UpstreamLost("no other broker of the cluster is known")

    def connect(find: FindPlace) -> BrokerLink:
        return BrokerLink(find, security, CLIENT_ID, logs_in=True)

    coordinator = GroupCoordinator(group_id, connect, any_place)
    why = "no answer in time"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    return distinct(await coordinator.members())
                except (GroupTrouble, UpstreamLost) as error:
                    why = str(error)
                coordinator.drop(why)
                await asyncio.sleep(RETRY_S)
    except TimeoutError as error:
        raise Failed(f"the group of gateways {group_id} cannot be read: {why}", Exit.UNAVAILABLE) from error
    except FatalError as error:
        raise Failed(str(error)) from error
    finally:
        coordinator.drop("the command has its answer")


async def look_at_gateways(gateways: Sequence[Gateway], access: HttpAccess) -> list[GatewayLook]:
    """Ask the HTTP ports of gateways, all at the same time."""
    return list(await asyncio.gather(*(asyncio.to_thread(_look, one, access) for one in gateways)))


def _look(gateway: Gateway, access: HttpAccess) -> GatewayLook:
    if not gateway.http.startswith(("http://", "https://")):
        return GatewayLook(gateway=gateway, problem="it has no HTTP port (http.listener is empty)")
    try:
        status, body = access.get(f"{gateway.http}/ready")
        ready = json.loads(body) if body.startswith(b"{") else {}
        metrics_status, text = access.get(f"{gateway.http}/metrics")
        metrics = read_metrics(text.decode()) if metrics_status == http.client.OK else {}
    except (OSError, ValueError, http.client.HTTPException) as error:
        return GatewayLook(gateway=gateway, problem=f"{gateway.http} does not answer: {error}")
    problem = "" if metrics_status == http.client.OK else f"{gateway.http}/metrics answers {metrics_status}: pass --token-file"
    return GatewayLook(gateway=gateway, problem=problem, is_ready=status == http.client.OK, ready=ready, metrics=metrics)


def read_metrics(text: str) -> dict[str, dict[Labels, float]]:
    """Read a gateway's metrics. Raises ValueError."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith(PREFIX):
                found.setdefault(sample.name.removeprefix(PREFIX), {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def gateway_row(gateway: Gateway) -> dict[str, object]:
    """Return what a gateway tells the others."""
    return {
        "gateway": gateway.node_id,
        "rack": gateway.rack,
        "version": gateway.version,
        "listeners": [f"{name}://{_join(one.host, one.port)}" for name, one in gateway.listeners.items()],
        "relay_ports": [_relay_ports(name, gateway) for name in gateway.listeners],
        "relay_brokers": gateway.relays.text,
        "http": gateway.http,
        "object_store": gateway.store,
        "incarnation": gateway.incarnation,
        "started_ms": created_ms_of_key(gateway.incarnation),
    }


def look_fields(look: GatewayLook) -> dict[str, object]:
    """Return what a gateway tells the others, and what its HTTP port says."""
    fields = gateway_row(look.gateway) | {"ready": look.is_ready, "problem": look.problem}
    fields |= {f"ready_{name}": value for name, value in look.ready.items() if name not in ("ready", "status")}
    if not look.metrics:
        return fields
    return fields | {
        "connections": look.by("connections", "listener"),
        "requests": look.by("requests_total", "api"),
        "written": {
            "batches": look.total("produce_batches_total"),
            "bytes": look.total("produce_bytes_total"),
            "files": look.total("produce_files_total"),
            "upload_seconds": look.mean("produce_upload_seconds"),
            "commit_seconds": look.mean("produce_commit_seconds"),
            "request_seconds": look.mean("produce_request_seconds"),
            "uploads_given_up": look.total("produce_uploads_given_up_total"),
        },
        "refused": look.by("produce_refused_total", "error"),
        "read": {
            "bytes": look.total("fetch_bytes_total"),
            "cache_hits": look.total("fetch_cache_hits_total"),
            "cache_misses": look.total("fetch_cache_misses_total"),
            "store_reads": look.total("fetch_store_reads_total"),
            "store_read_seconds": look.mean("fetch_store_read_seconds"),
            "damaged_batches": look.total("fetch_damaged_batches_total"),
        },
        "memory": {
            "written_bytes": look.total("produce_memory_bytes"),
            "written_bytes_limit": look.total("produce_memory_limit_bytes"),
            "paused": bool(look.total("produce_paused")),
            "relayed_bytes": look.total("relay_memory_bytes"),
            "relayed_bytes_limit": look.total("relay_memory_limit_bytes"),
            "relay_paused": bool(look.total("relay_paused")),
            "cache_bytes": look.total("fetch_cached_bytes"),
        },
        "diskless_topics": look.total("diskless_topics"),
        "catalogue_age_seconds": look.total("catalogue_age_seconds"),
    }


def _relay_ports(listener: str, gateway: Gateway) -> str:
    first = gateway.listeners[listener].relay_base
    return f"{listener} {first}-{first + gateway.relays.count - 1}"


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
