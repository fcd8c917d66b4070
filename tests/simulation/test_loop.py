"""A process of the simulator that does the same again and again is noticed, and one that works is not."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.loop import CALLBACKS_PER_S_MAX, ProcessSpins, VirtualLoop, VirtualTime


@pytest.mark.parametrize(("pause_s", "spins"), [(0.0, True), (0.9 / CALLBACKS_PER_S_MAX, True), (1.2 / CALLBACKS_PER_S_MAX, False)])
def test_a_process_that_spins_is_an_error(pause_s: float, spins: bool) -> None:
    time = VirtualTime()
    loop = time.new_loop("1.1")
    errors: list[Any] = []

    def note(_: VirtualLoop, context: dict[str, Any]) -> None:
        errors.append(context["exception"])
        time.is_over = True

    def again() -> None:
        if pause_s:
            loop.call_later(pause_s, loop.call_soon, again)
        else:
            loop.call_soon(again)

    time.on_error = note
    loop.call_soon(again)
    time.run_until(3.0)
    assert [type(one) for one in errors] == [ProcessSpins] * spins
