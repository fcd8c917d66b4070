"""How the integration tests wait for conditions (`integration_tests/waiting.py`)."""

from __future__ import annotations

from itertools import count

import pytest

from integration_tests.waiting import wait_until, wait_until_done


def test_an_excused_error_means_not_yet() -> None:
    attempt = count()

    def act() -> None:
        if next(attempt) < 2:
            raise ConnectionError("refused")

    wait_until_done(act, "an answer", ConnectionError)
    assert next(attempt) == 3


def test_a_wait_in_vain_tells_the_last_error() -> None:
    attempt = count()

    def refuse() -> None:
        raise ConnectionError(f"refused {next(attempt)}")

    with pytest.raises(AssertionError, match=r"waited 0\.001 s in vain for an answer; last error: ConnectionError\('refused [1-9]\d*'\)"):
        wait_until_done(refuse, "an answer", (ConnectionError, TimeoutError), 0.001)
    with pytest.raises(AssertionError, match=r"waited 0\.001 s in vain for an answer$"):
        wait_until(lambda: False, "an answer", 0.001)


def test_another_error_ends_the_wait() -> None:
    def refuse() -> bool:
        raise ValueError("no such topic")

    with pytest.raises(ValueError, match="no such topic"):
        wait_until(refuse, "an answer", excused=ConnectionError)
