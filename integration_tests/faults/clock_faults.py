"""Faults of clocks: jumps of a node's wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from integration_tests.faults.catalogue import Hits, Needs, Say, action, leads, revive
from integration_tests.faults.topology import Topology

FAR_JUMPS_S: Final = (-30 * 86_400, -26 * 3600, -2 * 3600, 2 * 3600, 26 * 3600, 30 * 86_400)
CLOCK_JUMP_MAX_S: Final = 600
"""Below file.commit.max.age.ms (15 min): a clock that is wrong by more rightly makes its node refuse files as too old."""


@action("clock_forward", "a node's wall clock jumps forward, later back", needs=Needs.CLOCK, hits=Hits.NODE, lasts_s=(1, 6))
def clock_forward(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    jump_s = rng.choice((1, 30, CLOCK_JUMP_MAX_S))
    say(f"by {jump_s} s, {leads(topology, target)}")
    topology.clocks[target].set(jump_s)
    try:
        yield
    finally:
        topology.clocks[target].set(0)


@action("clock_days", "a node's wall clock jumps by hours or days, later back", needs=Needs.CLOCK, hits=Hits.NODE, lasts_s=(2, 10))
def clock_days(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    jump_s = rng.choice(FAR_JUMPS_S)
    say(f"by {jump_s / 3600:+g} h, {leads(topology, target)}")
    topology.clocks[target].set(jump_s)
    try:
        yield
    finally:
        topology.clocks[target].set(0)


@action(
    "clock_start",
    "SIGKILL of a node, which starts again with a clock that is wrong by hours or days",
    needs=Needs.CLOCK,
    hits=Hits.NODE,
    lasts_s=(8, 15),
)
def clock_start(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    """Once the clock is right again the node is started again, or has to find out by itself."""
    node = topology.node(target)
    jump_s = rng.choice(FAR_JUMPS_S)
    say(f"by {jump_s / 3600:+g} h, {leads(topology, target)}")
    node.kill()
    topology.clocks[target].set(jump_s)
    try:
        node.start()
        yield
        say(leads(topology, target))
    finally:
        topology.clocks[target].set(0)
        if rng.random() < 0.5:
            node.kill()
            say("started again with the right clock")
            node.start()
        revive(topology, target, say)


@action("clock_back", "a node's wall clock jumps back, later forward", needs=Needs.CLOCK, hits=Hits.NODE, lasts_s=(1, 6))
def clock_back(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    jump_s = rng.choice((1, 30, CLOCK_JUMP_MAX_S))
    say(f"by {jump_s} s, {leads(topology, target)}")
    topology.clocks[target].set(-jump_s)
    try:
        yield
    finally:
        topology.clocks[target].set(0)
