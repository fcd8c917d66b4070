"""Which entries contradict those before them, rule by rule, and that nothing of such an entry takes effect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integration_tests.history import LogMessage
from integration_tests.metadata_log import ReadLog, read_log
from records import model
from records.codec import encode_entry, encode_key
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.entry_key import EntryKey

TOPIC = bytes(range(16))
TERM = 7
CREATED = model.PartitionCreated(topic_id=TOPIC, name="t", first_partition=0, num_partitions=2, order_offset=0)
PARTITION_2 = replace(CREATED, first_partition=2, num_partitions=1)
CLAIMED = model.LeadershipClaimed(epoch=1, term=TERM, node_id=1, rack="", endpoints=[model.Endpoint(listener="P", host="h", port=1)])
NONSENSE = b"nonsense"


def deleted(new_log_start_offset: int, partition: int = 0) -> model.RecordsDeleted:
    return model.RecordsDeleted(topic_id=TOPIC, partition=partition, new_log_start_offset=new_log_start_offset)


def file(
    key: str,
    *base_offsets: int,
    partition: int = 0,
    records: int = 10,
    producer: tuple[int, int, int] | None = None,
    size_bytes: int = 100,
    time_ms: int = 1_000,
) -> FileCommitted:
    """A file with a run of one batch at each of these offsets; `producer` is id, epoch and sequence of the first batch."""
    batches = [
        CommittedBatch(TOPIC, partition, 0, base, records, at * size_bytes, size_bytes, time_ms) for at, base in enumerate(base_offsets)
    ]
    if producer is not None:
        batches[0] = batches[0]._replace(producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2])
    return FileCommitted(
        object_key=key,
        object_format=1,
        file_size=size_bytes * len(batches),
        uploader_broker_id=-1,
        owner_ids=[0],
        created_ms=50,
        append_time_ms=time_ms,
        content_hash=bytes(16),
        batches=batches,
    )


def read(*entries: model.Record | tuple[model.Record, ...] | bytes) -> ReadLog:
    """The log of one term: a claim, the creation of two partitions, and these entries from offset 2 on."""
    messages = [LogMessage(0, encode_key(EntryKey(1, TERM, 0)), encode_entry([CLAIMED]))]
    for at, entry in enumerate((CREATED, *entries), start=1):
        value = entry if isinstance(entry, bytes) else encode_entry(entry if isinstance(entry, tuple) else [entry])
        messages.append(LogMessage(at, encode_key(EntryKey(1, TERM, at)), value))
    return read_log(messages)


def began(chunks: int) -> model.TransactionBegan:
    return model.TransactionBegan(name="t", num_chunks=chunks)


CONTRADICTIONS: dict[str, tuple[tuple[model.Record | tuple[model.Record, ...] | bytes, ...], str]] = {
    "an offset is given again": ((file("a", 0), file("b", 0)), "offset 0 of partition 00010203-0 is given where 10 is due"),
    "an offset is left out": ((file("a", 0), file("b", 11)), "offset 11 of partition"),
    "the second run of a file goes back": ((file("a", 0, 9),), "offset 9 of partition"),
    "a partition is unknown": ((file("a", 0, partition=2),), "partition 00010203-2 does not exist"),
    "a topic is deleted": ((model.TopicDeleted(topic_id=TOPIC, order_offset=1), file("a", 0)), "does not exist"),
    "a batch lies beyond what packed rows hold": ((file("a", 0, 10, 20, size_bytes=2**30 + 1),), "begins at byte 2147483650"),
    "a key is known": ((file("a", 0), file("a", 10)), "file a is known already"),
    "a key without batches is known": ((file("a"), file("a")), "file a is known already"),
    "a key is fenced": ((model.FilesFenced(object_keys=["a"], created_ms=[5]), file("a", 0)), "file a is known already"),
    "a key is removed": ((file("a", 0), model.FilesRemoved(object_keys=["a"]), file("a", 10)), "file a is known already"),
    "a sequence is left out": (
        (file("a", 0, producer=(5, 0, 0)), file("b", 10, producer=(5, 0, 11))),
        "producer 5 of partition 00010203-0 has sequence 11 of epoch 0 where 10 is due",
    ),
    "the first record of a partition has another sequence than 0": (
        (file("a", 0, producer=(5, 0, 7)),),
        "begins an empty partition with sequence 7",
    ),
    "a sequence comes again": ((file("a", 0, producer=(5, 0, 0)), file("b", 10, producer=(5, 0, 0))), "where 10 is due"),
    "a sequence does not wrap": (
        (file("z", 0), file("a", 10, producer=(5, 0, 2**31 - 10)), file("b", 20, producer=(5, 0, 2**31 - 1))),
        "where 0 is due",
    ),
    "an epoch goes back": ((file("a", 0, producer=(5, 2, 0)), file("b", 10, producer=(5, 1, 0))), "has epoch 1 behind 2"),
    "an epoch does not begin at 0": ((file("a", 0, producer=(5, 2, 0)), file("b", 10, producer=(5, 3, 10))), "where 0 is due"),
    "records are deleted that never were": ((file("a", 0), deleted(11)), "beyond the high watermark 10"),
    "two files stand in one entry": (((file("a", 0), file("b", 10)),), "a file is not alone in its entry"),
    "a file stands among other records": (((file("a", 0), model.NoOp()),), "a file is not alone in its entry"),
    "a claim stands behind sequence 0": ((CLAIMED,), "a claim stands behind sequence 0"),
    "an entry cannot be decoded": ((NONSENSE,), "cannot be decoded"),
    "a transaction ends that never began": ((model.TransactionEnded(num_chunks=0),), "never began"),
    "a transaction begins among other records": (((began(1), model.NoOp()),), "among other records"),
    "a transaction begins inside another": ((began(1), began(1)), "inside another"),
    "a transaction counts wrongly": ((began(1), deleted(0), model.TransactionEnded(num_chunks=2)), "ends with 2 chunks where 1 were read"),
    "a file stands in a transaction": ((began(1), file("a", 0), model.TransactionEnded(num_chunks=1)), "inside a transaction"),
    "a claim stands in a transaction": ((began(1), CLAIMED, model.TransactionEnded(num_chunks=1)), "a claim stands behind sequence 0"),
    "a topic gets more partitions than there can be": ((replace(CREATED, num_partitions=10_000_001),), "a topic gets 10000001 partitions"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_an_entry_that_contradicts_is_void_and_the_next_one_counts(name: str) -> None:
    entries, reason = CONTRADICTIONS[name]
    log = read(*entries)
    assert [void.offset for void in log.contradictions] == [1 + len(entries)]
    assert reason in (log.contradictions[0].contradiction or "")
    behind = read(*entries, PARTITION_2, file("behind", 0, partition=2))
    assert [commit.object_key for commit in behind.commits if commit.object_key == "behind"] == ["behind"]


LAWFUL: dict[str, tuple[model.Record | tuple[model.Record, ...] | bytes, ...]] = {
    "a producer without memory begins anywhere": (file("z", 0), file("a", 10, producer=(5, 3, 77))),
    "a producer without memory begins a partition with 0": (file("a", 0, producer=(5, 3, 0)),),
    "a producer goes on": (file("a", 0, producer=(5, 0, 0)), file("b", 10, producer=(5, 0, 10))),
    "a producer goes on in a later epoch": (file("a", 0, producer=(5, 0, 0)), file("b", 10, producer=(5, 2, 0))),
    "sequences wrap": (file("z", 0), file("a", 10, producer=(5, 0, 2**31 - 10)), file("b", 20, producer=(5, 0, 0))),
    "another partition has sequences of its own": (
        file("a", 0, producer=(5, 0, 0)),
        file("z", 0, partition=1),
        file("b", 10, partition=1, producer=(5, 0, 3)),
    ),
    "an expired producer begins anew": (
        file("a", 0, producer=(5, 0, 0), time_ms=10),
        model.ProducersExpired(before_ms=11),
        file("b", 10, producer=(5, 0, 70)),
    ),
    "an expired tombstone is forgotten": (
        model.FilesFenced(object_keys=["a"], created_ms=[5]),
        model.TombstonesExpired(keys_before_ms=6, topics_before_ms=0),
        file("a", 0),
    ),
    "a deletion reaches the watermark": (file("a", 0), deleted(10)),
    "a deletion is of a partition that is not known": (deleted(10, partition=9),),
    "partitions are created again": (file("a", 0), CREATED, file("b", 10)),
    "a transaction is whole": (file("a", 0), began(2), deleted(3), deleted(5), model.TransactionEnded(num_chunks=2)),
    "a transaction is aborted": (began(1), model.TransactionAborted(reason="r"), file("a", 0)),
}


@pytest.mark.parametrize("name", LAWFUL)
def test_what_is_lawful_is_not_taken_for_a_contradiction(name: str) -> None:
    assert read(*LAWFUL[name]).voids == []


def test_a_file_that_contradicts_leaves_nothing_behind() -> None:
    """Neither its key, nor its first run, nor its producer."""
    bad = file("a", 0, 99, producer=(5, 4, 0))
    bad = replace(bad, batches=[bad.batches[0], bad.batches[1]._replace(partition=1)])
    log = read(bad, file("a", 0, producer=(5, 0, 0)), file("b", 0, partition=1))
    assert [void.offset for void in log.contradictions] == [2]
    assert [commit.object_key for commit in log.commits] == ["a", "b"]


def test_an_entry_or_a_transaction_is_void_as_a_whole() -> None:
    log = read(file("a", 0), (deleted(5), deleted(11)), began(2), deleted(6), deleted(12), model.TransactionEnded(num_chunks=2))
    assert [void.offset for void in log.contradictions] == [3, 7]
    assert log.log_starts == {}


@pytest.mark.parametrize("inside", [NONSENSE, began(0)], ids=["undecodable", "beginning"])
def test_an_entry_that_contradicts_ends_the_transaction_around_it(inside: model.Record | bytes) -> None:
    log = read(file("z", 0), began(1), deleted(4), inside, file("b", 10), model.TransactionEnded(num_chunks=1), deleted(7))
    assert [void.offset for void in log.contradictions] == [5, 7]
    assert log.log_starts == {(TOPIC, 0): 7}
    assert [commit.object_key for commit in log.commits] == ["z", "b"]


def test_an_entry_of_another_version_ends_the_reading() -> None:
    log = read(b"\xc3\x01" + bytes(8), file("a", 0))
    assert "unknown schema fingerprint" in (log.unreadable or "")
    assert log.commits == []
