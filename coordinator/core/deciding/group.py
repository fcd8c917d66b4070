"""Group commit: turns queued requests into entries and answers, in the order of the queue.

A request takes effect at its place in the queue. A write becomes an entry. A strict read waits until an own entry is acknowledged that was
produced after it arrived: the group's next entry, before which it reads the state; without a next one the group's last entry, after which
it reads the state. A group without entries gets a NoOp for its reads. A write that needs no entry waits in the same way, because what makes
it a success may still be in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from coordinator.core.commands import CommitAnswer, CommitFile, CommitResult, FenceFiles, HandOverFiles, RemoveFiles, StrictRead
from coordinator.core.deciding.decide import decide_write
from coordinator.core.deciding.decide_files import decide_end, fences, ruled_out, ruled_out_by
from coordinator.core.events import NewEntry
from coordinator.core.files.answers import not_taken, result_of
from coordinator.core.files.decide import decide, select
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.files.outcomes import HAS_REFUSALS, OUT_OF_ORDER, UNKNOWN_PARTITION
from coordinator.core.files.requests import CommitContext, RequestLines, batch_fault, check_head, read_lines
from coordinator.core.leadership.term import PendingEntry, Term, Waiter
from coordinator.core.leadership.transaction import TRANSACTIONS_LEVEL, Chunk, RecordTooLarge, cut, enclose, name_of
from coordinator.core.limits import Limits
from coordinator.core.reads.former_commits import answers_by_batch, may_have_moved
from coordinator.core.request import Reply, Request
from coordinator.core.state.expiry import decide_expiry
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry, encode_entry
from records.committed_files.codec import FileCommitted, entry_bytes_max, table_of
from records.entry_key import EntryKey, encode_key, key_of_term
from records.errors import InvalidRecord
from records.history import levels
from records.model import NoOp, Record, TransactionAborted
from records.tuples import tuples_of

_ENTRY_BYTES_A_BATCH = 160
"""More than any batch takes in an entry. The size is calculated only for files that might be too large by this bound."""
_ENTRY_BYTES_A_FILE = 8192

_NO_OP: list[Record] = [NoOp()]
_NO_OP_OF_LEVEL = {level: encode_entry(_NO_OP, level) for level in levels()}
"""Shared by all strict reads that come alone."""

_Commit: TypeAlias = tuple[Request, CommitFile]


class GroupBuilder:
    """Builds one group, its entries encoded at a schema `level`; `entries` and `replies` are its results.

    `now_ms` is the clock of deadlines, that of `context` the log's. The overlay has everything that was decided.
    """

    def __init__(self, *, state: ShardState, term: Term, overlay: HotState, context: CommitContext, level: int, now_ms: int) -> None:
        self.entries: list[NewEntry] = []
        self.replies: list[Reply] = []
        self._state = state
        self._term = term
        self._overlay = overlay
        self._context = context
        self._level = level
        self._now_ms = now_ms
        # Files of so many batches fit an entry, whatever is in them.
        self._surely_small = (context.limits.entry_bytes_max - _ENTRY_BYTES_A_FILE) // _ENTRY_BYTES_A_BATCH
        self._waiting: list[Waiter] = []
        self._commits: list[_Commit] = []
        self._last: PendingEntry | None = None

    @property
    def _limits(self) -> Limits:
        return self._context.limits

    def take(self, request: Request) -> None:
        """Decide the next request of the queue."""
        command = request.command
        if isinstance(command, CommitFile):
            self._commits.append((request, command))
            return
        self._decide_commits()
        if isinstance(command, FenceFiles):
            waiter = Waiter(request.token, request.deadline_ms, command)
            self._append_or_wait(fences(self._state, self._term, command, self._limits.entry_bytes_max), waiter)
        elif isinstance(command, RemoveFiles | HandOverFiles):
            records, outcomes = decide_end(self._state, self._term, command, self._limits.entry_bytes_max)
            self._append_or_wait(records, Waiter(request.token, request.deadline_ms, command, outcomes))
        elif isinstance(command, StrictRead):
            self._waiting.append(Waiter(request.token, request.deadline_ms, command))
        else:
            decision = decide_write(self._overlay, command, self._limits, self._context.now_ms, self._context.coordinator_id)
            self._append_or_wait(decision.records, Waiter(request.token, request.deadline_ms, command, decision.answer))

    def _append_or_wait(self, records: list[Record], waiter: Waiter) -> None:
        if records:
            self._append(records, waiter)
        else:
            self._waiting.append(waiter)

    def expire(self) -> bool:
        """Log the expiry that is due by the log's clock; it has no request and no answer. Returns whether there is more to do."""
        expiry = decide_expiry(self._overlay, self._state.tombstone_ages, self._limits)
        if expiry.records:
            self._append(expiry.records, None)
        return expiry.has_more

    def note_aborted(self, name: str) -> None:
        """Log, for tools, that the claim of this term aborted an open transaction; replicas know that from the claim."""
        self._append([TransactionAborted(reason=f"the claim of epoch {self._term.epoch} cut {name!r} off")], None)

    def close(self) -> None:
        """Decide the remaining commits, and give waiting requests an entry to wait for."""
        self._decide_commits()
        if self._waiting and self._last is None:
            self._append(_NO_OP, None, _NO_OP_OF_LEVEL[self._level])
        if self._last is not None:
            self._last.after.extend(self._waiting)
        self._waiting = []

    def _decide_commits(self) -> None:
        """Decide the commits since the last other request: those of new keys together."""
        commits, self._commits = self._commits, []
        if not commits:
            return
        commands = [command for _, command in commits]
        read = read_lines(b"".join([command.batches for command in commands]), commands)  # type: ignore[misc]  # arrays are buffers
        are_new = self._are_new([command.object_key for command in commands])
        fresh: list[int] = []
        keys: set[str] = set()
        for place, (request, command) in enumerate(commits):
            if not are_new:
                if command.object_key in keys:
                    # The key is in the group twice: its first commit is decided before the second one joins it.
                    self._decide(fresh, commits, read)
                    fresh, keys = [], set()
                keys.add(command.object_key)
                if self._is_known(request, command, read.hashes[place]):
                    continue
            answer = self._refuse_form(command, *read.faults[place])
            if answer is None and len(command.batches) > self._surely_small and self._may_be_too_large(command, read, place):
                self._decide(fresh, commits, read)
                fresh, keys = [], {command.object_key}
                answer = self._refuse_size(command)
            if answer is not None:
                self.replies.append(Reply(request.token, answer))
            elif self._context.coordinator_id in command.owner_ids:
                fresh.append(place)
            else:
                self._refuse_behind_proof(request, command)
        self._decide(fresh, commits, read)

    def _are_new(self, object_keys: list[str]) -> bool:
        """Whether these keys differ and nothing is known or under way of any; True is certain."""
        term = self._term
        return (
            len(set(object_keys)) == len(object_keys)
            and term.by_key.keys().isdisjoint(object_keys)
            and term.ruled_out.keys().isdisjoint(object_keys)
            and not self._state.may_know_any(object_keys)
        )

    def _is_known(self, request: Request, command: CommitFile, hashed: bytes) -> bool:
        """Whether a commit of the key is logged or under way; if so, this one is answered, or waits for the outcome of the other."""
        under_way = self._term.by_key.get(command.object_key)
        if under_way is not None:
            self._join(request, command, *under_way, hashed)
            return True
        answer = self.known_answer(command, hashed)
        if answer is not None:
            self.replies.append(Reply(request.token, answer))
        return answer is not None

    def _refuse_form(self, command: CommitFile, place: int, fault: int) -> CommitAnswer | None:
        """Return the answer to a commit that is malformed or empty; None for any other."""
        refusal = check_head(command, self._context)
        if refusal is None and fault and (fault != OUT_OF_ORDER or command.checked is None):
            # Shares of a checked request are in no order and do not overlap.
            refusal = batch_fault(command, place, fault)
        if refusal is not None:
            return CommitResult.refused(len(command.batches), refusal.error, refusal.message)
        return None if len(command.batches) else CommitResult.refused(0, ErrorCode.NONE, None)

    def _refuse_behind_proof(self, request: Request, command: CommitFile) -> None:
        """Refuse a file that this coordinator does not take. Where its partitions are, a leader may not know that was replaced."""
        answer = not_taken(self._overlay, command, self._context.coordinator_id)
        self._waiting.append(Waiter(request.token, request.deadline_ms, command, answer))

    def _refuse_size(self, command: CommitFile) -> CommitAnswer | None:
        """Return the answer to a file whose entry does not fit a message, else None. Decisions change tables: it is tried on a copy."""
        read = read_lines(command.batches.tobytes(), [command])
        append_time_ms = max(self._context.now_ms, self._overlay.log_time_ms)
        _, files = decide(self._overlay.copy(), [command], read, append_time_ms, self._level)
        size, limit = 0 if files is None else len(files.encoded[0]), self._limits.entry_bytes_max
        if size <= limit:
            return None
        message = f"the request needs a FileCommitted of {size} bytes in the metadata log, {limit} are allowed; split it"
        return command.refused(ErrorCode.INVALID_REQUEST, message)

    def _may_be_too_large(self, command: CommitFile, read: RequestLines, place: int) -> bool:
        """Whether the entry of a file might not fit a message: an upper bound of its size does not."""
        lines = read.lines[read.first_line[place] : read.first_line[place + 1]]
        return entry_bytes_max(len(command.object_key.encode()), len(command.owner_ids), lines) > self._limits.entry_bytes_max

    def _decide(self, places: list[int], commits: list[_Commit], read: RequestLines) -> None:
        """Decide commits of different new keys, at these places among those that were read, and note their entries as under way."""
        if not places:
            return
        if len(places) != len(commits):
            read, commits = select(read, places), [commits[place] for place in places]
        append_time_ms = max(self._context.now_ms, self._overlay.log_time_ms)
        outcomes, files = decide(self._overlay, [command for _, command in commits], read, append_time_ms, self._level)
        if UNKNOWN_PARTITION in outcomes:
            decided = []
            for commit, outcome in zip(commits, outcomes, strict=True):
                if outcome == UNKNOWN_PARTITION:
                    self._refuse_behind_proof(*commit)
                else:
                    decided.append(commit)
            commits, outcomes = decided, [outcome for outcome in outcomes if outcome != UNKNOWN_PARTITION]
        if files is not None:
            self._append_files(files, commits, outcomes)

    def _append_files(self, files: LoggedFiles, commits: list[_Commit], outcomes: list[int]) -> None:
        """Note the entries of files as under way; they are acknowledged together."""
        term = self._term
        first_seq = term.next_seq
        last_seq = first_seq + len(commits) - 1
        entry = PendingEntry(last_seq, [], files.encoded, self._now_ms, files)
        entry.before, self._waiting = self._waiting, []
        entry.commits = [request for request, _ in commits]
        if HAS_REFUSALS in outcomes:
            refusals = [file for file, outcome in enumerate(outcomes) if outcome == HAS_REFUSALS]
            entry.refusals = {file: result_of(files.table, file, self._overlay) for file in refusals}
        term.add(entry)
        self._last = entry
        head = key_of_term(term.epoch, term.term_id)
        seqs = range(first_seq, last_seq + 1)
        self.entries += tuples_of(NewEntry, seqs, [head + seq.to_bytes(8, "big") for seq in seqs], files.encoded)

    def _join(self, request: Request, command: CommitFile, entry: PendingEntry, file: int, hashed: bytes) -> None:
        """Have a retry of a commit that is still in flight wait for the outcome of the first; refuse it when its content differs."""
        if entry.heads[file].content_hash != hashed:
            answer = _other_content(command)
            if self._overlay.stretches:
                # Whether they are its batches of before or after a partition moved is clear once it is committed.
                message = f"file {command.object_key} is being committed with other batches; retry"
                answer = command.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
            self.replies.append(Reply(request.token, answer))
            return
        entry.after.append(Waiter(request.token, request.deadline_ms, command, entry.answer_of(file)))

    def known_answer(self, command: CommitFile, hashed: bytes) -> CommitResult | None:
        """The answer for a key that is known or has a tombstone, else None."""
        reason = self._term.ruled_out.get(command.object_key)
        if reason is not None:
            return _ruled_out(command, reason)
        if not self._state.may_know(command.object_key):
            return None
        file = self._state.find_file(command.object_key)
        if file is not None:
            if file.content_hash != hashed:
                return answers_by_batch(self._state, file, command) if may_have_moved(self._state, command) else _other_content(command)
            age_ms = max(self._context.now_ms, self._overlay.log_time_ms) - file.append_time_ms
            if age_ms > self._limits.commit_results_retention_ms or not file.record:
                message = (
                    f"file {command.object_key} was committed {age_ms} ms ago; its results are no longer kept (commit.results.retention.ms"
                    f" {self._limits.commit_results_retention_ms})"
                )
                return CommitResult.refused(len(command.batches), ErrorCode.DUPLICATE_RESOURCE, message)
            record = decode_entry(file.record)[0]
            if not isinstance(record, FileCommitted):
                raise AssertionError(f"file {command.object_key} keeps a {type(record).__name__}")
            return result_of(table_of([record]), 0, self._overlay)
        stone = self._state.find_tombstone(command.object_key)
        return None if stone is None else _ruled_out(command, stone.reason)

    def _append(self, records: list[Record], waiter: Waiter | None, encoded: bytes | None = None) -> PendingEntry | None:
        """Encode the records of one operation, unless `encoded` has them, and note them in flight: one entry, or several as a transaction.

        An operation that cannot be written is refused as a whole.
        """
        term = self._term
        limit, level = self._limits.entry_bytes_max, self._level
        try:
            chunks = cut(records, level, limit) if encoded is None else [Chunk(records, encoded)]
        except InvalidRecord as invalid:
            self._refuse(waiter, f"the request cannot be written to the metadata log: {invalid}")
            return None
        except RecordTooLarge as too_large:
            self._refuse(waiter, f"the request needs {too_large} in the metadata log, {limit} are allowed; split it")
            return None
        if len(chunks) == 1:
            return self._add(PendingEntry(term.next_seq, records, [chunks[0].encoded], self._now_ms), records, waiter)
        if level < TRANSACTIONS_LEVEL:
            advice = f"split it (from schema level {TRANSACTIONS_LEVEL} on they may be several, {level} is in force)"
            self._refuse(waiter, f"the request needs more than one log entry of {limit} bytes; {advice}")
            return None
        values = enclose(chunks, name_of(records), level)
        last_seq = term.next_seq + len(values) - 1
        return self._add(PendingEntry(last_seq, [], values, self._now_ms, chunks=chunks), records, waiter)

    def _add(self, entry: PendingEntry, records: Sequence[Record], waiter: Waiter | None) -> PendingEntry:
        term, first_seq = self._term, self._term.next_seq
        entry.before, self._waiting = self._waiting, []
        if waiter is not None:
            entry.after.append(waiter)
        for record in records:
            self._overlay.apply(record, -1)
        ruled_out = dict(ruled_out_by(records))
        entry.ruled_out = list(ruled_out)
        term.ruled_out.update(ruled_out)
        term.add(entry)
        self._last = entry
        for seq, value in enumerate(entry.values, first_seq):
            self.entries.append(NewEntry(seq, encode_key(EntryKey(term.epoch, term.term_id, seq)), value))
        return entry

    def _refuse(self, waiter: Waiter | None, message: str) -> None:
        if waiter is None:
            raise AssertionError(message)
        self.replies.append(Reply(waiter.token, waiter.command.refused(ErrorCode.INVALID_REQUEST, message)))


def _other_content(command: CommitFile) -> CommitResult:
    message = f"file {command.object_key} was committed with other content; upload the data under a new key"
    return CommitResult.refused(len(command.batches), ErrorCode.DUPLICATE_RESOURCE, message)


def _ruled_out(command: CommitFile, reason: str) -> CommitResult:
    outcome = ruled_out(command.object_key, reason)
    return CommitResult.refused(len(command.batches), outcome.error, outcome.message)
