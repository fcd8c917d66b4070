"""Which coordinators may have batches of a file although it does not name them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from coordinator.core.directory.directory import Directory, Placement
from coordinator.kafka.batches import partition_key
from coordinator.runtime.routing.cluster_view import ClusterView
from coordinator.runtime.routing.replicas import Replicas
from records.model import EarlierStretch, PlacedRange

TOPIC = bytes(15) + b"\1"
WINDOW_MS = 100


def chained(count: int) -> ClusterView:
    """Partition n moved from coordinator n to n + 1 at 1 000 ms, for each of so many."""
    ranges = tuple(
        PlacedRange(first_partition=one, num_partitions=1, coordinator_id=one + 1, classic_pending=False) for one in range(count)
    )
    directory = Directory()
    directory.placements[TOPIC] = Placement(topic_id=TOPIC, name="orders", ranges=ranges, confirmed=True, order_offset=0)
    for one in range(count):
        stretch = EarlierStretch(coordinator_id=one, end_offset=1, move_id=one, time_ms=1_000)
        directory.earlier[partition_key(TOPIC, one)] = (stretch,)
    shard = SimpleNamespace(directory=directory, next_offset=1)
    return ClusterView(cast(Replicas, SimpleNamespace(shard=lambda _: shard)), "PLAINTEXT")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_owner_leads_to_all_however_many_moves_lie_between(count: int) -> None:
    view = chained(count)
    for owner in range(count + 1):
        assert view.linked_to((owner,), 1_000, WINDOW_MS) == [one for one in range(count + 1) if one != owner]


def test_a_file_of_another_time_has_no_links_and_one_of_no_known_time_has_all() -> None:
    view = chained(3)
    assert view.linked_to((0,), 1_000 + WINDOW_MS + 1, WINDOW_MS) == []
    assert view.linked_to((0,), -1, WINDOW_MS) == [1, 2, 3]
    assert view.linked_to((0, 2), 1_000, WINDOW_MS) == [1, 3]
    assert view.linked_to((7,), 1_000, WINDOW_MS) == []
