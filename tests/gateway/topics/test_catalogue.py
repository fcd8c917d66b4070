"""The list of diskless topics: from one answer to the next, shared by callers, and without topics that are still classic."""

from __future__ import annotations

import asyncio
import random

import pytest

from coordinator.client.errors import Unavailable
from gateway.topics.catalogue import TopicCatalogue
from tests.gateway.topics.fakes import FakeCoordinators, listing
from tests.waiting import until

A, B = b"a" * 16, b"b" * 16


async def test_what_changes_is_taken_over() -> None:
    coordinators = FakeCoordinators()
    catalogue = TopicCatalogue(coordinators)
    coordinators.put(listing("orders", A, retention_ms="5"))
    await catalogue.refreshed()
    found = catalogue.named("orders")
    assert found is not None
    assert (found.topic_id, found.partitions, found.settings, found.coordinators) == (A, 3, {"retention.ms": "5"}, (0, 1, 2))
    coordinators.put(listing("orders", A, 5))
    await catalogue.refreshed()
    grown = catalogue.identified(A)
    assert grown is catalogue.named("orders")
    assert grown is not None
    assert (grown.partitions, grown.settings) == (5, {})
    # Deleted and made anew under its name, between two listings.
    coordinators.remove(A)
    coordinators.put(listing("orders", B))
    await catalogue.refreshed()
    again = catalogue.named("orders")
    assert again is not None
    assert again.topic_id == B
    assert catalogue.identified(A) is None
    assert [since for since, _ in coordinators.asked] == [-1, 1, 2]


async def test_callers_share_a_listing_that_began_after_they_asked() -> None:
    coordinators = FakeCoordinators()
    gate = asyncio.Event()
    coordinators.wait = gate.wait
    catalogue = TopicCatalogue(coordinators)
    first = [asyncio.ensure_future(catalogue.refreshed()) for _ in range(3)]
    await until(lambda: coordinators.asked, "the first question")
    coordinators.put(listing("orders", A))
    later = [asyncio.ensure_future(catalogue.refreshed()) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(coordinators.asked) == 1
    gate.set()
    await asyncio.gather(*first, *later)
    assert len(coordinators.asked) == 2
    assert catalogue.named("orders") is not None


async def test_a_failure_reaches_who_asked_and_the_tables_stay() -> None:
    coordinators = FakeCoordinators()
    catalogue = TopicCatalogue(coordinators)
    coordinators.put(listing("orders", A))
    await catalogue.refreshed()
    coordinators.is_down = True
    with pytest.raises(Unavailable):
        await catalogue.refreshed()
    assert catalogue.named("orders") is not None
    coordinators.is_down = False
    await catalogue.refreshed()


async def test_it_is_followed_without_asking_for_the_end_of_the_log() -> None:
    coordinators = FakeCoordinators()
    catalogue = TopicCatalogue(coordinators, every_s=0.001)
    following = asyncio.ensure_future(catalogue.follow())
    coordinators.put(listing("orders", A))
    await until(lambda: catalogue.named("orders"), "the topic")
    coordinators.is_down = True
    failed = len(coordinators.asked)
    await until(lambda: len(coordinators.asked) >= failed + 2, "questions that fail")
    coordinators.is_down = False
    coordinators.put(listing("clicks", B))
    await until(lambda: catalogue.named("clicks"), "the other topic")
    following.cancel()
    assert {is_current for _, is_current in coordinators.asked} == {False}


async def test_a_topic_under_migration_is_classic_until_its_last_partition_has_begun() -> None:
    coordinators = FakeCoordinators(pending={A})
    catalogue = TopicCatalogue(coordinators)
    coordinators.put(listing("orders", A, classic=(0, 1)))
    await catalogue.refreshed()
    assert catalogue.named("orders") is None
    assert catalogue.identified(A) is None
    coordinators.pending.clear()
    await catalogue.refreshed()
    assert catalogue.named("orders") is not None
    coordinators.put(listing("orders", A, 4, classic=(0, 1)))
    await catalogue.refreshed()
    grown = catalogue.named("orders")
    assert grown is not None
    assert grown.partitions == 4
    coordinators.remove(A)
    await catalogue.refreshed()
    assert catalogue.named("orders") is None


async def test_a_topic_whose_migration_is_taken_back_is_classic_again() -> None:
    coordinators = FakeCoordinators()
    catalogue = TopicCatalogue(coordinators, look_back_every_s=0.0)
    for name, topic_id in (("orders", A), ("clicks", B)):
        coordinators.put(listing(name, topic_id, classic=(0, 1)))
    coordinators.written.add(B)
    await catalogue.refreshed()
    assert {name: one.is_migrated for name in ("orders", "clicks") if (one := catalogue.named(name))} == {"orders": True, "clicks": True}
    coordinators.pending |= {A, B}
    await catalogue.refreshed()
    assert catalogue.named("orders") is None
    assert catalogue.identified(A) is None
    assert catalogue.named("clicks") is not None, "one with a diskless record cannot be taken back"
    coordinators.pending.clear()
    await catalogue.refreshed()
    assert catalogue.named("orders") is catalogue.identified(A) is not None


@pytest.mark.parametrize("seed", range(10))
async def test_names_and_ids_agree_whatever_happens(seed: int) -> None:
    rng = random.Random(seed)
    coordinators = FakeCoordinators()
    catalogue = TopicCatalogue(coordinators)
    living: dict[str, bytes] = {}
    for _ in range(200):
        name = rng.choice("abcd")
        if name in living and rng.random() < 0.5:
            coordinators.remove(living.pop(name))
        else:
            living.setdefault(name, rng.randbytes(16))
            coordinators.put(listing(name, living[name], rng.randrange(1, 5)))
        if rng.random() < 0.4:
            await catalogue.refreshed()
            assert {name: found.topic_id for name in "abcd" if (found := catalogue.named(name)) is not None} == living
            assert len(catalogue) == len(living)
            assert all(catalogue.identified(topic_id) is catalogue.named(name) for name, topic_id in living.items())
