"""Rival drivers and leaders migrate a partition: nothing is lost or doubled, B0 is one; and each rule is missed when it is left out."""

from __future__ import annotations

import pytest

from simulation.protections.protection import applied
from simulation.protections.weakened_migrations import MIGRATION_RULES
from simulation.rival_migrations import rival_migrations

SEEDS = 20
SEEDS_LONG = 5_000
SEEDS_UNTIL_MISSED = 60


def test_a_seed_has_one_outcome() -> None:
    assert rival_migrations(5) == rival_migrations(5)


def test_no_rule_is_broken_over_some_seeds() -> None:
    outcomes = [rival_migrations(seed) for seed in range(SEEDS)]
    assert [one for one in outcomes if one.violation is not None] == []
    assert sum(one.resets for one in outcomes) > 5
    assert all(one.migrations >= 2 for one in outcomes)
    assert len({one.start_offset for one in outcomes}) > SEEDS / 4


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_rule_is_broken_over_thousands_of_seeds() -> None:
    assert [one for seed in range(SEEDS_LONG) if (one := rival_migrations(seed)).violation is not None] == []


@pytest.mark.parametrize("name", MIGRATION_RULES)
def test_each_rule_is_missed(name: str) -> None:
    with applied(MIGRATION_RULES[name].patches):
        assert any(rival_migrations(seed).violation is not None for seed in range(SEEDS_UNTIL_MISSED)), MIGRATION_RULES[name].rule
