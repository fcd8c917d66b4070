"""How committers of a run upload objects, and what becomes of some of them between the upload and the last commit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import Enum

from coordinator.core.commands import CommitFile
from coordinator.kafka.batches import split_partition_key
from simulation.fakes.snapshots import FakeObjects
from simulation.judge import Judge
from simulation.loop import START_MS
from simulation.objects import JudgedObjects
from simulation.scenario import SimulatedFiles

PREFIX = "wal/"
UNUSUAL_KEYS = (f"{PREFIX}/double", f"{PREFIX}./dot", f"{PREFIX}folder/", f"{PREFIX}tab\t")
"""Keys that no file can have. Objects of such keys lie in the store, and strangers commit them."""
UPLOADED_S = (0.0, 0.05)
PAUSE_AGES = (0.3, 1.5)
"""How long uploaders pause, in ages at which commits are refused."""
ALL_OWNERS_CHANCE = 0.25
UNDATED_CHANCE = 0.15
REPEATED_CHANCE = 0.1


class UploadFate(Enum):
    """The behaviour of an uploader between the upload and the last commit."""

    COMMITS = "commits"
    PAUSES = "commits after a long time"
    PAUSES_BETWEEN = "commits after a long time what other owners have than the first"
    DIES = "dies before it commits"
    GIVES_UP = "fences what it commits"
    DIES_BETWEEN = "dies when the first owner has its batches"
    REPLACED_BETWEEN = "dies when the first owner has its batches, and another uploader commits the whole file"


class Uploads:
    """The object store, as the committers of a run know it."""

    def __init__(self, life: SimulatedFiles, objects: FakeObjects, judge: Judge, judged: JudgedObjects, now_s: Callable[[], float]) -> None:
        self._life = life
        self._objects = objects
        self.judge = judge
        self.judged = judged
        self._now_s = now_s

    def put(self, key: str, rng: random.Random) -> int:
        """Upload the object of a file; returns when it was created, -1 where its uploader does not tell that."""
        self._objects.put(key, b"records")
        self.judged.uploaded(key)
        return -1 if rng.random() < UNDATED_CHANCE else START_MS + int(self._now_s() * 1000)

    def delete(self, key: str) -> None:
        """Delete the object of a file that was given up."""
        self._objects.remove(key)

    def give_up_s(self, rng: random.Random) -> tuple[float, float]:
        """When a file is committed that is given up, and when it is fenced: together, or one of them after a while."""
        later_s = rng.choice([0.0, rng.uniform(*UPLOADED_S), rng.uniform(0, self._life.commit_age_s)])
        return (0.0, later_s) if rng.random() < 0.5 else (later_s, 0.0)

    def fate(self, rng: random.Random) -> UploadFate:
        """Draw what becomes of an uploader."""
        chance, life = rng.random(), self._life
        shares = {
            UploadFate.PAUSES: life.pausing,
            UploadFate.PAUSES_BETWEEN: life.pausing,
            UploadFate.DIES: life.dying,
            UploadFate.DIES_BETWEEN: life.dying,
            UploadFate.GIVES_UP: life.giving_up,
            UploadFate.REPLACED_BETWEEN: life.replacing,
        }
        for fate, share in shares.items():
            if chance < share:
                return fate
            chance -= share
        return UploadFate.COMMITS

    def delay_s(self, fate: UploadFate, rng: random.Random) -> float:
        """How long after its upload a file is committed."""
        return self._life.commit_age_s * rng.uniform(*PAUSE_AGES) if fate is UploadFate.PAUSES else rng.uniform(*UPLOADED_S)

    def owners_of(self, command: CommitFile) -> list[int]:
        """The coordinators that have batches of a file, in their order."""
        wheres = (split_partition_key(key) for key in command.batches["topic_partition"].tolist())
        return list(dict.fromkeys(owner for where in wheres if (owner := self.judge.folds[0].owner_of(where)) is not None))

    def owners_anew(self, command: CommitFile, rng: random.Random) -> list[int]:
        """The list of another uploader: the first one's, unless partitions have moved to others since."""
        owners = self.owners_of(command)
        return list(command.owner_ids) if set(owners) <= set(command.owner_ids) else self.owner_list(owners, rng)

    def owner_list(self, owners: Sequence[int], rng: random.Random) -> list[int]:
        """A list of owners in some order; now and then with those that get nothing."""
        listed = range(len(self.judge.folds)) if rng.random() < ALL_OWNERS_CHANCE else owners
        return rng.sample(list(listed), len(listed))
