"""Drains of nodes: what is refused, what outlives a restart, and which process of a node drains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.core.commands import OK, DrainNode, Outcome, RegisterNode
from coordinator.core.directory.decisions import decide_register, registration_record
from coordinator.core.directory.draining import decide_drain, is_draining, with_drain_of
from coordinator.core.drains import Drain, drain_text
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.errors import ErrorCode
from records.model import Endpoint, NodeRegistered

FIRST, SECOND = b"1" * 16, b"2" * 16
NODE = RegisterNode(
    node_id=4, rack="", endpoints=[Endpoint(listener="L", host="h", port=1)], schema_level_max=1, incarnation_id=FIRST, log_dirs=(FIRST,)
)


def service(*node_ids: int) -> HotState:
    hot = HotState()
    for offset, node_id in enumerate(node_ids):
        hot.apply(registration_record(replace(NODE, node_id=node_id)), offset)
    return hot


def drain(hot: HotState, node_id: int, how: int, *, members: frozenset[int] = frozenset({4, 5})) -> Outcome:
    """Decide, and apply what is logged."""
    records, outcome = decide_drain(hot.directory, DrainNode(node_id=node_id, drain=how, members=members))
    for record in records:
        assert isinstance(record, NodeRegistered)
        assert record == replace(hot.directory.nodes[node_id], drain=how)
        hot.apply(record, 90)
    return outcome


def restart(hot: HotState) -> None:
    [record], outcome = decide_register(hot.directory, replace(NODE, incarnation_id=SECOND, replaced_id=FIRST))
    assert outcome == OK
    hot.apply(record, 91)


def test_a_drain_of_a_process_ends_with_it() -> None:
    hot = service(4, 5)
    assert drain(hot, 4, Drain.PROCESS) == OK
    assert is_draining(hot.directory, 4, FIRST)
    assert not is_draining(hot.directory, 4, SECOND), "the next process does not wait for its registration"
    assert decide_register(hot.directory, NODE) == ([], OK), "the process itself does not end its drain by registering again"
    moved = replace(NODE, endpoints=[Endpoint(listener="L", host="h", port=2)])
    assert decide_register(hot.directory, moved)[0][0].drain == Drain.PROCESS  # type: ignore[union-attr]
    restart(hot)
    assert hot.directory.nodes[4].drain == Drain.NONE


def test_a_lasting_drain_ends_when_it_is_undone() -> None:
    hot = service(4, 5)
    drain(hot, 4, Drain.LASTING)
    assert is_draining(hot.directory, 4, SECOND), "a new process drains before it has registered"
    restart(hot)
    assert is_draining(hot.directory, 4, SECOND)
    assert drain(hot, 4, Drain.NONE) == OK
    assert not is_draining(hot.directory, 4, SECOND)


def test_a_node_knows_its_registration_again_while_it_drains() -> None:
    hot = service(4, 5)
    drain(hot, 4, Drain.PROCESS)
    known = hot.directory.nodes[4]
    assert with_drain_of(known, registration_record(NODE)) == known
    assert with_drain_of(None, registration_record(NODE)).drain == Drain.NONE


def test_the_last_member_that_leads_is_not_drained() -> None:
    hot = service(4, 5, 6)
    refused = drain(hot, 4, Drain.PROCESS, members=frozenset({4}))
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert "node 4 is the last one that leads" in str(refused.message)
    assert drain(hot, 5, Drain.LASTING) == OK
    assert drain(hot, 4, Drain.PROCESS).error is ErrorCode.INVALID_REQUEST, "of two drains at a time one is refused"
    assert drain(hot, 4, Drain.PROCESS, members=frozenset({4, 6})) == OK
    assert drain(hot, 4, Drain.NONE, members=frozenset()) == OK, "ending a drain needs nobody"


def test_a_node_below_the_level_in_force_is_none_that_could_take_over() -> None:
    hot = service(4, 5)
    hot.directory.schema_level = 2
    assert drain(hot, 4, Drain.PROCESS).error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("how", Drain)
def test_what_is_so_already_writes_nothing(how: Drain) -> None:
    hot = service(4, 5)
    drain(hot, 4, how)
    assert decide_drain(hot.directory, DrainNode(node_id=4, drain=how, members=frozenset())) == ([], OK)


def test_bad_requests_are_refused() -> None:
    hot = service(4, 5)
    assert drain(hot, 7, Drain.PROCESS).error is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert "these are: 4, 5" in str(drain(hot, 7, Drain.PROCESS).message)
    for how in (-1, 3, 127):
        assert drain(hot, 4, how).error is ErrorCode.INVALID_REQUEST


def test_drains_are_told_to_people() -> None:
    assert [drain_text(one) for one in (*Drain, 77)] == ["", "until it is restarted", "until undrained", "77"]
