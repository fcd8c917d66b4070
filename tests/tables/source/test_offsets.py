"""Offsets as JSON: what Spark's Kafka source writes is read, and texts that Spark compares are equal for equal positions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.kafka.names import topic_id_text
from tables.source.offsets import Positions, TopicPlace, parse_positions, places_text, read_positions
from tests.tables.source.given import TOPIC

places = st.builds(TopicPlace, st.sampled_from(["orders", "clicks", "a.b"]), st.integers(0, 200))
offsets = st.dictionaries(places, st.integers(0, 2**63 - 1), max_size=12)
positions = st.builds(
    lambda given, begins, ids: Positions(
        offsets=given,
        topic_ids={topic: one for topic, one in ids.items() if topic in {place.topic for place in given}},
        begins={place: one for place, one in begins.items() if place in given},
    ),
    offsets,
    offsets,
    st.dictionaries(st.sampled_from(["orders", "clicks", "a.b"]), st.binary(min_size=16, max_size=16)),
)


@given(positions)
def test_positions_are_read_back_and_give_the_same_text(one: Positions) -> None:
    text = json.dumps(one.as_json())
    assert parse_positions(text) == one
    assert json.dumps(read_positions(json.loads(text)).as_json()) == text
    shuffled = Positions(
        offsets=dict(reversed(list(one.offsets.items()))), topic_ids=one.topic_ids, begins=dict(reversed(list(one.begins.items())))
    )
    assert json.dumps(shuffled.as_json()) == text


def test_the_json_is_that_of_sparks_kafka_source_with_the_topics_id() -> None:
    made = Positions(offsets={TopicPlace("orders", 10): 5, TopicPlace("orders", 2): 23}, topic_ids={"orders": TOPIC})
    assert json.dumps(made.as_json()) == f'{{"orders": {{"2": 23, "10": 5, "topicId": "{topic_id_text(TOPIC)}"}}}}'
    assert parse_positions('{"orders":{"0":23,"1":-1},"clicks":{"0":-2}}').offsets == {
        TopicPlace("orders", 0): 23,
        TopicPlace("orders", 1): -1,
        TopicPlace("clicks", 0): -2,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "no JSON object"),
        ('{"orders":5}', "no object of partitions"),
        ('{"orders":{"0":"5"}}', "'5' is no offset"),
        ('{"orders":{"0":9223372036854775808}}', "is no offset"),
        ('{"orders":{"2147483648":1}}', "is no partition"),
        ('{"orders":{"0":1,"00":2}}', "'00' is no partition"),
        ('{"orders":{"0":1,"0":2}}', "'0' is there more than once"),
        ('{"orders":{"0":1},"orders":{"1":2}}', "'orders' is there more than once"),
        ('{"orders":{"0":1,"topicId":5}}', "is not a topic id"),
        ('{"orders":{"0":1,"topicId":"short"}}', "is not a topic id"),
        ('{"orders":{"0":1,"from":[1]}}', "'from' has no object of partitions"),
    ],
)
def test_what_is_no_offset_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_positions(text)


def test_many_partitions_are_named_by_the_first() -> None:
    assert places_text([TopicPlace("orders", index) for index in range(12)]).endswith("orders-9 and 2 more")
