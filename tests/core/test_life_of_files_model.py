"""The life of one object over several coordinators, walked at random: real shards, an uploader, workers, the orphan scan, lost terms.

Two promises: no object is deleted while a coordinator has, or ever gets, live batches of it; and every object goes in the end. A third:
no honest commit that is young is refused. Each rule of the protocol is left out in turn, and some walk must find that it is missing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from coordinator.core.commands import (
    Command,
    CommitResult,
    FencedFile,
    FenceFiles,
    FileStanding,
    HandOverFiles,
    Outcome,
    RemoveFiles,
)
from coordinator.core.deciding import group
from coordinator.core.events import Delivered, Delivery
from coordinator.core.files.requests import check_head
from coordinator.core.limits import Limits
from coordinator.kafka.errors import ErrorCode
from simulation.fakes.shard_harness import START_MS, HarnessReplica, World
from tests.core.build import batch, commit, delete_records, place, result_of

KEY = "wal/the-object"
AGE_MS = 1_000
RETENTION_MS = 2 * AGE_MS
LIMITS = Limits(file_commit_max_age_ms=AGE_MS, file_fence_retention_ms=RETENTION_MS, expiration_interval_ms=1)
STEPS = 60
Step = Iterator[None]


class Broken(Exception):
    """A promise is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of workers, scan and uploader; those of coordinators are in their limits."""

    limits: Limits = LIMITS
    only_when_old: bool = True
    fences_unknown: bool = True
    asks_earlier: bool = True
    asks_later: bool = True
    looks_again: bool = True
    scan_fences: bool = True
    scan_asks_all: bool = True
    uploader_fences: bool = True
    checks_age: bool = True
    """Whether coordinators refuse commits of old keys, by their clocks and by the time of the log."""


@dataclass(slots=True)
class Life:
    """The object, its owners and everything on its way."""

    rng: random.Random
    rules: Rules
    owners: list[int]
    replicas: list[HarnessReplica] = field(init=False)
    created_ms: int = START_MS
    now_ms: int = START_MS
    has_object: bool = True
    told_ms: int = field(init=False)
    """When the object was created, as the uploader says: -1 where it does not."""
    to_send: set[int] = field(init=False)
    is_uploading: bool = True
    has_given_up: bool = False
    on_its_way: list[int] = field(default_factory=list)
    at_work: list[Step] = field(default_factory=list)
    committed: set[int] = field(default_factory=set)
    files: int = 0
    slow: int = field(init=False)
    """A coordinator that commits reach late, -1 for none."""
    is_late: bool = False

    def __post_init__(self) -> None:
        self.replicas = [World().add_replica(limits=self.rules.limits, partition=n, partition_count=3) for n in range(3)]
        for replica in self.replicas:
            replica.lead()
            replica.ask(place(count=2))
        self.to_send = set(self.owners)
        self.slow = self.rng.choice([-1, *self.owners])
        self.told_ms = self.rng.choice([self.created_ms, -1])

    # ---- coordinators

    def ask(self, coordinator: int, *commands: Command) -> list[object]:
        replica = self.replicas[coordinator]
        replica.world.now_ms = self.now_ms
        return list(replica.ask(*commands))

    def standing(self, coordinator: int, *, is_fencing: bool) -> FileStanding | None:
        """None when the coordinator did not say."""
        [answer] = self.ask(coordinator, FenceFiles(object_keys=[KEY], created_ms=[self.told_ms], is_fencing=is_fencing))
        assert isinstance(answer, list)
        [one] = answer
        assert isinstance(one, FencedFile)
        return one.standing if one.outcome.error is ErrorCode.NONE else None

    def is_out(self, coordinator: int) -> bool:
        standing = self.standing(coordinator, is_fencing=self.rules.fences_unknown)
        if standing is None:
            return False
        return standing.is_out or (standing is FileStanding.UNKNOWN and not self.rules.fences_unknown)

    def live_batches(self, coordinator: int) -> int | None:
        """None when the coordinator has no such file."""
        file = self.replicas[coordinator].view.state.find_file(KEY)
        return None if file is None else file.live_batches

    def is_old(self) -> bool:
        return self.now_ms - self.created_ms > AGE_MS

    def delete_object(self, who: str) -> None:
        if any(self.live_batches(one) for one in range(3)):
            raise Broken(f"{who} deletes the object of live batches")
        self.has_object = False

    # ---- what happens

    def send(self) -> None:
        if self.is_uploading and self.to_send:
            owner = self.rng.choice(sorted(self.to_send))
            self.to_send.discard(owner)
            self.on_its_way += [owner] * self.rng.choice([1, 1, 2])

    def arrive(self) -> None:
        due = [owner for owner in self.on_its_way if owner != self.slow or self.is_late]
        if not due:
            return
        owner = self.rng.choice(due)
        self.on_its_way.remove(owner)
        if self.rng.random() < 0.2:
            return
        had_file = self.live_batches(owner) is not None
        [answer] = self.ask(owner, commit(KEY, [batch(0, 1)], owner_ids=self.owners, created_ms=self.told_ms))
        assert isinstance(answer, CommitResult)
        if answer.errors == [0]:
            self.committed.add(owner)
            if not self.has_object and not had_file:
                raise Broken("a commit is accepted though the object is gone")
        elif not self.is_old() and not self.has_given_up:
            raise Broken(f"a young commit is refused: {answer.messages}")

    def die(self) -> None:
        if self.rng.random() < 0.3:
            self.is_uploading = False

    def give_up(self) -> None:
        if self.is_uploading and self.rng.random() < 0.2:
            self.is_uploading, self.has_given_up = False, True
            self.at_work.append(self._clean_up())

    def empty(self) -> None:
        owner = self.rng.choice(self.owners)
        if self.live_batches(owner):
            self.ask(owner, delete_records((0, -1)))
            self.replicas[owner].tick()

    def grow_older(self) -> None:
        self.now_ms += self.rng.choice([AGE_MS // 4, AGE_MS // 2, AGE_MS])
        self.tell_time()

    def tell_time(self) -> None:
        """A file moves the time of every log, and what is old by it expires."""
        self.files += 1
        for number, replica in enumerate(self.replicas):
            [answer] = self.ask(number, commit(f"clock-{self.files}", [batch(1, 1)], owner_ids=[number], created_ms=self.now_ms))
            assert result_of(answer).errors == [0]  # type: ignore[arg-type]
            for _ in range(2):
                replica.tick(1)
                replica.world.settle()

    def lose_term(self) -> None:
        """A leader loses its term with what it has under way; it leads again in the next one."""
        replica = self.replicas[self.rng.choice(self.owners)]
        replica.world.now_ms = self.now_ms
        [token] = replica.submit(FenceFiles(object_keys=["another"], created_ms=[self.now_ms]))
        if replica.outbox and replica.term_id is not None:
            lost = replica.outbox.popleft()
            replica.feed(Delivered(replica.term_id, [Delivery(lost.seq, None, "gone")]))
        replica.world.settle()
        assert token in replica.answers

    def begin_work(self) -> None:
        self.at_work.append(self._worker(self.rng.choice(self.owners)))

    def begin_scan(self) -> None:
        self.at_work.append(self._scan())

    def work(self) -> None:
        """One of those at work takes a step: its answers may be old when it acts on them."""
        if self.at_work:
            step = self.rng.choice(self.at_work)
            if next(step, self) is self:
                self.at_work.remove(step)

    # ---- the protocol

    def _worker(self, me: int) -> Step:
        """The leader's worker looks at an empty file."""
        if self.live_batches(me) != 0 or (self.rules.only_when_old and not self.is_old()):
            return
        place_of_me = self.owners.index(me)
        earlier, later = self.owners[:place_of_me], self.owners[place_of_me + 1 :]
        if not self.rules.asks_earlier:
            earlier = []
        for owner in earlier:
            if not self.is_out(owner):
                return
            yield
        if self.rules.asks_later:
            for owner in later:
                is_out = self.is_out(owner)
                yield
                if not is_out:
                    self._expect_ended(me, HandOverFiles(object_keys=[KEY], next_owner_ids=[owner]))
                    return
        if not self.is_ended(me):
            self.delete_object(f"coordinator {me}")
        yield
        self._expect_ended(me, RemoveFiles(object_keys=[KEY]))

    def is_ended(self, me: int) -> bool:
        """The file is not known here any more: another worker, of an earlier term, has seen to it."""
        return self.live_batches(me) is None

    def _expect_ended(self, me: int, command: Command) -> None:
        [answer] = self.ask(me, command)
        assert isinstance(answer, list)
        if not all(isinstance(one, Outcome) for one in answer):
            raise AssertionError(answer)

    def _scan(self) -> Step:
        if not (self.is_old() or not self.rules.only_when_old) or not self.has_object:
            return
        asked: Sequence[int] = range(3) if self.rules.scan_asks_all else [self.rng.randrange(3)]
        for one in asked:
            standing = self.standing(one, is_fencing=False)
            if standing is None or standing in (FileStanding.LIVE, FileStanding.EMPTY):
                return
            yield
        if self.rules.scan_fences:
            for one in asked:
                standing = self.standing(one, is_fencing=True)
                if standing is None or not standing.is_out:
                    return
                yield
        self.delete_object("the scan")

    def _clean_up(self) -> Step:
        for owner in self.owners:
            standing = self.standing(owner, is_fencing=self.rules.uploader_fences)
            if standing is None or standing in (FileStanding.LIVE, FileStanding.EMPTY):
                return
            yield
        self.delete_object("the uploader")

    # ---- the end

    def finish(self) -> None:
        """Nothing is sent any more, everything arrives, all batches are deleted: the object goes within a few rounds."""
        self.is_uploading, self.is_late = False, True
        while self.on_its_way:
            self.arrive()
        for _ in range(2 * len(self.owners) + 4):
            if not self.has_object and all(self.is_ended(owner) for owner in self.owners):
                return
            self.now_ms += AGE_MS + 1
            for owner in self.owners:
                if self.live_batches(owner):
                    self.ask(owner, delete_records((0, -1)))
                    self.replicas[owner].tick()
            steps = [*self.at_work, *map(self._worker, self.owners if self.rules.looks_again else []), self._scan()]
            self.at_work = []
            for step in steps:
                for _ in step:
                    pass
        raise Broken("the object stays for ever" if self.has_object else "a coordinator knows a file without an object for ever")


