"""The clock of the tests' event loop."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.patient_loop import ROUND_S, PatientLoop


async def test_tests_run_on_it() -> None:
    assert isinstance(asyncio.get_running_loop(), PatientLoop)


def test_so_does_what_tests_run_by_themselves() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(asyncio.run(loop()), PatientLoop)


async def test_nothing_runs_out_while_the_process_stands_still() -> None:
    event = asyncio.Event()
    async with asyncio.timeout(2 * ROUND_S):
        time.sleep(4 * ROUND_S)  # noqa: ASYNC251 - the process stands still
        asyncio.get_running_loop().call_soon(event.set)
        await event.wait()


async def test_a_wait_is_as_long_as_on_the_machines_clock() -> None:
    began_s = time.monotonic()
    await asyncio.sleep(3 * ROUND_S)
    assert time.monotonic() - began_s >= 3 * ROUND_S


async def test_what_takes_too_long_ends() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(ROUND_S):
            await asyncio.Event().wait()
