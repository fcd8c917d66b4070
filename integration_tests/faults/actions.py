"""The faults, each a context manager: entered, the fault is there; left, it is healed and everything that was killed runs again.

`ACTIONS` is the catalogue: a name, what it needs, whom it hits, how long it lasts, and the function. Functions draw what is
left open (directions, sizes) from the random generator given, and say in a line what they did. One target is hit by
one fault at a time, and at most one broker at a time: two of three are needed for a quorum and for min.insync.replicas.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from integration_tests.faults.network import Network
from integration_tests.faults.topology import BROKERS, CLIENTS, NODES, Topology

KAFKA_RETURN_S: Final = 90.0
STOP_TIMEOUT_S: Final = 40.0
STORM_CONNECTIONS: Final = 300
STORM_STEP_S: Final = 0.002
CLOCK_JUMP_MAX_S: Final = 600
"""Below file.commit.max.age.ms (15 min): a clock that is wrong by more rightly makes its node refuse files as too old."""


class Needs(Enum):
    """What a machine must allow for an action."""

    NOTHING = "nothing"
    NETWORK = "namespaces"
    CLOCK = "clock shift"


class Hits(Enum):
    """Whom an action hits."""

    NODE = "node"
    BROKER = "broker"
    BOTH = "a node and a broker"


Say = Callable[[str], None]
Fault = Callable[[Topology, str, Random, Say], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One kind of fault. It lasts from `shortest_s` to `longest_s` between its beginning and its healing."""

    name: str
    text: str
    needs: Needs
    hits: Hits
    shortest_s: float
    longest_s: float
    fault: Fault


ACTIONS: Final[dict[str, Action]] = {}


def _action(
    name: str, text: str, *, hits: Hits, lasts_s: tuple[float, float], needs: Needs = Needs.NOTHING
) -> Callable[[Callable[[Topology, str, Random, Say], Iterator[None]]], Fault]:
    def register(body: Callable[[Topology, str, Random, Say], Iterator[None]]) -> Fault:
        fault = contextmanager(body)
        shortest_s, longest_s = lasts_s
        ACTIONS[name] = Action(name=name, text=text, needs=needs, hits=hits, shortest_s=shortest_s, longest_s=longest_s, fault=fault)
        return fault

    return register


def _leads(topology: Topology, target: str) -> str:
    return f"led {topology.node(target).readiness()[1].get('leading', [])}"


# ---- processes


