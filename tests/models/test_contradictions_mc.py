"""The model of contradictory entries keeps its promises, and each rule is needed for one of them."""

from __future__ import annotations

from functools import partial

import pytest

from tests.models.contradictions_mc import VARIANTS, World, broken, steps
from tests.models.exploring import explore


@pytest.mark.parametrize(
    ("variant", "promise"),
    [
        ("all rules", ""),
        # Only what a leader acknowledged by its damaged state is lost then, and every replica says so.
        ("damage is not found at load", ""),
        ("nor is a loaded state suspected", "replicas differ about an entry"),
        ("nor are contradictions void", "an offset is given out twice"),
    ],
)
def test_each_rule_keeps_a_promise(variant: str, promise: str) -> None:
    rules = VARIANTS[variant]
    states, found, world = explore(World(), partial(steps, rules=rules), partial(broken, rules=rules))
    assert found == promise, world
    assert states > 50
