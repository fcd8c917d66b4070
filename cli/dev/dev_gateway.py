"""The gateway of `diskless dev up`: `diskless gateway run` as a process of its own, for Kafka clients of any kind."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from cli.dev.companion import Companion
from cli.dev.local_service import LocalService
from cli.dev.ports import PortLease, lease_ports

NODE_ID = 1001
PORT = 9292
HTTP_PORT = 9294
RELAY_PORT = 9293
BROKER = 1
"""The only one of the development Kafka."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
ANSWER_TIMEOUT_S = 2.0
SOON_S = 30.0


class DevGateway(Companion):
    """See the module. Clients connect again when it was started anew."""

    def __init__(self, service: LocalService, folder: Path, say: Callable[[str], None]) -> None:
        super().__init__("gateway", folder, say, port=PORT, start_timeout_s=START_TIMEOUT_S, stop_timeout_s=STOP_TIMEOUT_S, soon_s=SOON_S)
        self._service = service
        self._more: list[PortLease] = []

    @property
    def address(self) -> str:
        """What clients name as their bootstrap server."""
        return f"127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        """Where /ready and /metrics are."""
        return f"http://127.0.0.1:{self._more[0].port}"

    def start(self) -> bool:
        """Start it, and wait until it serves; False when it does not."""
        self._more = lease_ports(2, preferred=[HTTP_PORT, RELAY_PORT])
        self._launch()
        return self._wait(self._is_ready)

    def stop(self) -> None:
        """See `Companion`."""
        super().stop()
        for lease in self._more:
            lease.close()

    def _arguments(self) -> Sequence[str]:
        http, relay = self._more
        properties = {
            "gateway.node.id": NODE_ID,
            "bootstrap.servers": self._service.kafka.bootstrap,
            "coordinator.bootstrap.servers": ",".join(self._service.addresses),
            "object.store.url": f"file://{self._service.objects}",
            "listeners": f"PLAINTEXT://{self.address}",
            "http.listener": f"http://127.0.0.1:{http.port}",
            "gateway.relay.port.base": relay.port,
            "gateway.relay.brokers": BROKER,
        }
        return ("gateway", "run", *(word for key, value in properties.items() for word in ("--property", f"{key}={value}")))

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.http}/ready", timeout=ANSWER_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False  # it does not answer yet, or says that it is not ready
