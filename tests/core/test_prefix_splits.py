"""A snapshot at any mark and the rest of the log give what the whole log gives: the same digest, the same answers.

Histories have files, deletions, transactions, void entries, changes of leadership, and a change of the schema level.
"""

from __future__ import annotations

import random
from copy import deepcopy

import pytest

from coordinator.core.commands import MarkSnapshot
from coordinator.core.events import EntriesRead, SchemaLevel, Unassigned
from coordinator.core.limits import Limits
from coordinator.core.shard import Shard
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.core.view import ShardView
from records.codec import decode_entry, encode_key
from records.entry_key import EntryKey
from records.log import Fence
from records.model import TransactionBegan
from simulation.fakes.shard_harness import HarnessReplica, World
from simulation.fakes.state_store import MemoryStateStore
from tests.core.build import batch, commit, delete_records, place
from tests.core.test_marks import CLUSTER, TOPIC_ID, Written, shown

PARTITIONS = 9
LIMITS = Limits(entry_bytes_max=160)
"""Deletions in all partitions do not fit one entry."""
STEPS = 40
STRANGE = b"of another term"


def history(seed: int) -> tuple[World, dict[int, MemoryStateStore]]:
    """A random history, and what a follower had written at each mark."""
    rng, world = random.Random(seed), World()
    leader, follower = world.add_replica(limits=LIMITS), world.add_replica(limits=LIMITS)
    leader.lead()
    leader.ask(place(count=PARTITIONS))
    written, at_marks = Written(follower), dict[int, MemoryStateStore]()
    raised_at = rng.randrange(STEPS // 2)
    for step in range(STEPS):
        if step == raised_at:
            for replica in world.replicas:
                replica.feed(SchemaLevel(2))
        kind = rng.randrange(6)
        if kind == 0:
            leader.submit(MarkSnapshot(mark_id=step))
        elif kind == 1:
            # So that there is something to delete in every partition.
            leader.submit(*(commit(f"{seed} {step} {partition}", [batch(partition, 2)]) for partition in range(PARTITIONS)))
            leader.submit(delete_records(*((partition, -1) for partition in range(PARTITIONS))))
        else:
            leader.submit(commit(f"{seed} {step}", [batch(rng.randrange(PARTITIONS), rng.randrange(1, 4))]))
        if rng.random() < 0.5:
            leader.land(min(len(leader.outbox), rng.randrange(4)))
        if rng.random() < 0.1:
            world.append(encode_key(EntryKey(1, 77, 3)), STRANGE)
        if rng.random() < 0.05:
            leader.feed(Unassigned())
            leader, other = next(one for one in world.replicas if one is not leader), leader
            world.settle()
            leader.lead()
            assert not other.view.is_leading
        if rng.random() < 0.3:
            world.settle()
            write_some(written, at_marks)
    world.settle()
    write_some(written, at_marks)
    return world, at_marks


def write_some(written: Written, at_marks: dict[int, MemoryStateStore]) -> None:
    """Write everything, and keep what was written at each mark."""
    while written.begin():
        written.end()
        header = written.store.header
        assert header is not None
        at_marks[header.applied_offset] = deepcopy(written.store)
    written.end()


def last_digest(shard: Shard, packer: Packer) -> bytes:
    """The digest of everything that a shard has applied; `packer` has what it had written before."""
    while sealed := shard.take_sealed():
        packer.pack(sealed.freeze)
        shard.written()
    return packer.pack(shard.freeze(shard.header(CLUSTER, TOPIC_ID))).header.digest


@pytest.mark.parametrize("seed", range(25))
def test_a_snapshot_at_any_mark_and_the_rest_of_the_log_are_the_whole_log(seed: int) -> None:
    world, at_marks = history(seed)
    whole = HarnessReplica(World(log=world.log, now_ms=world.now_ms), 50, LIMITS, 0, 4)
    whole.read()
    seen, digest = shown(whole.view.state), last_digest(whole.shard, Packer())
    for offset, store in at_marks.items():
        stored = store.load()
        assert stored is not None
        assert stored.header.applied_offset == offset
        header = stored.header
        shard = Shard(
            partition=0,
            partition_count=4,
            node_id=60,
            rack="",
            endpoints=[],
            limits=LIMITS,
            state=ShardState.restore(stored, store),
            fence=Fence(header.epoch, header.term, header.seq),
            claim=None,
            certain_end=len(world.log),
        )
        shard.feed(EntriesRead(world.entries(offset + 1, len(world.log))), world.now_ms)
        assert shard.failure is None
        view = ShardView(shard)
        assert (view.applied_offset, view.fence) == (whole.view.applied_offset, whole.view.fence)
        assert shown(view.state) == seen
        assert last_digest(shard, stored.packer) == digest


def test_the_histories_have_what_they_are_to_have() -> None:
    found = [history(seed) for seed in range(25)]
    assert sum(len(at_marks) for _, at_marks in found) > 60
    records = [
        record for world, _ in found for _, value in world.log if value != b"of another term" for record in decode_entry(value or b"")
    ]
    assert sum(isinstance(record, TransactionBegan) for record in records) > 20
