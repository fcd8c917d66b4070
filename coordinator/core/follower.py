"""Reads the log: judges which entries count, and applies them on a follower.

A follower applies what it reads, judged by the fence of the committed state. A leader applies its own entries when they are acknowledged
and reads them back only to learn of claims and of void entries. It may read an entry before or after the report of it, so reading back
has a fence of its own.

An entry that counts by its key but contradicts the state is void (`core.contradiction`), unless the state itself is wrong. So the verdict
is certain only before `certain_end`: for entries that were in the log when this replica began to build its state from the log's beginning.
At a later one the replica fails and is built anew from the log, and then judges the entry with certainty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coordinator.core.committed import Committed, mark_in
from coordinator.core.contradiction import check_key, check_records
from coordinator.core.due_loops import count_due
from coordinator.core.events import Contradicted, Effect
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.leadership.term import Term
from coordinator.core.leadership.transaction import AppliedChunk
from coordinator.core.log_entry import ContradictoryEntry, ReadEntry
from coordinator.core.tables.in_memory import BrokenInvariant, Contradiction, NotSupported
from records.codec import decode_entry
from records.committed_files.codec import read_files
from records.entry_key import EntryKey, decode_key, key_of_term
from records.errors import UndecodableEntry, UnknownSchema
from records.log import (
    RESTORED_KEY,
    VOID_REASONS,
    BrokenRule,
    Fence,
    OpenTransaction,
    Role,
    Verdict,
    begun_by,
    claim_in,
    composition_fault,
    restored_in,
    role_of,
)
from records.model import LeadershipClaimed, Restored

REPLAY_BYTES_MAX = 64 * 1024
"""Entries are applied together once they have so many bytes: some 5000 batches, whose lines stay in the cache of the processor."""


class Follower:
    """See the module's text. `effects` is the list of the shard, to which this adds."""

    def __init__(self, *, committed: Committed, certain_end: int, effects: list[Effect]) -> None:
        self.next_read = committed.state.applied_offset + 1
        """The offset of the entry that is due to be read."""
        self.void_entries: Counter[str] = Counter()
        self.contradiction: ContradictoryEntry | None = None
        """The newest entry that was found to contradict the state."""
        self._committed = committed
        self._certain_end = certain_end
        self._effects = effects
        self._read_back_fence = committed.fence
        self._due: list[ReadEntry] = []
        self._due_bytes = 0

    @property
    def next_offset(self) -> int:
        """Everything before it was read and is applied, void, or of a transaction that has not ended."""
        return self._committed.state.applied_offset + 1 if self._committed.transaction is None else self.next_read

    def expect(self, entry: ReadEntry) -> None:
        """Advance to an entry that was read. Raises `BrokenInvariant` when another one is due."""
        if entry.offset != self.next_read:
            raise BrokenInvariant(f"read offset {entry.offset} where {self.next_read} was due: the log has a hole")
        self.next_read += 1

    def read_again(self) -> int:
        """Begin again after the last applied entry; returns the offset to read from."""
        self.next_read = self.next_offset
        return self.next_read

    def read_back_from_here(self) -> None:
        """Note that the own claim came into force: entries are read back from now on."""
        self._read_back_fence = self._committed.fence

    # ---- as a follower

    def take_due(self, entries: Sequence[ReadEntry]) -> int:
        """Take the entries of the term in force that have the expected offsets, which is nearly everything a follower reads.

        Returns how many; `read` judges the others, one by one. The verdicts are those of the fence.
        """
        fence = self._committed.fence
        if fence.term == 0:
            return 0
        passed = count_due(entries, key_of_term(fence.epoch, fence.term), fence.seq + 1, self.next_read)
        if passed:
            self.next_read += passed
            self._committed.fence = Fence(fence.epoch, fence.term, fence.seq + passed)
            start, size_bytes = 0, self._due_bytes
            for place in range(passed):
                size_bytes += len(entries[place].value or b"")
                if size_bytes >= REPLAY_BYTES_MAX:
                    self._due += entries[start : place + 1]
                    self._due_bytes = size_bytes
                    self.apply_due()
                    start, size_bytes = place + 1, 0
            self._due += entries[start:passed]
            self._due_bytes = size_bytes
        return passed

    def read(self, entry: ReadEntry) -> LeadershipClaimed | None:
        """Judge an entry, and keep it when it counts. Return the claim that it holds if that comes into force: the caller must take it."""
        committed = self._committed
        key = decode_key(entry.key)
        if entry.offset == 0 and key == RESTORED_KEY and (restored := _restored(key, entry)) is not None:
            committed.begin_restored(restored, entry)
            return None
        verdict = committed.fence.judge(key)
        if verdict is Verdict.APPLY:
            committed.fence = committed.fence.advanced()
            self._keep(entry)
            return None
        self.apply_due()
        if verdict is Verdict.CLAIM and key is not None and (claim := _admitted_claim(key, entry)) is not None:
            return claim
        self._void(verdict)
        if committed.transaction is None:
            committed.pass_over(entry)
        return None

    def _keep(self, entry: ReadEntry) -> None:
        """Keep an entry that counts until many can be applied together; the end of the read entries applies the rest."""
        self._due.append(entry)
        self._due_bytes += len(entry.value or b"")
        if self._due_bytes >= REPLAY_BYTES_MAX:
            self.apply_due()

    def apply_due(self) -> None:
        """Apply the entries that were kept: adjacent files together."""
        due = self._due
        if not due:
            return
        self._due, self._due_bytes = [], 0
        which, table = read_files([entry.value or b"" for entry in due])
        files = LoggedFiles(table, [due[place].value or b"" for place in which])
        files.offsets[:] = [due[place].offset for place in which]
        at = file = 0
        while at < len(due):
            stop = file
            if self._committed.transaction is None:
                while stop < len(which) and which[stop] == at + stop - file:
                    stop += 1
            if stop == file:
                self._apply_read(due[at])
                at += 1
                file += file < len(which) and which[file] < at
            else:
                self._apply_files(files, file, stop, due[at : at + stop - file])
                at += stop - file
                file = stop

    def _apply_files(self, files: LoggedFiles, first: int, stop: int, entries: Sequence[ReadEntry]) -> None:
        """Apply files, or pass over those that contradict the state. `entries` are those of these files."""
        committed = self._committed
        at = first
        while at < stop:
            try:
                end = committed.state.first_doubtful(files, at, stop)
                if end == at:
                    check_key(committed.state, files.table.heads[at].object_key)
                    end = at + 1
                applied = committed.apply_files(files, at, end)
                if applied.stop > at:
                    last = entries[applied.stop - 1 - first]
                    committed.last_entry = (last.key or b"", last.value or b"")
                    at = applied.stop
                if applied.contradiction is not None:
                    raise Contradiction(applied.contradiction)
            except Contradiction as contradiction:
                entry = entries[at - first]
                self._contradicted(entry, str(contradiction))
                committed.pass_over(entry)
                at += 1

    def _apply_read(self, entry: ReadEntry) -> None:
        """Apply an entry of the term in force, or pass over one that contradicts the state."""
        try:
            self._apply_lawful(entry)
        except UnknownSchema as unknown:
            raise NotSupported(f"entry {entry.offset} of the term in force cannot be read by this version: {unknown}") from unknown
        except (UndecodableEntry, Contradiction) as contradiction:
            # An open transaction is void as a whole.
            self._committed.transaction = None
            self._contradicted(entry, str(contradiction))
            self._committed.pass_over(entry)

    def _apply_lawful(self, entry: ReadEntry) -> None:
        """Apply an entry, or keep it until its transaction ends. Raises `Contradiction` or a decoder's error before anything changes."""
        value = entry.value or b""
        records = decode_entry(value)
        committed = self._committed
        opened = committed.transaction
        role = role_of(records, entry.offset, opened)
        match role:
            case BrokenRule():
                raise Contradiction(role.message)
            case Role.ALONE:
                check_records(committed.state, records)
                committed.apply(records, entry.offset)
                committed.last_entry = (entry.key or b"", value)
                mark_id = mark_in(records)
                if mark_id is not None and (key := decode_key(entry.key)) is not None:
                    committed.seal(mark_id, Fence(*key))
            case Role.BEGINS if (key := decode_key(entry.key)) is not None:
                committed.open(begun_by(records, entry.offset), key)
            case Role.CHUNK if opened is not None:
                opened.chunks.append(AppliedChunk(records, entry.offset))
            case Role.ENDS if opened is not None:
                self._check_chunks(opened)
                committed.transaction = None
                committed.apply_chunks(opened.chunks)
                committed.pass_over(entry)
            case _:
                committed.transaction = None
                committed.pass_over(entry)

    def _check_chunks(self, opened: OpenTransaction[AppliedChunk]) -> None:
        """Judge a transaction as a whole. Raises `Contradiction`."""
        records = [record for chunk in opened.chunks for record in chunk.records]
        fault = composition_fault(records, in_transaction=True)
        if fault is not None:
            raise Contradiction(fault.message)
        check_records(self._committed.state, records)

    def _contradicted(self, entry: ReadEntry, reason: str) -> None:
        """Note an entry that contradicts the state. Raises `BrokenInvariant` while it is not certain which of them is wrong."""
        fence = self._committed.fence
        found = ContradictoryEntry(entry.offset, fence.epoch, fence.term, reason)
        self.contradiction = found
        is_certain = entry.offset < self._certain_end
        self._effects.append(Contradicted(found, is_certain))
        if not is_certain:
            raise BrokenInvariant(f"entry {entry.offset} contradicts this state, which is built anew from the log to judge again: {reason}")
        self._void(Verdict.VOID_CONTRADICTION)

    # ---- as a leader

    def pass_own(self, term: Term, entries: Sequence[ReadEntry]) -> int:
        """Pass over own entries at their expected offsets, which is nearly everything a leader reads.

        Returns how many; `read_back` judges the others, one by one. The verdicts are those of the fence: an entry of
        the term in force with the next seq counts.
        """
        fence = self._read_back_fence
        shift = term.claim_offset + term.seen_shift
        if self.next_read <= term.claim_offset or fence.epoch != term.epoch or self.next_read != shift + fence.seq + 1:
            return 0
        passed = count_due(entries, key_of_term(fence.epoch, fence.term), fence.seq + 1, self.next_read)
        self.next_read += passed
        self._read_back_fence = Fence(fence.epoch, fence.term, fence.seq + passed)
        return passed

    @property
    def seq_read_back(self) -> int:
        """The seq of the last own entry that was read back."""
        return self._read_back_fence.seq

    def read_back(self, entry: ReadEntry) -> EntryKey | LeadershipClaimed | None:
        """Judge an entry after the own claim: the key of an own one that counts, a claim that ends the term, None for a void one."""
        key = decode_key(entry.key)
        verdict = self._read_back_fence.judge(key)
        if verdict is Verdict.APPLY and key is not None:
            self._read_back_fence = self._read_back_fence.advanced()
            return key
        if verdict is Verdict.CLAIM and key is not None and (claim := _admitted_claim(key, entry)) is not None:
            return claim
        self._void(verdict)
        return None

    def _void(self, verdict: Verdict) -> None:
        self.void_entries[VOID_REASONS.get(verdict, Verdict.VOID_FOREIGN.value)] += 1


def _restored(key: EntryKey, entry: ReadEntry) -> Restored | None:
    """Return the record that begins a restored log, from the entry at offset 0 with its key, or None when the entry is void."""
    try:
        return restored_in(entry.offset, key, decode_entry(entry.value or b""))
    except UnknownSchema as unknown:
        raise NotSupported(f"the beginning of the log cannot be read by this version: {unknown}") from unknown
    except UndecodableEntry:
        return None


def _admitted_claim(key: EntryKey, entry: ReadEntry) -> LeadershipClaimed | None:
    """Return the claim in an entry that has the key of one, or None when the entry is void. Raises `NotSupported`."""
    try:
        records = decode_entry(entry.value or b"")
    except UnknownSchema as unknown:
        raise NotSupported(f"a claim at offset {entry.offset} cannot be read by this version: {unknown}") from unknown
    except UndecodableEntry:
        return None
    return claim_in(key, records)
