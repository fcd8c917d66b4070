"""The security of the gateway's own listeners, as the nodes have it: certificates in PEM files, which are read again when they change.

Logins are the cluster's. A certificate that clients must show (ssl.client.auth) is a gate: it lets a client in and names nobody, since a
principal of a certificate cannot be passed on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from coordinator.adapters.server.contract import ListenerSecurity
from coordinator.config.sections.security import TlsSettings
from coordinator.config.values import Listener, SecurityProtocol
from coordinator.security.tls import ListenerTls

LOG = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 2.0


class GatedListeners(Protocol):
    """The settings of the listeners."""

    @property
    def listeners(self) -> Sequence[Listener]:
        """The listeners by their names."""

    def protocol_of(self, listener: str) -> SecurityProtocol | None:
        """Return how a listener is secured."""

    def for_listener(self, listener: str) -> TlsSettings:
        """Return the settings of one listener."""


class ListenerGates:
    """Makes the security of each listener. Raises `coordinator.security.tls.TlsFilesError` for files that are not usable."""

    def __init__(self, settings: GatedListeners) -> None:
        self._tls: dict[str, ListenerTls] = {}
        self._made: dict[str, ListenerSecurity] = {}
        for name in dict.fromkeys(one.name for one in settings.listeners):
            protocol = settings.protocol_of(name)
            assert protocol is not None, "the rules of the configuration want a protocol"
            if protocol.has_tls:
                self._tls[name] = ListenerTls(name, settings.for_listener(name))
            tls = self._tls[name].newest if protocol.has_tls else None
            self._made[name] = ListenerSecurity(tls=tls, has_login=protocol.has_login)

    def of(self, listener: str) -> ListenerSecurity:
        """Return the security of a listener."""
        return self._made[listener]

    def expiries_s(self) -> Sequence[tuple[str, int]]:
        """Return when the certificate of each listener with TLS expires, in seconds since 1970."""
        return [(listener, tls.expires_s) for listener, tls in self._tls.items()]

    async def keep_current(self) -> None:
        """Look at the files every few seconds. Ends by being cancelled."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            for tls in self._tls.values():
                try:
                    await asyncio.to_thread(tls.refresh)
                except Exception:  # any fault of a file may be repaired at the next look
                    LOG.exception("checking the files of the listeners failed")
