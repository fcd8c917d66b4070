"""Faults of the network: hosts cut off in one direction or both, packets lost, connections reset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

from integration_tests.faults.catalogue import Hits, Needs, Say, action, leads
from integration_tests.faults.network import Network
from integration_tests.faults.topology import BROKERS, CLIENTS, NODES, Topology


def _network(topology: Topology) -> Network:
    if topology.network is None:
        raise AssertionError("this action needs namespaces")
    return topology.network


def _port(topology: Topology, node: str) -> int:
    return int(topology.node(node).address.rpartition(":")[2])


def _others(names: tuple[str, ...], target: str) -> list[str]:
    return [name for name in names if name != target]


@action("isolate", "a node cut off from brokers, nodes and clients", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def isolate(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(leads(topology, target))
    rules = net.cut([*BROKERS, *_others(NODES, target)]) + net.cut_port(CLIENTS, _port(topology, target))
    with net.rules(target, rules):
        yield


@action("cut_brokers", "a node cut off from all brokers, clients still reach it", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def cut_brokers(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(leads(topology, target))
    with net.rules(target, net.cut(BROKERS)):
        yield


@action("cut_one_broker", "a node cut off from one broker", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def cut_one_broker(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, broker = _network(topology), rng.choice(BROKERS)
    say(f"from {broker}, {leads(topology, target)}")
    with net.rules(target, net.cut([broker])):
        yield


@action("cut_clients", "a node cut off from the clients", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(2, 8))
def cut_clients(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.cut_port(CLIENTS, _port(topology, target))):
        yield


@action("cut_nodes", "a node cut off from the other nodes", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(2, 8))
def cut_nodes(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.cut(_others(NODES, target))):
        yield


@action("deaf", "nothing from the brokers reaches a node; what it sends arrives", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def deaf(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(leads(topology, target))
    with net.rules(target, net.cut(BROKERS, to_them=False)):
        yield


@action("mute", "nothing of a node reaches the brokers; what they send arrives", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 12))
def mute(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    say(leads(topology, target))
    with net.rules(target, net.cut(BROKERS, from_them=False)):
        yield


@action(
    "broker_cut", "a broker cut off from the other brokers; nodes still reach it", needs=Needs.NETWORK, hits=Hits.BROKER, lasts_s=(3, 14)
)
def broker_cut(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net = _network(topology)
    with net.rules(target, net.cut(_others(BROKERS, target))):
        yield


@action("broker_half_cut", "a broker hears the other brokers, or they it, not both", needs=Needs.NETWORK, hits=Hits.BROKER, lasts_s=(3, 14))
def broker_half_cut(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, is_deaf = _network(topology), rng.random() < 0.5
    say("it hears nothing" if is_deaf else "they hear nothing")
    with net.rules(target, net.cut(_others(BROKERS, target), to_them=not is_deaf, from_them=is_deaf)):
        yield


@action("minority", "a broker and a node on one side, all others on the other", needs=Needs.NETWORK, hits=Hits.BOTH, lasts_s=(4, 14))
def minority(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    """`target` is the node; the broker is drawn. Clients reach both sides."""
    net, broker = _network(topology), rng.choice(BROKERS)
    say(f"with {broker}, {leads(topology, target)}")
    others = [*_others(BROKERS, broker), *_others(NODES, target)]
    with ExitStack() as cuts:
        cuts.enter_context(net.rules(broker, net.cut(others)))
        cuts.enter_context(net.rules(target, net.cut(others)))
        yield


@action("loss", "a node loses a part of the packets that come in", needs=Needs.NETWORK, hits=Hits.NODE, lasts_s=(3, 10))
def loss(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, part = _network(topology), rng.choice((0.05, 0.2, 0.4))
    say(f"{part:.0%}")
    with net.rules(target, net.lose(part)):
        yield


@action("broker_loss", "a broker loses a part of the packets that come in", needs=Needs.NETWORK, hits=Hits.BROKER, lasts_s=(3, 10))
def broker_loss(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    net, part = _network(topology), rng.choice((0.05, 0.2, 0.4))
    say(f"{part:.0%}")
    with net.rules(target, net.lose(part)):
        yield


@action(
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


@action(
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
