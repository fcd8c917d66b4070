"""What a fault is, and the catalogue of all of them; the modules `*_faults` fill it when `actions` imports them.

A fault is a context manager: entered, the fault is there; left, it is healed and everything that was killed runs again.
Functions draw what is left open (directions, sizes) from the random generator given, and say in a line what they did. One
target is hit by one fault at a time, and at most one broker at a time: two of three are needed for a quorum and for
min.insync.replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from integration_tests.faults.topology import Topology

STOP_TIMEOUT_S: Final = 40.0
LAST_WORDS: Final = " CRITICAL coordinator.app "
"""In a line that a node logs which ends by itself, as soon as it knows that."""


class Needs(Enum):
    """What a machine must allow for an action, or a run must have."""

    NOTHING = "nothing"
    NETWORK = "namespaces"
    CLOCK = "clock shift"
    DISK = "refusing disk"
    MOUNT = "mounts"
    GATEWAYS = "--gateways"
    OWN_CLIENTS = "our own clients, whose checker knows what was forged: no --gateways"


class Hits(Enum):
    """Whom an action hits."""

    NODE = "node"
    BROKER = "broker"
    BOTH = "a node and a broker"
    GATEWAY = "gateway"
    ZONE = "all gateways of a zone"
    STORE = "store"
    MEMBER = "member of a group"
    PARTITION = "partition of the topic"


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


def action(
    name: str, text: str, *, hits: Hits, lasts_s: tuple[float, float], needs: Needs = Needs.NOTHING
) -> Callable[[Callable[[Topology, str, Random, Say], Iterator[None]]], Fault]:
    """Put the decorated generator into the catalogue as a fault of this name."""

    def register(body: Callable[[Topology, str, Random, Say], Iterator[None]]) -> Fault:
        fault = contextmanager(body)
        shortest_s, longest_s = lasts_s
        ACTIONS[name] = Action(name=name, text=text, needs=needs, hits=hits, shortest_s=shortest_s, longest_s=longest_s, fault=fault)
        return fault

    return register


def leads(topology: Topology, target: str) -> str:
    """What a node leads, for the report."""
    return f"led {topology.node(target).readiness()[1].get('leading', [])}"


def has_ended(topology: Topology, target: str) -> bool:
    """Whether the node's process is gone."""
    process = topology.node(target).process
    return process is None or not process.is_running()


def revive(topology: Topology, target: str, say: Say) -> None:
    """Start a node again that gave up, or is about to, because of a fault that lets it."""
    node = topology.node(target)
    if not has_ended(topology, target) and LAST_WORDS in node.log_text():
        node.wait_ended(STOP_TIMEOUT_S)
    if has_ended(topology, target):
        say(f"gave up: {node.log_tail(1)}")
        node.start()
