"""The committed state of a replica and its position in the log: changed by entries that were read or acknowledged, in their order.

Files are answered before the tables have them: an answer that the log holds cannot change any more. They are deferred until `settle`.
Everything else that changes the state settles first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from coordinator.core.endpoints import format_endpoints
from coordinator.core.events import DirectoryChanged, Effect
from coordinator.core.files.answers import ERROR_OF
from coordinator.core.files.apply import ApplyResult
from coordinator.core.files.line_loops import count_lines
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.leadership.transaction import AppliedChunk
from coordinator.core.log_entry import ReadEntry, entry_hash
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import BrokenInvariant
from coordinator.core.tables.stored_rows import Header
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey
from records.log import Fence, OpenTransaction, fence_of
from records.model import LeadershipClaimed, Record, Restored, SnapshotMark

_REFUSALS = tuple(BatchVerdict)[2:]
"""The verdicts after *accepted* and *duplicate*."""


@dataclass(slots=True)
class CommitCounts:
    """Counters of requests acknowledged as leader; `rejected` counts batches by Kafka error number."""

    commits: int = 0
    batches: int = 0
    records: int = 0
    duplicates: int = 0
    rejected: Counter[int] = field(default_factory=Counter)

    def add(self, files: LoggedFiles, first: int, stop: int) -> None:
        """Count acknowledged commits."""
        first_line = files.table.first_line
        totals = np.zeros(len(BatchVerdict) + 1, np.int64)
        count_lines(files.table.lines[first_line[first] : first_line[stop]].data, totals.data)
        accepted, duplicates, *refused, records = totals.tolist()
        self.commits += stop - first
        self.batches += accepted
        self.records += records
        self.duplicates += duplicates
        for verdict, count in zip(_REFUSALS, refused, strict=True):
            if count:
                self.rejected[int(ERROR_OF[verdict])] += count


@dataclass(slots=True)
class AppliedCounts:
    """The files that this replica has applied, as leader or follower, and their batches, with those that were refused."""

    files: int = 0
    batches: int = 0


class Committed:
    """See the module's text. `effects` is the list of the shard, to which this adds."""

    def __init__(self, *, state: ShardState, fence: Fence, claim: LeadershipClaimed | None, effects: list[Effect]) -> None:
        self.state = state
        self.fence = fence
        self.claim = claim
        """The claim in force."""
        self.transaction: OpenTransaction[AppliedChunk] | None = None
        self._fence_before = fence
        self.last_entry: tuple[bytes, bytes] = (b"", b"")
        """Key and value of the entry at the applied offset."""
        self.counts = CommitCounts()
        self.applied = AppliedCounts()
        self._effects = effects
        self._deferred: deque[LoggedFiles] = deque()

    @property
    def is_settled(self) -> bool:
        """Whether nothing is deferred."""
        return not self._deferred

    @property
    def written_fence(self) -> Fence:
        """The fence at the applied offset: that before a transaction that has not ended."""
        return self.fence if self.transaction is None else self._fence_before

    def defer(self, files: LoggedFiles) -> None:
        """Take acknowledged files, whose `offsets` are set; `settle` applies them."""
        self._deferred.append(files)

    def settle(self) -> None:
        """Apply the deferred files. Raises `BrokenInvariant` when one does not fit; they stay deferred then."""
        while self._deferred:
            files = self._deferred[0]
            contradiction = self.apply_files(files, 0, len(files)).contradiction
            if contradiction is not None:
                raise BrokenInvariant(f"acknowledged files cannot be applied: {contradiction}")
            self.counts.add(files, 0, len(files))
            self._deferred.popleft()

    def apply_files(self, files: LoggedFiles, first: int, stop: int) -> ApplyResult:
        """Apply files up to the first that contradicts the state. Raises `BrokenInvariant`."""
        applied = self.state.apply_files(files, first, stop)
        first_line = files.table.first_line
        self.applied.files += applied.stop - first
        self.applied.batches += first_line[applied.stop] - first_line[first]
        if applied.has_directory_changed:
            self._effects.append(DirectoryChanged())
        return applied

    def forget_deferred(self) -> None:
        """The replica has failed: what is deferred is in the log and is not applied here any more."""
        self._deferred.clear()

    def apply(self, records: Sequence[Record], offset: int) -> None:
        """Apply the records of one entry, none of them a file. Raises `BrokenInvariant`."""
        self.settle()
        if self.state.apply_entry(records, offset):
            self._effects.append(DirectoryChanged())

    def begin_restored(self, restored: Restored, entry: ReadEntry) -> None:
        """The log begins with this entry, and goes on from a state of another log.

        Raises `BrokenInvariant` when the state is not the one that was prepared for the entry; loading prepares it.
        """
        if self.state.prepared_for != entry_hash(entry.key or b"", entry.value or b""):
            raise BrokenInvariant("the log begins with a restore, for which this state was not made: it is loaded anew")
        self.apply([restored], entry.offset)
        self.fence = fence_of(restored)
        self.last_entry = (entry.key or b"", entry.value or b"")

    def take_claim(self, claim: LeadershipClaimed, entry: ReadEntry) -> str | None:
        """A claim came into force; returns the name of the transaction that it cuts off, if one is open."""
        self.fence = self.fence.claimed_by(claim)
        self.claim = claim
        cut_off, self.transaction = self.transaction, None
        self.pass_over(entry)
        return None if cut_off is None else cut_off.name

    def seal(self, mark_id: int, fence: Fence) -> None:
        """The entry at the applied offset is this mark, at `fence`: a write of the state database ends here.

        The header does not say yet of which log it is, nor the hash of its last entry.
        """
        self.state.seal(mark_id, self.header(fence), self.last_entry)

    def header(self, fence: Fence) -> Header:
        """The position of the applied state, without the name of its log and the digest. `fence` is that at the applied offset."""
        claim = self.claim
        return Header(
            cluster_id="",
            topic_id=b"",
            metadata_partition=-1,
            applied_offset=self.state.applied_offset,
            epoch=fence.epoch,
            term=fence.term,
            seq=fence.seq,
            leader_node_id=-1 if claim is None else claim.node_id,
            leader_endpoints="" if claim is None else format_endpoints(claim.endpoints),
            log_time_ms=self.state.hot.log_time_ms,
            last_entry_hash=b"",
            digest=b"",
        )

    def open(self, transaction: OpenTransaction[AppliedChunk], key: EntryKey) -> None:
        """A transaction begins with the entry of this key; the fence may be further, because entries are judged before they are applied."""
        self.transaction = transaction
        self._fence_before = Fence(key.epoch, key.term, key.seq - 1)

    def apply_chunks(self, chunks: Iterable[AppliedChunk]) -> None:
        """Apply a transaction that has ended. Raises `BrokenInvariant`."""
        for chunk in chunks:
            self.apply(chunk.records, chunk.offset)

    def pass_over(self, entry: ReadEntry) -> None:
        """Advance the applied offset over an entry that changes no table, or whose changes were applied."""
        self.state.skip_entry(entry.offset)
        self.last_entry = (entry.key or b"", entry.value or b"")


def mark_in(records: Sequence[Record]) -> int | None:
    """The id of the mark among the records of an entry, which is in no transaction: replicas write their state as of it. None without."""
    return next((record.mark_id for record in records if isinstance(record, SnapshotMark)), None)
