"""The client of a command's questions to Kafka is destroyed when the command leaves it, not when the garbage collector comes."""

from __future__ import annotations

import socket

import pytest

from cli.kafka.cluster import KafkaPlace
from cli.kafka.reader_groups import ReaderGroups
from cli.kafka.shadows import ShadowTopics


@pytest.mark.parametrize("kind", [ShadowTopics, ReaderGroups])
def test_a_client_that_was_left_asks_no_more(kind: type[ShadowTopics | ReaderGroups]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        place = KafkaPlace(bootstrap_servers=f"127.0.0.1:{broker.getsockname()[1]}", topic="", properties={}, settings=None)
        with kind(place, 1.0) as asker:
            pass
        with pytest.raises(RuntimeError, match="closed"):
            asker.find("orders") if isinstance(asker, ShadowTopics) else asker.offsets(["readers"], ["orders"])
