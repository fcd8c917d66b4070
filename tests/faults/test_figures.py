"""Figures of a run: what counts as an outage, as an answer, and as the time of a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integration_tests.faults.figures import (
    LATE_S,
    Outages,
    Spread,
    answer_times,
    answers_by_code,
    file_times,
    is_hit,
    late_answers,
    spread,
)
from integration_tests.faults.nemesis import Done
from integration_tests.watched import COMMIT_TIMEOUT_S
from tests.faults.test_checker import changed, good


def test_spread() -> None:
    assert spread([]) is None
    assert spread(float(value) for value in range(100, 0, -1)) == Spread(count=100, p50=51.0, p99=100.0, most=100.0)


def test_answers_are_counted_by_the_time_of_their_attempt() -> None:
    history, _ = good()
    assert answers_by_code(history, 0, 100) == {"NONE": 5, "no answer": 1, "NOT_COORDINATOR": 2, "INVALID_REQUEST": 1}
    assert answers_by_code(history, 3.0, 6.1) == {"NONE": 1, "no answer": 1, "NOT_COORDINATOR": 1}


def test_a_file_takes_from_its_first_sending_to_its_first_final_answer() -> None:
    history, _ = good()
    assert dict(zip(["a", "b", "c", "d"], file_times(history), strict=True)) == {
        "a": (1.0, pytest.approx(1.0)),
        "b": (3.0, pytest.approx(4.0)),
        "c": (3.5, pytest.approx(0.5)),
        "d": (8.0, pytest.approx(1.0)),
    }


def test_an_outage_is_the_longest_time_without_an_acknowledgement() -> None:
    history, _ = good()
    outages = Outages(answer_times(history))
    found = outages.within(4.5, 8.0)
    assert (found.most_s, found.coordinators_hit) == (pytest.approx(2.5), 1)
    assert outages.within(6.9, 7.3).coordinators_hit == 0


def test_outages_are_those_of_faults_that_were_recovered_from() -> None:
    history, _ = good()
    healed = Done(action="kill", target="c1", round_number=1, begun_s=4.5, healed_s=6.0, flowing_s=8.0)
    open_end = Done(action="kill", target="c1", round_number=2, begun_s=8.0)
    found = Outages(answer_times(history)).by_action([healed, open_end])
    assert [fault for fault, _ in found["kill"]] == [healed]


def test_an_outage_that_begins_after_the_first_commits_is_put_down_to_the_round_too() -> None:
    history, _ = good()
    fault = Done(action="kill", target="c1", round_number=1, begun_s=1.0, healed_s=1.5, flowing_s=2.5)
    until_flowing = Outages(answer_times(history)).by_action([fault])["kill"][0][1]
    until_over = Outages(answer_times(history)).by_action([replace(fault, over_s=6.5)])["kill"][0][1]
    assert (until_flowing.most_s, until_over.most_s) == (pytest.approx(1.0), pytest.approx(2.5))


def test_an_answer_that_comes_too_late_is_explained_only_by_a_fault_of_its_own_node() -> None:
    history, _ = good()
    assert late_answers(history) == []
    answered_s = history.attempts[0].invoked_s + COMMIT_TIMEOUT_S + LATE_S + 0.5
    (late,) = late_answers(changed(history, "attempts", 0, answered_s=answered_s))
    cut = Done(action="isolate", target="c1", round_number=1, begun_s=0.5, healed_s=7.0, flowing_s=8.0)
    assert is_hit(late, [cut])
    assert not is_hit(late, [replace(cut, target="c2"), replace(cut, target="k1")])
    assert not is_hit(late, [replace(cut, begun_s=answered_s + 0.5, healed_s=answered_s + 1), replace(cut, begun_s=-9.0, healed_s=-8.0)])
