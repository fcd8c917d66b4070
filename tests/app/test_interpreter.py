"""Threads keep the interpreter for longer while the load is heavy."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from coordinator.app.interpreter import HEAVY_LOAD_S, LIGHT_LOAD_S, share_interpreter


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_the_interval_follows_the_load() -> None:
    seen = []
    for is_heavy in (False, True, False):
        share_interpreter(is_heavy)
        seen.append(sys.getswitchinterval())
    assert seen == pytest.approx([LIGHT_LOAD_S, HEAVY_LOAD_S, LIGHT_LOAD_S])
