"""`verify` without Spark: states rebuilt from random logs equal those of replicas that wrote them to SQLite, row by row."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from cli.log.replica_state import DatabaseReplica, ToldReplica, database_replica, open_state
from coordinator.core.directory.content import content_of, items_of
from coordinator.core.directory.directory import Directory as ServiceDirectory
from coordinator.core.directory.directory import apply_directory, date_deletions
from records import model
from records.codec import encode_entry, encode_key
from records.committed_files.codec import begins_like_a_file, read_files
from records.entry_key import EntryKey
from records.history import levels
from records.levels import LEVEL_LATEST
from records.state_digest import Digest, hash_record
from simulation.fakes.shard_harness import HarnessReplica, World
from spark_jobs.verify.compare import compare, find_differences
from spark_jobs.verify.directory import RebuiltDirectory, directory_from
from spark_jobs.verify.job import Rebuilt
from spark_jobs.verify.tally import Row, RowKind, Tally
from tests.spark.planted_violations import PLANTS, Plant
from tests.spark.scan_logs import TOPIC, LogWriter
from tests.spark.written_states import HUGE, LocalRebuilder, Log, change, claim, claimed, write
from tests.sqlite.replicas import PARTITION


@pytest.mark.parametrize("seed", range(24))
def test_a_rebuilt_state_is_the_replicas_whatever_its_housekeeping(tmp_path: Path, seed: int) -> None:
    written = write(tmp_path, seed, is_trimmed=seed % 3 == 0)
    result = written.compare()
    assert result.agree, result.difference
    assert result.batches == sum(len(file.accepted) for _, file in written.files)
    with open_state(written.path) as state:
        assert result.digest == database_replica("n", state).digest.to_bytes().hex()


@pytest.mark.parametrize("level", levels())
def test_plain_commits_are_known_at_every_schema_level(level: int) -> None:
    value = encode_entry([LogWriter().file([(0, 2), (1, 1)])], level)
    assert begins_like_a_file(value)
    assert read_files([value])[0] == [0]


def test_every_kind_of_row_is_compared(tmp_path: Path) -> None:
    seen: set[RowKind] = set()
    for seed in range(4):
        (tmp_path / str(seed)).mkdir()
        with open_state(write(tmp_path / str(seed), seed).path) as state:
            seen |= {kind for kind, _ in database_replica("n", state).tally(frozenset()).groups}
    assert seen == set(RowKind)


LAST_PARTITION = "id = (SELECT max(id) FROM partition WHERE NOT is_dead)"
LAST_FILE = "id = (SELECT max(id) FROM file)"
LAST_STONE = "object_key = (SELECT max(object_key) FROM tombstone)"
LAST_TOPIC = "topic_id = (SELECT max(topic_id) FROM topic WHERE deleted_ms < 0)"
FLIPS = {
    "partition": (f"UPDATE partition SET high_watermark = high_watermark + 1 WHERE {LAST_PARTITION}", RowKind.PARTITION),
    "producer": ("UPDATE producer SET epoch = epoch + 1 WHERE id = (SELECT max(id) FROM producer)", RowKind.PRODUCER),
    "file": (f"UPDATE file SET file_size = file_size + 1 WHERE {LAST_FILE}", RowKind.FILE),
    "lost file": (f"DELETE FROM file WHERE {LAST_FILE}", RowKind.FILE),
    "lost counter": (f"UPDATE file SET lost_batches = lost_batches + 1 WHERE {LAST_FILE}", RowKind.FILE_DETAIL),
    "proof": (f"UPDATE file SET proof = zeroblob(16) WHERE {LAST_FILE}", RowKind.FILE_DETAIL),
    "live counter": (f"UPDATE file SET live_batches = live_batches + 1 WHERE {LAST_FILE}", RowKind.FILE_DETAIL),
    "tombstone": (f"UPDATE tombstone SET created_ms = created_ms + 1 WHERE {LAST_STONE}", RowKind.TOMBSTONE),
    "topic": (f"UPDATE topic SET name = 'other' WHERE {LAST_TOPIC}", RowKind.TOPIC),
    "timestamp": (f"UPDATE partition SET max_timestamp = max_timestamp - 1 WHERE {LAST_PARTITION}", RowKind.PARTITION_DETAIL),
    "term": ("UPDATE header SET term = 1", RowKind.HEADER),
}


def one_row(path: Path, query: str) -> tuple[Any, ...]:
    """The one row that a state database has for a query."""
    connection = apsw.Connection(str(path))
    try:
        (row,) = connection.execute(query).fetchall()
    finally:
        connection.close()
    return row


@pytest.mark.parametrize("flip", FLIPS)
def test_one_flipped_row_is_named(tmp_path: Path, flip: str) -> None:
    written = write(tmp_path, 6, is_trimmed=True)
    statement, kind = FLIPS[flip]
    assert change(written.path, statement) == 1
    result = written.compare()
    assert result.agree is False
    assert result.differences[0].kind == kind
    assert kind.value in result.difference
    if flip == "producer":
        (one,) = result.differences
        assert one.log is not None
        assert one.replica is not None
        assert set(one.log) == {"epoch"}
        assert "its header says" in result.difference


def random_directory_record(rng: random.Random) -> model.Record:
    """A record of the directory, about few topics and nodes."""
    topic, own = rng.randrange(4), rng.randrange(3)
    ranges = [model.PlacedRange(first_partition=first, num_partitions=2, coordinator_id=rng.randrange(3)) for first in range(0, 4, 2)]
    return rng.choice(
        [
            model.TopicPlaced(
                topic_id=bytes([topic] * 16), name=f"t{topic}", ranges=ranges[: rng.randint(1, 2)], confirmed=rng.random() < 0.5
            ),
            model.TopicDeleting(topic_id=bytes([topic] * 16), confirmed=rng.random() < 0.5),
            model.FeatureLevelSet(level=rng.randint(1, LEVEL_LATEST)),
            model.NodeRegistered(
                node_id=rng.randrange(3),
                rack="r",
                endpoints=[model.Endpoint(listener="PLAIN", host="h", port=rng.randrange(9))],
                schema_level_max=1,
                incarnation_id=bytes(16),
                log_dirs=[bytes([rng.randrange(3)] * 16)],
                is_any_dir_offline=rng.random() < 0.5,
            ),
            model.ReplicasAssignedToDirs(
                node_id=rng.randrange(3),
                incarnation_id=bytes(16),
                assignments=[model.DirectoryAssignment(directory_id=bytes([rng.randrange(3)] * 16), partitions=[rng.randrange(4), 4])],
            ),
            model.PartitionMoving(
                topic_id=bytes([topic] * 16),
                partition=own,
                from_coordinator=0,
                to_coordinator=rng.randrange(1, 3),
                move_id=rng.randrange(4),
            ),
            model.PartitionMoved(
                topic_id=bytes([topic] * 16),
                partition=own,
                move_id=rng.randrange(4),
                earlier=[model.EarlierStretch(coordinator_id=rng.randrange(3), end_offset=9, move_id=1, time_ms=5)],
            ),
            model.MovesSettled(last_move_id=rng.randrange(9)),
            model.TopicConfigured(topic_id=bytes([topic] * 16), names=["retention.bytes", "retention.ms"][:own], values=["-1", "5"][:own]),
        ]
    )


COMMITTED = model.SnapshotCommitted(
    mark_offset=7, end_offset=8, epoch=2, size_bytes=9, sha256=bytes(32), digest=bytes(16), location="there"
)


@pytest.mark.parametrize("seed", range(10))
def test_a_rebuilt_directory_says_of_each_item_what_replicas_keep(seed: int) -> None:
    rng, service, rebuilt = random.Random(seed), ServiceDirectory(), RebuiltDirectory()
    ours, theirs = Tally(), Tally()
    groups = {
        (RowKind.DIRECTORY, what) for what in (b"placement", b"topic settings", b"deletion", b"node", b"replica directory", b"schema level")
    } | {(RowKind.DIRECTORY, what) for what in (b"move", b"earlier stretches", b"moves")}
    ours.wanted, theirs.wanted = groups, groups
    for offset in range(30):
        if rng.random() < 0.2:
            date_deletions(service, offset * 10)
            rebuilt.date(offset * 10)
        else:
            record = random_directory_record(rng)
            assert apply_directory(service, record, offset)
            assert rebuilt.apply(record, offset)
    assert rebuilt.apply(COMMITTED, 30)
    rebuilt.tally(ours)
    content = json.loads(json.dumps(content_of(service, (COMMITTED,), None, {})))
    assert directory_from(content) == rebuilt
    for what, identity, says in items_of(content):
        theirs.add_directory(what, identity, says)
    assert (
        find_differences(*([(kind, group, json.loads(json.dumps(row))) for kind, group, row in one.rows] for one in (ours, theirs))) == []
    )
    assert ours.groups == theirs.groups


def test_a_field_that_only_one_side_has_is_named() -> None:
    ours: Row = {"what": "deletion", "id": "x", "confirmed": True}
    (one,) = find_differences([(RowKind.DIRECTORY, b"", ours)], [(RowKind.DIRECTORY, b"", {**ours, "name": "t"})])
    assert one.text() == "directory what=deletion id=x: name is None in the log, t in the replica"


def test_one_flipped_bit_of_a_packed_batch_is_named(tmp_path: Path) -> None:
    written = write(tmp_path, 7, is_trimmed=True)
    connection = apsw.Connection(str(written.path))
    (run_id, data), *_ = connection.execute("SELECT id, batches FROM run ORDER BY id DESC").fetchall()
    connection.close()
    flipped = bytearray(data)
    flipped[-16] ^= 1  # the size of the run's last batch
    assert change(written.path, "UPDATE run SET batches = ? WHERE id = ?", bytes(flipped), run_id) == 1
    result = written.compare()
    assert result.agree is False
    (difference,) = result.differences
    assert difference.kind is RowKind.BATCH
    assert difference.log is not None
    assert set(difference.log) == {"size_bytes"}
    assert "size_bytes is" in result.difference


@pytest.mark.parametrize("is_hash_changed", [False, True], ids=["bit", "bit and hash"])
def test_one_flipped_bit_of_kept_results_is_named(tmp_path: Path, is_hash_changed: bool) -> None:
    written = write(tmp_path, 6, is_trimmed=True)
    key, record = one_row(written.path, f"SELECT object_key, record FROM file WHERE {LAST_FILE}")
    flipped = bytearray(record)
    flipped[len(flipped) // 2] ^= 1
    assert change(written.path, f"UPDATE file SET record = ? WHERE {LAST_FILE}", bytes(flipped)) == 1
    if is_hash_changed:
        assert change(written.path, f"UPDATE file SET record_proof = ? WHERE {LAST_FILE}", hash_record(bytes(flipped))) == 1
    result = written.compare()
    assert result.agree is False
    (difference,) = result.differences
    assert difference.kind is RowKind.FILE_DETAIL
    assert difference.log is not None
    assert set(difference.log) == ({"record", "record_proof"} if is_hash_changed else {"record"})
    assert f"file detail object_key={key}: record is" in result.difference


def test_results_that_a_replica_let_go_of_are_compared_by_the_hash_it_kept(tmp_path: Path) -> None:
    written = write(tmp_path, 6, is_trimmed=True)
    assert change(written.path, f"UPDATE file SET record = x'' WHERE NOT {LAST_FILE}") > 1
    assert written.compare().agree is True
    first = "id = (SELECT min(id) FROM file)"
    assert change(written.path, f"UPDATE file SET record_proof = zeroblob(8) WHERE {first}") == 1
    (difference,) = written.compare().differences
    assert difference.log is not None
    assert difference.kind is RowKind.FILE_DETAIL
    assert set(difference.log) == {"record", "record_proof"}


def test_a_replica_that_only_tells_its_digest_agrees_or_not(tmp_path: Path) -> None:
    written = write(tmp_path, 9, is_trimmed=True)
    with open_state(written.path) as state:
        whole: DatabaseReplica = database_replica("n", state)
    told = ToldReplica(name="node 1", kpart=PARTITION, offset=whole.offset, digest=whole.digest)
    wrong = replace(told, name="node 2", digest=whole.digest.plus(Digest(1, 0)))
    earlier = replace(told, name="node 3", offset=whole.offset - 40)
    results = compare(LocalRebuilder(written.log), [told, wrong, earlier], {PARTITION: 0})
    assert [one.agree for one in results] == [True, False, False]
    assert "--state" in results[1].difference
    assert results[2].offset == whole.offset - 40


def test_a_pruned_log_or_an_unknown_partition_is_said_and_is_no_disagreement(tmp_path: Path) -> None:
    told = ToldReplica(name="n", kpart=PARTITION, offset=9, digest=Digest())
    log = LocalRebuilder(Log([]))
    (pruned,) = compare(log, [told], {PARTITION: 5})
    assert pruned.agree is None
    assert "begins at offset 5" in pruned.difference
    (unknown,) = compare(log, [told], {})
    assert unknown.agree is None
    (unwritten,) = compare(log, [replace(told, offset=-1)], {PARTITION: 0})
    assert unwritten.agree is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"\xc3\x01 of a version to come", "replicas of this version stop here"),
        (encode_entry([model.FeatureLevelSet(level=LEVEL_LATEST + 1)]), "it raises the schema level"),
    ],
)
def test_a_log_that_no_replica_of_this_version_can_have_applied_is_a_disagreement(value: bytes, says: str) -> None:
    told = ToldReplica(name="n", kpart=PARTITION, offset=1, digest=Digest())
    entry = (encode_key(EntryKey(1, 5, 1)), value)
    (result,) = compare(LocalRebuilder(Log([claim(1, 5), entry])), [told], {PARTITION: 0})
    assert result.agree is False
    assert says in result.difference
    assert "entry 1" in result.difference


def test_a_replica_past_the_end_of_the_log_disagrees() -> None:
    told = ToldReplica(name="n", kpart=PARTITION, offset=7, digest=Digest())
    (result,) = compare(LocalRebuilder(Log([claim(1, 5)])), [told], {PARTITION: 0})
    assert result.agree is False
    assert "the log ends at 1" in result.difference


@pytest.mark.parametrize("seed", range(4))
def test_inside_a_transaction_the_state_is_that_before_it_and_no_replica_may_stand_there(tmp_path: Path, seed: int) -> None:
    written = write(tmp_path, seed)
    rebuilder = LocalRebuilder(written.log)
    for began, behind in written.spans:
        before = rebuilder.rebuild({PARTITION: began})[PARTITION]
        assert before.began is None
        for end in range(began + 1, behind):
            inside = rebuilder.rebuild({PARTITION: end})[PARTITION]
            assert (inside.tally.groups, inside.began, inside.fault) == (before.tally.groups, began, "")
        assert rebuilder.rebuild({PARTITION: behind})[PARTITION].began is None
    began, _ = next(span for span in written.spans if span[1] - span[0] > 2)
    digest = rebuilder.rebuild({PARTITION: began})[PARTITION].digest
    (result,) = compare(rebuilder, [ToldReplica(name="n", kpart=PARTITION, offset=began + 1, digest=digest)], {PARTITION: 0})
    assert result.agree is False
    assert f"begins at entry {began}" in result.difference


def test_a_state_does_not_depend_on_how_the_log_is_cut(tmp_path: Path) -> None:
    written = write(tmp_path, 3)
    entries = written.log.entries
    whole = LocalRebuilder(Log(entries, len(entries))).rebuild({PARTITION: len(entries)})[PARTITION]
    assert whole.began is not None
    for rows in range(1, 12):
        assert LocalRebuilder(Log(entries, rows)).rebuild({PARTITION: len(entries)})[PARTITION] == whole, rows


BEGAN, ENDED = [model.TransactionBegan(name="t")], [model.TransactionEnded(num_chunks=1)]
CREATED: list[model.Record] = [model.PartitionCreated(topic_id=b"t" * 16, name="t", first_partition=0, num_partitions=1, order_offset=1)]
NOTE = [model.TransactionAborted(reason="no")]
BEYOND: list[model.Record] = [model.RecordsDeleted(topic_id=b"t" * 16, partition=0, new_log_start_offset=7)]
BROKEN: dict[str, tuple[list[list[model.Record]], dict[int, str]]] = {
    "begins in another": ([BEGAN, CREATED, BEGAN, ENDED], {3: "inside that of entry 1", 4: "never began"}),
    "too few chunks": ([BEGAN, ENDED], {2: "with 1 chunks, but there are 0"}),
    "too many chunks": ([BEGAN, CREATED, CREATED, ENDED], {4: "with 1 chunks, but there are 2"}),
    "ends twice": ([BEGAN, CREATED, ENDED, ENDED], {4: "never began"}),
    "ends after the note": ([BEGAN, CREATED, NOTE, ENDED], {4: "never began"}),
    "a chunk beyond the state": ([CREATED, BEGAN, BEYOND, ENDED], {4: "its entry 3: records are deleted past the high watermark"}),
    "an end beside others": ([BEGAN, [*ENDED, model.NoOp()], CREATED], {2: "a TransactionEnded is among other records"}),
    "a file in it": ([CREATED, BEGAN, [LogWriter().file([])], ENDED], {4: "a file is committed inside a transaction"}),
    "a claim": ([[model.LeadershipClaimed(epoch=2, term=1, node_id=1, rack="", endpoints=[])]], {1: "is inside a term"}),
    "two files": ([[LogWriter().file([]), LogWriter().file([])]], {1: "2 files in one entry"}),
    "absurdly many": ([[HUGE]], {1: "a topic has at most"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_contradicts_the_log_is_void_and_said(name: str) -> None:
    entries, says = BROKEN[name]
    log = Log(claimed(*entries), 2)
    rebuilt = LocalRebuilder(log).rebuild({PARTITION: len(log.entries)})[PARTITION]
    assert rebuilt.fault == ""
    assert list(rebuilt.contradictions) == list(says)
    for offset, text in says.items():
        assert text in rebuilt.contradictions[offset]


def test_what_cannot_be_decoded_ends_its_transaction_and_deletions_in_it_never_were() -> None:
    junk = (encode_key(EntryKey(1, 5, 3)), encode_entry([model.NoOp()])[:-1])
    log = Log([*claimed(CREATED, BEGAN), junk, claim(2, 6)])
    rebuilt = LocalRebuilder(log).rebuild({PARTITION: 5})[PARTITION]
    assert list(rebuilt.contradictions) == [3]
    assert "cannot be decoded" in rebuilt.contradictions[3]
    # What only would be wrong if it were applied is not.
    log = Log([*claimed(CREATED, BEGAN, BEYOND), claim(2, 6)])
    assert LocalRebuilder(log).rebuild({PARTITION: 5})[PARTITION].contradictions == {}


def test_a_void_deletion_deletes_nothing() -> None:
    """Deletions are looked for before the state is known: those that turn out to be void are taken back."""
    writer = LogWriter(partitions=2)
    writer.commit((0, 2), (1, 1))
    writer.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=5))  # past the end at 4
    writer.commit((0, 2))
    writer.add(model.FilesRemoved(object_keys=["wal/000001"]))  # of which batches live because of that
    rebuilt = LocalRebuilder(Log([(entry.key, entry.value) for entry in writer.entries])).rebuild({PARTITION: writer.end})[PARTITION]
    assert list(rebuilt.contradictions) == [3, 5]
    groups = {(kind, group): one.rows for (kind, group), one in rebuilt.tally.groups.items()}
    assert sum(count for (kind, _), count in groups.items() if kind is RowKind.BATCH) == 5
    assert sum(count for (kind, _), count in groups.items() if kind is RowKind.FILE) == 2


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_service_and_log_agree_after_whatever_contradicts_it(plant: Plant, tmp_path: Path) -> None:
    """A real replica reads what tests of the monitor plant; where it goes on, its state is that of the log, and so is what is void."""
    writer = LogWriter(partitions=3)
    writer.commit((0, 2), (1, 2))
    plant(writer)
    writer.add(model.NoOp())
    writer.commit((1, 1))
    if writer.first_offset:
        pytest.skip("the log of this one has a hole, which no replica reads over")
    world = World()
    replica = world.add_replica()
    for entry in writer.entries:
        world.append(entry.key, entry.value)
    replica.read()
    rebuilder = LocalRebuilder(Log([(entry.key, entry.value) for entry in writer.entries]))
    rebuilt = rebuilder.rebuild({PARTITION: writer.end})[PARTITION]
    shard = replica.view
    assert (shard.failure is not None) == bool(rebuilt.fault), (shard.failure, rebuilt.fault)
    if shard.failure is None:
        while shard.state.trimming:
            shard.state.trim_step()
        assert len(rebuilt.contradictions) == shard.void_entries["contradiction"]
        whole = rebuilder.rebuild({PARTITION: writer.end}, {PARTITION: set(rebuilt.tally.groups)})[PARTITION]
        assert _rows_of(whole) == _rows_of_replica(replica)


def _rows_of(rebuilt: Rebuilt) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for kind, _, row in rebuilt.tally.rows:
        match kind:
            case RowKind.PARTITION:
                found.append(("partition", row["topic_id"], row["partition"], row["high_watermark"], row["log_start"]))
            case RowKind.PRODUCER:
                found.append(("producer", row["topic_id"], row["partition"], row["producer_id"], row["epoch"], row["last_append_ms"]))
            case RowKind.FILE_DETAIL:
                found.append(("file", row["object_key"], row["live_batches"]))
            case RowKind.TOPIC:
                found.append(("topic", row["topic_id"], row["name"]))
            case _:
                continue
    return sorted(found, key=repr)


def _rows_of_replica(replica: HarnessReplica) -> list[tuple[object, ...]]:
    state = replica.view.state
    hot = state.hot
    found: list[tuple[object, ...]] = []
    partitions, producers = hot.partitions, hot.producers
    names = {row: (partitions.keys[row][:16].hex(), int.from_bytes(partitions.keys[row][16:])) for row in partitions.rows.rows().tolist()}
    for row, name in names.items():
        found.append(("partition", *name, partitions.high_watermark.cells[row], partitions.log_start.cells[row]))
    for at in producers.rows.rows().tolist():
        name = names[producers.owner.cells[at]]
        found.append(("producer", *name, producers.producer.cells[at], producers.epoch.cells[at], producers.last_append.cells[at]))
    found += [("file", row.object_key, row.live_batches) for row in state.files_after("", 10**6)]
    found += [("topic", topic_id.hex(), topic.name) for topic_id, topic in hot.topics.items()]
    found += [("topic", topic_id.hex(), "") for topic_id in hot.deleted_topics]
    return sorted(found, key=repr)
