"""A run that waits long says what for."""

from __future__ import annotations

import threading

from integration_tests.faults.waits import Waits


class Heard:
    """What was said; an event for each line up to the third."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_said = [threading.Event() for _ in range(3)]

    def say(self, text: str) -> None:
        self.lines.append(text)
        if len(self.lines) <= 3:
            self.is_said[len(self.lines) - 1].set()


def test_a_long_wait_is_told_with_what_is_known_of_it_and_again_while_it_goes_on() -> None:
    heard = Heard()
    with Waits(heard.say, long_s=0.01).on("clients to end") as wait:
        assert heard.is_said[0].wait(60)
        wait.detail = "java-1"
        assert heard.is_said[2].wait(60)
    assert heard.lines[0] == "  waits for 0.01 s already for clients to end"
    assert heard.lines[2] == "  waits for 0.04 s already for clients to end: java-1"
    count = len(heard.lines)
    assert not any(thread.name == "waits" for thread in threading.enumerate())
    assert len(heard.lines) == count


def test_a_short_wait_is_not_told() -> None:
    heard = Heard()
    with Waits(heard.say, long_s=3600).on("clients to end"):
        pass
    assert heard.lines == []
