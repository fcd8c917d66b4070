"""Short random lives of three replicas over one log with lost, late, doubled and dropped entries.

After every step the log itself is judged by a fold that is written anew here, and everything that was promised to a
client is looked up in it. A walk is named by its seed: a failure shows it, and it replays exactly.
"""

from __future__ import annotations

import random

import pytest

from coordinator.core.commands import Answer, Barrier, Command, CommitFile, CommitResult, FoundOffset, ListOffsets
from coordinator.core.events import Assigned, Delivered, Delivery, ProduceFailed, Stopping, Unassigned
from coordinator.core.files.answers import result_of as logged_result
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted, table_of
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey, decode_key, encode_key
from records.errors import UnreadableEntry
from records.model import LeadershipClaimed
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import TOPIC, batch, commit, delete_records, list_offsets, place, state_of, view_of

WALKS = 140
STEPS = 80
NOT_DECIDED = {3, 7, 14, 15, 16, 100}


class Fold:
    """What a log says by the rules: claims in force, entries that count, offsets of each partition."""

    def __init__(self) -> None:
        self.length = 0
        self.epoch, self.term, self.seq = 0, 0, 0
        self.files: dict[str, FileCommitted] = {}
        self.high_watermarks = {0: 0, 1: 0}

    def extend(self, log: list[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in log[self.length :]:
            self.length += 1
            parts = decode_key(key)
            if parts is None:
                continue
            if parts.seq == 0 and parts.epoch == self.epoch + 1:
                self._claim(parts, value or b"")
            elif self.epoch and parts == (self.epoch, self.term, self.seq + 1):
                self.seq += 1
                for record in decode_entry(value or b""):
                    if isinstance(record, FileCommitted):
                        self._file(record)

    def _claim(self, parts: EntryKey, value: bytes) -> None:
        try:
            records = decode_entry(value)
        except UnreadableEntry:
            return
        match records:
            case [LeadershipClaimed(epoch=parts.epoch, term=parts.term)]:
                self.epoch, self.term, self.seq = parts.epoch, parts.term, 0

    def _file(self, record: FileCommitted) -> None:
        assert record.object_key not in self.files, f"{record.object_key} counts twice"
        self.files[record.object_key] = record
        for one in record.batches:
            if one.verdict == BatchVerdict.ACCEPTED:
                due = self.high_watermarks[one.partition]
                assert one.base_offset == due, f"{record.object_key} begins at {one.base_offset}, {self.high_watermarks} are due"
                self.high_watermarks[one.partition] = one.next_offset


class Walk:
    """One random life."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World()
        self.limits = Limits(groups_in_flight_max=self.random.choice([1, 2, 4]))
        for _ in range(3):
            self.world.add_replica(limits=self.limits)
        self.fold = Fold()
        self.commits: dict[str, CommitFile] = {}
        self.promised = {0: 0, 1: 0}
        """High watermark per partition that some client has been told of."""
        self.floors: dict[tuple[int, int], dict[int, int]] = {}
        self.checked: set[tuple[int, int]] = set()
        self.views: dict[int, object] = {}
        self.viewed: dict[int, int] = {}
        self.answered_commits = 0

    # ---- steps

    def step(self) -> None:
        replica = self.random.choice(self.world.replicas)
        leaders = [r for r in self.world.replicas if r.view.is_leading]
        if leaders and self.random.random() < 0.5:
            replica = self.random.choice(leaders)
        actions = [self.submit, self.land, self.report, self.read, self.claim, self.assign, self.trouble]
        action = self.random.choices(actions, [5, 6, 6, 6, 3, 1, 1])[0]
        action(replica)
        self.check()

    def assign(self, replica: HarnessReplica) -> None:
        replica.feed(Unassigned() if self.random.random() < 0.4 else Assigned())

    def claim(self, replica: HarnessReplica) -> None:
        if replica.recover is not None:
            replica.may_claim()

    def land(self, replica: HarnessReplica) -> None:
        replica.land(min(self.random.randint(1, 3), len(replica.outbox)))

    def report(self, replica: HarnessReplica) -> None:
        replica.report(min(self.random.randint(1, 3), len(replica.reports)))

    def read(self, replica: HarnessReplica) -> None:
        replica.read(self.random.randint(1, 5))

    def submit(self, replica: HarnessReplica) -> None:
        commands = [self.command() for _ in range(self.random.randint(1, 3))]
        for token in replica.submit(*commands):
            self.floors[id(replica), token] = dict(self.promised)

    def command(self) -> Command:
        kind = self.random.random()
        if kind < 0.5:
            return self.new_commit()
        if kind < 0.65 and self.commits:
            return self.random.choice(list(self.commits.values()))
        if kind < 0.85:
            return list_offsets((0, -1), (1, -1))
        return self.random.choice([Barrier(), delete_records((self.random.randint(0, 1), self.random.choice([-1, 1, 3]))), place()])

    def new_commit(self) -> CommitFile:
        key = f"file-{len(self.commits)}"
        rows = [
            batch(self.random.randint(0, 1), self.random.randint(1, 3), sequence=self.random.choice([None, 0, 1, 2, 3]))
            for _ in range(self.random.randint(1, 3))
        ]
        self.commits[key] = commit(key, rows)
        return self.commits[key]

    def trouble(self, replica: HarnessReplica) -> None:
        kinds = [self.drop, self.double, self.fail, self.late, self.late, self.stray, self.crash, self.wait, self.stop, self.lose_report]
        kinds += [self.untell, self.untell]
        self.random.choice(kinds)(replica)

    def drop(self, replica: HarnessReplica) -> None:
        """The client library drops an entry and delivers those behind it."""
        if replica.outbox:
            del replica.outbox[self.random.randrange(len(replica.outbox))]

    def double(self, replica: HarnessReplica) -> None:
        if replica.outbox:
            self.world.append(replica.outbox[0].key, replica.outbox[0].value)

    def fail(self, replica: HarnessReplica) -> None:
        if replica.term_id is None:
            return
        if self.random.random() < 0.5:
            replica.feed(ProduceFailed(replica.term_id, "queue full"))
        elif replica.outbox:
            lost = replica.outbox.popleft()
            replica.feed(Delivered(replica.term_id, [Delivery(lost.seq, None, "timed out")]))

    def lose_report(self, replica: HarnessReplica) -> None:
        if replica.reports:
            replica.reports.popleft()

    def untell(self, replica: HarnessReplica) -> None:
        """A request was repeated: its report does not say where the entry stands, or too far on."""
        for at, report in enumerate(replica.reports):
            if report.offset is not None and self.random.random() < 0.5:
                replica.reports[at] = report._replace(offset=self.random.choice([None, report.offset + 1, report.offset + 7]))

    def late(self, _: HarnessReplica) -> None:
        """What an ended producer left arrives, or never does."""
        if self.world.orphans:
            orphans = self.random.choice(self.world.orphans)
            entry = orphans.popleft()
            if self.random.random() < 0.8:
                self.world.append(entry.key, entry.value)
            if not orphans:
                self.world.orphans = [left for left in self.world.orphans if left]

    def stray(self, _: HarnessReplica) -> None:
        key = encode_key(EntryKey(self.random.randint(0, 4), self.random.randint(1000, 1005), self.random.randint(0, 3)))
        if key[:12] != encode_key(EntryKey(self.fold.epoch, self.fold.term, 0))[:12]:
            self.world.append(self.random.choice([None, b"?", key]), b"?")

    def crash(self, replica: HarnessReplica) -> None:
        """The process ends; another one with an empty disk takes its place."""
        at = self.world.replicas.index(replica)
        if replica.outbox:
            self.world.orphans.append(replica.outbox)
        self.world.replicas[at] = HarnessReplica(self.world, at, self.limits, 0, 4)

    def wait(self, replica: HarnessReplica) -> None:
        replica.tick(self.random.choice([10, 5_000, 31_000]))

    def stop(self, replica: HarnessReplica) -> None:
        if self.random.random() < 0.3:
            replica.feed(Stopping())

    # ---- what must hold

    def check(self) -> None:
        self.fold.extend(self.world.log)
        for replica in self.world.replicas:
            assert replica.view.phase is not State.FAILED, replica.view.failure
            for token, answer in replica.answers.items():
                if (id(replica), token) not in self.checked:
                    self.checked.add((id(replica), token))
                    self.check_answer(replica, token, answer)
            self.check_view(replica)

    def check_view(self, replica: HarnessReplica) -> None:
        """Whoever applied up to an offset, as leader or follower, has the same state there."""
        applied = replica.view.state.applied_offset
        if self.viewed.get(id(replica)) == applied:
            return
        self.viewed[id(replica)] = applied
        view = view_of(replica.view.state.hot)
        assert self.views.setdefault(applied, view) == view

    def check_answer(self, replica: HarnessReplica, token: int, answer: Answer) -> None:
        command = replica.requests[token]
        if isinstance(command, CommitFile):
            assert isinstance(answer, CommitResult)
            if not NOT_DECIDED.intersection(answer.errors):
                self.check_commit(command.object_key, answer)
        elif isinstance(command, ListOffsets):
            assert isinstance(answer, list)
            floor = self.floors.get((id(replica), token), {0: 0, 1: 0})
            for partition, found in enumerate(answer):
                assert isinstance(found, FoundOffset)
                if not found.outcome.error:
                    assert floor[partition] <= found.offset <= self.fold.high_watermarks[partition], "stale or dirty strict read"
                    self.promised[partition] = max(self.promised[partition], found.offset)

    def logged(self, key: str) -> CommitResult:
        """The answer that the log has for a commit."""
        return logged_result(table_of([self.fold.files[key]]), 0, self.world.replicas[0].view.state.hot)

    def check_commit(self, key: str, answer: CommitResult) -> None:
        """What was acknowledged counts in the log, once, exactly as it was answered."""
        assert self.logged(key) == answer
        self.answered_commits += 1
        for one in self.fold.files[key].batches:
            if one.verdict == BatchVerdict.ACCEPTED:
                self.promised[one.partition] = max(self.promised[one.partition], one.next_offset)

    def finish(self) -> None:
        """Trouble ends: one replica leads, everybody agrees, and every retry gets the answer of the log."""
        for replica in self.world.replicas:
            replica.feed(Unassigned())
        while self.world.orphans:
            self.late(self.world.replicas[0])
        for replica in self.world.replicas:
            replica.tick(31_000)
        leader = self.world.add_replica(limits=self.limits)
        leader.lead()
        self.check()
        leader.ask(place())
        retried = leader.ask(*self.commits.values())
        self.check()
        assert [self.logged(key) for key in self.commits] == retried
        assert not leader.unanswered()
        for replica in self.world.replicas:
            # Counting deleted batches out of their files is housekeeping that each does in its own time.
            replica.tick()
        states = [state_of(replica.view.state) for replica in self.world.replicas]
        assert all(state == states[-1] for state in states)
        assert leader.view.overlay is not None
        assert view_of(leader.view.overlay) == view_of(leader.view.state.hot)
        partitions = states[-1]["partitions"]
        assert isinstance(partitions, dict)
        for partition, high_watermark in self.fold.high_watermarks.items():
            assert partitions[TOPIC + partition.to_bytes(4, "big")][0] == high_watermark


@pytest.mark.parametrize("block", range(4))
def test_nothing_promised_is_lost_and_replicas_agree_whatever_happens_to_entries(block: int) -> None:
    answered = claims = 0
    for seed in range(block * WALKS // 4, (block + 1) * WALKS // 4):
        walk = Walk(seed)
        try:
            first = walk.world.replicas[0]
            first.lead()
            first.ask(place())
            for _ in range(STEPS):
                walk.step()
            walk.finish()
        except AssertionError as broken:
            raise AssertionError(f"walk {seed}: {broken}") from broken
        answered += walk.answered_commits
        claims += walk.fold.epoch
    # A walk in which nothing happens proves nothing.
    assert answered > WALKS // 4 * 8
    assert claims > WALKS // 4 * 2
