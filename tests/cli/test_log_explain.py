"""`log explain` tells what an entry did, and `log dump` finds the entries that contradict the log, as replicas do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cli.log.entries import EntryJudge, LogMessage
from cli.log.explain import Explanation, explain_message, parse_place
from cli.log.fold import Bounds, FoldedReplica
from cli.outcome import Failed
from records.codec import decode_entry, encode_entry, encode_key
from records.entry_key import EntryKey
from records.model import Record, RecordsDeleted, TransactionBegan, TransactionEnded
from simulation.fakes.shard_harness import World
from tests.core.build import TOPIC, batch, commit, place


def log_of(*forged: list[Record]) -> World:
    """A topic with one file of three records at offset 2, and what was forged behind it."""
    world = World()
    leader = world.add_replica()
    leader.lead()
    leader.ask(place(count=2))
    leader.ask(commit("a", [batch(0, 3)]))
    fence = leader.view.fence
    for seq, records in enumerate(forged, fence.seq + 1):
        world.append(encode_key(EntryKey(fence.epoch, fence.term, seq)), encode_entry(records, 2))
    return world


def messages(world: World) -> list[LogMessage]:
    return [LogMessage(0, offset, 1_000 + offset, key, value) for offset, (key, value) in enumerate(world.log)]


def explain(world: World, offset: int, **given: int) -> Explanation:
    with FoldedReplica(0, **given) as fold:
        return explain_message(iter(messages(world)), fold, offset, lambda: None)


def deleted_to(offset: int) -> list[Record]:
    return [RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=offset)]


def test_a_commit_is_explained_by_the_offsets_it_gave_out() -> None:
    told = explain(log_of(), 2)
    assert told.entry.verdict == "apply"
    [change] = told.changes
    assert (change.partition, change.before, change.after) == ("orders-0", Bounds(0, 0), Bounds(0, 3))


def test_a_contradiction_is_explained_by_what_was_expected() -> None:
    told = explain(log_of(deleted_to(4)), 3)
    assert told.entry.verdict == "void"
    assert told.entry.reason == "contradiction: records of orders-0 are deleted up to 4, past the high watermark 3"
    [change] = told.changes
    assert change.before == change.after == Bounds(0, 3)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (2, "(apply): transaction 'x' of offset 3 takes effect"),
        (3, "(void): contradiction"),
        (None, "has not ended in the log as it is now"),
    ],
)
def test_a_chunk_is_explained_by_the_end_of_its_transaction(end: int | None, said: str) -> None:
    ended: list[list[Record]] = [] if end is None else [[TransactionEnded(num_chunks=end)]]
    world = log_of([TransactionBegan(name="x", num_chunks=2)], deleted_to(1), deleted_to(2), *ended)
    told = explain(world, 4)
    assert told.entry.verdict == "chunk"
    assert said in told.transaction
    [change] = told.changes
    assert change.after == (Bounds(2, 3) if end == 2 else Bounds(0, 3))


def test_an_entry_that_this_version_cannot_read_stops_replicas() -> None:
    world = log_of()
    key, _ = world.log[-1]
    assert key is not None
    world.append(key[:-8] + (int.from_bytes(key[-8:], "big") + 1).to_bytes(8, "big"), b"\xc3\x01" + bytes(8))
    told = explain(world, 3)
    assert told.entry.reason == "replicas of this version stop here"
    assert "cannot be read by this version" in told.failure


def test_dumped_verdicts_are_those_of_the_fold() -> None:
    world = log_of(deleted_to(4), [TransactionEnded(num_chunks=1)], deleted_to(1))
    with FoldedReplica(0) as fold:
        judge = EntryJudge(from_start=True, fold=fold)
        judged = [judge.judge(message) for message in messages(world)]
    assert [entry.verdict for entry in judged] == ["claim", "apply", "apply", "void", "void", "apply"]
    assert all(entry.reason.startswith("contradiction: ") for entry in judged[3:5])


def test_much_is_folded_through_the_database() -> None:
    world = World()
    leader = world.add_replica()
    leader.lead()
    leader.ask(place(count=2))
    for number in range(30):
        leader.ask(commit(f"k{number}", [batch(0, 2), batch(1, 1)]))
    again = next(value for _, value in world.log if b"k3" in (value or b""))
    fence = leader.view.fence
    world.append(encode_key(EntryKey(fence.epoch, fence.term, fence.seq + 1)), again)
    told = explain(world, len(world.log) - 1, written_batches=10)
    assert "file k3 was committed by entry" in told.entry.reason
    assert [decode_entry(value or b"") for _, value in world.log[-1:]]


@pytest.mark.parametrize("text", ["", "3", "3@", "@4", "-1@4", "a@4", "3@9223372036854775808", "3@4@5", "3@4x"])
def test_a_place_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Failed, match="is not PARTITION@OFFSET"):
        parse_place(text)


def test_a_place_is_a_partition_and_an_offset() -> None:
    check: Callable[[str], tuple[int, int]] = parse_place
    assert check("3@1042") == (3, 1042)
