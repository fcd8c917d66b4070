"""Who owns a file's partitions: compiled and interpreted, on batches whose owners are known, mixed and unknown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator.kafka.batches import BATCH, partition_key
from coordinator.runtime import owner_loops
from tests.compiled import plain

TOPIC = bytes(range(16))
PLAIN = plain(owner_loops)


FILES = st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6)


@given(FILES, st.dictionaries(st.integers(0, 5), st.integers(0, 1)))
def test_files_have_an_owner_when_all_their_batches_have_the_same(files: list[list[int]], owner_of: dict[int, int]) -> None:
    raw: list[bytes] = []
    for partitions in files:
        batches = np.zeros(len(partitions), BATCH)
        for place, partition in enumerate(partitions):
            batches["topic_partition"][place] = partition_key(TOPIC, partition)
        raw.append(batches.tobytes())
    owners = {partition_key(TOPIC, partition): owner for partition, owner in owner_of.items()}
    expected: list[int] = []
    for partitions in files:
        found = {owner_of.get(partition, -1) for partition in partitions}
        if len(found) != 1 or -1 in found:
            break
        expected.append(found.pop())
    stretches = owner_loops.owners_of_files(raw, owners)
    assert stretches == PLAIN.owners_of_files(raw, owners)
    told = [owner for (owner, stop), (_, first) in zip(stretches, [(-1, 0), *stretches], strict=False) for _ in range(first, stop)]
    assert told == expected
    assert all(before[0] != after[0] for before, after in pairwise(stretches))
