"""Fencing, removal and hand-over of files: who is out, what counts as under way, and what is logged."""

from __future__ import annotations

import pytest

from coordinator.core.commands import (
    OK,
    DeletePoint,
    DeleteRecords,
    FencedFile,
    FenceFiles,
    FileStanding,
    HandOverFiles,
    Outcome,
    RemoveFiles,
)
from coordinator.core.deciding.decide_files import RECORD_KEY_BYTES_MAX
from coordinator.core.events import Delivered, Delivery, SchemaLevel, Unassigned
from coordinator.core.limits import FILES_PER_REQUEST_MAX, Limits
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry
from records.levels import LEVEL_LATEST
from records.model import FilesFenced, FilesHandedOver, FilesRemoved, NoOp, Record
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import TOPIC, batch, commit, place, result_of

S = FileStanding


def started(limits: Limits | None = None) -> tuple[World, HarnessReplica]:
    world = World()
    replica = world.add_replica(limits=limits)
    replica.feed(SchemaLevel(LEVEL_LATEST))
    replica.lead()
    replica.ask(place(count=2))
    return world, replica


def logged(world: World, start: int) -> list[Record]:
    return [record for _, value in world.log[start:] if value is not None for record in decode_entry(value)]


def fence(*keys: str, created_ms: int = 5, is_fencing: bool = True) -> FenceFiles:
    return FenceFiles(object_keys=list(keys), created_ms=[created_ms] * len(keys), is_fencing=is_fencing)


def standings(answer: object) -> list[FileStanding]:
    assert isinstance(answer, list)
    assert all(isinstance(one, FencedFile) and one.outcome == OK for one in answer)
    return [one.standing for one in answer]


def errors(answer: object) -> list[int]:
    assert isinstance(answer, list)
    return [int(one.error if isinstance(one, Outcome) else one.outcome.error) for one in answer]


def empty(replica: HarnessReplica, key: str) -> None:
    """Commit a file and delete its batches."""
    assert result_of(replica.ask(commit(key, [batch(1, 1)]))[0]).errors == [0]
    replica.ask(DeleteRecords(points=[DeletePoint(topic_id=TOPIC, partition=1, offset=-1)]))
    replica.tick()


def end_of(key: str, how: FileStanding) -> RemoveFiles | HandOverFiles:
    return RemoveFiles(object_keys=[key]) if how is S.REMOVED else HandOverFiles(object_keys=[key], next_owner_ids=[3])


ENDS = pytest.mark.parametrize("how", [S.REMOVED, S.HANDED_OVER])


def test_a_key_that_nothing_is_known_of_is_fenced_and_never_committed() -> None:
    world, replica = started()
    start = len(world.log)
    assert standings(replica.ask(fence("a"))[0]) == [S.FENCED]
    assert logged(world, start) == [FilesFenced(object_keys=["a"], created_ms=[5])]
    answer = result_of(replica.ask(commit("a", [batch()]))[0])
    assert answer.errors == [ErrorCode.INVALID_REQUEST]
    assert "file a was fenced for deletion: it was not committed here and never will be; upload the data under a new key" in str(
        answer.messages
    )


def test_the_standing_of_every_kind_of_key_is_told_and_only_the_unknown_one_is_logged() -> None:
    world, replica = started()
    replica.ask(commit("live", [batch(0, 1)]))
    for key in ("empty", "removed", "handed"):
        empty(replica, key)
    replica.ask(end_of("removed", S.REMOVED), end_of("handed", S.HANDED_OVER), fence("fenced"))
    start = len(world.log)
    keys = ("live", "empty", "fenced", "removed", "handed", "new")
    expected = [S.LIVE, S.EMPTY, S.FENCED, S.REMOVED, S.HANDED_OVER]
    assert standings(replica.ask(fence(*keys, is_fencing=False))[0]) == [*expected, S.UNKNOWN]
    assert logged(world, start) == [NoOp()]
    assert standings(replica.ask(fence(*keys))[0]) == [*expected, S.FENCED]
    assert logged(world, start)[1:] == [FilesFenced(object_keys=["new"], created_ms=[5])]
    assert [one.is_out for one in S] == [False, False, False, True, True, True]


