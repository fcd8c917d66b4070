"""Faults between clients and the service: gateways and whole zones of them, the object store, and members of groups."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final

from cli.dev.gateway import GatewayProcess
from integration_tests.faults.catalogue import STOP_TIMEOUT_S, Hits, Needs, Say, action
from integration_tests.faults.gateway_topology import GATEWAY_ZONES, GatewayTopology
from integration_tests.faults.topology import Topology
from integration_tests.gateway.failing_s3 import Fault

FAILS_OFTEN: Final = [
    *[Fault.NONE] * 38,
    *[Fault.REFUSED] * 4,
    *(Fault.RESET, Fault.CUT_REQUEST, Fault.LOST_ANSWER, Fault.CUT_ANSWER, Fault.HANGS),
]


def _world(topology: Topology) -> GatewayTopology:
    if not isinstance(topology, GatewayTopology):
        raise AssertionError("this action needs gateways")
    return topology


def _gateways(topology: Topology, zone: str) -> list[GatewayProcess]:
    return [one for name, one in _world(topology).gateways.items() if GATEWAY_ZONES[name] == zone]


# ---- gateways


@action("gateway_kill", "SIGKILL of a gateway, started again", needs=Needs.GATEWAYS, hits=Hits.GATEWAY, lasts_s=(1, 10))
def gateway_kill(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _killed([_world(topology).gateways[target]]):
        yield


@action("gateway_stop", "clean stop of a gateway, started again", needs=Needs.GATEWAYS, hits=Hits.GATEWAY, lasts_s=(1, 5))
def gateway_stop(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    gateway = _world(topology).gateways[target]
    try:
        status = gateway.terminate(STOP_TIMEOUT_S)
        if status != 0:
            raise AssertionError(f"{target} ended with status {status} when it was asked to stop")
        yield
    finally:
        gateway.kill()
        gateway.start()


@action("gateway_pause", "SIGSTOP of a gateway for longer than its session", needs=Needs.GATEWAYS, hits=Hits.GATEWAY, lasts_s=(8, 16))
def gateway_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _paused([_world(topology).gateways[target]]):
        yield


@action("gateway_short_pause", "SIGSTOP of a gateway for less than its session", needs=Needs.GATEWAYS, hits=Hits.GATEWAY, lasts_s=(0.5, 4))
def gateway_short_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _paused([_world(topology).gateways[target]]):
        yield


@action("zone_kill", "SIGKILL of all gateways of a zone, started again", needs=Needs.GATEWAYS, hits=Hits.ZONE, lasts_s=(8, 20))
def zone_kill(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _killed(_gateways(topology, target)):
        yield


@action("zone_pause", "SIGSTOP of all gateways of a zone", needs=Needs.GATEWAYS, hits=Hits.ZONE, lasts_s=(8, 20))
def zone_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _paused(_gateways(topology, target)):
        yield


@contextmanager
def _killed(gateways: Sequence[GatewayProcess]) -> Iterator[None]:
    for one in gateways:
        one.kill()
    try:
        yield
    finally:
        for one in gateways:
            one.start()


@contextmanager
def _paused(gateways: Sequence[GatewayProcess]) -> Iterator[None]:
    for one in gateways:
        one.pause()
    try:
        yield
    finally:
        for one in gateways:
            one.resume()


# ---- the store


@action("store_errors", "a fifth of the store's requests fails", needs=Needs.GATEWAYS, hits=Hits.STORE, lasts_s=(5, 25))
def store_errors(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _failing(topology, FAILS_OFTEN, say):
        yield


@action("store_cuts", "the store cuts bodies and loses answers", needs=Needs.GATEWAYS, hits=Hits.STORE, lasts_s=(3, 10))
def store_cuts(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _failing(topology, [Fault.NONE, Fault.CUT_REQUEST, Fault.LOST_ANSWER, Fault.CUT_ANSWER], say):
        yield


@action("store_refuses", "the store answers 503", needs=Needs.GATEWAYS, hits=Hits.STORE, lasts_s=(3, 15))
def store_refuses(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _failing(topology, [Fault.REFUSED], say):
        yield


@action("store_hangs", "every request to the store takes 30 s longer", needs=Needs.GATEWAYS, hits=Hits.STORE, lasts_s=(12, 35))
def store_hangs(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    with _failing(topology, [Fault.HANGS], say):
        yield


@contextmanager
def _failing(topology: Topology, faults: Sequence[Fault], say: Say) -> Iterator[None]:
    store = _world(topology).store
    store.faults = faults
    before = store.seen.copy()
    try:
        yield
    finally:
        store.faults = [Fault.NONE]
        say(", ".join(f"{number} {fault.name.lower()}" for fault, number in (store.seen - before).items()))


# ---- clients


@action("member_kill", "SIGKILL of a group's member, another is started", needs=Needs.GATEWAYS, hits=Hits.MEMBER, lasts_s=(0.5, 15))
def member_kill(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    member = _world(topology).members[target]
    member.kill()
    try:
        yield
    finally:
        member.start()


@action("member_pause", "SIGSTOP of a group's member for longer than its session", needs=Needs.GATEWAYS, hits=Hits.MEMBER, lasts_s=(13, 18))
def member_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    process = _world(topology).members[target].running()
    process.pause()
    try:
        yield
    finally:
        process.send(signal.SIGCONT)
