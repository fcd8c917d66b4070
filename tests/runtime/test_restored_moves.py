"""Restores from snapshots of several moments, between which a partition has moved: it has one owner, and all that the snapshots have."""

from __future__ import annotations

import uuid
from itertools import product

import pytest

from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.snapshots.keys import parse_snapshot_key
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObjects
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.runtime.test_moved_partitions import OFTEN, accepted, committed, move, owner, read_all, topic
from tests.runtime.test_restored_logs import restored_from, write
from tests.runtime.test_snapshots import ON_DEMAND, objects_of
from tests.waiting import until

DIRECTORY, BEFORE, NEXT = range(3)
ALL = [0, 1, 2]


async def take(started: Running, objects: FakeObjects) -> dict[int, str]:
    """Take a snapshot of each coordinator; returns their places."""
    for one in ALL:
        outcome = await started.node.workers.snapshots.take(one, TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE, outcome.message
    newest: dict[int, str] = {}
    for location in sorted(objects.by_key):
        key = parse_snapshot_key(location)
        assert key is not None
        newest[key.partition] = location
    return newest


async def moved_service(objects: FakeObjects) -> tuple[dict[int, str], dict[int, str], int]:
    """A service in which a partition has moved from coordinator 1 to 2: the snapshots before and after, and the partition."""
    kafka = in_memory(partitions=3)
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND, pauses=OFTEN) as started:
        await started.leads()
        await topic(started, 3)
        [mine] = [one for one in range(3) if owner(started, one) == BEFORE]
        assert await accepted(started, "a0", [batch(mine, 3, sequence=0)], ALL) == [0]
        before = await take(started, objects)
        assert await accepted(started, "a1", [batch(mine, 2, sequence=3)], ALL) == [3]
        await move(started, mine, NEXT)
        assert await accepted(started, "b1", [batch(mine, 2, sequence=5)], ALL) == [5]
        after = await take(started, objects)
    assert not set(before.values()) & set(after.values())
    return before, after, mine


@pytest.mark.parametrize(("directory_is_newer", "before_is_newer", "next_is_newer"), list(product((False, True), repeat=3)))
async def test_a_partition_that_moved_has_one_owner_with_all_that_snapshots_have(
    directory_is_newer: bool, before_is_newer: bool, next_is_newer: bool
) -> None:
    objects = objects_of()
    old, new, mine = await moved_service(objects)
    chosen = {one: (new if is_newer else old)[one] for one, is_newer in enumerate((directory_is_newer, before_is_newer, next_is_newer))}
    kafka = in_memory(partitions=3)
    kafka.topic_id = uuid.UUID(int=99).bytes
    for one in ALL:
        write(kafka, one, restored_from(objects, chosen[one], partition_count=3, partition=one))
    stores = MemoryStateStores()
    expected = [("a0", 0), *([("a1", 3)] if before_is_newer else []), *([("b1", 5)] if next_is_newer else [])]
    has_moved = directory_is_newer or before_is_newer or next_is_newer
    end = 7 if next_is_newer else 5 if before_is_newer else 3
    async with running(kafka, stores, durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND, pauses=OFTEN) as started:
        await started.leads()
        await until(lambda: started.node.view.owner_of(partition_key(TOPIC, mine)) is not None, "moves settled")
        assert owner(started, mine) == (NEXT if has_moved else BEFORE)
        assert await read_all(started, mine) == expected
        # Repetitions of what the snapshots have are found; the producer goes on behind it.
        again = await committed(started, commit("a0", [batch(mine, 3, sequence=0)], owner_ids=ALL))
        assert (again.errors, again.base_offsets) == ([0], [0])
        assert await accepted(started, "new", [batch(mine, 1, sequence=end)], ALL) == [end]
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND, pauses=OFTEN) as anew:
        await anew.leads()
        await until(lambda: anew.node.view.owner_of(partition_key(TOPIC, mine)) is not None, "moves settled")
        assert await read_all(anew, mine) == [*expected, ("new", end)]
