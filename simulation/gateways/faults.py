"""What goes wrong with gateways: they are killed, stopped, frozen and cut off, their store and connections fail, partitions move."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from simulation.fakes.objects import StoreFault
from simulation.gateways.clients import GatewayClients
from simulation.gateways.gateway import SimulatedGateway
from simulation.loop import VirtualLoop
from simulation.network import Network
from simulation.scenario import Fault

STALLED_S: Final = 30.0
"""How long a call of the store takes that hangs."""


class GatewayFaults:
    """Performs the faults of gateways; see the module's text."""

    def __init__(self, *, clients: GatewayClients, network: Network, world: VirtualLoop, rng: random.Random) -> None:
        self._clients = clients
        self._gateways = clients.gateways
        self._network = network
        self._world = world
        self._rng = rng
        self._store: tuple[float, StoreFault] = (0.0, StoreFault.NONE)
        self._is_over = False
        self.kinds: Mapping[str, Callable[[Fault], None]] = {
            "gateway_cut": self._cut,
            "gateway_kill": self._kill,
            "gateway_links": self._disturb_links,
            "gateway_move": lambda _: self._clients.move(),
            "gateway_pause": self._pause,
            "gateway_stop": self._stop,
            "gateway_store": self._disturb_store,
        }

    def store_fault(self, _call: str) -> StoreFault:
        """The fault of a call of a gateway's store."""
        chance, fault = self._store
        return fault if chance and self._rng.random() < chance else StoreFault.NONE

    def end(self) -> None:
        """Let everything be well from now on."""
        self._is_over = True
        self._store = (0.0, StoreFault.NONE)
        self._clients.links.heal(is_over=True)
        for gateway in self._gateways.values():
            gateway.thaw()
            gateway.start()

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        self._world.call_later(delay_s, lambda: None if self._is_over else action())

    def _gateway(self, fault: Fault) -> SimulatedGateway:
        return self._gateways[fault.node % len(self._gateways)]

    def _kill(self, fault: Fault) -> None:
        gateway = self._gateway(fault)
        gateway.kill()
        self._later(fault.duration_s, gateway.start)

    def _stop(self, fault: Fault) -> None:
        gateway = self._gateway(fault)
        # Whatever happens meanwhile, it is started again.
        gateway.stop(lambda: self._world.call_later(fault.duration_s, gateway.start))

    def _pause(self, fault: Fault) -> None:
        gateway = self._gateway(fault)
        gateway.freeze()
        self._later(fault.duration_s, gateway.thaw)

    def _cut(self, fault: Fault) -> None:
        number = self._gateway(fault).sender_id
        self._network.cut.add(number)
        self._later(fault.duration_s, lambda: self._network.cut.discard(number))

    def _disturb_links(self, fault: Fault) -> None:
        links = self._clients.links
        if fault.detail == "lose":
            links.lost = fault.chance
        else:
            links.slow = fault.chance
        self._later(fault.duration_s, lambda: links.heal(is_over=False))

    def _disturb_store(self, fault: Fault) -> None:
        self._store = (fault.chance, StoreFault[fault.detail])
        self._later(fault.duration_s, lambda: setattr(self, "_store", (0.0, StoreFault.NONE)))
