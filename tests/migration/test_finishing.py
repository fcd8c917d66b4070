"""The end of a migration: writers are let go on when the classic topic takes nothing any more and gateways lead the topic, no sooner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.topics.catalogue import FOLLOW_EVERY_S, TopicCatalogue
from migration.finishing import GATEWAYS_FOLLOW_S, finish
from migration.kafka.fence import TopicAcls
from records.record_batch import ProducerSequence
from simulation.fakes.classic import InMemoryClassicPartition
from tests.gateway.topics.fakes import FakeCoordinators, listing
from tests.virtual_loop import VirtualLoop

NAME, TOPIC = "orders", b"a" * 16
LISTING_S = 0.5
"""A gateway's look at topics and their migrations takes so long."""


class ClassicTopic:
    """A topic with a fence for its writers; what was done with it, and whether the gateway led the topic then."""

    def __init__(self, catalogue: TopicCatalogue, *, is_closed: bool = True) -> None:
        self.name = NAME
        self.done: list[tuple[str, bool]] = []
        self.transactions: list[list[str]] = []
        self.one = InMemoryClassicPartition(topic_id=TOPIC)
        self.one.write(ProducerSequence(producer_id=1, producer_epoch=0, base_sequence=0), 5)
        self.is_closed = is_closed
        self._catalogue = catalogue

    @property
    def fence(self) -> ClassicTopic:
        return self

    def partition(self, _topic_id: bytes, _index: int) -> InMemoryClassicPartition:
        self._note("look back")
        return self.one

    async def unended_transactions(self) -> list[str]:
        self._note("transactions")
        return self.transactions.pop(0) if self.transactions else []

    async def take_no_records(self) -> None:
        self._note("no records")

    async def acls(self) -> TopicAcls:
        return TopicAcls(is_closed=self.is_closed, keeps_readers=False, others=0)

    async def open(self) -> None:
        self._note("open")

    def _note(self, what: str) -> None:
        self.done.append((what, self._catalogue.named(NAME) is not None))


def finished(topic_of: Any, *, phase_s: float = 0.0) -> tuple[ClassicTopic, list[Exception | None], float]:
    """Finish a migration whose last partition has just begun, `phase_s` after a gateway began to look; with the time it took."""
    loop = VirtualLoop()

    async def slow() -> None:
        await asyncio.sleep(LISTING_S)

    async def run() -> tuple[ClassicTopic, list[Exception | None], float]:
        coordinators = FakeCoordinators(pending={TOPIC})
        coordinators.put(listing(NAME, TOPIC, 1, classic=(0,)))
        catalogue = TopicCatalogue(coordinators)
        await catalogue.refreshed()
        coordinators.wait = slow
        following = loop.create_task(catalogue.follow())
        await asyncio.sleep(phase_s)
        coordinators.pending.clear()
        topic, began_s = topic_of(catalogue), loop.time()
        found = await finish(topic, TOPIC, [5], drain_timeout_s=10)
        took_s = loop.time() - began_s
        following.cancel()
        return topic, found, took_s

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


@pytest.mark.parametrize("phase_s", [FOLLOW_EVERY_S * step / 8 for step in range(13)])
def test_writers_are_let_go_on_when_gateways_lead_the_topic(phase_s: float) -> None:
    topic, found, took_s = finished(ClassicTopic, phase_s=phase_s)
    assert [what for what, _ in topic.done] == ["transactions", "no records", "open", "look back"]
    assert dict(topic.done)["open"], "a gateway would send the writer to the brokers, which take nothing"
    assert took_s == pytest.approx(GATEWAYS_FOLLOW_S)
    assert found == [None]


def test_who_stopped_the_writers_by_hand_does_not_wait() -> None:
    topic, found, took_s = finished(lambda catalogue: ClassicTopic(catalogue, is_closed=False))
    assert [what for what, _ in topic.done] == ["transactions", "no records", "look back"]
    assert (found, took_s) == ([None], 0)


def test_the_topic_takes_records_until_no_transaction_has_it_announced() -> None:
    def made(catalogue: TopicCatalogue) -> ClassicTopic:
        topic = ClassicTopic(catalogue)
        topic.transactions = [["t"], ["t"]]
        return topic

    topic, _, _ = finished(made)
    assert [what for what, _ in topic.done] == ["transactions"] * 3 + ["no records", "open", "look back"]


def test_what_was_written_past_the_boundary_is_found_after_writers_go_on() -> None:
    def made(catalogue: TopicCatalogue) -> ClassicTopic:
        topic = ClassicTopic(catalogue)
        topic.one.write(None)
        return topic

    _, [found], _ = finished(made)
    assert "read by nobody" in str(found)
