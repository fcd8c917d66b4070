"""Which batches of a producer wait for one that was lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.commit_file import BATCH
from gateway.produce.lost import LEARNED_S, LOST_MAX, SEQUENCES, LostBatches

TOPIC = b"t" * 16


def rows(*batches: tuple[int, int], epoch: int = 0) -> np.ndarray:
    """Rows of partition, with producer id 7, and sequence; no producer where that is -1."""
    made = np.zeros(len(batches), BATCH)
    for row, (partition, sequence) in zip(made, batches, strict=True):
        row["topic_partition"] = np.void(TOPIC + partition.to_bytes(4, "big"))
        row["producer_id"], row["producer_epoch"], row["base_sequence"] = (7, epoch, sequence) if sequence >= 0 else (-1, -1, -1)
    return made


@given(
    first=st.integers(0, SEQUENCES - 1),
    lost=st.lists(st.integers(0, 20), min_size=1),
    sent=st.lists(st.integers(0, 20)),
)
def test_what_is_behind_the_first_lost_batch_waits_until_that_is_repeated(first: int, lost: list[int], sent: list[int]) -> None:
    """Sequences go on with 0 behind the last one."""
    kept = LostBatches()
    for one in lost:
        kept.lose(rows((0, (first + one) % SEQUENCES)), 0.0)
    awaited: int | None = min(lost)
    for one in sent:
        [missing] = kept.are_missing(rows((0, (first + one) % SEQUENCES)), 1.0)
        assert missing == (awaited is not None and one > awaited)
        awaited = None if one == awaited else awaited
    assert len(kept) == (awaited is not None)


def test_other_partitions_epochs_and_batches_without_a_producer_do_not_wait_and_nothing_waits_for_long() -> None:
    kept = LostBatches()
    kept.lose(rows((0, 5), (1, -1)), 0.0)
    assert kept.are_missing(rows((0, 4), (0, 6), (1, 6), (0, -1)), 1.0).tolist() == [False, True, False, False]
    assert not kept.are_missing(rows((0, 6), epoch=1), 1.0).any()
    # In one file, too, what follows the repeated batch may go.
    assert kept.are_missing(rows((0, 6), (0, 5), (0, 6)), 1.0).tolist() == [True, False, False]
    kept.lose(rows((0, 5)), 1.0)
    assert not kept.are_missing(rows((0, 6)), 1.0 + LEARNED_S).any()
    kept.lose(rows(*((partition, 3) for partition in range(LOST_MAX + 5))), 2.0)
    assert len(kept) == LOST_MAX
    assert kept.are_missing(rows((4, 4), (5, 4)), 2.0).tolist() == [False, True]
