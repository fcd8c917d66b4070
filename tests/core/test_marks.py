"""A mark ends a generation on every replica: what is written stands exactly there, however the replica reads and whatever waits."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from coordinator.core.commands import CommitSnapshot, MarkSnapshot, Outcome
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.kafka.errors import ErrorCode
from records.model import SnapshotCommitted
from simulation.fakes.shard_harness import HarnessReplica, World
from simulation.fakes.state_store import MemoryStateStore
from tests.core.build import batch, commit, delete_records, list_offsets, place, view_of
from tests.core.shard_worlds import replay, two


def shown(state: ShardState) -> dict[str, object]:
    """What everybody may see: tables, live batches, and files with their live batches, however much of it is written."""
    while state.trim_step():
        pass
    table = state.hot.partitions
    view = view_of(state.hot)
    view["batches"] = {
        table.keys[number]: [
            tuple(row[:6])
            for run in state.runs_from(number, table.log_start.cells[number])
            for row in run.rows().tolist()
            if row[0] + row[1] > table.log_start.cells[number]
        ]
        for number in table.rows.rows().tolist()
    }
    # Since when a file is empty is told by the write that sees it.
    view["files"] = [file._replace(emptied_ms=-1) for file in state.files_after("", 1_000)]
    return view


CLUSTER, TOPIC_ID = "cluster", b"t" * 16


def committed(end_offset: int, digest: bytes = bytes(16)) -> SnapshotCommitted:
    return SnapshotCommitted(
        mark_offset=end_offset - 1,
        end_offset=end_offset,
        epoch=1,
        size_bytes=10,
        sha256=bytes(32),
        digest=digest,
        location=f"at {end_offset}",
    )


@dataclass(slots=True)
class Written:
    """A replica whose state is written to a store, as the runtime does it: sealed generations first, one write at a time."""

    replica: HarnessReplica
    store: MemoryStateStore = field(default_factory=MemoryStateStore)
    packer: Packer = field(default_factory=Packer)
    digests: dict[int, bytes] = field(default_factory=dict)
    """The digest of each write, by applied offset."""
    marks: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.replica.view.state.cold = self.store

    def begin(self) -> bool:
        """Take what is written next and write it; the loop learns of it with `end`."""
        shard = self.replica.shard
        self.replica.settle()
        sealed = shard.take_sealed()
        if sealed is not None:
            header = replace(sealed.freeze.header, cluster_id=CLUSTER, topic_id=TOPIC_ID, metadata_partition=0)
            freeze = replace(sealed.freeze, header=header)
            self.marks.add(header.applied_offset)
        else:
            freeze = shard.freeze(shard.header(CLUSTER, TOPIC_ID))
        flush = self.packer.pack(freeze)
        self.store.write(flush)
        self.digests[flush.header.applied_offset] = flush.header.digest
        return sealed is not None

    def end(self) -> None:
        self.replica.shard.written()

    def write_all(self) -> None:
        while self.begin():
            self.end()
        self.end()


def test_what_is_written_ends_at_the_mark() -> None:
    world, first, second = two()
    first.submit(commit("a", [batch(0, 3)]), MarkSnapshot(mark_id=7), commit("b", [batch(0, 4)]))
    world.settle()
    mark = len(world.log) - 2
    for replica in (first, second):
        written = Written(replica)
        assert replica.view.applied_offset == mark + 1
        assert written.begin()
        assert written.store.header is not None
        assert (written.store.header.applied_offset, written.store.header.seq) == (mark, mark)
        written.end()
        assert not written.begin()
        written.end()
        assert list(written.digests) == [mark, mark + 1]


def test_every_replica_has_the_same_digest_at_every_mark() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        world, first, second = two()
        both = (Written(first), Written(second))
        states: list[object] = []
        for step in range(30):
            kind = rng.randrange(6)
            if kind == 0:
                first.submit(MarkSnapshot(mark_id=step))
            elif kind == 1:
                first.submit(delete_records((0, -1)))
            else:
                first.submit(commit(f"{seed} {step}", [batch(rng.randrange(2), rng.randrange(1, 5)) for _ in range(rng.randrange(1, 4))]))
            if rng.random() < 0.3:
                world.settle()
            if rng.random() < 0.2:
                rng.choice(both).write_all()
        world.settle()
        for written in both:
            written.write_all()
            states.append(shown(written.replica.view.state))
        assert both[0].marks == both[1].marks
        assert both[0].marks
        common = both[0].digests.keys() & both[1].digests.keys()
        assert common >= both[0].marks
        assert {at: both[0].digests[at] for at in common} == {at: both[1].digests[at] for at in common}
        assert states[0] == states[1] == shown(replay(world).view.state)


@pytest.mark.parametrize("writes", [False, True], ids=["the mark waits", "a write is under way"])
def test_reads_see_everything_while_sealed_generations_wait(writes: bool) -> None:
    world, first, _ = two()
    written = Written(first)
    first.ask(commit("a", [batch(0, 3)]))
    if writes:
        written.begin()
    for number in range(3):
        first.ask(MarkSnapshot(mark_id=number), commit(f"b{number}", [batch(0, 2), batch(1, 1)]))
    first.ask(delete_records((0, 4)))
    while first.view.is_trimming:
        first.tick()
    before = shown(first.view.state)
    assert before == shown(replay(world).view.state)
    files = map(first.view.state.find_file, ("a", "b0", "b1", "b2"))
    assert [file.live_batches for file in files if file is not None] == [0, 2, 2, 2]
    if writes:
        assert first.shard.take_sealed() is None, "one write at a time"
        written.end()
    written.write_all()
    assert shown(first.view.state) == before
    stored = written.store.load()
    assert stored is not None
    assert shown(ShardState.restore(stored, written.store)) == before


def test_a_mark_inside_a_transaction_or_of_a_void_entry_seals_nothing() -> None:
    world = World()
    replica = world.add_replica()
    replica.lead()
    replica.ask(place())
    # An entry of another term with a mark: void.
    other = HarnessReplica(world, 9, replica.limits, 0, 4)
    other.submit(MarkSnapshot(mark_id=1))
    world.settle()
    assert replica.shard.take_sealed() is None


def test_committed_snapshots_are_remembered_and_only_newer_ones_are_taken() -> None:
    world, first, second = two()
    for end_offset in (10, 20, 30, 40):
        [answer] = first.ask(CommitSnapshot(snapshot=committed(end_offset)))
        assert answer == Outcome()
    [refused] = first.ask(CommitSnapshot(snapshot=committed(40)))
    assert isinstance(refused, Outcome)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert refused.message == "a snapshot up to offset 40 is not committed: the newest one reaches 40"
    for replica in (first, second, replay(world)):
        assert [one.end_offset for one in replica.view.snapshots] == [20, 30, 40]
    written = Written(second)
    written.write_all()
    stored = written.store.load()
    assert stored is not None
    assert ShardState.restore(stored, written.store).hot.snapshots == second.view.snapshots
    assert second.ask(list_offsets((0, -1)))
