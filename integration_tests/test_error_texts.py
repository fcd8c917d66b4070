"""Errors of the wire say what they are about in words a person knows: names, keys, offsets, limits, and what was found."""

from __future__ import annotations

import os

import pytest

from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from coordinator.protocol import messages as m
from coordinator.protocol.commit_file import decode_commit_response, encode_commit_file
from integration_tests.wire import COMMIT_FILE, TIMEOUT_MS, TIMEOUT_S, Batch, Topic, Wire, file

PRODUCER = 4711


async def commit_text(wire: Wire, *batches: Batch) -> str:
    """The text of the first error of a commit."""
    body = await wire.connection.request(COMMIT_FILE, 0, encode_commit_file(file(batches)), TIMEOUT_S)
    texts: dict[int, str] = decode_commit_response(body).error_messages
    return texts[min(texts)]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((0, 0), (0, 7), f"producer {PRODUCER} of epoch 0: sequence 1 is expected; 7 was found"),
        ((3, 0), (1, 0), f"producer {PRODUCER} of epoch 1 is fenced: epoch 3 is in use"),
        ((0, 0), (2, 5), f"producer {PRODUCER} of epoch 2: sequence 0 is expected, the epoch being new (last was 0); 5 was found"),
    ],
)
async def test_sequence_errors(wire: Wire, first: tuple[int, int], second: tuple[int, int], text: str) -> None:
    topic = await wire.new_topic()
    before, after = (Batch(topic, producer=PRODUCER, epoch=epoch, sequence=sequence) for epoch, sequence in (first, second))
    await wire.commit(before)
    assert (await commit_text(wire, after)).startswith(f"{topic.name}-0: {text}")


async def test_sequences_that_do_not_span_the_batch(wire: Wire) -> None:
    topic = await wire.new_topic()
    wrong = Batch(topic, count=3, producer=PRODUCER, epoch=0, sequence=0, last_sequence=9)
    text = f"{topic.name}-0: producer {PRODUCER} of epoch 0: sequences 0 to 9 do not span the batch's 3 records; 2 would be the last"
    assert await commit_text(wire, wrong) == text


async def test_a_file_among_the_objects_of_the_service(wire: Wire) -> None:
    request = file([Batch(await wire.new_topic())])._replace(object_key="snapshots/mine")
    body = await wire.connection.request(COMMIT_FILE, 0, encode_commit_file(request), TIMEOUT_S)
    text = "the key of file snapshots/mine is one of this service's own objects, below snapshots/, services/ and orphan-scan/"
    assert decode_commit_response(body).error_messages == {0: f"{text}: upload it under another"}


@pytest.mark.parametrize("key", ["wal//dbl", "wal/./dot", "wal/x/../up", "/victim", "wal/tab\t"])
async def test_a_file_whose_key_is_not_in_plain_form(wire: Wire, key: str) -> None:
    request = file([Batch(await wire.new_topic())])._replace(object_key=key)
    body = await wire.connection.request(COMMIT_FILE, 0, encode_commit_file(request), TIMEOUT_S)
    response = decode_commit_response(body)
    assert response.results["error_code"].tolist() == [ErrorCode.INVALID_REQUEST]
    assert response.error_messages[0].startswith(f"object key {key!r} must ")


async def test_records_deleted_out_of_range(wire: Wire) -> None:
    topic = await wire.new_topic()
    await wire.commit(Batch(topic, count=5))
    asked = (m.DeleteRecordsTopic(topic_id=topic.id, partitions=(m.DeleteRecordsPartition(partition_index=0, offset=6),)),)
    response = await wire.call(m.DeleteRecordsRequest(topics=asked, timeout_ms=TIMEOUT_MS))
    text = response.topics[0].partitions[0].error_message
    assert text == f"{topic.name}-0: offset 6 is outside 0 to 5, the high watermark; -1 deletes everything up to it"


async def test_a_time_that_is_none(wire: Wire) -> None:
    topic = await wire.new_topic()
    asked = (m.ListOffsetsTopic(topic_id=topic.id, partitions=(m.ListOffsetsPartition(partition_index=0, timestamp=-9),)),)
    response = await wire.call(m.ListOffsetsRequest(topics=asked, timeout_ms=TIMEOUT_MS))
    text = response.topics[0].partitions[0].error_message
    assert text == f"{topic.name}-0: timestamp -9 is neither a time (0 or more) nor one of -1 to -5; correct it"


async def test_too_many_partitions(wire: Wire) -> None:
    wanted = (m.CreatablePartitions(topic_id=os.urandom(16), name="vast", num_partitions=100_001),)
    response = await wire.call(m.CreatePartitionsRequest(topics=wanted, timeout_ms=TIMEOUT_MS))
    text = "topic vast: 100001 partitions are wanted; 1 to 100000 are allowed (max.partitions.per.topic)"
    assert response.topics[0].error_message == text


async def test_deleted_and_unknown_topics_are_told_apart(wire: Wire) -> None:
    topic, never = await wire.new_topic(), Topic(os.urandom(16), "never")
    await wire.delete(topic.id)
    assert await commit_text(wire, Batch(topic)) == f"topic {topic.name} (id {topic_id_text(topic.id)}) was deleted"
    assert (await commit_text(wire, Batch(never))).startswith(f"topic id {topic_id_text(never.id)} is not known")
