"""The model of assignments keeps its promises, and each rule is needed for one of them."""

from __future__ import annotations

from functools import partial

import pytest

from tests.models.believing_mc import VARIANTS, World, broken, steps
from tests.models.exploring import explore


@pytest.mark.parametrize(
    ("variant", "promise"),
    [
        ("all rules", ""),
        ("no proof before a claim", "who was replaced takes the term from its successor"),
        ("a proof holds through a foreign claim", "who was replaced takes the term from its successor"),
        ("any claim is in force", "two terms have one epoch"),
        ("any own entry is acknowledged", "an acknowledged entry is of a term that is over"),
        ("the plan prefers who leads to who is to claim", "a round takes a claim under way back"),
    ],
)
def test_each_rule_keeps_a_promise(variant: str, promise: str) -> None:
    rules = VARIANTS[variant]
    states, found, world = explore(World(), partial(steps, rules=rules), partial(broken, rules=rules))
    assert found == promise, world
    assert states > 1_000
