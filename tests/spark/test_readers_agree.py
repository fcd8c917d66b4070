"""Replicas, `log dump`, the monitor's scan and the archive read any log as its grammar does (`records.log`), however it is cut.

Replicas and the scan judge whole pieces of the log at once; this is the one proof that they say what the grammar says entry by entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cli.log.entries import EntryJudge, LogMessage
from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey
from records.errors import UnreadableEntry
from records.log import RESTORED_KEY, TOPIC_PARTITIONS_MAX, VOID_REASONS, LogGrammar, Role, Verdict
from records.model import (
    LeadershipClaimed,
    NoOp,
    PartitionCreated,
    Record,
    TopicDeleted,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)
from simulation.fakes.shard_harness import World
from spark_jobs.scan.summary import CountRow, HeadRow, rows_of
from tests.records.examples import RESTORED
from tests.spark.scan_logs import Entry, scan
from tests.spark.test_archive_rows import KPART
from tests.spark.test_archive_rows import rows_of as archive_rows

Raw = tuple[bytes | None, bytes | None]

ABSURD = PartitionCreated(topic_id=bytes(16), name="huge", first_partition=0, num_partitions=TOPIC_PARTITIONS_MAX + 1, order_offset=1)
OTHER_TERM = 99


@dataclass
class Writer:
    """Writes what its steps say; whether that counts is for the readers to tell."""

    epoch: int = 0
    term: int = 0
    seq: int = 0
    chunks: int = 0
    log: list[Raw] = field(default_factory=list)

    def file(self) -> FileCommitted:
        """A file of which no batch was accepted: no state can contradict it."""
        return FileCommitted(
            object_key=f"file-{len(self.log)}",
            object_format=1,
            file_size=10,
            uploader_broker_id=1,
            owner_ids=[0],
            created_ms=1,
            append_time_ms=1,
            content_hash=bytes(16),
            batches=[],
        )

    def body(self, step: str) -> bytes | None:
        """The value of an entry."""
        claim = LeadershipClaimed(epoch=self.epoch, term=self.term, node_id=1, rack="", endpoints=[])
        bodies: dict[str, Sequence[Record]] = {
            "nothing": [],
            "no-op": [NoOp()],
            "deletion": [TopicDeleted(topic_id=len(self.log).to_bytes(16), order_offset=0)],
            "file": [self.file()],
            "file among others": [self.file(), NoOp()],
            "begins": [TransactionBegan(name="t", num_chunks=-1)],
            "begins among others": [TransactionBegan(name="t"), NoOp()],
            "ends": [TransactionEnded(num_chunks=self.chunks)],
            "ends wrongly": [TransactionEnded(num_chunks=self.chunks + 1)],
            "ends among others": [NoOp(), TransactionEnded(num_chunks=self.chunks)],
            "aborts": [TransactionAborted(reason="no")],
            "claim behind seq 0": [claim],
            "absurd": [NoOp(), ABSURD],
            "restore in a term": [RESTORED],
        }
        self.chunks = 0 if step == "begins" else self.chunks + 1
        if step == "junk":
            return b"\xc3\x01junk"
        return None if step == "no value" else encode_entry(bodies[step])

    def write(self, step: str | EntryKey) -> None:
        """Append one message: an entry with a key that is given, or one that may count."""
        match step:
            case EntryKey():
                claim = LeadershipClaimed(epoch=step.epoch, term=step.term, node_id=3, rack="", endpoints=[])
                self.add(step, encode_entry([NoOp() if step.seq else claim]))
            case "stray":
                self.log.append((b"stray", b"message"))
            case "claims" | "claims with another body" | "claims among others":
                self.epoch, self.term, self.seq = self.epoch + 1, len(self.log) + 1, 0
                body_term = self.term + (step == "claims with another body")
                claim = LeadershipClaimed(epoch=self.epoch, term=body_term, node_id=1, rack="", endpoints=[])
                self.add(EntryKey(self.epoch, self.term, 0), encode_entry([claim, NoOp()] if "others" in step else [claim]))
            case "rival claims":
                claim = LeadershipClaimed(epoch=self.epoch, term=OTHER_TERM, node_id=2, rack="", endpoints=[])
                self.add(EntryKey(self.epoch, OTHER_TERM, 0), encode_entry([claim]))
            case "claims a later epoch":
                claim = LeadershipClaimed(epoch=self.epoch + 5, term=OTHER_TERM, node_id=2, rack="", endpoints=[])
                self.add(EntryKey(self.epoch + 5, OTHER_TERM, 0), encode_entry([claim]))
            case "restores" | "restores among others" | "restores from nothing":
                others = [NoOp()] if "others" in step else []
                restored = replace(RESTORED, epoch_floor=0 if "nothing" in step else 7)
                if not self.log and step == "restores":
                    self.epoch = 7
                self.add(RESTORED_KEY, encode_entry([restored, *others]))
            case "repeats":
                self.log.extend(self.log[-1:])
            case "gap":
                self.add(EntryKey(self.epoch, self.term, self.seq + 2), encode_entry([NoOp()]))
            case "other term":
                self.add(EntryKey(self.epoch, OTHER_TERM, self.seq + 1), encode_entry([NoOp()]))
            case _:
                self.seq += 1
                self.add(EntryKey(self.epoch, self.term, self.seq), self.body(step))

    def add(self, key: EntryKey, value: bytes | None) -> None:
        """Append an entry."""
        self.log.append((encode_key(key), value))


BODIES = (
    *("nothing", "no-op", "deletion", "file", "file among others", "begins", "begins among others", "ends", "ends wrongly"),
    *("ends among others", "aborts", "claim behind seq 0", "absurd", "junk", "no value", "restore in a term"),
)
OTHERS = ("stray", "claims", "claims with another body", "claims among others", "rival claims", "claims a later epoch", "restores")
VOID_STEPS = ("repeats", "gap", "other term")
BEGINNINGS = [["claims"], ["restores", "claims"], ["restores"], ["restores", "restores", "claims"], ["stray", "restores", "claims"]]
BEGINNINGS += [["restores among others", "claims"], ["restores from nothing", "claims"], ["claims a later epoch", "restores", "claims"]]
KEYS = st.builds(EntryKey, st.integers(0, 4), st.integers(1, 3), st.integers(0, 4))
STEPS = st.sampled_from([*BODIES, *OTHERS, *VOID_STEPS]) | st.sampled_from(["deletion", "file", "begins", "ends", "claims"]) | KEYS


@dataclass
class Read:
    """What the grammar says of a log, in the words of its readers."""

    log: Sequence[Raw]
    void: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    effective: list[Record] = field(default_factory=list)
    archived: dict[int, str] = field(default_factory=dict)
    dumped: list[str] = field(default_factory=list)
    grammar: LogGrammar = field(default_factory=LogGrammar)

    def __post_init__(self) -> None:
        for offset, (key, value) in enumerate(self.log):
            self.take(offset, key, decoded(value))
        opened = self.grammar.opened
        if opened is not None:
            # What follows the beginning of an open transaction waits.
            self.archived = {offset: verdict for offset, verdict in self.archived.items() if offset < opened.offset}

    def take(self, offset: int, key: bytes | None, entry: Sequence[Record] | UnreadableEntry) -> None:
        """Read one entry."""
        judged = self.grammar.read(offset, decode_key(key), entry)
        verdict, role, closed = judged.verdict, judged.role, judged.closed
        records = [] if isinstance(entry, UnreadableEntry) else entry
        is_void = verdict in VOID_REASONS
        self.dumped.append("void" if is_void else "chunk" if role is Role.CHUNK else verdict.value)
        archived = {
            Verdict.APPLY: "applied",
            Verdict.RESTORED: "applied",
            Verdict.CLAIM: "claim",
            Verdict.VOID_CONTRADICTION: "contradiction",
        }
        self.archived[offset] = archived.get(verdict, "void")
        if closed is not None and role is not Role.ENDS:
            self.archived |= dict.fromkeys((closed.offset, *(chunk.offset for chunk in closed.chunks)), "aborted")
        if is_void:
            self.void[VOID_REASONS[verdict]] += 1
            return
        if role is Role.ENDS and closed is not None:
            self.effective += [record for chunk in closed.chunks for record in chunk.records]
            self.count([record for chunk in closed.chunks for record in chunk.records])
        if role is not Role.CHUNK:
            self.count(records)
        if role is Role.ALONE:
            self.effective += records

    def count(self, records: Sequence[Record]) -> None:
        """Count records as the monitor does."""
        self.records.update(type(record).__name__ for record in records)


def decoded(value: bytes | None) -> Sequence[Record] | UnreadableEntry:
    try:
        return decode_entry(value or b"")
    except UnreadableEntry as error:
        return error


@settings(max_examples=300)
@given(st.sampled_from(BEGINNINGS), st.lists(STEPS, max_size=40), st.integers(1, 40))
def test_every_reader_says_what_the_grammar_says(beginning: list[str], steps: list[str | EntryKey], cut: int) -> None:
    writer = Writer()
    for step in [*beginning, *steps]:
        writer.write(step)
    log = writer.log
    read = Read(log)
    fence = read.grammar.fence

    world = World(log=log)
    replica = world.add_replica()
    replica.read(min(cut, len(log)))
    replica.read()
    shard = replica.view
    assert shard.failure is None
    assert shard.fence == fence
    assert shard.void_entries == read.void
    assert shard.state.hot.deleted_topics.keys() == {one.topic_id for one in read.effective if isinstance(one, TopicDeleted)}
    keys = [f"file-{offset}" for offset in range(len(log))]
    known = {key for key in keys if shard.state.find_file(key) is not None}
    assert known == {one.object_key for one in read.effective if isinstance(one, FileCommitted)}

    judge = EntryJudge(from_start=True)
    assert [judge.judge(LogMessage(0, offset, 0, *entry)).verdict for offset, entry in enumerate(log)] == read.dumped

    summary = scan([Entry(offset, *entry, world.now_ms) for offset, entry in enumerate(log)], None, [cut])
    (head,) = rows_of(summary, HeadRow)
    assert (head.epoch, head.term, head.seq) == (fence.epoch, fence.term, fence.seq)
    counts = {row.name: row.value for row in rows_of(summary, CountRow)}
    assert Counter({name.removeprefix("void."): count for name, count in counts.items() if name.startswith("void.")}) == read.void
    assert Counter({name.removeprefix("record."): count for name, count in counts.items() if name.startswith("record.")}) == read.records

    rows, _ = archive_rows(log, sorted({min(cut, len(log)), len(log)}), {})
    assert {row["kpart"] for row in rows} <= {KPART}
    assert {row["offset"]: row["verdict"] for row in rows} == read.archived
