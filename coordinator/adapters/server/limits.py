"""The limits of a listener, from settings, and the limit of connections of one address, over all listeners of a process."""

from __future__ import annotations

from collections import Counter

from coordinator.adapters.server.contract import ServerLimits
from coordinator.config.sections.network import ConnectionSettings


def limits_of(settings: ConnectionSettings, connections_max: int) -> ServerLimits:
    """Return the limits of each listener; `connections_max` is what the process has file descriptors for."""
    return ServerLimits(
        request_bytes_max=settings.socket_request_max_bytes,
        unfinished_bytes_max=max(settings.socket_unfinished_max_bytes, settings.socket_request_max_bytes),
        connections_max=min(settings.connections_max, connections_max),
        connection_idle_ms_max=settings.connections_max_idle_ms,
        pending_requests_max=settings.connection_pending_max_requests,
        pending_bytes_max=settings.connection_pending_max_bytes,
        login_request_bytes_max=settings.sasl_server_max_receive_size,
        logins_waiting_max=settings.connections_unauthenticated_max,
        login_timeout_ms=settings.connection_login_timeout_ms,
    )


class AddressLimit:
    """Counts the open connections of each address. Used on one event loop."""

    def __init__(self, connections_max: int, setting: str) -> None:
        """`setting` is what messages call the limit."""
        self.connections_max = connections_max
        self.setting = setting
        self._open: Counter[str] = Counter()

    def enter(self, peer_address: str) -> bool:
        """Count a connection of a peer's `host:port`; return False, and count nothing, when its host has as many as it may."""
        host = _host(peer_address)
        if self._open[host] >= self.connections_max:
            return False
        self._open[host] += 1
        return True

    def leave(self, peer_address: str) -> None:
        """Take back a connection that was counted."""
        host = _host(peer_address)
        self._open[host] -= 1
        if not self._open[host]:
            del self._open[host]


def _host(peer_address: str) -> str:
    return peer_address.rpartition(":")[0]
