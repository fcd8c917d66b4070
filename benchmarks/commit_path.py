"""The cost of a commit inside one process, without sockets, Kafka and SQLite: decoding, deciding, applying, answering.

    python -m benchmarks.commit_path [--profile]

Groups of real encoded requests go through a leading shard whose entries are acknowledged at once. CPU microseconds per
batch, median of the runs. `--profile` prints where the time goes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.profiling import profiled
from cli.bench.workload import Shape, Workload
from coordinator.core.commands import CommitAnswer, PlacePartitions, TopicShare
from coordinator.core.events import Append, Assigned, Delivered, Delivery, Effect, EntriesRead, MayClaim, OpenTerm, Submitted
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry
from coordinator.core.request import Reply, Request
from coordinator.core.shard import Shard
from coordinator.core.state.replica_state import ShardState
from coordinator.core.state.unwritten import Generation
from coordinator.kafka.batches import partition_key
from coordinator.operations.commits import read_commits, write_commit
from coordinator.protocol.framing import read_request_header
from records.log import Fence
from simulation.fakes.state_store import MemoryStateStore

PARTITIONS = 100
BATCHES_PER_RUN = 100_000
SHAPES = ((10, 10), (10, 50), (100, 1), (100, 10), (100, 50), (1000, 1), (1000, 5))
"""(batches per file, files per group)."""


@dataclass(slots=True)
class Times:
    """CPU seconds by step."""

    decode: float = 0.0
    decide: float = 0.0
    apply: float = 0.0
    answer: float = 0.0
    batches: int = 0

    def per_batch_us(self) -> list[float]:
        """Microseconds per batch: decode, decide, apply, answer, sum."""
        steps = [seconds / self.batches * 1e6 for seconds in (self.decode, self.decide, self.apply, self.answer)]
        return [*steps, sum(steps)]


@dataclass(slots=True)
class Leader:
    """A shard that leads a partition; its log is only a counter, because no follower reads it."""

    shard: Shard
    next_offset: int = 0
    waiting: list[Delivered] = field(default_factory=list)

    def perform(self, effects: Sequence[Effect]) -> list[CommitAnswer]:
        """Perform the effects of the shard; returns the answers to commits."""
        answers: list[CommitAnswer] = []
        for effect in effects:
            match effect:
                case OpenTerm():
                    entry = ReadEntry(self.next_offset, 0, effect.claim.key, effect.claim.value)
                    self.next_offset += 1
                    self.perform(self.shard.feed(EntriesRead([entry]), _now_ms()))
                case Append():
                    reports = [Delivery(entry.seq, self.next_offset + at, None) for at, entry in enumerate(effect.entries)]
                    self.next_offset += len(reports)
                    self.waiting.append(Delivered(effect.term_id, reports))
                case Reply():
                    answers.append(effect.answer)  # type: ignore[arg-type]  # only commits wait when it counts
        return answers

    def acknowledge(self) -> list[CommitAnswer]:
        """Report all appended entries as acknowledged."""
        waiting, self.waiting = self.waiting, []
        return [answer for delivered in waiting for answer in self.perform(self.shard.feed(delivered, _now_ms()))]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_leader(topic_id: bytes) -> Leader:
    """A shard that leads, with a topic of its own."""
    shard = Shard(
        partition=0,
        partition_count=1,
        node_id=1,
        rack="",
        endpoints=[],
        limits=Limits(group_batches_max=10_000),
        state=ShardState(cold=MemoryStateStore().reader()),
        fence=Fence(),
        claim=None,
        certain_end=0,
    )
    leader = Leader(shard)
    leader.perform(shard.feed(Assigned(), _now_ms()))
    leader.perform(shard.feed(MayClaim(0, 77), _now_ms()))
    share = TopicShare(topic_id=topic_id, name="bench", first_partition=0, num_partitions=PARTITIONS, order_offset=1)
    leader.perform(shard.feed(Submitted([Request(None, PlacePartitions(shares=[share]), _now_ms() + 60_000)]), _now_ms()))
    leader.acknowledge()
    return leader


def measure(batches_per_file: int, files_per_group: int) -> Times:
    """One run of one shape on a new shard."""
    topic_id = os.urandom(16)
    leader = new_leader(topic_id)
    keys = [partition_key(topic_id, partition) for partition in range(PARTITIONS)]
    workload = Workload(Shape(batches_per_file=batches_per_file, partitions=PARTITIONS), keys, [0], seed=1)
    times, clock = Times(), time.process_time
    for number in range(max(3, BATCHES_PER_RUN // (batches_per_file * files_per_group))):
        frames = [workload.next_frame(number)[4:] for _ in range(files_per_group)]
        started = clock()
        header = read_request_header(frames[0], flexible=True)
        commits = read_commits(frames, header.body_offset, header.client_id).commits
        deadline_ms = _now_ms() + 60_000
        requests = [Request(None, command, deadline_ms, size_bytes) for _, command, _, size_bytes in commits]
        decoded = clock()
        leader.perform(leader.shard.feed(Submitted(requests), _now_ms()))
        decided = clock()
        answers = leader.acknowledge()
        acknowledged = clock()
        for answer in answers:
            write_commit(answer)
        answered = clock()
        leader.perform(leader.shard.settle())
        times.answer += answered - acknowledged
        times.decode += decoded - started
        times.decide += decided - decoded
        times.apply += acknowledged - decided + clock() - answered
        times.batches += batches_per_file * files_per_group
        if len(answers) != files_per_group:
            raise AssertionError(f"{files_per_group} commits, {len(answers)} answers")
        # Taken as written: generations, whose writing is not measured here, must not pile up.
        state = leader.shard.committed.state
        state.active = Generation()
        state.hot.take_touched()
    return times


def main() -> None:
    """Print one line per shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print the functions that take the time")
    options = parser.parse_args()
    print(f"{'batches/file':>12} {'files/group':>11} {'decode':>8} {'decide':>8} {'apply':>8} {'answer':>8} {'sum us/batch':>13}")
    with profiled(options.profile):
        for batches_per_file, files_per_group in SHAPES:
            runs = [measure(batches_per_file, files_per_group).per_batch_us() for _ in range(options.runs)]
            medians = [statistics.median(column) for column in zip(*runs, strict=True)]
            print(f"{batches_per_file:>12} {files_per_group:>11} " + " ".join(f"{value:8.3f}" for value in medians))


if __name__ == "__main__":
    main()
