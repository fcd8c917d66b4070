"""Messages are values: equal by their fields, usable as keys, and readable in the text of an error."""

from __future__ import annotations

from coordinator.protocol.messages import DeletableTopicState, DescribeTopicsTopic, UpdateSchemaLevelNode


def test_parts_with_equal_fields_are_equal() -> None:
    one, same = DescribeTopicsTopic(topic_id=bytes(16), name="orders"), DescribeTopicsTopic(topic_id=bytes(16), name="orders")
    assert one == same
    assert len({one, same}) == 1
    assert one != DescribeTopicsTopic(topic_id=bytes(16), name=None)


def test_parts_of_different_classes_are_not_equal() -> None:
    assert DeletableTopicState(topic_id=bytes(16)) != DescribeTopicsTopic(topic_id=bytes(16), name=None)
    assert DeletableTopicState(topic_id=bytes(16)) != (bytes(16),)


def test_the_text_of_a_part_names_every_field() -> None:
    assert repr(UpdateSchemaLevelNode(node_id=1, schema_level_max=2)) == "UpdateSchemaLevelNode(node_id=1, schema_level_max=2)"
