"""What a follower reads together it applies as if it had come entry by entry, also with void and bad entries in between."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from coordinator.core import due_loops
from coordinator.core.leadership.transaction import Chunk, enclose
from coordinator.core.log_entry import ReadEntry
from coordinator.core.state.packing import Packer
from records.codec import HEADER_SIZE_BYTES, encode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey, encode_key
from records.levels import LEVEL_LATEST
from records.model import FilesFenced, LeadershipClaimed, NoOp, Record, TransactionBegan
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.compiled import plain
from tests.core.build import state_of
from tests.records.plain_files import varint
from tests.sqlite.random_log import LogModel

TERM = 77
PLAIN = plain(due_loops)


@dataclass
class Log:
    """Writes a log of one term; keeps count of the entries in it that are void, by reason."""

    world: World = field(default_factory=World)
    epoch: int = 1
    seq: int = -1
    void: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.claim()

    def claim(self) -> None:
        """Append the claim of the next term."""
        self.add(encode_entry([LeadershipClaimed(epoch=self.epoch, term=TERM, node_id=1, rack="", endpoints=[])]))

    @property
    def next_key(self) -> EntryKey:
        return EntryKey(self.epoch, TERM, self.seq + 1)

    def add(self, value: bytes | None) -> int:
        """Append an entry with the next key; returns its offset."""
        self.seq += 1
        return self.world.append(encode_key(EntryKey(self.epoch, TERM, self.seq)), value)

    def add_records(self, *records: Record) -> int:
        return self.add(encode_entry(list(records)))

    def claim_again(self, begun: bytes) -> None:
        """Begin a transaction that the claim of the next term cuts off."""
        self.add(begun)
        self.epoch, self.seq = self.epoch + 1, -1
        self.claim()
        self.add_records(NoOp())

    def add_void(self, value: bytes | None) -> None:
        """Append an entry with the next key that contradicts the log before it."""
        self.void["contradiction"] += 1
        self.add(value)

    def add_foreign(self, rng: random.Random) -> None:
        """Append an entry that does not count, whatever it holds."""
        key, value = self.next_key, rng.choice([b"not read", encode_entry([NoOp()]), None])
        reason, written = rng.choice(
            [
                ("gap", encode_key(key._replace(seq=key.seq + 1))),
                ("duplicate", encode_key(key._replace(seq=key.seq - 1))),
                ("stale", encode_key(key._replace(term=3))),
                ("foreign", None),
                ("foreign", b"\1" * 19),
            ]
        )
        self.void[reason] += 1
        self.world.append(written, value)


def outcome(world: World, pieces: Iterable[int | None]) -> dict[str, object]:
    """What a replica says of a log that it read in pieces of these sizes (None: all that is left)."""
    replica = HarnessReplica(world, 9, world.add_replica().limits, 0, 4)
    for size in pieces:
        if replica.cursor == len(world.log):
            break
        replica.read(size)
    assert replica.cursor == len(world.log)
    view = replica.view
    while view.state.trim_step():
        pass
    return {
        "state": state_of(view.state),
        "times": times_of(replica),
        "void": dict(view.void_entries),
        "contradiction": view.contradiction,
        "last": view.last_entry,
        "applied": view.applied_offset,
        "next": view.next_offset,
        "fences": (view.fence, view.written_fence),
        "failure": view.failure,
        "effects": replica.effects,
        "flush": Packer().pack(replica.shard.freeze(replica.shard.header("cluster", b"t" * 16))),
    }


def times_of(replica: HarnessReplica) -> object:
    table = replica.view.state.hot.partitions
    columns = (table.first_offset, table.max_timestamp, table.max_timestamp_offset)
    return {table.keys[row]: [column.cells[row] for column in columns] for row in table.rows.rows().tolist()}


def agreed(log: Log, seed: int = 0) -> dict[str, object]:
    """What a replica says of a log, however it reads it."""
    rng = random.Random(seed)
    size = len(log.world.log)
    together = outcome(log.world, [None])
    assert together == outcome(log.world, [1] * size)
    for longest in (3, 40):
        assert together == outcome(log.world, [rng.randint(1, longest) for _ in range(size)])
    assert together["failure"] is None
    assert together["void"] == dict(log.void)
    return together


def batch_by_batch(rng: random.Random) -> tuple[Log, LogModel]:
    """A log with nothing but partitions and files, more bytes than are applied together."""
    log, model = Log(), LogModel(rng, files_per_record=1)
    while sum(len(value or b"") for _, value in log.world.log) < 100_000:
        log.add_records(model.next_record())
    return log, model


def test_plain_files() -> None:
    log, model = batch_by_batch(random.Random(1))
    found = agreed(log)
    assert found["applied"] == len(log.world.log) - 1
    assert found["last"] == log.world.log[-1]
    assert live_of(found) == model.live


@pytest.mark.parametrize("seed", range(6))
def test_files_among_void_entries_other_records_and_transactions(seed: int) -> None:
    rng = random.Random(seed)
    log, model = Log(), LogModel(random.Random(seed + 100), files_per_record=0.85)
    while len(log.world.log) < 250:
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            log.add_foreign(rng)
        chance = rng.random()
        if chance < 0.05:
            add_transaction(log, model, rng)
        elif chance < 0.1:
            add_broken_transaction(log, rng)
        elif chance < 0.12:
            log.claim_again(encode_entry([TransactionBegan(name="cut off", num_chunks=2)]))
        record = model.next_record()
        if isinstance(record, FileCommitted) and chance > 0.8:
            log.add_void(contradicting(record, sorted(set(model.live) - {record.object_key}), rng))
        log.add_records(record)
    assert set(log.void) == {"gap", "duplicate", "stale", "foreign", "contradiction"}
    assert live_of(agreed(log, seed)) == model.live


@pytest.mark.parametrize("seed", range(3))
def test_files_that_break_the_order_of_a_producer_are_void(seed: int) -> None:
    rng = random.Random(seed)
    log, model = Log(), LogModel(random.Random(seed), files_per_record=1)
    while len(log.world.log) < 200:
        record = model.next_record()
        if isinstance(record, FileCommitted):
            # Its producer is known: the epoch did not begin with it.
            late = [at for at, one in enumerate(record.batches) if one.base_sequence > 0]
            if late:
                at = rng.choice(late)
                one = record.batches[at]
                wrong = [{"base_sequence": one.base_sequence + 7}, {"base_sequence": 0}, {"producer_epoch": one.producer_epoch + 1}]
                log.add_void(encode_entry([with_batch(record, at, **rng.choice(wrong))]))
        log.add_records(record)
    assert log.void["contradiction"] > 10
    assert live_of(agreed(log, seed)) == model.live


def test_the_same_key_again_is_void_also_among_files_that_are_applied_together() -> None:
    log, model = batch_by_batch(random.Random(3))
    reason = ""
    for _ in range(3):
        record = model.next_record()
        assert isinstance(record, FileCommitted)
        reason = f"file {record.object_key} was committed by entry {log.add_records(record)} already"
        following = model.next_record()
        assert isinstance(following, FileCommitted)
        log.add_void(encode_entry([replace(following, object_key=record.object_key)]))
        log.add_records(following)
    found = agreed(log)
    assert live_of(found) == model.live
    assert reason in str(found["contradiction"])


def test_files_behind_a_void_one_do_not_follow_it() -> None:
    """A leader that gave out a wrong offset goes on from there: all that it builds on it is void too, and nothing else."""
    log, model = batch_by_batch(random.Random(4))
    lost: set[tuple[bytes, int]] = set()
    producers: set[tuple[bytes, int, int]] = set()
    counted = dict(model.live)
    for number in range(30):
        record = model.next_record()
        assert isinstance(record, FileCommitted)
        value = encode_entry([record])
        if number == 0:
            lost.add(record.batches[0][:2])
            value = encode_entry([with_batch(record, 0, base_offset=record.batches[0].base_offset + 1)])
        places = {one[:2] for one in record.batches}
        named = {(*one[:2], one.producer_id) for one in record.batches if one.producer_id >= 0}
        if places & lost or named & producers:
            lost |= places
            producers |= named
            log.add_void(value)
        else:
            counted[record.object_key] = len(record.batches)
            log.add(value)
    assert 1 < log.void["contradiction"] <= 30
    assert live_of(agreed(log)) == counted


@pytest.mark.parametrize("value", [b"", b"\xc3\x01", None])
def test_an_entry_that_cannot_be_decoded_is_void(value: bytes | None) -> None:
    log, model = batch_by_batch(random.Random(2))
    log.add_void(value)
    log.add_records(model.next_record())
    found = agreed(log)
    assert live_of(found) == model.live
    assert "does not start with C3 01" in str(found["contradiction"])


def live_of(found: dict[str, object]) -> dict[str, int]:
    """The known files, and how many batches of each are live."""
    state = found["state"]
    assert isinstance(state, dict)
    return {key: file.live_batches for key, file in state["files"].items()}


def add_transaction(log: Log, model: LogModel, rng: random.Random) -> None:
    """Some records that take effect together; entries in between that do not count change nothing of that."""
    model.may_remove, model.files_per_record = False, 0
    chunks = []
    for _ in range(rng.randrange(1, 4)):
        records = [model.next_record() for _ in range(rng.randrange(1, 4))]
        chunks.append(Chunk(records, encode_entry(records)))
    model.may_remove, model.files_per_record = True, 0.85
    for value in enclose(chunks, "some", LEVEL_LATEST):
        log.add(value)
        if rng.random() < 0.3:
            log.add_foreign(rng)


def add_broken_transaction(log: Log, rng: random.Random) -> None:
    """A transaction that an entry ends which cannot be read: nothing of it counts."""
    fenced = FilesFenced(object_keys=["never"], created_ms=[1])
    values = enclose([Chunk([fenced], encode_entry([fenced]))], "broken", LEVEL_LATEST)
    for value in values[: rng.choice([1, 2])]:
        log.add(value)
    log.add_void(b"no entry")


def with_batch(file: FileCommitted, at: int, **fields: object) -> FileCommitted:
    """A file, one of whose batches is another."""
    batches = list(file.batches)
    batches[at] = batches[at]._replace(**fields)  # type: ignore[arg-type]
    return replace(file, batches=batches)


def contradicting(file: FileCommitted, known: list[str], rng: random.Random) -> bytes:
    """An entry that would be the next file but for one thing."""
    at = rng.randrange(len(file.batches))
    base = file.batches[at].base_offset
    wrong: list[dict[str, object]] = [
        {"base_offset": base + 1},
        {"base_offset": base + 2**40},
        {"partition": 2**31 - 1},
        {"topic_id": b"?" * 16},
        {"byte_offset": 2**31},
    ]
    value = encode_entry([file])
    values = [encode_entry([with_batch(file, at, **fields)]) for fields in wrong]
    values += [encode_entry([replace(file, object_key=rng.choice(known))])] if known else []
    return rng.choice([*values, value[:-1], value + b"\0", encode_entry([file, NoOp()]), in_a_sized_block(value)])


def in_a_sized_block(value: bytes) -> bytes:
    """The same records to a reader of Avro, in a form that is not that of the log: a block says how many bytes it has."""
    block = value[HEADER_SIZE_BYTES + 1 : -1]
    return value[:HEADER_SIZE_BYTES] + varint(-1) + varint(len(block)) + block + b"\0"


# ---- the keys of entries


def due(entries: list[ReadEntry], head: bytes, seq: int, offset: int) -> int:
    """What both loops say."""
    compiled, interpreted = (loops.count_due(entries, head, seq, offset) for loops in (due_loops, PLAIN))
    assert compiled == interpreted
    return int(compiled)


KEYS_NOT_DUE = [
    None,
    b"",
    b"\1" * 19,
    b"\1" * 20,
    encode_key(EntryKey(2, TERM, 11)),
    encode_key(EntryKey(1, TERM + 1, 11)),
    encode_key(EntryKey(1, TERM, 12)),
    encode_key(EntryKey(1, TERM, 11)) + b"\0",
]


@pytest.mark.parametrize("key", KEYS_NOT_DUE)
def test_entries_are_due_up_to_the_first_that_is_not(key: bytes | None) -> None:
    log = Log()
    for _ in range(29):
        log.add_records(NoOp())
    entries = log.world.entries(0, 30)
    head = encode_key(EntryKey(1, TERM, 0))[:12]
    assert due(entries, head, 0, 0) == 30
    assert due(entries[7:], head, 7, 7) == 23
    assert due(entries, head, 1, 0) == due(entries, head, 0, 1) == due([], head, 0, 0) == 0
    assert due([*entries[:11], entries[11]._replace(key=key)], head, 0, 0) == 11
    assert due([*entries[:11], entries[12]], head, 0, 0) == 11
    assert due([entries[11]._replace(key=encode_key(EntryKey(1, TERM, 1 << 56)))], head, 1 << 56, 11) == 0
    assert due([entries[11]._replace(key=encode_key(EntryKey(1, TERM, (1 << 56) - 1)))], head, (1 << 56) - 1, 11) == 1