def test_a_fence_that_is_logged_already_is_confirmed_by_an_entry_of_its_own_leader() -> None:
    world, replica = started()
    replica.ask(fence("a"))
    start = len(world.log)
    assert standings(replica.ask(fence("a"))[0]) == [S.FENCED]
    assert logged(world, start) == [NoOp()]


def test_a_key_whose_fence_is_forgotten_is_refused_by_a_leader_whose_clock_is_far_behind() -> None:
    limits = Limits()
    world, first = started()
    second, created_ms = world.add_replica(), world.now_ms
    world.now_ms += limits.file_commit_max_age_ms + 1
    assert standings(first.ask(fence("wal/late", created_ms=created_ms))[0]) == [FileStanding.FENCED]
    world.now_ms = created_ms + limits.file_fence_retention_ms + 1
    first.ask(commit("wal/other", [batch()], created_ms=world.now_ms))
    first.tick(limits.expiration_interval_ms + 1)
    world.settle()
    assert not len(first.view.state.tombstone_ages)
    world.now_ms = created_ms + 60_000
    first.feed(Unassigned())
    second.lead()
    answer = result_of(second.ask(commit("wal/late", [batch()], created_ms=created_ms))[0])
    assert answer.errors == [ErrorCode.INVALID_REQUEST]
    assert "file.fence.retention.ms" in str(answer.messages[0])


def test_a_commit_under_way_makes_its_key_known_and_is_answered_first() -> None:
    world, replica = started()
    start = len(world.log)
    committed, asked = replica.submit(commit("a", [batch()]), fence("a", "b"))
    world.settle()
    assert standings(replica.answers[asked]) == [S.LIVE, S.FENCED]
    assert result_of(replica.answers[committed]).errors == [0]
    assert [type(record).__name__ for record in logged(world, start)] == ["FileCommitted", "FilesFenced"]


def test_a_fence_under_way_refuses_a_commit_that_is_decided_after_it() -> None:
    world, replica = started()
    first, second, again = replica.submit(fence("a"), commit("a", [batch()]), fence("a"))
    assert result_of(replica.answers[second]).errors == [ErrorCode.INVALID_REQUEST]
    assert first not in replica.answers
    assert again not in replica.answers, "a fence is told when it is durable"
    world.settle()
    assert standings(replica.answers[first]) == standings(replica.answers[again]) == [S.FENCED]


@ENDS
def test_an_empty_file_is_ended_once_and_its_key_stays_out(how: FileStanding) -> None:
    world, replica = started()
    empty(replica, "a")
    start = len(world.log)
    first, second, late = replica.submit(end_of("a", how), end_of("a", how), commit("a", [batch(1, 1)]))
    assert result_of(replica.answers[late]).errors == [ErrorCode.DUPLICATE_RESOURCE]
    world.settle()
    assert [replica.answers[first], replica.answers[second]] == [[OK], [OK]]
    assert replica.ask(end_of("a", how)) == [[OK]]
    record: Record = FilesRemoved(object_keys=["a"])
    if how is S.HANDED_OVER:
        record = FilesHandedOver(object_keys=["a"], next_owner_ids=[3])
    assert [one for one in logged(world, start) if not isinstance(one, NoOp)] == [record]
    assert standings(replica.ask(fence("a"))[0]) == [how]
    assert replica.view.state.find_file("a") is None


@ENDS
def test_a_file_that_is_live_unknown_or_being_committed_is_not_ended(how: FileStanding) -> None:
    world, replica = started()
    replica.ask(commit("live", [batch()]))
    start = len(world.log)
    assert errors(replica.ask(end_of("live", how))[0]) == [ErrorCode.INVALID_REQUEST]
    assert errors(replica.ask(end_of("unknown", how))[0]) == [ErrorCode.INVALID_REQUEST]
    _, ended = replica.submit(commit("young", [batch()]), end_of("young", how))
    world.settle()
    assert errors(replica.answers[ended]) == [ErrorCode.INVALID_REQUEST]
    assert not [one for one in logged(world, start) if isinstance(one, FilesRemoved | FilesHandedOver)]
    assert replica.view.state.find_file("live") is not None