@_action("kill", "SIGKILL of a node, started again", hits=Hits.NODE, lasts_s=(1, 9))
def kill(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    say(_leads(topology, target))
    topology.node(target).kill()
    try:
        yield
    finally:
        topology.node(target).start()


@_action("stop", "clean stop (SIGTERM) of a node, started again", hits=Hits.NODE, lasts_s=(1, 5))
def stop(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    say(_leads(topology, target))
    start_s = time.monotonic()
    try:
        status = topology.node(target).terminate(STOP_TIMEOUT_S)
        say(f"ended with status {status} after {time.monotonic() - start_s:.2f} s")
        if status != 0:
            raise AssertionError(f"{target} ended with status {status} when it was asked to stop")
        yield
    finally:
        topology.node(target).kill()
        topology.node(target).start()


@_action("disk_loss", "SIGKILL of a node, which comes back without its state databases", hits=Hits.NODE, lasts_s=(0.5, 3))
def disk_loss(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    node = topology.node(target)
    say(_leads(topology, target))
    node.kill()
    try:
        if rng.random() < 0.5:
            shutil.rmtree(node.data_folder, ignore_errors=True)
            say("lost its whole data directory")
        else:
            lost = [file for file in sorted(node.data_folder.rglob("*.db*")) if rng.random() < 0.5]
            for file in lost:
                file.unlink()
            say(f"lost {len(lost)} files")
        yield
    finally:
        node.start()


@_action("pause", "SIGSTOP of a node for longer than its session, SIGCONT", hits=Hits.NODE, lasts_s=(7, 10))
def pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    say(_leads(topology, target))
    topology.node(target).pause()
    try:
        yield
    finally:
        topology.node(target).resume()


@_action("short_pause", "SIGSTOP of a node for less than its session, SIGCONT", hits=Hits.NODE, lasts_s=(0.5, 4))
def short_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.node(target).pause()
    try:
        yield
    finally:
        topology.node(target).resume()


@_action("stutter", "SIGSTOP and SIGCONT of a node in quick turns", hits=Hits.NODE, lasts_s=(1, 2))
def stutter(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    turns = rng.randint(10, 40)
    say(f"{turns} turns")
    for _ in range(turns):
        topology.node(target).pause()
        time.sleep(rng.uniform(0.005, 0.1))  # the fault itself
        topology.node(target).resume()
        time.sleep(rng.uniform(0.005, 0.05))
    yield


@_action("broker_kill", "SIGKILL of a broker, started again", hits=Hits.BROKER, lasts_s=(1, 10))
def broker_kill(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.kafka.kill(topology.broker_number(target))
    try:
        yield
    finally:
        topology.kafka.restart(topology.broker_number(target), KAFKA_RETURN_S)


@_action("broker_stop", "clean stop of a broker, started again", hits=Hits.BROKER, lasts_s=(1, 4))
def broker_stop(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.kafka.terminate(topology.broker_number(target), STOP_TIMEOUT_S)
    try:
        yield
    finally:
        topology.kafka.restart(topology.broker_number(target), KAFKA_RETURN_S)


@_action("broker_pause", "SIGSTOP of a broker, SIGCONT", hits=Hits.BROKER, lasts_s=(2, 12))
def broker_pause(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    topology.kafka.pause(topology.broker_number(target))
    try:
        yield
    finally:
        topology.kafka.resume(topology.broker_number(target))


# ---- network


def _network(topology: Topology) -> Network:
    if topology.network is None:
        raise AssertionError("this action needs namespaces")
    return topology.network


def _port(topology: Topology, node: str) -> int:
    return int(topology.node(node).address.rpartition(":")[2])


def _others(names: tuple[str, ...], target: str) -> list[str]:
    return [name for name in names if name != target]


@_action("isolate", "a node cut off from brokers, nodes and clients", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def isolate(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(_leads(topology, target))
    rules = net.cut([*BROKERS, *_others(NODES, target)]) + net.cut_port(CLIENTS, _port(topology, target))
    with net.rules(target, rules):
        yield


@_action("cut_brokers", "a node cut off from all brokers, clients still reach it", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def cut_brokers(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(_leads(topology, target))
    with net.rules(target, net.cut(BROKERS)):
        yield


@_action("cut_one_broker", "a node cut off from one broker", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def cut_one_broker(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, broker = _network(topology), rng.choice(BROKERS)
    say(f"from {broker}, {_leads(topology, target)}")
    with net.rules(target, net.cut([broker])):
        yield


@_action("cut_clients", "a node cut off from the clients", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(2, 8))
def cut_clients(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.cut_port(CLIENTS, _port(topology, target))):
        yield


@_action("cut_nodes", "a node cut off from the other nodes", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(2, 8))
def cut_nodes(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.cut(_others(NODES, target))):
        yield


@_action("deaf", "nothing from the brokers reaches a node; what it sends arrives", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def deaf(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(_leads(topology, target))
    with net.rules(target, net.cut(BROKERS, to_them=False)):
        yield


@_action("mute", "nothing of a node reaches the brokers; what they send arrives", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def mute(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(_leads(topology, target))
    with net.rules(target, net.cut(BROKERS, from_them=False)):
        yield


@_action(
    "broker_cut", "a broker cut off from the other brokers; nodes still reach it", needs=Needs.NETWORK, hits=Hits.BROKER, lasts_s=(3, 14)
)
def broker_cut(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.cut(_others(BROKERS, target))):
        yield


@_action(
    "broker_half_cut", "a broker hears the other brokers, or they it, not both", needs=Needs.NETWORK, hits=Hits.BROKER, lasts_s=(3, 14)
)
def broker_half_cut(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, is_deaf = _network(topology), rng.random() < 0.5
    say("it hears nothing" if is_deaf else "they hear nothing")
    with net.rules(target, net.cut(_others(BROKERS, target), to_them=not is_deaf, from_them=is_deaf)):
        yield


@_action("minority", "a broker and a node on one side, all others on the other", needs=Needs.NETWORK, hits=Hits.BOTH, lasts_s=(4, 14))
def minority(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    """`target` is the node; the broker is drawn. Clients reach both sides."""
    net, broker = _network(topology), rng.choice(BROKERS)
    say(f"with {broker}, {_leads(topology, target)}")
    others = [*_others(BROKERS, broker), *_others(NODES, target)]
    with ExitStack() as cuts:
        cuts.enter_context(net.rules(broker, net.cut(others)))
        cuts.enter_context(net.rules(target, net.cut(others)))
        yield


@_action("loss", "a node loses a part of the packets that come in", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 10))
def loss(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, part = _network(topology), rng.choice((0.05, 0.2, 0.4))
    say(f"{part:.0%}")
    with net.rules(target, net.lose(part)):
        yield


@_action("broker_loss", "a broker loses a part of the packets that come in", needs=Needs.NETWORK, hits=Hits.BROKER, lasts_s=(3, 10))
def broker_loss(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, part = _network(topology), rng.choice((0.05, 0.2, 0.4))
    say(f"{part:.0%}")
    with net.rules(target, net.lose(part)):
        yield


@_action(
    "reset",
    "whoever sends to a node gets a reset; the node is left with half-open connections",
    needs=Needs.NETWORK,
    hits=Hits.NODE,
    lasts_s=(0.3, 1.5),
)
def reset(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.reset()):
        yield


@_action(
    "broker_reset",
    "whoever sends to a broker gets a reset; the broker is left with half-open connections",
    needs=Needs.NETWORK,
    hits=Hits.BROKER,
    lasts_s=(0.3, 1.5),
)
def broker_reset(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.reset()):
        yield


# ---- clock and connections


@_action("clock_forward", "a node's wall clock jumps forward, later back", needs=Needs.CLOCK, hits=Hits.NODE, lasts_s=(1, 6))
def clock_forward(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    jump_s = rng.choice((1, 30, CLOCK_JUMP_MAX_S))
    say(f"by {jump_s} s, {_leads(topology, target)}")
    topology.clocks[target].set(jump_s)
    try:
        yield
    finally:
        topology.clocks[target].set(0)


@_action("clock_back", "a node's wall clock jumps back, later forward", needs=Needs.CLOCK, hits=Hits.NODE, lasts_s=(1, 6))
def clock_back(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    jump_s = rng.choice((1, 30, CLOCK_JUMP_MAX_S))
    say(f"by {jump_s} s, {_leads(topology, target)}")
    topology.clocks[target].set(-jump_s)
    try:
        yield
    finally:
        topology.clocks[target].set(0)


@_action("storm", "hundreds of connections to a node that say nothing, half a frame or nonsense", hits=Hits.NODE, lasts_s=(1, 4))
def storm(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    host, _, port = topology.node(target).address.rpartition(":")
    refused = 0
    with ExitStack() as opened:
        for number in range(STORM_CONNECTIONS):
            try:
                connection = opened.enter_context(socket.create_connection((host, int(port)), timeout=1))
                connection.setblocking(False)
                connection.send((b"", b"\0\0\1", rng.randbytes(64))[number % 3])
            except OSError:
                refused += 1
            time.sleep(STORM_STEP_S)
        say(f"{STORM_CONNECTIONS} connections, {refused} refused or cut")
        yield
