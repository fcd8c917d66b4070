"""What this room has for one gateway, made from its settings: the front asks it about each listener and each connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from confluent_kafka import KafkaException

from coordinator.adapters.server.contract import Host, ListenerSecurity, Peer, ServerLimits
from coordinator.adapters.server.limits import AddressLimit, limits_of
from coordinator.runtime.failures import FatalError
from coordinator.security.tls import TlsFilesError
from gateway.access.cluster import ClusterUnfit, check_mechanisms, cluster_security, listener_faults
from gateway.access.desk import PassThroughDesk
from gateway.access.listeners import ListenerGates
from gateway.access.rates import RatedFetch, RatedProduce
from gateway.access.rights import TopicRights
from gateway.access.zones import Zones, parse_network
from gateway.ports import Catalogue, Taker
from gateway.settings import GatewaySettings

PRODUCE: Final = 0
FETCH: Final = 1
ASK_TIMEOUT_S: Final = 10.0


class LoginUpstream(Protocol):
    """The upstream connection of a client, as its login sees it."""

    def forward(self, frame: bytes) -> Awaitable[bytes]:
        """See `gateway.ports.Upstream`."""

    def keep_questions(self, kept: bool) -> None:
        """Keep the gateway's own questions back, or let them go."""


class GatewayAccess:
    """See the module. Raises `FatalError` for settings and files by which clients cannot be served, or not as securely as they say."""

    def __init__(self, settings: GatewaySettings, catalogue: Catalogue, *, connections_max: int) -> None:
        """`connections_max` is what the process has file descriptors for."""
        try:
            self.cluster = cluster_security(settings.kafka)
            """How this gateway connects to brokers."""
            self._gates = ListenerGates(settings)
        except (ClusterUnfit, TlsFilesError) as error:
            raise FatalError(str(error)) from error
        if faults := list(listener_faults(settings, self.cluster)):
            raise FatalError("; ".join(faults))
        self._settings = settings
        self.rights = TopicRights(catalogue, settings.gateway_rights_ttl_ms)
        self.limits: ServerLimits = replace(limits_of(settings, connections_max), login_failure_delay_ms=0)
        per_address = settings.gateway_connections_per_address_max
        self.addresses = AddressLimit(per_address, "gateway.connections.per.address.max") if per_address else None
        """Shared by all listeners and relay ports."""
        listeners = (entry.partition("=") for entry in settings.gateway_listener_zones)
        self._zones = Zones(
            [parse_network(entry) for entry in settings.gateway_client_zones],
            {name.strip(): zone.strip() for name, _, zone in listeners},
        )
        self._produce: RatedProduce | None = None
        self._fetch: RatedFetch | None = None

    async def check(self, client_id: str) -> None:
        """Ask the cluster by which mechanisms clients log in. Raises `FatalError` when none can pass, or no broker says."""
        servers = ",".join(self._settings.bootstrap_servers)
        try:
            await check_mechanisms(servers, self.cluster, client_id, ASK_TIMEOUT_S)
        except ClusterUnfit as error:
            raise FatalError(str(error)) from error
        except KafkaException as error:
            raise FatalError(f"no broker of {servers} says how clients log in: {error.args[0].str()}") from error

    async def keep_current(self) -> None:
        """Look at the files of certificates every few seconds. Ends by being cancelled."""
        await self._gates.keep_current()

    def security_of(self, listener: str) -> ListenerSecurity:
        """Return the security of a listener."""
        return self._gates.of(listener)

    def expiries_s(self) -> Sequence[tuple[str, int]]:
        """Return when the certificate of each listener with TLS expires, in seconds since 1970."""
        return self._gates.expiries_s()

    def rated(self, takers: Mapping[int, Taker]) -> dict[int, Taker]:
        """Return takers that keep principals to their byte rates."""
        made = dict(takers)
        if PRODUCE in made and self._settings.gateway_produce_byte_rate:
            made[PRODUCE] = self._produce = RatedProduce(made[PRODUCE], self._settings.gateway_produce_byte_rate)
        if FETCH in made and self._settings.gateway_fetch_byte_rate:
            made[FETCH] = self._fetch = RatedFetch(made[FETCH], self._settings.gateway_fetch_byte_rate)
        return made

    @property
    def throttled(self) -> Mapping[str, int]:
        """Answers that told of a throttle time, by the rate."""
        return {one.name: one.throttled for one in (self._produce, self._fetch) if one is not None}

    # ---- connections

    def open_desk(self, host: Host, find_upstream: Callable[[Peer], LoginUpstream]) -> PassThroughDesk:
        """Return who takes the login of a connection."""

        def keep_questions(kept: bool) -> None:
            find_upstream(host.peer).keep_questions(kept)

        def accepted(identity: bytes | None) -> None:
            self.rights.identify(host.peer.connection_id, identity)

        return PassThroughDesk(host, lambda frame: find_upstream(host.peer).forward(frame), quiet=keep_questions, accepted=accepted)

    def came(self, connection_id: int, listener: str) -> None:
        """Note a connection that has its upstream connection: to the cluster it is as any other of its listener until it logs in."""
        self.rights.identify(connection_id, None if self._gates.of(listener).has_login else listener)

    def zone_of(self, client_id: str | None, address: str, listener: str) -> str | None:
        """Return the zone of a client; None when nothing says it."""
        return self._zones.of(client_id, address, listener)

    def gone(self, connection_id: int) -> None:
        """Forget a connection that has come to its end."""
        self.rights.forget(connection_id)