def walk(seed: int, rules: Rules) -> None:
    """One life. Raises `Broken`."""
    rng = random.Random(seed)
    life = Life(rng, rules, rng.sample(range(3), rng.choice([1, 2, 2, 3])))
    # Lives differ in what happens often: where everything is likely, nothing goes on for long.
    actions: dict[Callable[[], None], int] = {
        life.send: 4, life.arrive: 4, life.empty: 3, life.begin_work: 3, life.work: 8, life.grow_older: rng.choice([1, 2]),
        life.die: rng.choice([0, 1]), life.give_up: rng.choice([0, 0, 1]), life.lose_term: rng.choice([0, 1]),
        life.begin_scan: rng.choice([0, 0, 2]),
    }  # fmt: skip
    for number, action in enumerate(rng.choices(list(actions), list(actions.values()), k=STEPS)):
        life.is_late = number > STEPS * 2 // 3
        action()
    life.finish()


@pytest.mark.parametrize("seeds", [range(start, start + 40) for start in range(0, 160, 40)])
def test_no_object_goes_early_and_every_object_goes(seeds: range) -> None:
    for seed in seeds:
        try:
            walk(seed, Rules())
        except Broken as broken:
            raise AssertionError(f"seed {seed}") from broken


WITHOUT: dict[str, tuple[Rules, int]] = {
    "the age limit of commits": (Rules(checks_age=False), 42),
    "the retention of tombstones": (Rules(limits=replace(LIMITS, file_fence_retention_ms=0, file_commit_max_age_ms=RETENTION_MS)), 288),
    "nothing ends before it is old": (Rules(only_when_old=False), 0),
    "unknown keys are fenced": (Rules(fences_unknown=False), 33),
    "earlier owners are asked": (Rules(asks_earlier=False), 33),
    "later owners are asked": (Rules(asks_later=False), 38),
    "empty files are looked at again": (Rules(looks_again=False), 0),
    "the scan fences": (Rules(scan_fences=False), 35),
    "the scan asks every coordinator": (Rules(scan_asks_all=False), 3),
    "the uploader fences": (Rules(uploader_fences=False), 204),
}
"""The rules without one of them, and the first life that misses it: looking for it takes minutes."""
SEEDS_MAX = 400


@pytest.mark.parametrize("rule", WITHOUT)
def test_a_rule_that_is_left_out_is_missed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, first = WITHOUT[rule]
    if not rules.checks_age:
        monkeypatch.setattr(group, "check_head", lambda command, context: check_head(command._replace(created_ms=-1), context))
    for seed in range(first, first + SEEDS_MAX):
        try:
            walk(seed, rules)
        except Broken:
            return
    raise AssertionError(f"{SEEDS_MAX} lives are well without {rule!r}")
