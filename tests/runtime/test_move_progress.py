"""How moves of partitions come on, as the leader of the directory counts it."""

from __future__ import annotations

from coordinator.core.moves import Move
from coordinator.runtime.routing.move_progress import DELAYED, DROPPED, MOVED, MovesUnderWay

FIRST, SECOND = (Move(move_id=one, topic_id=bytes(16), partition=one, from_coordinator=0, to_coordinator=1) for one in (1, 2))


def test_ages_reasons_and_the_time_without_batches_are_told() -> None:
    now_s, frozen_s = 10.0, list[float]()
    progress = MovesUnderWay(lambda: now_s, on_moved=frozen_s.append)
    progress.look([SECOND, FIRST], {})
    now_s = 12.0
    progress.delayed(FIRST, "no leader")
    assert [(one.move, age_s, one.waits) for one, age_s in progress.under_way()] == [(FIRST, 2.0, "no leader"), (SECOND, 2.0, "")]
    # It takes no batches from the first attempt on that may have released it.
    progress.asks_for_release(FIRST)
    now_s = 13.0
    progress.delayed(FIRST, "no leader")
    progress.asks_for_release(FIRST)
    now_s = 15.0
    progress.look([SECOND], {FIRST.key: None})
    assert progress.moved(FIRST) == 3.0
    assert frozen_s == [3.0]
    assert [(one.move, age_s) for one, age_s in progress.under_way()] == [(SECOND, 5.0)]
    assert progress.counts == {MOVED: 1, DELAYED: 2}


def test_moves_that_end_with_their_topics_are_dropped_once_and_those_of_another_leader_are_not_counted() -> None:
    progress = MovesUnderWay(lambda: 0.0, on_moved=lambda _: None)
    progress.look([FIRST, SECOND], {FIRST.key: None})
    progress.look([], {FIRST.key: None})
    progress.dropped(FIRST)
    progress.dropped(FIRST)
    assert progress.counts == {DROPPED: 2}
    progress.look([FIRST], {})
    progress.clear()
    progress.look([], {})
    assert progress.counts == {DROPPED: 2}
    assert progress.under_way() == []
