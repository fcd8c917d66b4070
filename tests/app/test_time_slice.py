"""The thread of the event loop asks for short time slices, and the threads that it starts do not have them."""

from __future__ import annotations

import logging
import os
import platform
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from coordinator.app.process.time_slice import SLICE_NS, Attributes, ask_for_short_slices, attributes_of_thread

T = TypeVar("T")

NOT_TOLD = Attributes(0, 0, 0, 0, 0, 0, 0, 0)


def usual() -> Attributes:
    """How these tests were started."""
    try:
        return attributes_of_thread()
    except OSError:
        return NOT_TOLD


USUAL = usual()

pytestmark = pytest.mark.skipif(
    USUAL.runtime_ns == 0 or USUAL.policy != os.SCHED_OTHER or USUAL.nice < 0,
    reason="only Linux 6.12 and later has slices, and these tests were started under another policy or priority than the usual",
)


def in_a_thread(work: Callable[[], T]) -> T:
    """Do work in a thread of its own: what is asked for a thread cannot be asked for another one."""
    done: list[T] = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    thread.join()
    return done[0]


def asked_beside_a_child() -> tuple[Attributes, Attributes]:
    ask_for_short_slices()
    return attributes_of_thread(), in_a_thread(attributes_of_thread)


def test_the_thread_that_asks_has_short_slices_and_its_children_have_not() -> None:
    own, child = in_a_thread(asked_beside_a_child)
    assert (own.policy, own.nice, own.runtime_ns) == (os.SCHED_OTHER, USUAL.nice, SLICE_NS)
    assert child == USUAL
    assert USUAL.runtime_ns > SLICE_NS


@pytest.mark.parametrize("name", ["SCHED_BATCH", "SCHED_IDLE"])
def test_a_thread_with_a_policy_of_its_own_is_left_alone(name: str) -> None:
    policy: int = getattr(os, name)

    def asked() -> tuple[Attributes, Attributes]:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        before = attributes_of_thread()
        ask_for_short_slices()
        return before, attributes_of_thread()

    before, after = in_a_thread(asked)
    assert after == before
    assert after.policy == policy


def test_a_lower_priority_is_kept() -> None:
    def asked() -> Attributes:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)
        ask_for_short_slices()
        return attributes_of_thread()

    asked_with = in_a_thread(asked)
    assert (asked_with.nice, asked_with.runtime_ns) == (7, SLICE_NS)


def test_a_system_that_refuses_is_told_and_nothing_fails(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with caplog.at_level(logging.INFO):
        in_a_thread(ask_for_short_slices)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "Function not implemented" in caplog.text
