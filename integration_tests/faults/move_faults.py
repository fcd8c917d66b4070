"""Moves of partitions, which are no fault: what else a round breaks, it may break in the middle of one."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from integration_tests.faults.catalogue import Hits, Say, action
from integration_tests.faults.topology import Topology


@action("move", "a partition moves to another coordinator", hits=Hits.PARTITION, lasts_s=(0.1, 3))
def move(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    """The round is over when the move is."""
    assert topology.moves is not None
    topology.moves.begin(int(target), rng, say)
    yield
