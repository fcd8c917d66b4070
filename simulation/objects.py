"""The rules of objects: none goes that a live batch needs or that a reader was just told of, and all others go in the end.

Every deletion in the store is judged against the meaning of the logs at that moment, independent of the deleter and its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from coordinator.object_store import is_key
from simulation.fold import HELD, LogFold
from simulation.scenario import Scenario, SimulatedFiles

NEEDED = "no object that a live batch needs is removed"
TOLD = "readers find what they were told of"
YOUNG = "no young commit is refused"
PLAIN = "objects that no file can have stay, and are committed by nobody"
MEASURED_S = 0.3
"""How far the untouched clocks of nodes may be off: they are compared with the brokers' every now and then."""


class JudgedObjects:
    """See the module's text."""

    def __init__(
        self,
        scenario: Scenario,
        life: SimulatedFiles,
        folds: Sequence[LogFold],
        now_s: Callable[[], float],
        broken: Callable[[str, str], None],
    ) -> None:
        self._life = life
        self._folds = folds
        self._now_s = now_s
        self._broken = broken
        self._are_clocks_true = scenario.are_clocks_true
        self._are_clocks_near = scenario.are_clocks_near
        self._uploaded_s: dict[str, float] = {}
        self._given_up: set[str] = set()
        self.removed_keys: set[str] = set()
        self._told_s: dict[str, float] = {}
        self._seen = [0] * len(folds)

    def uploaded(self, key: str) -> None:
        """An object of a file was uploaded."""
        self._uploaded_s[key] = self._now_s()

    def given_up(self, key: str) -> None:
        """The uploader of a file has it fenced, however young it is."""
        self._given_up.add(key)

    def landed(self, partition: int) -> None:
        """Something took effect in a log: no file may have got live batches whose object is gone."""
        fold = self._folds[partition]
        fresh = list(islice(reversed(fold.committed), len(fold.committed) - self._seen[partition]))
        self._seen[partition] = len(fold.committed)
        for key in fresh:
            if not is_key(key):
                self._broken(PLAIN, f"coordinator {partition} committed {key!r}")
            if key in self.removed_keys and fold.has_live_batches(key):
                self._broken(NEEDED, f"{key} was deleted before coordinator {partition} committed batches of it")

    def found(self, keys: Iterable[str]) -> None:
        """A reader got an answer about batches in these objects: it has half of the grace to read them."""
        if self._are_clocks_true:
            until_s = self._now_s() + self._life.grace_s / 2
            self._told_s.update((key, until_s) for key in keys)

    def removed(self, key: str) -> None:
        """An object is deleted in the store."""
        if not is_key(key):
            self._broken(PLAIN, f"{key!r} is deleted")
        if key not in self._uploaded_s:
            return
        self.removed_keys.add(key)
        needing = [fold.partition for fold in self._folds if fold.has_live_batches(key)]
        if self._folds[0].is_restore_open and key not in self._given_up:
            self._broken(HELD, f"{key} is deleted")
        elif needing:
            self._broken(NEEDED, f"{key} is deleted, though coordinators {needing} have live batches of it")
        elif (late_s := self._told_s.get(key, 0.0) - self._now_s()) > 0:
            self._broken(TOLD, f"{key} is deleted {late_s:.2f} s too early for a reader that was told of it")

    def refused(self, who: str, key: str) -> None:
        """A node refused a commit for good: it must be older than every honest one."""
        age_s = self._now_s() - self._uploaded_s[key]
        if self._are_clocks_true and key not in self._given_up and age_s < self._life.commit_age_s - MEASURED_S:
            self._broken(YOUNG, f"{who}, refused for good {age_s:.2f} s after it was uploaded")

    def left(self, keys: Iterable[str]) -> list[str]:
        """The objects that should be gone by now: those that no state needs; if orphans are not looked for, of committed files only.

        An upload that takes effect after its object was deleted makes an orphan, too.
        A clock that is hours ahead dates what becomes empty then as far in the future, and the object goes that much later: after life.
        """
        if not self._are_clocks_near:
            return []
        return [
            f"{key} is still there"
            for key in keys
            if key in self._uploaded_s
            and (self._life.scan_s or (key not in self.removed_keys and any(key in fold.committed for fold in self._folds)))
            and not any(fold.has_live_batches(key) for fold in self._folds)
        ]
