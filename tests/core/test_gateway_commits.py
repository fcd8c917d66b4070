"""Network commits per WAL file, simulated: 3 to 108 brokers, files of producers that follow the plan and of producers that do not."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from coordinator.runtime.answers.gateway_plan import Broker, CoordinatorPlace, GatewayPlan, plan_gateways

RACKS = 3
COORDINATORS = 12
PARTITIONS = 1_200
"""Partition p belongs to coordinator p modulo `COORDINATORS`."""
FILES_PER_BROKER = 8
BATCHES_PER_BROKER = 40 * FILES_PER_BROKER
"""Enough for most files to have a batch of every coordinator that its broker is sent batches of."""


def _planned(brokers: int) -> tuple[GatewayPlan, Mapping[int, int]]:
    """The plan, and the broker in whose place the leader of each coordinator runs: coordinators are spread evenly."""
    homes = {coordinator: coordinator % min(brokers, COORDINATORS) for coordinator in range(COORDINATORS)}
    places = [CoordinatorPlace(coordinator_id=one, node_id=home, broker_id=home) for one, home in homes.items()]
    return plan_gateways([Broker(broker, f"rack-{broker % RACKS}") for broker in range(brokers)], places), homes


def _commits(brokers: int, homes: Mapping[int, int], plan: GatewayPlan | None) -> list[int]:
    """The network commits of each file: one to each broker that leads coordinators of its batches, except to the uploader itself."""
    chance = random.Random(brokers)
    files: dict[tuple[int, int], set[int]] = {}
    for _ in range(BATCHES_PER_BROKER * brokers):
        coordinator, rack = chance.randrange(PARTITIONS) % COORDINATORS, chance.randrange(RACKS)
        choice = range(rack, brokers, RACKS) if plan is None else plan.gateways_of(coordinator, f"rack-{rack}")
        uploader = chance.choice(choice)
        files.setdefault((uploader, chance.randrange(FILES_PER_BROKER)), set()).add(homes[coordinator])
    return [len(leaders - {uploader}) for (uploader, _), leaders in files.items()]


@pytest.mark.parametrize(
    ("brokers", "most"), [(3, 2), (6, 2), (9, 3), (12, 2), (18, 2), (24, 1), (30, 1), (36, 1), (54, 1), (72, 1), (108, 1)]
)
def test_network_commits_per_file_stay_within_the_bounds(brokers: int, most: int) -> None:
    """The bounds of the KIP are RACKS - 1, and 1 from COORDINATORS * RACKS brokers on; the plan needs fewer from 24 brokers on.

    Nine brokers lead unequal numbers of coordinators. Gateways are balanced by coordinators, so one broker has a leader more.
    """
    plan, homes = _planned(brokers)
    planned, free = _commits(brokers, homes, plan), _commits(brokers, homes, None)
    figures = [f"mean {sum(found) / len(found):.2f}, most {max(found)}" for found in (planned, free)]
    print(f"{brokers:3} brokers: network commits per file {figures[0]}; sent to any broker of the rack: {figures[1]}")
    assert max(planned) <= most
    assert sum(planned) / len(planned) <= sum(free) / len(free)
