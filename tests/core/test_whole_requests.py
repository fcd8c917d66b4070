"""Requests of several coordinators are checked as they were received; each share is refused for what was found there."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.core.commands import OK, CommitFile, Outcome
from coordinator.core.files.requests import CommitContext, check_head, check_whole
from coordinator.core.limits import Limits
from coordinator.kafka.batches import BATCH, partition_key
from coordinator.kafka.errors import ErrorCode

TOPIC = bytes(range(16))
CONTEXT = CommitContext(coordinator_id=1, coordinator_count=3, limits=Limits(), now_ms=10_000_000, log_time_ms=10_000_000)


def command(*places: int, owners: tuple[int, ...] = (0, 1), checked: Outcome | None = None, created_ms: int = -1) -> CommitFile:
    """A file with one batch of 100 bytes at each of these places, one partition each."""
    batches = np.zeros(len(places), BATCH)
    for index, place in enumerate(places):
        batches[index] = (2, 0, np.void(partition_key(TOPIC, index)), place, 100, 0, 0, 5, 0, -1, -1, -1, -1, 0)
    return CommitFile(
        object_key="wal/a",
        object_format=1,
        file_size=1000,
        owner_ids=list(owners),
        batches=batches,
        uploader_broker_id=-1,
        created_ms=created_ms,
        checked=checked,
    )


def share_check(share: CommitFile) -> ErrorCode:
    problem = check_head(share, CONTEXT)
    return ErrorCode.NONE if problem is None else problem.error


def test_overlapping_shares_are_seen_in_the_whole_request_only() -> None:
    assert check_whole(command(0, 50), 3).error is ErrorCode.INVALID_REQUEST
    assert check_whole(command(0, 100), 3) == OK


@pytest.mark.parametrize(("base", "last"), [(-1, 3), (-5, -4), (2**63 - 1, -(2**63)), (5, 4), (0, 2**31)])
def test_offsets_that_are_no_batch_are_refused_however_their_difference_wraps(base: int, last: int) -> None:
    bad = command(0, 100)
    bad.batches["base_offset"][1], bad.batches["last_offset"][1] = base, last
    assert check_whole(bad, 3).error is ErrorCode.INVALID_REQUEST
    assert share_check(command(0, 100, checked=check_whole(bad, 3))) is ErrorCode.INVALID_REQUEST


def test_batches_may_stand_in_any_order_in_the_file() -> None:
    assert check_whole(command(300, 0, 100), 3) == OK


def test_owners_may_be_new() -> None:
    assert check_whole(command(0, 100, owners=(0, 1, 2)), 3) == OK
    assert check_whole(command(0, 100, owners=(0, 1, 3)), 3).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_share_is_refused_for_what_was_found_in_the_whole_request() -> None:
    found = Outcome(error=ErrorCode.INVALID_REQUEST, message="batch 7 is bad")
    assert share_check(command(0, 100)) is ErrorCode.NONE
    assert share_check(command(0, 100, checked=found)) is ErrorCode.INVALID_REQUEST
    assert share_check(command(0, 100, checked=OK)) is ErrorCode.NONE


def test_the_age_of_a_checked_file_is_looked_at_by_each_coordinator() -> None:
    old = CONTEXT.now_ms - CONTEXT.limits.file_commit_max_age_ms - 1
    assert check_whole(command(0, created_ms=old), 3) == OK
    assert share_check(command(0, created_ms=old, checked=OK)) is ErrorCode.INVALID_REQUEST
