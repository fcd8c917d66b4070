"""What `diskless doctor` says when Kafka answers and the metadata topic cannot be read: its remedy, and all that was not looked at."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from cli.kafka.cluster import KafkaPlace
from cli.main import root
from cli.outcome import Exit
from simulation.fakes.kafka import FakeKafka


def findings(monkeypatch: pytest.MonkeyPatch, prepare: Callable[[FakeKafka], None]) -> dict[str, dict[str, str]]:
    """The findings of a doctor who is given this Kafka alone, by check."""

    def open_fake(_place: KafkaPlace, _request_timeout_s: float) -> object:
        kafka = FakeKafka(loop=asyncio.get_running_loop(), rng=random.Random(1), partitions=2)
        prepare(kafka)
        return kafka.node("doctor").cluster

    monkeypatch.setattr(KafkaPlace, "open", open_fake)
    arguments = ["doctor", "--kafka-bootstrap-server", "127.0.0.1:1", "-o", "json"]
    result = CliRunner().invoke(root, arguments, prog_name="diskless")
    assert result.exit_code in (Exit.OK, Exit.FAILURE), result.output
    return {row["check"]: row for row in json.loads(result.stdout)}


def test_a_topic_that_is_missing_is_to_be_created_and_kafka_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(monkeypatch, FakeKafka.delete_topic)
    topic = found["kafka topic"]
    assert topic["health"] == "error"
    assert "`diskless init`" in topic["remedy"]
    assert "--metadata-topic" in topic["remedy"]
    assert "cannot be reached" not in topic["remedy"]


@pytest.mark.parametrize(
    "prepare", [FakeKafka.delete_topic, lambda kafka: kafka.set_available(False), lambda kafka: kafka.set_unanswered(1)]
)
def test_what_could_not_be_looked_at_is_listed(monkeypatch: pytest.MonkeyPatch, prepare: Callable[[FakeKafka], None]) -> None:
    found = findings(monkeypatch, prepare)
    assert found["kafka topic"]["health"] == "error"
    assert [found[check]["health"] for check in ("kafka leaders", "clocks")] == ["skipped", "skipped"]
    assert found.keys() == findings(monkeypatch, lambda _: None).keys()


def test_a_kafka_that_does_not_answer_keeps_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(monkeypatch, lambda kafka: kafka.set_available(False))
    assert "see the brokers" in found["kafka topic"]["remedy"]
