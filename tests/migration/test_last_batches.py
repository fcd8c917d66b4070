"""Which batches of producers a log that is read backwards gives."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from migration.producers import BATCHES_REMEMBERED, LastBatches
from records.record_batch import SEQUENCES, BatchHeader, ProducerSequence, Record, TimestampType, encode_batch, parse_header


def header(base_offset: int, producer_id: int, epoch: int, sequence: int, count: int = 1, *, is_control: bool = False) -> BatchHeader:
    records = [Record(timestamp_ms=base_offset, value=b"")] * count
    producer = ProducerSequence(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return parse_header(encode_batch(records, producer=producer, base_offset=base_offset, is_control=is_control))


def found(headers: list[BatchHeader], epochs: dict[int, int]) -> dict[int, list[int]]:
    last = LastBatches(epochs)
    last.add_older(headers)
    return {one.producer_id: [batch.base_offset for batch in one.batches] for one in last.result(is_whole_log=True).producers}


def test_a_producer_that_the_leader_has_forgotten_is_left_out() -> None:
    assert found([header(0, 7, 0, 0), header(1, 8, 0, 0)], {8: 0}) == {8: [1]}


def test_older_epochs_are_forgotten() -> None:
    assert found([header(0, 7, 0, 0), header(1, 7, 1, 0), header(2, 7, 1, 1)], {7: 1}) == {7: [1, 2]}
    assert found([header(0, 7, 0, 0), header(1, 7, 1, -1, is_control=True)], {7: 1}) == {}


def test_markers_of_transactions_are_no_batches() -> None:
    assert found([header(0, 7, 0, 0), header(1, 7, 0, -1, is_control=True), header(2, 7, 0, 1)], {7: 0}) == {7: [0, 2]}


def test_nothing_stands_before_the_sequence_0() -> None:
    last = LastBatches({7: 0})
    last.add_older([header(4, 7, 0, 1)])
    assert not last.is_complete
    last.add_older([header(3, 7, 0, 0)])
    assert last.is_complete


def test_producers_whose_batches_stand_further_back_are_named() -> None:
    last = LastBatches({7: 0, 8: 0, 9: 0})
    last.add_older([header(10, 7, 0, 5), header(11, 9, 0, 0)])
    assert last.result(is_whole_log=False).unread == (7, 8)
    assert last.result(is_whole_log=True).unread == ()
    assert [one.producer_id for one in last.result(is_whole_log=False).producers] == [7, 9]


def test_sequences_go_on_at_0_after_the_last_one() -> None:
    last = LastBatches({7: 0})
    last.add_older([header(0, 7, 0, SEQUENCES - 1, 2)])
    [producer] = last.result(is_whole_log=True).producers
    assert (producer.batches[0].first_sequence, producer.batches[0].last_sequence) == (SEQUENCES - 1, 0)


def test_batches_of_log_append_time_have_the_time_that_retries_are_answered_with() -> None:
    kept = []
    for timestamp_type in TimestampType:
        producer = ProducerSequence(producer_id=7, producer_epoch=0, base_sequence=0)
        encoded = encode_batch([Record(timestamp_ms=1_234, value=b"")], producer=producer, timestamp_type=timestamp_type)
        last = LastBatches({7: 0})
        last.add_older([parse_header(encoded)])
        [seeded] = last.result(is_whole_log=True).producers
        kept.append((timestamp_type, seeded.batches[0].max_timestamp_ms))
    assert kept == [(TimestampType.CREATE_TIME, -1), (TimestampType.LOG_APPEND_TIME, 1_234)]


@given(
    writes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.booleans()), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
)
def test_pieces_give_what_the_whole_log_gives(writes: list[tuple[int, int, bool]], cuts: list[int]) -> None:
    headers: list[BatchHeader] = []
    epochs: dict[int, int] = {}
    sequences: dict[int, int] = {}
    model: dict[int, list[int]] = {}
    offset = 0
    for producer, count, is_new_epoch in writes:
        if is_new_epoch or producer not in epochs:
            epochs[producer] = epochs.get(producer, -1) + 1
            sequences[producer], model[producer] = 0, []
        headers.append(header(offset, producer, epochs[producer], sequences[producer], count))
        model[producer].append(offset)
        sequences[producer] += count
        offset += count
    last = LastBatches(epochs)
    bounds = [0, *sorted(min(cut, len(headers)) for cut in cuts), len(headers)]
    for lower, upper in reversed(list(pairwise(bounds))):
        last.add_older(headers[lower:upper])
    assert last.is_complete
    result = {one.producer_id: [batch.base_offset for batch in one.batches] for one in last.result(is_whole_log=False).producers}
    assert result == {producer: batches[-BATCHES_REMEMBERED:] for producer, batches in model.items()}
