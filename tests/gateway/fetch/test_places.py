"""Places with a bound: in order, never more than fit, and what is larger than all of them when it is alone."""

from __future__ import annotations

import asyncio

import pytest

from gateway.fetch.limits import Places


def made(bytes_max: int, count_max: int) -> tuple[Places, list[int]]:
    waiting = [0]
    return Places(bytes_max, count_max, waiting=lambda count: waiting.__setitem__(0, count)), waiting


async def turns(places: Places, *sizes: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(places.take(size)) for size in sizes]
    await asyncio.sleep(0)
    return tasks


def done(tasks: list[asyncio.Task[None]]) -> list[bool]:
    return [one.done() for one in tasks]


async def test_places_are_given_in_order() -> None:
    places, waiting = made(100, 10)
    tasks = await turns(places, 60, 30, 50, 5)
    assert done(tasks) == [True, True, False, False], "a small one does not overtake"
    assert (places.bytes_free, waiting) == (10, [2])
    places.give(60)
    await asyncio.gather(*tasks)
    assert (places.bytes_free, waiting) == (15, [0])


async def test_how_many_have_a_place_is_bounded() -> None:
    places, waiting = made(100, 2)
    tasks = await turns(places, 1, 1, 1)
    assert done(tasks) == [True, True, False]
    assert (places.is_busy, waiting) == (True, [1])
    places.give(1)
    await tasks[2]


async def test_what_is_larger_than_all_has_a_turn_alone() -> None:
    places, _ = made(100, 10)
    tasks = await turns(places, 10, 500, 10)
    assert done(tasks) == [True, False, False]
    places.give(10)
    await tasks[1]
    assert (tasks[2].done(), places.bytes_free) == (False, 0)
    places.give(500)
    await tasks[2]


@pytest.mark.parametrize("is_admitted", [False, True])
async def test_one_that_no_longer_waits_holds_up_nobody(is_admitted: bool) -> None:
    places, waiting = made(100, 10)
    tasks = await turns(places, 100, 100, 20)
    if is_admitted:
        places.give(100)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True) if is_admitted else await asyncio.wait([tasks[1]])
    if not is_admitted:
        assert waiting == [1]
        places.give(100)
        await tasks[2]
    assert (places.bytes_free, waiting) == (80, [0])
