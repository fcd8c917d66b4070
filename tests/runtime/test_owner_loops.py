"""Who owns a file's partitions: compiled and interpreted, on batches whose owners are known, mixed and unknown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator.kafka.batches import BATCH, partition_key
from coordinator.runtime.routing import owner_loops
from tests.compiled import plain

TOPICS = bytes(range(16)), bytes(range(15)) + b"\0"
PLAIN = plain(owner_loops)


PLACES = st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 2, 300, 2**31 - 1]))
"""Topic and partition."""


@given(
    st.lists(st.lists(PLACES, max_size=4), max_size=6), st.dictionaries(PLACES.filter(lambda place: place[1] < 1_000), st.integers(0, 1))
)
def test_files_have_an_owner_when_all_their_batches_have_the_same(
    files: list[list[tuple[int, int]]], owner_of: dict[tuple[int, int], int]
) -> None:
    raw: list[bytes] = []
    for partitions in files:
        batches = np.zeros(len(partitions), BATCH)
        for place, (topic, partition) in enumerate(partitions):
            batches["topic_partition"][place] = partition_key(TOPICS[topic], partition)
        raw.append(batches.tobytes())
    # Of what is not looked up there is no row, or it is shorter, or has -1.
    owners: dict[bytes, list[int]] = {}
    for (topic, partition), owner in owner_of.items():
        row = owners.setdefault(TOPICS[topic], [])
        row += [-1] * (partition + 1 - len(row))
        row[partition] = owner
    expected: list[int] = []
    for partitions in files:
        found = {owner_of.get(partition, -1) for partition in partitions}
        expected.append(found.pop() if len(found) == 1 else -1)
    stretches = owner_loops.owners_of_files(raw, owners)
    assert stretches == PLAIN.owners_of_files(raw, owners)
    told = [owner for (owner, stop), (_, first) in zip(stretches, [(-1, 0), *stretches], strict=False) for _ in range(first, stop)]
    assert told == expected
    assert all(before[0] != after[0] for before, after in pairwise(stretches))
