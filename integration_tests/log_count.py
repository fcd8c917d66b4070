"""Counts what a log has, from its messages alone: what the monitor's page and the commands are compared with.

Which entries count is judged by `metadata_log`, what is counted here is written anew, too. A file of several coordinators counts once, in
the log of its first owner; batches count wherever they are. Times are those that Kafka gave to the entries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from integration_tests.history import LogMessage
from integration_tests.metadata_log import ACCEPTED, Claim, LogReader
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.committed_files.lines import BatchVerdict
from records.model import FilesRemoved, Record, TopicDeleted

Where = tuple[bytes, int]
UNITS = ("files", "batches", "records", "bytes")


@dataclass(slots=True)
class FileShare:
    """A file in the log of one coordinator, with the batches that it accepted."""

    file: FileCommitted
    logged_ms: int
    is_first: bool
    live: list[CommittedBatch] = field(default_factory=list)

    @property
    def accepted(self) -> list[CommittedBatch]:
        """The batches that were accepted."""
        return [one for one in self.file.batches if one.verdict == ACCEPTED]


class Counted(NamedTuple):
    """Files and what is in them."""

    files: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0

    def __add__(self, other: tuple[int, ...]) -> Counted:  # type: ignore[override]
        return Counted(*map(int.__add__, self, other))


class CountingReader(LogReader):
    """Reads one partition of the metadata topic, and keeps its files and what became of them."""

    def __init__(self, coordinator_id: int) -> None:
        super().__init__()
        self.coordinator_id = coordinator_id
        self.shares: dict[str, FileShare] = {}
        self.removed: set[str] = set()
        self.deleted_topics: set[bytes] = set()

    def _note(self, message: LogMessage, records: list[Record], claim: Claim) -> None:
        super()._note(message, records, claim)
        for record in records:
            match record:
                case FileCommitted():
                    is_first = record.owner_ids[0] == self.coordinator_id
                    self.shares[record.object_key] = FileShare(record, message.timestamp_ms, is_first)
                case FilesRemoved():
                    self.removed.update(record.object_keys)
                case TopicDeleted():
                    self.deleted_topics.add(record.topic_id)

    def find_live(self) -> None:
        """Find the batches that were not deleted, once everything is read."""
        starts = self.read.log_starts
        for share in self.shares.values():
            share.live = [
                one
                for one in share.accepted
                if one.topic_id not in self.deleted_topics
                and one.base_offset + one.record_count > starts.get((one.topic_id, one.partition), 0)
            ]


class LogCount:
    """The numbers of a whole log; `logs` are its messages by coordinator."""

    def __init__(self, logs: Mapping[int, Iterable[LogMessage]]) -> None:
        self.readers: dict[int, CountingReader] = {}
        self.times_ms: dict[int, list[int]] = {}
        for coordinator_id, messages in logs.items():
            reader = self.readers[coordinator_id] = CountingReader(coordinator_id)
            self.times_ms[coordinator_id] = []
            for message in messages:
                reader.take(message)
                self.times_ms[coordinator_id].append(message.timestamp_ms)
            assert reader.read.unreadable is None, reader.read.unreadable
            reader.find_live()

    def shares(self) -> Iterator[tuple[int, FileShare]]:
        """Every file in every log, with the coordinator."""
        for coordinator_id, reader in self.readers.items():
            for share in reader.shares.values():
                yield coordinator_id, share

    # ---- what was committed

    def counted(self, is_wanted: Callable[[int, FileShare], bool] = lambda *_: True) -> Counted:
        """The sums over the files that are wanted, given coordinator and share."""
        return sum((sums_of(share) for one, share in self.shares() if is_wanted(one, share)), Counted())

    def by_second(self) -> Mapping[tuple[int, int], Counted]:
        """The sums by coordinator and second."""
        found: defaultdict[tuple[int, int], Counted] = defaultdict(Counted)
        for one, share in self.shares():
            found[one, share.logged_ms // 1000] += sums_of(share)
        return found

    def by_partition(self) -> Mapping[Where, Counted]:
        """Batches, records and bytes of each partition that has any; `files` is 0."""
        found: defaultdict[Where, Counted] = defaultdict(Counted)
        for _, share in self.shares():
            for one in share.accepted:
                found[one.topic_id, one.partition] += (0, 1, one.record_count, one.byte_size)
        return found

    def file_bytes(self) -> int:
        """The bytes of all objects."""
        return sum(share.file.file_size for _, share in self.shares() if share.is_first)

    # ---- what is left

    def live(self) -> Mapping[Where, list[tuple[str, CommittedBatch]]]:
        """The live batches of each partition with the keys of their objects, in the order of their offsets."""
        found: defaultdict[Where, list[tuple[str, CommittedBatch]]] = defaultdict(list)
        for _, share in self.shares():
            for one in share.live:
                found[one.topic_id, one.partition].append((share.file.object_key, one))
        return {where: sorted(batches, key=lambda one: one[1].base_offset) for where, batches in found.items()}

    def objects(self) -> dict[str, dict[str, int]]:
        """The sizes of the objects by key, apart for those that have live batches (`live`), none any more (`empty`), and are `removed`."""
        removed = set().union(*(reader.removed for reader in self.readers.values()))
        sizes = {share.file.object_key: share.file.file_size for _, share in self.shares()}
        alive = {share.file.object_key for _, share in self.shares() if share.live}
        found: dict[str, dict[str, int]] = {"live": {}, "empty": {}, "removed": {}}
        for key, size in sizes.items():
            found["removed" if key in removed else "live" if key in alive else "empty"][key] = size
        return found

    def others(self) -> Counter[str]:
        """How many batches were not accepted, by the verdict on them."""
        return Counter(BatchVerdict(one.verdict).name.lower() for _, share in self.shares() for one in share.file.batches if one.verdict)

    def producers(self) -> dict[tuple[bytes, int, int], tuple[int, int]]:
        """Epoch and last sequence by topic, partition and producer."""
        return {
            (*where, producer_id): (one.epoch, one.last_sequence)
            for reader in self.readers.values()
            for (where, producer_id), one in reader.fold.producers.items()
        }

    def voids(self) -> int:
        """How many entries never count."""
        return sum(len(reader.read.voids) for reader in self.readers.values())

    def claims(self) -> Counter[int]:
        """How many claims came into force, by coordinator."""
        return Counter({one: len(reader.read.claims) for one, reader in self.readers.items()})

    def ends(self) -> dict[int, int]:
        """The next offset of each coordinator's log."""
        return {one: reader.read.last_offset + 1 for one, reader in self.readers.items()}


def sums_of(share: FileShare) -> Counted:
    """What a share counts for."""
    accepted = share.accepted
    return Counted(int(share.is_first), len(accepted), sum(one.record_count for one in accepted), sum(one.byte_size for one in accepted))
