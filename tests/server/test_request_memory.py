"""The memory of requests: who reads on, who waits, in which order, and that nobody holds it for ever."""

from __future__ import annotations

import asyncio

from coordinator.adapters.server.contract import CloseReason
from coordinator.adapters.server.request_memory import GRANT_BYTES_PER_S, GRANT_S, SHORT_READ_BYTES, RequestMemory
from tests.virtual_loop import lived

PRODUCE = 0


class Sender:
    """A connection that sends one request of `size` bytes."""

    def __init__(self, memory: RequestMemory, size: int, log: list[Sender]) -> None:
        self.memory, self.size, self.log = memory, size, log
        self.came = 0
        self.is_served = False
        self.turned_out: CloseReason | None = None

    def comes(self, size: int) -> None:
        """So many bytes come, if it is read."""
        assert self.may_read
        self.came += size
        self.memory.hold(self, self.came, waits=True)

    @property
    def may_read(self) -> bool:
        return self.memory.may_go_on(self, self.size)

    def look_for_room(self) -> None:
        if self.may_read and self not in self.log:
            self.log.append(self)

    def serve(self) -> None:
        """The rest comes, and a handler takes the request."""
        self.comes(self.size - self.came)
        self.memory.take(self.size)
        self.memory.served(self)
        self.came = 0
        self.memory.hold(self, 0, waits=False)
        self.is_served = True

    def turn_out(self, reason: CloseReason, detail: str) -> None:
        self.turned_out = reason
        self.memory.forget(self)


def test_a_full_memory_stops_unfinished_requests_and_they_go_on_in_order() -> None:
    async def work() -> None:
        told: list[bool] = []
        memory = RequestMemory(1_000, waiting_keys=(PRODUCE,), changed=told.append)
        went_on: list[Sender] = []
        first, second, third = (Sender(memory, 400, went_on) for _ in range(3))
        for one in (first, second, third):
            one.comes(100)
        memory.take(700)
        assert (memory.is_short, memory.waiting, went_on) == (True, 3, [])
        memory.release(200)
        assert (went_on, memory.bytes_held) == ([], 800)  # the rest of the first has 300 bytes
        memory.release(100)
        assert (went_on, memory.bytes_held, memory.waiting) == ([first], 1_000, 2)
        late = Sender(memory, 10, went_on)
        assert not late.may_read, "a small one does not overtake"
        first.serve()
        memory.release(400)
        assert went_on == [first, second]
        second.serve()
        memory.release(400 + 400)
        assert went_on == [first, second, third, late]
        third.serve()
        late.serve()
        memory.release(410)
        assert (memory.is_short, told, memory.bytes_held, memory.shortages) == (False, [True, False], 0, 1)

    lived(work())


def test_half_read_requests_that_have_all_the_memory_are_finished_one_after_the_other() -> None:
    async def work() -> None:
        memory = RequestMemory(1_000, waiting_keys=(PRODUCE,))
        went_on: list[Sender] = []
        senders = [Sender(memory, 900, went_on) for _ in range(5)]
        for one in senders[:4]:
            one.comes(250)
        assert memory.is_short
        assert went_on == senders[:1], "no complete request holds anything, so nothing else would ever become free"
        assert memory.bytes_held == 1_000 + 650
        for number, one in enumerate(senders[:4]):
            one.serve()
            assert went_on == senders[: number + 1], "the complete one is waited for"
            memory.release(900)
        assert not memory.is_short
        assert memory.bytes_held == 0

    lived(work())


def test_a_request_larger_than_all_memory_is_served_alone() -> None:
    async def work() -> None:
        memory = RequestMemory(1_000, waiting_keys=(PRODUCE,))
        went_on: list[Sender] = []
        memory.take(1_000)
        large = Sender(memory, 5_000, went_on)
        assert not large.may_read
        memory.release(999)
        assert went_on == []
        memory.release(1)
        assert went_on == [large]

    lived(work())


def test_who_trickles_with_a_grant_is_turned_out_and_the_next_goes_on() -> None:
    async def work() -> None:
        memory = RequestMemory(1_000_000, waiting_keys=(PRODUCE,))
        went_on: list[Sender] = []
        slow, next_one = Sender(memory, 900_000, went_on), Sender(memory, 900_000, went_on)
        slow.comes(500_000)
        next_one.comes(500_000)
        assert went_on == [slow]
        limit_s = GRANT_S + 900_000 / GRANT_BYTES_PER_S
        await asyncio.sleep(limit_s - 0.1)
        slow.comes(1)
        assert slow.turned_out is None
        await asyncio.sleep(0.2)
        assert slow.turned_out is CloseReason.UNFINISHED
        assert went_on == [slow, next_one]
        next_one.serve()
        memory.release(900_000)
        await asyncio.sleep(limit_s)
        assert next_one.turned_out is None
        assert memory.bytes_held == 0

    lived(work())


def test_who_has_begun_a_request_and_says_nothing_more_is_turned_out_while_memory_is_short() -> None:
    async def work() -> None:
        memory = RequestMemory(1_000, waiting_keys=(PRODUCE,))
        silent = [Sender(memory, 300, []) for _ in range(4)]
        for one in silent:
            one.comes(299)  # the last one makes it short
        went_on: list[Sender] = []
        honest = Sender(memory, 300, went_on)
        assert not honest.may_read
        while not went_on:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)
        assert asyncio.get_running_loop().time() < 4 * (GRANT_S + 1)
        honest.serve()
        memory.release(300)
        await asyncio.sleep(4 * (GRANT_S + 1))
        assert all(one.turned_out is CloseReason.UNFINISHED for one in silent)
        assert (honest.turned_out, memory.bytes_held, memory.is_short) == (None, 0, False)

    lived(work())


def test_while_memory_is_short_little_is_read_at_a_time_without_a_grant() -> None:
    async def work() -> None:
        memory = RequestMemory(1_000, waiting_keys=(PRODUCE,))
        one = Sender(memory, 400, [])
        assert memory.is_plentiful_for(one)
        memory.take(1_000)
        assert not memory.is_plentiful_for(one)
        assert len(memory.buffer) > SHORT_READ_BYTES
        assert not one.may_read
        memory.release(600)
        assert memory.is_plentiful_for(one)

    lived(work())


def test_who_left_waits_no_longer_and_holds_nothing() -> None:
    async def work() -> None:
        memory = RequestMemory(1_000, waiting_keys=(PRODUCE,))
        went_on: list[Sender] = []
        first, second = Sender(memory, 400, went_on), Sender(memory, 400, went_on)
        memory.take(1_000)
        assert not first.may_read
        assert not second.may_read
        memory.forget(first)
        memory.release(600)
        assert went_on == [second]
        memory.forget(second)
        assert memory.bytes_held == 400
        assert not memory.is_short

    lived(work())


def test_unfinished_requests_of_other_kinds_have_a_bound_of_their_own() -> None:
    async def work() -> None:
        memory = RequestMemory(1_000, unfinished_max=300, waiting_keys=(PRODUCE,))
        small, large = Sender(memory, 10_000, []), Sender(memory, 10_000, [])
        memory.take(1_000)
        memory.hold(small, 100, waits=False)
        memory.hold(large, 200, waits=False)
        assert large.turned_out is None
        memory.hold(small, 101, waits=False)
        assert large.turned_out is CloseReason.UNFINISHED
        assert (small.turned_out, memory.bytes_held) == (None, 1_101)

    lived(work())