def test_one_request_ends_what_can_be_and_says_of_each_other_why_not() -> None:
    _, replica = started()
    empty(replica, "a")
    replica.ask(commit("live", [batch()]))
    [answer] = replica.ask(RemoveFiles(object_keys=["live", "a", "a"]))
    assert errors(answer) == [ErrorCode.INVALID_REQUEST, 0, 0]
    assert isinstance(answer, list)
    assert isinstance(answer[0], Outcome)
    assert "file live is neither removed nor handed over: it has live batches" in (answer[0].message or "")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (fence("a" * 1025), "object key has 1025 bytes; it must have 1 to 1024"),
        (fence(""), "object key has 0 bytes"),
        (fence("wal//a"), "object key 'wal//a' must be a relative path of non-empty segments"),
        (fence("wal/a\n"), r"object key 'wal/a\n' must not contain control characters"),
        (fence("wal/a\uffff"), r"object key 'wal/a\uffff' must not contain U+FFFD, U+FFFE or U+FFFF"),
        (fence("a", created_ms=-2), "file a was created at -2"),
        (fence(*(f"k{n}" for n in range(FILES_PER_REQUEST_MAX + 1))), "1001 files in a request, 1000 are allowed: split it"),
    ],
)
def test_an_unlawful_request_fences_nothing_and_says_why(command: FenceFiles, message: str) -> None:
    world, replica = started()
    start = len(world.log)
    [answer] = replica.ask(command)
    assert set(errors(answer)) == {ErrorCode.INVALID_REQUEST}
    assert isinstance(answer, list)
    assert isinstance(answer[0], FencedFile)
    assert message in (answer[0].outcome.message or "")
    assert logged(world, start) == [NoOp()]


def test_many_long_keys_are_fenced_together() -> None:
    world, replica = started()
    start = len(world.log)
    keys = [f"{number:04}".ljust(1024, "x") for number in range(FILES_PER_REQUEST_MAX)]
    assert set(standings(replica.ask(fence(*keys))[0])) == {S.FENCED}
    records = logged(world, start)
    fenced = [record for record in records if isinstance(record, FilesFenced)]
    assert [key for record in fenced for key in record.object_keys] == keys
    assert all(sum(map(len, record.object_keys)) <= RECORD_KEY_BYTES_MAX for record in fenced)


def test_where_entries_are_small_many_keys_are_fenced_and_files_ended_by_several() -> None:
    world, replica = started(Limits(entry_bytes_max=160))
    start = len(world.log)
    keys = [f"wal/file-{number:02}" for number in range(30)]
    assert set(standings(replica.ask(fence(*keys))[0])) == {S.FENCED}
    files = [f"wal/{number}" for number in range(20)]
    for key in files:
        empty(replica, key)
    handed = HandOverFiles(object_keys=files[:10], next_owner_ids=[3] * 10)
    assert errors(replica.ask(handed)[0]) == errors(replica.ask(RemoveFiles(object_keys=files[10:]))[0]) == [0] * 10
    assert all(len(value or b"") <= 160 for _, value in world.log[start:])
    assert standings(replica.ask(fence(files[0], files[-1]))[0]) == [S.HANDED_OVER, S.REMOVED]


def test_a_fence_that_a_term_lost_is_made_anew_in_the_next_one() -> None:
    world, replica = started()
    [asked] = replica.submit(fence("a"))
    lost = replica.outbox.popleft()
    assert replica.term_id is not None
    replica.feed(Delivered(replica.term_id, [Delivery(lost.seq, None, "the broker is gone")]))
    world.settle()
    assert errors(replica.answers[asked]) == [ErrorCode.NOT_COORDINATOR]
    assert replica.view.state.find_tombstone("a") is None
    assert result_of(replica.ask(commit("b", [batch()]))[0]).errors == [0]
    assert standings(replica.ask(fence("a"))[0]) == [S.FENCED]


def test_followers_know_what_the_leader_ruled_out() -> None:
    world, replica = started()
    other = world.add_replica()
    empty(replica, "a")
    replica.ask(end_of("a", S.REMOVED), fence("b"))
    world.settle()
    for one in (replica, other):
        assert {key: getattr(one.view.state.find_tombstone(key), "reason", None) for key in "ab"} == {"a": "removed", "b": "fenced"}
