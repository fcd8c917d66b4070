"""The life of one replica as a table: following, recovering, fencing, leading, resigning, failed.

The consumer group's assignment is only the permission to claim; the log decides who leads. So a leader that loses the
assignment goes on leading until it reads a foreign claim or one of its own entries goes wrong: a crash of the
group coordinator's broker takes every member's assignment away though no other member can be assigned.
A pair that is not in the table is a programming error and raises.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The states of a replica."""

    FOLLOWING = "following"
    RECOVERING = "recovering"
    FENCING = "fencing"
    LEADING = "leading"
    RESIGNING = "resigning"
    FAILED = "failed"


class Trigger(Enum):
    """The events that change the state of a replica."""

    ASSIGNED = "assigned"
    UNASSIGNED = "unassigned"
    CAUGHT_UP = "caught up"
    OWN_CLAIM = "own claim in force"
    FOREIGN_CLAIM = "foreign claim in force"
    TERM_BROKEN = "term broken"
    STOP = "stop"
    BROKEN = "broken invariant"


_S = State
_T = Trigger

TRANSITIONS: dict[tuple[State, Trigger], State] = {
    (_S.FOLLOWING, _T.ASSIGNED): _S.RECOVERING,
    (_S.FOLLOWING, _T.UNASSIGNED): _S.FOLLOWING,
    (_S.FOLLOWING, _T.FOREIGN_CLAIM): _S.FOLLOWING,
    (_S.FOLLOWING, _T.STOP): _S.RESIGNING,
    (_S.FOLLOWING, _T.BROKEN): _S.FAILED,
    (_S.RECOVERING, _T.ASSIGNED): _S.RECOVERING,
    (_S.RECOVERING, _T.UNASSIGNED): _S.FOLLOWING,
    (_S.RECOVERING, _T.FOREIGN_CLAIM): _S.RECOVERING,
    (_S.RECOVERING, _T.CAUGHT_UP): _S.FENCING,
    (_S.RECOVERING, _T.STOP): _S.RESIGNING,
    (_S.RECOVERING, _T.BROKEN): _S.FAILED,
    (_S.FENCING, _T.ASSIGNED): _S.FENCING,
    # The claim is on its way and cannot be called back: if it comes into force, this replica leads.
    (_S.FENCING, _T.UNASSIGNED): _S.FENCING,
    (_S.FENCING, _T.OWN_CLAIM): _S.LEADING,
    (_S.FENCING, _T.FOREIGN_CLAIM): _S.RECOVERING,
    (_S.FENCING, _T.TERM_BROKEN): _S.RECOVERING,
    (_S.FENCING, _T.STOP): _S.RESIGNING,
    (_S.FENCING, _T.BROKEN): _S.FAILED,
    (_S.LEADING, _T.ASSIGNED): _S.LEADING,
    (_S.LEADING, _T.UNASSIGNED): _S.LEADING,
    (_S.LEADING, _T.FOREIGN_CLAIM): _S.RECOVERING,
    (_S.LEADING, _T.TERM_BROKEN): _S.RECOVERING,
    (_S.LEADING, _T.STOP): _S.RESIGNING,
    (_S.LEADING, _T.BROKEN): _S.FAILED,
    (_S.RESIGNING, _T.ASSIGNED): _S.RESIGNING,
    (_S.RESIGNING, _T.UNASSIGNED): _S.RESIGNING,
    (_S.RESIGNING, _T.OWN_CLAIM): _S.RESIGNING,
    (_S.RESIGNING, _T.FOREIGN_CLAIM): _S.RESIGNING,
    (_S.RESIGNING, _T.TERM_BROKEN): _S.RESIGNING,
    (_S.RESIGNING, _T.STOP): _S.RESIGNING,
    (_S.RESIGNING, _T.BROKEN): _S.FAILED,
    (_S.FAILED, _T.ASSIGNED): _S.FAILED,
    (_S.FAILED, _T.UNASSIGNED): _S.FAILED,
    (_S.FAILED, _T.STOP): _S.FAILED,
    (_S.FAILED, _T.BROKEN): _S.FAILED,
}


class IllegalTransition(Exception):
    """The table has no such pair."""


def transition(state: State, trigger: Trigger) -> State:
    """The state after `trigger`. Raises `IllegalTransition` for a pair that is not in the table."""
    try:
        return TRANSITIONS[(state, trigger)]
    except KeyError:
        raise IllegalTransition(f"a replica that is {state.value} cannot take {trigger.value!r}") from None
