"""CommitFile over the wire: sequences and epochs of producers, and the same key again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.protocol.commit_file import CommitFileBody
from integration_tests.commit_answers import MANY, accepted, duplicate, errors
from integration_tests.wire import (
    COORDINATOR_NOT_AVAILABLE,
    DUPLICATE_RESOURCE,
    INVALID_PRODUCER_EPOCH,
    INVALID_REQUEST,
    KIP_COMMIT_FILE,
    OK,
    OUT_OF_ORDER_SEQUENCE,
    SEQUENCE_END,
    UNKNOWN_TOPIC_ID,
    Batch,
    Wire,
    file,
    refused,
)

# ---- idempotence


async def test_duplicates_within_the_last_five_batches_get_their_original_answer(wire: Wire) -> None:
    topic = await wire.new_topic()
    batches = [Batch(topic, count=2, producer=9, epoch=1, sequence=2 * n, is_append_time=n == 3) for n in range(6)]
    first = [(await wire.commit(one))[0] for one in batches]
    assert [one.base for one in first] == [0, 2, 4, 6, 8, 10]
    assert await wire.truncate((topic, 0, 1)) == [(OK, 1)]
    again = await wire.commit(*batches)
    assert again[0] == refused(OUT_OF_ORDER_SEQUENCE)
    assert again[1:] == [duplicate(one.base, 1, time_ms=one.time) for one in first[1:]]
    assert first[3].time > 0
    assert await wire.ends(topic) == (1, 12)


@pytest.mark.parametrize("padding", [0, MANY])
async def test_duplicates_are_recognised_within_one_file(wire: Wire, padding: int) -> None:
    topic = await wire.new_topic()
    one, two = (Batch(topic, count=3, producer=9, epoch=0, sequence=3 * n) for n in range(2))
    results = await wire.commit(one, one, two, one, *[Batch(topic)] * padding)
    assert results == [accepted(0), duplicate(0), accepted(3), duplicate(0), *(accepted(6 + n) for n in range(padding))]


async def test_one_producer_may_have_many_batches_in_a_file(wire: Wire) -> None:
    topic = await wire.new_topic()
    batches = [Batch(topic, count=3, producer=9, epoch=0, sequence=(SEQUENCE_END - 50 + 3 * n) % SEQUENCE_END) for n in range(MANY)]
    assert await wire.commit(Batch(topic), *batches) == [accepted(0), *(accepted(1 + 3 * n) for n in range(MANY))]
    again = await wire.commit(*batches[-6:])
    assert again == [refused(OUT_OF_ORDER_SEQUENCE), *(duplicate(1 + 3 * n) for n in range(MANY - 5, MANY))]


async def test_the_same_first_sequence_with_another_last_is_no_duplicate(wire: Wire) -> None:
    topic = await wire.new_topic()
    one = Batch(topic, count=3, producer=9, epoch=0, sequence=0)
    assert await wire.commit(one) == [accepted(0)]
    assert await wire.commit(replace(one, count=2)) == [refused(OUT_OF_ORDER_SEQUENCE)]
    assert await wire.commit(replace(one, count=4)) == [refused(OUT_OF_ORDER_SEQUENCE)]


async def test_epochs(wire: Wire) -> None:
    topic = await wire.new_topic()
    one = Batch(topic, producer=9, epoch=3, sequence=0)
    assert await wire.commit(one, replace(one, sequence=1)) == [accepted(0), accepted(1)]
    assert await wire.commit(replace(one, epoch=4, sequence=2)) == [refused(OUT_OF_ORDER_SEQUENCE)]
    assert await wire.commit(replace(one, epoch=4, sequence=0)) == [accepted(2)]
    # Lower epochs are fenced, remembered duplicates of theirs too.
    assert await wire.commit(one, replace(one, sequence=2)) == [refused(INVALID_PRODUCER_EPOCH)] * 2
    assert await wire.commit(replace(one, epoch=4, sequence=1)) == [accepted(3)]


async def test_gaps_are_out_of_order(wire: Wire) -> None:
    topic = await wire.new_topic()
    one = Batch(topic, producer=9, epoch=0, sequence=0)
    results = await wire.commit(one, replace(one, sequence=2), replace(one, sequence=1), replace(one, sequence=3))
    assert results == [accepted(0), refused(OUT_OF_ORDER_SEQUENCE), accepted(1), refused(OUT_OF_ORDER_SEQUENCE)]


async def test_an_unknown_producer_begins_anywhere_in_a_partition_that_had_records(wire: Wire) -> None:
    topic = await wire.new_topic(2)
    one = Batch(topic, producer=9, epoch=7, sequence=4711)
    owners = sorted(set(topic.coordinators))
    assert await wire.commit(Batch(topic), Batch(topic, 1), owners=owners) == [accepted(0), accepted(0)]
    assert await wire.truncate((topic, 1, -1)) == [(OK, 1)]
    assert await wire.commit(one, replace(one, partition=1, sequence=99), owners=owners) == [accepted(1), accepted(1, 1)]
    assert await wire.commit(replace(one, sequence=4712)) == [accepted(2)]


async def test_the_later_of_two_files_waits_for_the_earlier_one_in_a_new_partition(wire: Wire) -> None:
    topic = await wire.new_topic()
    earlier = Batch(topic, producer=9, epoch=0, sequence=0, count=17)
    later = replace(earlier, sequence=17, count=5)
    assert await wire.commit(later) == [refused(OUT_OF_ORDER_SEQUENCE)]
    assert await wire.commit(earlier) == [accepted(0)]
    assert await wire.commit(later) == [accepted(17)]


async def test_sequences_wrap_between_batches_and_inside_one(wire: Wire) -> None:
    topic = await wire.new_topic()
    last = SEQUENCE_END - 1
    one = Batch(topic, producer=9, epoch=0, sequence=last)
    assert await wire.commit(Batch(topic), one, replace(one, sequence=0)) == [accepted(0), accepted(1), accepted(2)]
    inside = Batch(topic, producer=10, epoch=0, sequence=last - 1, count=5)
    assert await wire.commit(inside, replace(inside, sequence=3, count=1)) == [accepted(3), accepted(8)]
    assert await wire.commit(inside) == [duplicate(3)]


async def test_a_producer_id_without_an_epoch_is_not_idempotent(wire: Wire) -> None:
    topic = await wire.new_topic()
    one = Batch(topic, producer=9, epoch=-1, sequence=5, last_sequence=1)
    assert await wire.commit(one, one) == [accepted(0), accepted(1)]


async def test_producer_state_survives_delete_records(wire: Wire) -> None:
    topic = await wire.new_topic()
    one = Batch(topic, producer=9, epoch=0, sequence=0)
    assert await wire.commit(one) == [accepted(0)]
    assert await wire.truncate((topic, 0, -1)) == [(OK, 1)]
    assert await wire.commit(one) == [duplicate(0, 1)]
    assert await wire.commit(replace(one, sequence=2)) == [refused(OUT_OF_ORDER_SEQUENCE)]


# ---- the same key again


async def test_the_same_key_and_content_gets_exactly_the_first_answer(wire: Wire) -> None:
    topic = await wire.new_topic()
    known = Batch(topic, producer=9, epoch=1, sequence=0)
    await wire.commit(known)
    batches = [known, Batch(topic, count=3, is_append_time=True), replace(known, epoch=0), replace(known, sequence=1, count=2)]
    request = file(batches)
    first = await wire.send(request)
    assert errors(first) == [OK, OK, INVALID_PRODUCER_EPOCH, OK]
    assert [one.is_duplicate for one in first] == [True, False, False, False]
    # Whatever happens to the batches and the producer since.
    assert await wire.commit(replace(known, epoch=7)) == [accepted(6)]
    assert await wire.truncate((topic, 0, -1)) == [(OK, 7)]
    renumbered = file([replace(one, request_id=5) for one in batches], request.object_key)
    assert await wire.send(request) == first
    assert await wire.send(renumbered) == first
    assert await wire.send(request, KIP_COMMIT_FILE) == first
    assert await wire.ends(topic) == (7, 7)


async def test_the_same_key_is_answered_after_its_topic_was_deleted(wire: Wire) -> None:
    gone, stays = await wire.new_topic(), await wire.new_topic()
    both = file([Batch(gone, count=2), Batch(stays)], owners=[0, 1, 2])
    alone = file([Batch(gone, count=4)], owners=[0, 1, 2])
    first = await wire.send(both), await wire.send(alone)
    assert await wire.delete(gone.id) == [OK]
    assert (await wire.send(both), await wire.send(alone)) == first
    # A key that is not known meets the deletion.
    assert await wire.commit(Batch(gone), Batch(stays), owners=[0, 1, 2]) == [
        refused(UNKNOWN_TOPIC_ID),
        refused(COORDINATOR_NOT_AVAILABLE),
    ]


async def test_the_same_key_with_other_content_is_refused(wire: Wire) -> None:
    topic = await wire.new_topic()
    batches = [Batch(topic), Batch(topic, count=2)]
    request = file(batches)
    assert await wire.send(request) == [accepted(0), accepted(1)]
    different: list[CommitFileBody] = [
        request._replace(file_size=request.file_size + 1),
        request._replace(owner_ids=[0, 1, 2]) if request.owner_ids != [0, 1, 2] else request._replace(owner_ids=[2, 1, 0]),
        request._replace(object_format=2),
        file([*batches, Batch(topic)], request.object_key),
        file(batches[::-1], request.object_key),
        file([batches[0], replace(batches[1], timestamp=77)], request.object_key),
        file([batches[0], replace(batches[1], magic=1)], request.object_key),
    ]
    for other in different:
        assert await wire.send(other) == [refused(DUPLICATE_RESOURCE)] * len(other.batches)
    assert await wire.send(request) == [accepted(0), accepted(1)]
    assert await wire.ends(topic) == (0, 3)


async def test_timeout_is_looked_at_before_a_known_key(wire: Wire) -> None:
    topic = await wire.new_topic()
    request = file([Batch(topic)])
    assert await wire.send(request) == [accepted(0)]
    assert await wire.send(request._replace(timeout_ms=0)) == [refused(INVALID_REQUEST)]
