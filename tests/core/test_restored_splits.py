"""The state at any mark, a restore, and the rest of the history give what the history gives without one, but for ids that moved on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.core.events import EntriesRead
from coordinator.core.log_entry import ReadEntry, entry_hash
from coordinator.core.shard import Shard
from coordinator.core.state.replica_state import ShardState
from coordinator.core.view import ShardView
from coordinator.runtime.loading.restored import moved_head
from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.entry_key import EntryKey
from records.errors import UnreadableEntry
from records.log import RESTORED_KEY, Fence, LogGrammar, Verdict
from records.model import LeadershipClaimed, Restored
from simulation.fakes.shard_harness import HarnessReplica, World
from simulation.fakes.state_store import MemoryStateStore, MemoryStateStores
from tests.core.test_marks import shown
from tests.core.test_prefix_splits import LIMITS, history
from tests.records.examples import RESTORED

NEW_CLUSTER, NEW_TOPIC = "another", b"n" * 16
GAP = 1000


def rest_of(world: World, after: int, floor: int) -> list[tuple[bytes, bytes]]:
    """The entries of a log behind an offset that count, in terms of a log that was restored there."""
    grammar, log = LogGrammar(), list[tuple[bytes, bytes]]()
    epoch, seq = floor + 1, 0

    def claim() -> None:
        record = LeadershipClaimed(epoch=epoch, term=epoch, node_id=1, rack="", endpoints=[])
        log.append((encode_key(EntryKey(epoch, epoch, 0)), encode_entry([record], 1)))

    claim()
    for offset, (key, value) in enumerate(world.log):
        try:
            entry: Any = decode_entry(value or b"")
        except UnreadableEntry as error:
            entry = error
        verdict = grammar.read(offset, decode_key(key), entry).verdict
        if offset <= after:
            continue
        if verdict is Verdict.CLAIM:
            epoch, seq = epoch + 1, 0
            claim()
        elif verdict is Verdict.APPLY:
            seq += 1
            log.append((encode_key(EntryKey(epoch, epoch, seq)), value or b""))
    return log


def without_ids(seen: dict[str, Any]) -> dict[str, Any]:
    """What is seen, with files named by their keys."""
    names = {file.file_id: file.object_key for file in seen["files"]}
    batches = {key: [(*row[:4], names[row[4]], row[5]) for row in rows] for key, rows in seen["batches"].items()}
    return seen | {"batches": batches, "files": [file._replace(file_id=0) for file in seen["files"]]}


def restored_at(store: MemoryStateStore) -> tuple[Restored, bytes, bytes]:
    """The entry that goes on from what is written, with its key and value."""
    header = store.header
    assert header is not None
    end = header.applied_offset + 1
    restored = replace(
        RESTORED, metadata_partition=0, old_end_offset=end, epoch_floor=header.epoch + 1000, file_id_base=end + GAP, digest=header.digest
    )
    return restored, encode_key(RESTORED_KEY), encode_entry([restored], 1)


@pytest.mark.parametrize("seed", range(8))
def test_a_restore_at_any_mark_changes_nothing_but_ids(seed: int) -> None:
    world, at_marks = history(seed)
    whole = HarnessReplica(World(log=world.log, now_ms=world.now_ms), 50, LIMITS, 0, 4)
    whole.read()
    seen = without_ids(shown(whole.view.state))
    for offset, store in at_marks.items():
        restored, key, value = restored_at(store)
        pinned, stores = store.pin(), MemoryStateStores()
        stored = stores.build(0, moved_head(pinned.head, NEW_CLUSTER, NEW_TOPIC, entry_hash(key, value)), pinned.tables())
        new = stores.open(0, NEW_CLUSTER, NEW_TOPIC)
        state = ShardState.restore(stored, new.reader())
        shard = Shard(
            partition=0, partition_count=4, node_id=60, rack="", endpoints=[], limits=LIMITS, state=state, fence=Fence(), claim=None,
            certain_end=len(world.log) + 2,
        )  # fmt: skip
        log = [(key, value), *rest_of(world, offset, restored.epoch_floor)]
        shard.feed(EntriesRead([ReadEntry(at, world.now_ms, *entry) for at, entry in enumerate(log)]), world.now_ms)
        view = ShardView(shard)
        assert shard.failure is None
        assert view.void_entries == {}
        assert view.applied_offset == len(log) - 1
        assert view.restoration is not None
        assert view.restoration.begun == restored
        found = shown(view.state)
        assert without_ids(found) == seen
        ids = [file.file_id for file in found["files"]]  # type: ignore[attr-defined]
        assert all(one < restored.old_end_offset or restored.file_id_base < one <= restored.file_id_base + len(log) for one in ids)
        # What is written is what its digest stands for.
        while sealed := shard.take_sealed():
            new.write(stored.packer.pack(sealed.freeze))
            shard.written()
        new.write(stored.packer.pack(shard.freeze(shard.header(NEW_CLUSTER, NEW_TOPIC))))
        again = new.load()
        assert again is not None
        assert again.header.applied_offset == len(log) - 1
        assert ShardState.restore(again, new.reader()).hot.restoration == view.restoration


def test_a_state_that_was_not_prepared_for_the_restore_fails() -> None:
    world = World()
    replica = world.add_replica()
    world.append(encode_key(RESTORED_KEY), encode_entry([RESTORED], 1))
    replica.read()
    assert replica.view.failure is not None
    assert "for which this state was not made" in replica.view.failure
