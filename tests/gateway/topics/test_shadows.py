"""Shadows are told from classic topics, and what cannot be told is not called classic."""

from __future__ import annotations

import pytest

from coordinator.adapters.kafka.link import BrokerLost
from gateway.topics.catalogue import TopicCatalogue
from gateway.topics.shadows import Shadows
from tests.gateway.topics.fakes import FakeBroker, FakeCoordinators, listing

A, B, C, D = (letter * 16 for letter in (b"a", b"b", b"c", b"d"))
ALL = [("diskless", A), ("half", B), ("classic", C), ("hidden", D)]


def made() -> tuple[Shadows, FakeCoordinators, FakeBroker]:
    coordinators = FakeCoordinators()
    coordinators.put(listing("diskless", A))
    broker = FakeBroker(topics={"diskless": (A, 3, "0"), "half": (B, 3, "0"), "classic": (C, 3, "1048588"), "hidden": (D, 3, None)})
    return Shadows(broker, TopicCatalogue(coordinators)), coordinators, broker


async def test_what_is_neither_listed_nor_takes_records_is_unfinished() -> None:
    shadows, _, _ = made()
    assert await shadows.unfinished(ALL) == {B, D}


async def test_classic_topics_are_looked_up_once() -> None:
    shadows, coordinators, broker = made()
    assert await shadows.unfinished([("classic", C), ("diskless", A)]) == frozenset()
    asked = len(coordinators.asked), len(broker.asked)
    coordinators.is_down = broker.is_lost = True
    assert await shadows.unfinished([("classic", C), ("diskless", A)]) == frozenset()
    assert (len(coordinators.asked), len(broker.asked)) == asked


async def test_nothing_new_is_shown_while_the_coordinators_do_not_answer() -> None:
    shadows, coordinators, broker = made()
    coordinators.is_down = True
    assert await shadows.unfinished(ALL) == {A, B, C, D}
    assert not broker.asked
    coordinators.is_down = False
    assert await shadows.unfinished(ALL) == {B, D}


async def test_a_lost_broker_ends_the_question() -> None:
    shadows, _, broker = made()
    broker.is_lost = True
    with pytest.raises(BrokerLost):
        await shadows.unfinished(ALL)


async def test_topics_are_joined_by_id() -> None:
    shadows, _, broker = made()
    found = await shadows.sort_out(["diskless", "half", "classic", "hidden", "unknown", "no/name"])
    assert list(found.diskless) == ["diskless"]
    assert (found.half, found.undecided) == (frozenset({"half"}), frozenset({"hidden"}))
    assert set(found.in_kafka) == {"diskless", "half", "classic", "hidden"}
    assert [found.why_not(name) is None for name in ("diskless", "half", "classic", "hidden")] == [True, False, True, False]
    assert list((await shadows.sort_out(ids=[A, b"u" * 16])).diskless) == ["diskless"]
    # Kafka has another topic of the name.
    broker.topics["diskless"] = (C, 3, "1048588")
    found = await shadows.sort_out(["diskless"])
    assert not found.diskless
    assert not found.half | found.undecided


async def test_what_is_kept_from_the_own_login_is_undecided_and_not_taken_for_kafkas() -> None:
    shadows, _, broker = made()
    broker.hidden = {"diskless", "secret"}
    found = await shadows.sort_out(["diskless", "secret", "classic"])
    assert (found.diskless, found.undecided) == ({}, frozenset({"diskless", "secret"}))
    assert "cannot be told now" in (found.why_not("secret") or "")


async def test_a_topic_that_another_gateway_has_just_created_is_found() -> None:
    class Slow(FakeBroker):
        async def ask(self, request: object, answer_type: type) -> object:
            if len(self.asked) == 2:
                self.topics["diskless"] = (A, 3, "0")
            return await super().ask(request, answer_type)

    coordinators = FakeCoordinators()
    coordinators.put(listing("diskless", A))
    assert list((await Shadows(Slow(), TopicCatalogue(coordinators)).sort_out(["diskless"])).diskless) == ["diskless"]
    coordinators.is_down = True
    found = await Shadows(FakeBroker(), TopicCatalogue(coordinators)).sort_out(["unknown"], [D])
    assert found.undecided == frozenset({"unknown", D})


async def test_a_broker_learns_of_a_topic_a_moment_later() -> None:
    class Late(FakeBroker):
        async def ask(self, request: object, answer_type: type) -> object:
            if len(self.asked) == 2:
                self.topics["diskless"] = (A, 3, "0")
            return await super().ask(request, answer_type)

    coordinators, broker = FakeCoordinators(), Late()
    coordinators.put(listing("diskless", A))
    catalogue = TopicCatalogue(coordinators)
    await catalogue.refreshed()
    assert list((await Shadows(broker, catalogue).sort_out(["diskless"])).diskless) == ["diskless"]


@pytest.mark.parametrize(("value", "allows"), [("true", True), ("false", False), (None, True)])
async def test_what_a_broker_allows_is_asked_of_all_of_them(value: str | None, allows: bool) -> None:
    shadows, _, broker = made()
    broker.settings = {} if value is None else {"delete.topic.enable": value}
    assert await shadows.broker_allows("delete.topic.enable") is allows
    asked = len(broker.asked)
    assert await shadows.broker_allows("delete.topic.enable") is allows
    assert len(broker.asked) == asked
