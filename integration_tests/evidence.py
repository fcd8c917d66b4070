"""What the checker judges: a history beside what is left, with the look-ups that its rules share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from integration_tests.history import Acknowledgement, FinalPartition, FinalState, FoundBatch, History, Origin, UserPartition
from integration_tests.metadata_log import Commit, ReadLog, read_log


class Placed(NamedTuple):
    """Where a batch of a file ended up."""

    where: UserPartition
    found: FoundBatch
    origin: Origin


@dataclass(frozen=True, slots=True)
class Evidence:
    """The history beside what is left, with the look-ups all rules need."""

    history: History
    final: FinalState
    logs: Mapping[int, ReadLog]
    batches: Mapping[UserPartition, list[FoundBatch]]
    """All batches there ever were, by offset: what is served, and before it what was deleted, as the log has it."""
    placed: Mapping[UserPartition, list[Placed]]
    acknowledged: Mapping[Origin, list[Acknowledgement]]
    first_invoked_s: Mapping[Origin, float]


def gather(history: History, final: FinalState, problems: list[str]) -> Evidence:
    """Put everything beside each other; what does not fit at all goes to `problems`."""
    by_position = {
        (key, batch.byte_offset): Origin(key, place) for key, file in history.files.items() for place, batch in enumerate(file.batches)
    }
    logs = {coordinator_id: read_log(messages) for coordinator_id, messages in final.logs.items()}
    batches = {
        where: [*_deleted(logs[partition.coordinator_id], where, partition), *partition.batches]
        for where, partition in final.partitions.items()
    }
    placed: dict[UserPartition, list[Placed]] = {}
    for where, ever in batches.items():
        placed[where] = []
        for found in ever:
            origin = by_position.get((found.object_key, found.byte_offset))
            if origin is None:
                problems.append(f"{where}: batch at {found.base_offset} of file {found.object_key} was never sent")
            else:
                placed[where].append(Placed(where, found, origin))
    acknowledged: dict[Origin, list[Acknowledgement]] = defaultdict(list)
    for one in history.acknowledgements():
        acknowledged[one.origin].append(one)
    first_invoked_s: dict[Origin, float] = {}
    for attempt in history.attempts:
        for place in attempt.places:
            origin = Origin(attempt.object_key, place)
            first_invoked_s[origin] = min(first_invoked_s.get(origin, attempt.invoked_s), attempt.invoked_s)
    return Evidence(history, final, logs, batches, placed, dict(acknowledged), first_invoked_s)


def _deleted(log: ReadLog, where: UserPartition, partition: FinalPartition) -> list[FoundBatch]:
    """The batches that lie wholly before the log start, by offset."""
    return sorted(
        (
            FoundBatch(commit.object_key, one.byte_offset, one.size_bytes, one.base_offset, one.base_offset + one.record_count - 1)
            for commit in log.commits
            for one in commit.outcomes
            if one.is_accepted and one.where == where and one.base_offset + one.record_count <= partition.log_start_offset
        ),
        key=lambda found: found.base_offset,
    )


def all_placed(evidence: Evidence) -> Iterator[Placed]:
    """Every batch there ever was, of every partition."""
    for placed in evidence.placed.values():
        yield from placed


def all_commits(evidence: Evidence) -> Iterator[Commit]:
    """Every file that counts, of every coordinator."""
    for log in evidence.logs.values():
        yield from log.commits
