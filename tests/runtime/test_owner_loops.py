"""Who owns a file's partitions: compiled and interpreted, on batches whose owners are known, mixed and unknown."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator.kafka.batches import BATCH, partition_key
from coordinator.runtime import owner_loops
from tests.compiled import plain

TOPIC = bytes(range(16))
PLAIN = plain(owner_loops)


@given(st.lists(st.integers(0, 5), max_size=12), st.dictionaries(st.integers(0, 5), st.integers(0, 1)))
def test_a_file_has_an_owner_when_all_its_batches_have_the_same(partitions: list[int], owner_of: dict[int, int]) -> None:
    batches = np.zeros(len(partitions), BATCH)
    for place, partition in enumerate(partitions):
        batches["topic_partition"][place] = partition_key(TOPIC, partition)
    owners = {partition_key(TOPIC, partition): owner for partition, owner in owner_of.items()}
    found = {owner_of.get(partition, -1) for partition in partitions}
    expected = found.pop() if len(found) == 1 else -1
    raw = batches.tobytes()
    assert owner_loops.common_owner(raw, owners) == PLAIN.common_owner(raw, owners) == expected
