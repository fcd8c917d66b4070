"""Who is in the group is asked by a child process, because librdkafka may end whoever asks; the answers: contract `members_...`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from coordinator.adapters.kafka import group
from coordinator.adapters.kafka.group import describe_members

HERE = Path(__file__).parents[2]
DEADLY = {
    "alter_consumer_group_offsets",
    "delete_consumer_groups",
    "describe_cluster",
    "describe_consumer_groups",
    "list_consumer_group_offsets",
}
"""Requests of admin clients that may end their process: those to a group's coordinator, and one without any broker in its answer."""


def refusal(timeout_s: float = 1.0) -> KafkaError:
    """How the brokers of an address where nobody listens answer."""
    with pytest.raises(KafkaException) as raised:
        describe_members({"bootstrap.servers": "127.0.0.1:1"}, "g", timeout_s)
    error: KafkaError = raised.value.args[0]
    return error


def test_without_brokers_the_question_times_out() -> None:
    assert refusal().code() == KafkaError._TIMED_OUT


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import os, sys; print('assertion failed', file=sys.stderr, flush=True); os.abort()", "status -6: assertion failed"),
        ("import os; os.abort()", "status -6: nothing on standard error"),
        ("raise ValueError('no')", "status 1: ValueError: no"),
    ],
)
def test_the_end_of_the_child_is_an_error_like_any_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, told: str) -> None:
    script = tmp_path / "child.py"
    script.write_text(program, encoding="utf-8")
    monkeypatch.setattr(group, "__file__", str(script))
    error = refusal()
    assert error.code() == KafkaError._FAIL
    assert error.str().endswith(told)


def test_a_child_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text("import signal; signal.pause()", encoding="utf-8")
    monkeypatch.setattr(group, "__file__", str(script))
    monkeypatch.setattr(group, "START_S", 0.1)
    assert refusal(timeout_s=0.1).code() == KafkaError._TIMED_OUT


def test_no_other_module_of_the_coordinator_makes_requests_that_may_end_it() -> None:
    found = {
        str(path.relative_to(HERE))
        for path in (HERE / "coordinator").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in DEADLY
    }
    assert found == {"coordinator/adapters/kafka/group.py"}
