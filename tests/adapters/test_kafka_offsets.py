"""The range of a log is what its leader says, or an error that is tried again."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from coordinator.adapters.kafka.reading.offsets import read_log_range


class Admin:
    """Answers with given offsets, one after the other; -1001 stands for a broker that was lost meanwhile."""

    def __init__(self, *offsets: int) -> None:
        self.offsets = list(offsets)
        self.refreshed: list[str] = []

    def list_offsets(self, asked: dict[TopicPartition, OffsetSpec], **_: object) -> dict[TopicPartition, Future[SimpleNamespace]]:
        """One future for each partition."""
        found = {}
        for partition in asked:
            found[partition] = Future[SimpleNamespace]()
            found[partition].set_result(SimpleNamespace(offset=self.offsets.pop(0)))
        return found

    def list_topics(self, topic: str, timeout: float) -> None:
        """Refresh the metadata."""
        self.refreshed.append(topic)


def test_start_and_end_are_the_leader_s() -> None:
    assert read_log_range(Admin(3, 17), "log", 1, 1.0) == (3, 17)  # type: ignore[arg-type]


@pytest.mark.parametrize("offsets", [(-1001, 17), (3, -1001)], ids=["start", "end"])
def test_an_offset_that_nobody_told_is_an_error_to_try_again(offsets: tuple[int, int]) -> None:
    admin = Admin(*offsets)
    with pytest.raises(KafkaException) as raised:
        read_log_range(admin, "log", 1, 1.0)  # type: ignore[arg-type]
    assert raised.value.args[0].code() == KafkaError.LEADER_NOT_AVAILABLE
    assert admin.refreshed == ["log"]
