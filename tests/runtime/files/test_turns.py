"""Who deletes the object of a file with several owners: exactly one of them, when no owner has live batches or ever will."""

from __future__ import annotations

import random
from itertools import product

import pytest

from coordinator.core.commands import FileStanding
from coordinator.runtime.files.turns import Ask, Delete, HandOver, Wait, next_step

LIVE, EMPTY, FENCED, REMOVED, HANDED_OVER = (
    FileStanding.LIVE,
    FileStanding.EMPTY,
    FileStanding.FENCED,
    FileStanding.REMOVED,
    FileStanding.HANDED_OVER,
)


@pytest.mark.parametrize(
    ("owners", "own", "known", "step"),
    [
        ([7], 7, {}, Delete()),
        ([7, 3], 7, {}, Ask(3)),
        ([7, 3], 7, {3: FENCED}, Delete()),
        ([7, 3], 7, {3: LIVE}, HandOver(3)),
        ([7, 3], 7, {3: EMPTY}, HandOver(3)),
        ([7, 3], 3, {}, Ask(7)),
        ([7, 3], 3, {7: LIVE}, Wait(7)),
        ([7, 3], 3, {7: EMPTY}, Wait(7)),
        ([7, 3], 3, {7: FENCED}, Delete()),
        ([7, 3], 3, {7: HANDED_OVER}, Delete()),
        ([7, 3], 3, {7: REMOVED}, Delete()),
        ([7, 3], 3, {7: FileStanding.UNKNOWN}, Wait(7)),
        ([7, 3], 7, {3: FileStanding.UNKNOWN}, HandOver(3)),
        ([1, 2, 3, 4], 2, {}, Ask(1)),
        ([1, 2, 3, 4], 2, {1: FENCED}, Ask(3)),
        ([1, 2, 3, 4], 2, {1: FENCED, 3: FENCED}, Ask(4)),
        ([1, 2, 3, 4], 2, {1: FENCED, 3: FENCED, 4: EMPTY}, HandOver(4)),
        ([1, 2, 3, 4], 2, {1: HANDED_OVER, 3: FENCED, 4: FENCED}, Delete()),
    ],
)
def test_steps(owners: list[int], own: int, known: dict[int, FileStanding], step: object) -> None:
    assert next_step(owners, own, known) == step


def test_an_object_is_deleted_by_none_as_long_as_an_owner_is_not_out() -> None:
    """All answers that three other owners can give."""
    for own, given in product(range(4), product(FileStanding, repeat=3)):
        known = dict(zip((owner for owner in range(4) if owner != own), given, strict=True))
        is_deleted = isinstance(next_step(range(4), own, known), Delete)
        assert is_deleted == all(standing.is_out for standing in given)


def test_who_is_no_owner_has_no_turn() -> None:
    with pytest.raises(ValueError, match="not in"):
        next_step([1, 2], 3, {})


class Owners:
    """The owners of one file as their logs say, and a store with its object. What workers learned may be old."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self.rng = rng
        self.standing = [rng.choice([FileStanding.UNKNOWN, LIVE, LIVE]) for _ in range(count)]
        if LIVE not in self.standing:
            self.standing[rng.randrange(count)] = LIVE
        self.known: list[dict[int, FileStanding]] = [{} for _ in range(count)]
        self.is_there = True
        self.deletions = 0

    def act(self) -> None:
        own = self.rng.randrange(len(self.standing))
        if self.standing[own] is LIVE:
            if self.rng.random() < 0.1:
                self.standing[own] = EMPTY
            return
        if self.standing[own] is not EMPTY:
            return
        known = self.known[own]
        match next_step(range(len(self.standing)), own, known):
            case Ask(owner):
                if self.standing[owner] is FileStanding.UNKNOWN:
                    self.standing[owner] = FENCED
                known[owner] = self.standing[owner]
            case Wait():
                known.clear()
            case HandOver():
                self.standing[own] = HANDED_OVER
            case Delete():
                assert LIVE not in self.standing
                assert FileStanding.UNKNOWN not in self.standing
                self.is_there = False
                self.deletions += 1
                if self.rng.random() < 0.7:  # the worker may end between the deletion and the entry
                    self.standing[own] = REMOVED
                else:
                    known.clear()


@pytest.mark.parametrize("seed", range(200))
def test_every_object_goes_in_the_end_and_none_too_early(seed: int) -> None:
    rng = random.Random(seed)
    owners = Owners(rng, rng.randint(1, 6))
    for _ in range(10_000):
        owners.act()
    assert not owners.is_there
    assert owners.standing.count(REMOVED) == 1
    assert all(standing.is_out for standing in owners.standing)
