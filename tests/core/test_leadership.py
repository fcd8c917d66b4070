"""Every pair of state and trigger: the listed ones lead where the rules say, all others raise."""

from __future__ import annotations

from itertools import product

import pytest

from coordinator.core.leadership.states import TRANSITIONS, IllegalTransition, State, Trigger, transition

_S, _T = State, Trigger

# One row per state, written from the rules of leadership, not from the table: what each trigger leads to.
EXPECTED: dict[State, dict[Trigger, State]] = {
    _S.FOLLOWING: {
        _T.ASSIGNED: _S.RECOVERING,
        _T.UNASSIGNED: _S.FOLLOWING,
        _T.FOREIGN_CLAIM: _S.FOLLOWING,
        _T.STOP: _S.RESIGNING,
        _T.BROKEN: _S.FAILED,
    },
    _S.RECOVERING: {
        _T.ASSIGNED: _S.RECOVERING,
        _T.UNASSIGNED: _S.FOLLOWING,
        _T.CAUGHT_UP: _S.FENCING,
        _T.FOREIGN_CLAIM: _S.RECOVERING,
        _T.STOP: _S.RESIGNING,
        _T.BROKEN: _S.FAILED,
    },
    _S.FENCING: {
        _T.ASSIGNED: _S.FENCING,
        _T.UNASSIGNED: _S.FENCING,
        _T.OWN_CLAIM: _S.LEADING,
        _T.FOREIGN_CLAIM: _S.RECOVERING,
        _T.TERM_BROKEN: _S.RECOVERING,
        _T.STOP: _S.RESIGNING,
        _T.BROKEN: _S.FAILED,
    },
    _S.LEADING: {
        _T.ASSIGNED: _S.LEADING,
        _T.UNASSIGNED: _S.LEADING,
        _T.FOREIGN_CLAIM: _S.RECOVERING,
        _T.TERM_BROKEN: _S.RECOVERING,
        _T.STOP: _S.RESIGNING,
        _T.BROKEN: _S.FAILED,
    },
    _S.RESIGNING: dict.fromkeys((_T.ASSIGNED, _T.UNASSIGNED, _T.OWN_CLAIM, _T.FOREIGN_CLAIM, _T.TERM_BROKEN, _T.STOP), _S.RESIGNING)
    | {_T.BROKEN: _S.FAILED},
    _S.FAILED: dict.fromkeys((_T.ASSIGNED, _T.UNASSIGNED, _T.STOP, _T.BROKEN), _S.FAILED),
}
PAIRS = list(product(State, Trigger))


@pytest.mark.parametrize(("state", "trigger"), PAIRS, ids=[f"{s.value}-{t.value}" for s, t in PAIRS])
def test_every_pair_is_listed_or_raises(state: State, trigger: Trigger) -> None:
    expected = EXPECTED[state].get(trigger)
    if expected is None:
        assert (state, trigger) not in TRANSITIONS
        with pytest.raises(IllegalTransition, match=f"{state.value} cannot take '{trigger.value}'"):
            transition(state, trigger)
    else:
        assert transition(state, trigger) is expected


def test_only_an_own_claim_leads_to_leading() -> None:
    assert [pair for pair, after in TRANSITIONS.items() if after is _S.LEADING and pair[0] is not _S.LEADING] == [
        (_S.FENCING, _T.OWN_CLAIM)
    ]


def test_a_claim_is_produced_only_by_one_that_was_assigned_and_caught_up() -> None:
    assert [pair for pair, after in TRANSITIONS.items() if after is _S.FENCING and pair[0] is not _S.FENCING] == [
        (_S.RECOVERING, _T.CAUGHT_UP)
    ]


def test_losing_the_assignment_never_ends_leading_or_a_claim_under_way() -> None:
    assert all(transition(state, _T.UNASSIGNED) is state for state in (_S.LEADING, _S.FENCING, _S.RESIGNING))


def test_a_broken_invariant_fails_from_every_state() -> None:
    assert {transition(state, _T.BROKEN) for state in State} == {_S.FAILED}
