"""The committed state of a replica and where it stands in the log: changed by entries that were read or acknowledged, in their order.

Blocks of plain commits are answered before the tables have them: an answer that the log holds cannot change any more. They are deferred
until `settle`. Everything else that changes the state settles first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from coordinator.core.events import DirectoryChanged, Effect
from coordinator.core.files.block import CommitBlock
from coordinator.core.leadership.transaction import AppliedChunk
from coordinator.core.log_entry import ReadEntry
from coordinator.core.state.replica_state import ShardState
from records.entry_key import EntryKey
from records.log import Fence, OpenTransaction
from records.model import FileCommitted, LeadershipClaimed, Record


@dataclass(slots=True)
class CommitCounts:
    """Counters of requests acknowledged as leader; `rejected` counts batches by Kafka error number."""

    commits: int = 0
    batches: int = 0
    records: int = 0
    duplicates: int = 0
    rejected: Counter[int] = field(default_factory=Counter)

    def add(self, record: FileCommitted) -> None:
        """Count one acknowledged commit."""
        self.commits += 1
        self.batches += len(record.byte_size)
        self.records += sum(record.record_count_minus_one) + len(record.byte_size)
        for code in record.other_code:
            if code:
                self.rejected[code] += 1
            else:
                self.duplicates += 1

    def add_block(self, block: CommitBlock) -> None:
        """Count the acknowledged commits of a block."""
        self.commits += len(block.heads)
        self.batches += block.batches
        self.records += int(block.count.sum())


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
        self._effects = effects
        self._deferred: deque[tuple[CommitBlock, Sequence[int]]] = deque()

    @property
    def is_settled(self) -> bool:
        """Whether no block is deferred."""
        return not self._deferred

    @property
    def written_fence(self) -> Fence:
        """The fence at the applied offset: that before a transaction that has not ended."""
        return self.fence if self.transaction is None else self._fence_before

    def defer(self, block: CommitBlock, offsets: Sequence[int]) -> None:
        """Take an acknowledged block, whose entries stand at these offsets; `settle` applies it."""
        self._deferred.append((block, offsets))

    def settle(self) -> None:
        """Apply the deferred blocks. Raises `BrokenInvariant` when one does not fit; it stays deferred then."""
        while self._deferred:
            block, offsets = self._deferred[0]
            self.state.apply_block(block, offsets)
            self.counts.add_block(block)
            self._deferred.popleft()

    def forget_deferred(self) -> None:
        """The replica has failed: what is deferred is in the log and is not applied here any more."""
        self._deferred.clear()

    def apply(self, records: Sequence[Record], offset: int, encoded: bytes) -> None:
        """Apply the records of one entry. Raises `BrokenInvariant`."""
        self.settle()
        if self.state.apply_entry(records, offset, encoded):
            self._effects.append(DirectoryChanged())

    def open(self, transaction: OpenTransaction[AppliedChunk], key: EntryKey) -> None:
        """A transaction begins with the entry of this key; the fence may be further, because entries are judged before they are applied."""
        self.transaction = transaction
        self._fence_before = Fence(key.epoch, key.term, key.seq - 1)

    def apply_chunks(self, chunks: Iterable[AppliedChunk]) -> None:
        """Apply a transaction that has ended. Raises `BrokenInvariant`."""
        for chunk in chunks:
            self.apply(chunk.records, chunk.offset, chunk.encoded)

    def pass_over(self, entry: ReadEntry) -> None:
        """Advance the applied offset over an entry that changes no table, or whose changes were applied."""
        self.state.skip_entry(entry.offset)
        self.last_entry = (entry.key or b"", entry.value or b"")
