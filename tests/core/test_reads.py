"""ListOffsets, FindBatches, DescribeFiles and DeleteRecords as tables."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.core.commands import (
    DeletedTo,
    DescribedFile,
    DescribeFiles,
    FetchPoint,
    FoundBatches,
    FoundOffset,
)
from coordinator.core.reads.queries import FetchBudget, batch_id, find_batches, past_the_end
from coordinator.kafka.coordinators import COORDINATORS_MAX
from coordinator.kafka.errors import ErrorCode
from simulation.fakes.shard_harness import HarnessReplica
from tests.core.build import TOPIC, UNKNOWN_TOPIC, batch, commit, delete_records, found, leading, list_offsets, result_of

E = ErrorCode


def offsets(replica: HarnessReplica, *queries: tuple[int, int], topic_id: bytes = TOPIC) -> list[tuple[int, int, int]]:
    """(error, timestamp, offset) per (partition, timestamp)."""
    [answer] = replica.ask(list_offsets(*queries, topic_id=topic_id))
    assert isinstance(answer, list)
    return [(int(e.outcome.error), e.timestamp, e.offset) for e in answer if isinstance(e, FoundOffset)]


def deleted(replica: HarnessReplica, *points: tuple[int, int], topic_id: bytes = TOPIC) -> list[tuple[int, int]]:
    """(error, low watermark) per (partition, offset)."""
    [answer] = replica.ask(delete_records(*points, topic_id=topic_id))
    assert isinstance(answer, list)
    return [(int(e.outcome.error), e.low_watermark) for e in answer if isinstance(e, DeletedTo)]


def filled() -> HarnessReplica:
    """Partition 0: offsets 0-2 at 500, 3-4 at 900, 5-9 at 200, 10-11 at 900, 12 at 300. Partition 1 is empty."""
    _, replica = leading()
    replica.ask(
        commit("a", [batch(0, 3, max_timestamp=500), batch(0, 2, max_timestamp=900)]),
        commit("b", [batch(0, 5, max_timestamp=200), batch(0, 2, max_timestamp=900), batch(0, 1, max_timestamp=300)]),
    )
    return replica


# ---- ListOffsets


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 13)),
        (-2, (0, -1, 0)),
        (-3, (0, 900, 4)),
        (-4, (0, -1, 0)),
        (-5, (0, -1, -1)),
        (-6, (E.UNSUPPORTED_VERSION, -1, -1)),
        (-(2**63), (E.UNSUPPORTED_VERSION, -1, -1)),
        (0, (0, 500, 0)),
        (500, (0, 500, 0)),
        (501, (0, 900, 3)),
        (900, (0, 900, 3)),
        (901, (0, -1, -1)),
        (2**63 - 1, (0, -1, -1)),
    ],
)
def test_list_offsets(timestamp: int, expected: tuple[int, int, int]) -> None:
    assert offsets(filled(), (0, timestamp)) == [expected]


@pytest.mark.parametrize(
    ("start", "timestamp", "expected"),
    [
        (2, -2, (0, -1, 2)),
        (2, 0, (0, 500, 2)),
        (4, -3, (0, 900, 4)),
        (4, 0, (0, 900, 4)),
        (5, -3, (0, 900, 11)),
        (5, 0, (0, 200, 5)),
        (7, 100, (0, 200, 7)),
        (7, 201, (0, 900, 10)),
        (12, -3, (0, 300, 12)),
        (12, 301, (0, -1, -1)),
        (13, -3, (0, -1, -1)),
        (13, 0, (0, -1, -1)),
        (13, -1, (0, -1, 13)),
        (13, -4, (0, -1, 13)),
    ],
)
def test_list_offsets_after_records_were_deleted(start: int, timestamp: int, expected: tuple[int, int, int]) -> None:
    replica = filled()
    assert deleted(replica, (0, start)) == [(0, start)]
    assert offsets(replica, (0, timestamp)) == [expected]
    assert offsets(replica, (0, timestamp)) == [expected]


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, (0, -1, 0)), (-2, (0, -1, 0)), (-3, (0, -1, -1)), (0, (0, -1, -1))])
def test_list_offsets_of_an_empty_partition(timestamp: int, expected: tuple[int, int, int]) -> None:
    assert offsets(filled(), (1, timestamp)) == [expected]


def test_one_bad_query_does_not_fail_the_others() -> None:
    replica = filled()
    assert offsets(replica, (7, -1), (0, -9), (0, -1), (0, -1)) == [
        (E.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
        (E.UNSUPPORTED_VERSION, -1, -1),
        (0, -1, 13),
        (0, -1, 13),
    ]
    assert offsets(replica, (0, -1), topic_id=UNKNOWN_TOPIC) == [(E.UNKNOWN_TOPIC_ID, -1, -1)]


def test_log_append_time_is_the_effective_timestamp_of_its_batches() -> None:
    world, replica = leading()
    world.now_ms = 5_000_000_000_000
    future = world.now_ms + 10
    replica.ask(commit("a", [batch(0, 2, max_timestamp=future, timestamp_type=1), batch(0, 2, max_timestamp=7)]))
    assert offsets(replica, (0, -3), (0, 8), (0, world.now_ms), (0, world.now_ms + 1)) == [
        (0, world.now_ms, 1),
        (0, world.now_ms, 0),
        (0, world.now_ms, 0),
        (0, -1, -1),
    ]


def test_batches_without_a_timestamp_have_the_first_as_the_greatest() -> None:
    _, replica = leading()
    replica.ask(commit("a", [batch(0, 2, max_timestamp=-1), batch(0, 2, max_timestamp=-1)]))
    assert offsets(replica, (0, -3), (0, 0)) == [(0, -1, 1), (0, -1, -1)]
    replica.ask(commit("b", [batch(0, 1, max_timestamp=0)]))
    assert offsets(replica, (0, -3), (0, 0)) == [(0, 0, 4), (0, 0, 4)]


def test_a_greatest_timestamp_after_the_former_one_was_deleted() -> None:
    replica = filled()
    deleted(replica, (0, 13))
    assert offsets(replica, (0, -3)) == [(0, -1, -1)]
    replica.ask(commit("c", [batch(0, 2, max_timestamp=100)]))
    assert offsets(replica, (0, -3), (0, 50), (0, 900)) == [(0, 100, 14), (0, 100, 13), (0, -1, -1)]


def test_the_first_of_equal_greatest_timestamps_wins_within_a_file_and_after_a_deletion() -> None:
    _, replica = leading()
    replica.ask(commit("a", [batch(0, 2, max_timestamp=50), batch(0, 2, max_timestamp=70), batch(0, 2, max_timestamp=70)]))
    assert offsets(replica, (0, -3)) == [(0, 70, 3)]
    replica.ask(commit("again", [batch(0, 1, max_timestamp=70)]))
    assert offsets(replica, (0, -3)) == [(0, 70, 3)]
    for key in ("b", "c", "d"):
        replica.ask(commit(key, [batch(0, 1, max_timestamp=60), batch(1, 1)]))
    deleted(replica, (0, 7))
    assert offsets(replica, (0, -3)) == [(0, 60, 7)]


def test_a_log_append_time_batch_counts_by_its_append_time_however_old_its_own_is() -> None:
    world, replica = leading()
    replica.ask(commit("a", [batch(0, 1, max_timestamp=world.now_ms)]))
    world.now_ms += 1000
    replica.ask(commit("b", [batch(0, 1, max_timestamp=5, timestamp_type=1), batch(0, 1, max_timestamp=6)]))
    assert offsets(replica, (0, -3), (0, world.now_ms)) == [(0, world.now_ms, 1), (0, world.now_ms, 1)]


# ---- DeleteRecords


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-2, (E.OFFSET_OUT_OF_RANGE, -1)),
        (14, (E.OFFSET_OUT_OF_RANGE, -1)),
        (-1, (0, 13)),
        (13, (0, 13)),
        (0, (0, 4)),
        (4, (0, 4)),
        (5, (0, 5)),
        (7, (0, 7)),
    ],
)
def test_delete_records_from_a_log_start_of_4(offset: int, expected: tuple[int, int]) -> None:
    replica = filled()
    deleted(replica, (0, 4))
    assert deleted(replica, (0, offset)) == [expected]
    start = expected[1] if expected[1] >= 0 else 4
    assert offsets(replica, (0, -2), (0, -1)) == [(0, -1, start), (0, -1, 13)]


def test_delete_records_takes_its_points_in_order() -> None:
    replica = filled()
    assert deleted(replica, (0, 5), (0, 3), (7, 0), (0, 99), (0, -1), (1, -1)) == [
        (0, 5),
        (0, 5),
        (E.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (E.OFFSET_OUT_OF_RANGE, -1),
        (0, 13),
        (0, 0),
    ]
    assert deleted(replica, (0, 1), topic_id=UNKNOWN_TOPIC) == [(E.UNKNOWN_TOPIC_ID, -1)]


def test_deleting_nothing_logs_no_record() -> None:
    replica = filled()
    deleted(replica, (0, 5))
    length = len(replica.world.log)
    deleted(replica, (0, 5), (0, 0), (0, 99))
    [(_, value)] = replica.world.log[length:]
    assert len(value or b"") < 20


# ---- FindBatches


def bases(answer: FoundBatches | None) -> tuple[int, list[int]]:
    assert answer is not None
    return int(answer.outcome.error), [b.base_offset for b in answer.batches]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-1, (E.OFFSET_OUT_OF_RANGE, [])),
        (3, (E.OFFSET_OUT_OF_RANGE, [])),
        (4, (0, [3, 5, 10, 12])),
        (5, (0, [5, 10, 12])),
        (9, (0, [5, 10, 12])),
        (12, (0, [12])),
        (13, (0, [])),
    ],
)
def test_find_batches_gives_whole_batches_that_end_at_or_after_the_offset(offset: int, expected: tuple[int, list[int]]) -> None:
    replica = filled()
    deleted(replica, (0, 4))
    [answer] = found(replica.view.state, [(0, offset, 1000)])
    assert bases(answer) == expected
    assert answer is not None
    assert (answer.log_start, answer.high_watermark) == (4, 13)


@pytest.mark.parametrize(("is_certain", "error"), [(True, E.OFFSET_OUT_OF_RANGE), (False, E.OFFSET_NOT_AVAILABLE)])
def test_past_the_high_watermark_only_a_barrier_resets_a_consumer(is_certain: bool, error: ErrorCode) -> None:
    replica = filled()
    assert found(replica.view.state, [(0, 14, 1000)]) == [None]
    point = FetchPoint(topic_id=TOPIC, partition=0, offset=14, max_bytes=1000)
    answer = past_the_end(replica.view.state, point, is_certain=is_certain)
    assert (answer.outcome.error, answer.log_start, answer.high_watermark, answer.batches) == (error, 0, 13, [])


@pytest.mark.parametrize(
    ("points", "max_bytes", "max_batches", "expected"),
    [
        # Every batch has 10 bytes; the one that crosses a limit is still given.
        ([(0, 0, 0)], 0, 0, [[0]]),
        ([(0, 0, 1)], 1000, 0, [[0]]),
        ([(0, 0, 10)], 1000, 0, [[0]]),
        ([(0, 0, 11)], 1000, 0, [[0, 3]]),
        ([(0, 0, 1000)], 25, 0, [[0, 3, 5]]),
        ([(0, 0, 1000)], 30, 0, [[0, 3, 5]]),
        ([(0, 0, 1000), (0, 5, 1000)], 30, 0, [[0, 3, 5], []]),
        ([(0, 0, 1000), (0, 5, 1000)], 45, 0, [[0, 3, 5, 10, 12], []]),
        ([(0, 0, 15), (0, 5, 15)], 1000, 0, [[0, 3], [5, 10]]),
        ([(0, 0, 10), (0, 5, 0)], 1000, 0, [[0], []]),
        ([(0, 13, 10), (0, 5, 0)], 0, 0, [[], [5]]),
        ([(0, 0, 1000), (0, 5, 1000)], 1000, 2, [[0, 3], [5, 10]]),
        ([(0, 0, 1000)], 1000, 1, [[0]]),
    ],
)
def test_find_batches_budget(points: list[tuple[int, int, int]], max_bytes: int, max_batches: int, expected: list[list[int]]) -> None:
    answers = found(filled().view.state, points, max_bytes=max_bytes, max_batches=max_batches)
    assert [bases(answer) for answer in answers] == [(0, wanted) for wanted in expected]


def test_a_partition_after_the_budget_gets_its_real_offsets() -> None:
    replica = filled()
    replica.ask(commit("c", [batch(1, 4)]), delete_records((1, 2)))
    answer = found(replica.view.state, [(0, 0, 1000), (1, 2, 1000)], max_bytes=10)[1]
    assert answer is not None
    assert (answer.outcome.error, answer.log_start, answer.high_watermark, answer.batches) == (0, 2, 4, [])


@pytest.mark.parametrize(
    ("topic_id", "partition", "error"), [(TOPIC, 7, E.UNKNOWN_TOPIC_OR_PARTITION), (UNKNOWN_TOPIC, 0, E.UNKNOWN_TOPIC_ID)]
)
def test_find_batches_of_an_unknown_partition(topic_id: bytes, partition: int, error: ErrorCode) -> None:
    [answer] = found(filled().view.state, [(partition, 0, 10)], topic_id=topic_id)
    assert answer is not None
    assert (answer.outcome.error, answer.log_start, answer.high_watermark, answer.batches) == (error, -1, -1, [])


def test_a_found_batch_says_where_its_bytes_are_and_both_times() -> None:
    world, replica = leading()
    replica.ask(
        commit("a", [batch(1), batch(0, 3, byte_offset=70, size=30, max_timestamp=5, timestamp_type=1), batch(0, 2, max_timestamp=6)])
    )
    [answer] = found(replica.view.state, [(0, 0, 1000)])
    assert answer is not None
    one, two = answer.batches
    assert (one.object_key, one.byte_offset, one.byte_size, one.base_offset, one.last_offset) == ("a", 70, 30, 0, 2)
    assert (one.append_time_ms, one.max_timestamp_ms, one.timestamp_type) == (world.now_ms, 5, 1)
    assert (two.append_time_ms, two.max_timestamp_ms, two.timestamp_type) == (world.now_ms, 6, 0)
    assert (one.batch_id, two.batch_id) == (batch_id(0, len(world.log) - 1, 1), batch_id(0, len(world.log) - 1, 2))


def test_batch_ids_are_distinct_and_fit_64_bits() -> None:
    coordinators, entries = (0, 1, 2, 4094, COORDINATORS_MAX - 1), (0, 1, 2**33, 2**34 - 1)
    ids = {batch_id(c, o, i) for c in coordinators for o in entries for i in (0, 1, 2**17 - 1)}
    assert len(ids) == len(coordinators) * len(entries) * 3
    assert all(0 <= one < 2**63 for one in ids)
    # With fewer coordinators there is room for more entries of each.
    few = {batch_id(c, o, 0) for c in range(8) for o in (0, 1, 2**34, 2**42, 2**43 - 1)}
    assert len(few) == 8 * 5


def test_a_file_of_more_batches_than_ids_have_room_for_is_refused() -> None:
    _, replica = leading()
    rows = commit("many", [batch(0, 1)]).batches
    [answer] = replica.ask(commit("many", [], batches=np.repeat(rows, 2**17 + 1)))
    assert "131073 batches; at most 131072 are allowed in a file: make several of it" in str(result_of(answer).messages)


def test_a_follower_finds_what_the_leader_finds() -> None:
    replica = filled()
    follower = replica.world.add_replica()
    replica.world.settle()
    point = FetchPoint(topic_id=TOPIC, partition=0, offset=0, max_bytes=1000)
    answers = [find_batches(r.view.state, point, FetchBudget(1000, 0), 0) for r in (replica, follower)]
    assert answers[0] == answers[1]


# ---- DescribeFiles


def described(replica: HarnessReplica, *keys: str) -> list[tuple[int, bool]]:
    [token] = replica.submit(DescribeFiles(object_keys=list(keys)))
    replica.world.settle()
    replica.tick()
    answer = replica.answers[token]
    assert isinstance(answer, list)
    return [(int(e.outcome.error), e.has_live_batches) for e in answer if isinstance(e, DescribedFile)]


@pytest.mark.parametrize(("start", "is_live"), [(0, True), (4, True), (5, False), (13, False)])
def test_a_file_is_live_while_a_batch_of_it_is(start: int, is_live: bool) -> None:
    replica = filled()
    deleted(replica, (0, start))
    assert described(replica, "a", "b") == [(0, is_live), (0, start < 13)]


def test_an_unknown_file_is_not_found_and_the_others_are_answered() -> None:
    assert described(filled(), "x", "a") == [(E.RESOURCE_NOT_FOUND, False), (0, True)]
