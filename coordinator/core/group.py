"""Group commit: turns queued requests into entries and answers, in the order of the queue.

A request takes effect at its place in the queue. A write becomes an entry; a strict read is answered when an own entry
that was produced after it arrived is acknowledged: the next entry of the group (before that is applied), or the last
one, or a NoOp when the group has none. A write that needs no entry waits in the same way, because what makes it
a success may still be in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.core.commands import Barrier, CommitFile, CommitResult, DescribeFiles, ListOffsets
from coordinator.core.decide import decide_write
from coordinator.core.events import NewEntry, Reply, Request
from coordinator.core.files.block import BlockShare, CommitBlock
from coordinator.core.files.block_apply import apply_block
from coordinator.core.files.commit import CommitContext, answer_of, check_head, decide
from coordinator.core.files.commit_vector import Unusual, decide_block
from coordinator.core.leadership.term import PendingCommit, PendingEntry, Term, Waiter
from coordinator.core.leadership.transaction import TRANSACTIONS_LEVEL, Chunk, RecordTooLarge, cut, enclose, name_of
from coordinator.core.limits import Limits
from coordinator.core.refusals import refuse
from coordinator.core.state.expiry import decide_expiry
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.batches import BATCH, content_hash, join_batches
from coordinator.kafka.errors import ErrorCode
from records.codec import InvalidRecord, decode_entry, encode_entry, encode_key
from records.entry_key import EntryKey, key_of_term
from records.history import levels
from records.model import FileCommitted, NoOp, Record, TransactionAborted

BLOCK_BATCHES_MIN = 1
"""From this many batches on they are decided together: always, since the loops are compiled. Tests and benchmarks/commit_path.py
raise it to have everything decided by the readable path."""

_NO_OP: list[Record] = [NoOp()]
_NO_OP_OF_LEVEL = {level: encode_entry(_NO_OP, level) for level in levels()}
"""Shared by all strict reads that come alone."""


class _Plain(NamedTuple):
    """A commit without anything unusual about the file as a whole."""

    request: Request
    command: CommitFile
    content_hash: bytes


class GroupBuilder:
    """Builds one group, its entries encoded at a schema `level`; `entries` and `replies` are its results.

    `now_ms` is the clock of deadlines, that of `context` the log's. `last_block` is the block that the overlay lacks at the end:
    the overlay is not read before the next group is decided.
    """

    def __init__(self, *, state: ShardState, term: Term, overlay: HotState, context: CommitContext, level: int, now_ms: int) -> None:
        self.entries: list[NewEntry] = []
        self.replies: list[Reply] = []
        self.last_block: CommitBlock | None = None
        self._state = state
        self._term = term
        self._overlay = overlay
        self._context = context
        self._level = level
        self._now_ms = now_ms
        self._waiting: list[Waiter] = []
        self._commits: list[tuple[Request, CommitFile]] = []
        self._last: PendingEntry | None = None

    @property
    def _limits(self) -> Limits:
        return self._context.limits

    def _settled(self) -> HotState:
        """The overlay with everything of this group."""
        if self.last_block is not None:
            apply_block(self._overlay, self.last_block)
            self.last_block = None
        return self._overlay

    def take(self, request: Request) -> None:
        """Decide the next request of the queue."""
        command = request.command
        if isinstance(command, CommitFile):
            self._commits.append((request, command))
            return
        self._decide_commits()
        if isinstance(command, ListOffsets | DescribeFiles | Barrier):
            self._waiting.append(Waiter(request.token, request.deadline_ms, command))
        else:
            decision = decide_write(self._settled(), command, self._limits)
            waiter = Waiter(request.token, request.deadline_ms, command, decision.answer)
            if decision.records:
                self._append(decision.records, waiter)
            else:
                self._waiting.append(waiter)

    def expire(self) -> None:
        """Log the expiry that is due by the log's clock; it has no request and no answer."""
        records = decide_expiry(self._settled(), self._limits)
        if records:
            self._append(records, None)

    def note_aborted(self, name: str) -> None:
        """Log that the claim of this term cut a transaction off, for tools: replicas know it from the claim."""
        self._append([TransactionAborted(reason=f"the claim of epoch {self._term.epoch} cut {name!r} off")], None)

    def close(self) -> None:
        """Decide what is left, and give what still waits an entry to wait for."""
        self._decide_commits()
        if self._waiting and self._last is None:
            self._append(_NO_OP, None, _NO_OP_OF_LEVEL[self._level])
        if self._last is not None:
            self._last.after.extend(self._waiting)
        self._waiting = []

    def _decide_commits(self) -> None:
        """Decide the commits since the last other request: runs of plain ones together, the rest one by one."""
        commits, self._commits = self._commits, []
        if not commits:
            return
        joined = join_batches([command.batches for _, command in commits])
        masked = memoryview(joined)
        are_few = len(joined) < BLOCK_BATCHES_MIN * BATCH.itemsize
        plain: list[_Plain] = []
        keys: set[str] = set()
        at = 0
        for request, command in commits:
            start, at = at, at + command.batches.nbytes
            hashed = content_hash(command.object_format, command.file_size, command.owner_ids, masked[start:at])
            if not are_few and command.object_key not in keys and self._is_plain(command):
                plain.append(_Plain(request, command, hashed))
                keys.add(command.object_key)
            else:
                self._take_plain(plain)
                plain, keys = [], set()
                self._take_commit(request, command, hashed)
        self._take_plain(plain, bytes(joined) if len(plain) == len(commits) else None)

    def _is_plain(self, command: CommitFile) -> bool:
        """Whether nothing about the file as a whole needs the readable path."""
        key = command.object_key
        if key in self._term.by_key or not len(command.batches) or check_head(command, self._context) is not None:
            return False
        if not self._state.may_know(key):
            return True
        return self._state.find_file(key) is None and self._state.find_tombstone(key) is None

    def _take_plain(self, plain: list[_Plain], raw: bytes | None = None) -> None:
        """Decide files together; where one turns out to be unusual, those before it, itself, and those after it.

        `raw` are the batches of all of them, if somebody has joined them already.
        """
        while plain:
            if sum(len(one.command.batches) for one in plain) < BLOCK_BATCHES_MIN:
                for one in plain:
                    self._take_commit(*one)
                return
            append_time_ms = max(self._context.now_ms, self._settled().log_time_ms)
            commands, hashes = [one.command for one in plain], [one.content_hash for one in plain]
            block = decide_block(self._settled(), commands, hashes, append_time_ms, self._level, raw)
            raw = None
            unusual = block.file if isinstance(block, Unusual) else self._first_too_large(block)
            if unusual is None and isinstance(block, CommitBlock):
                self._append_block(block, plain)
                return
            at = unusual or 0
            self._take_plain(plain[:at])
            self._take_commit(*plain[at])
            plain = plain[at + 1 :]

    def _first_too_large(self, block: CommitBlock) -> int | None:
        limit = self._limits.entry_bytes_max
        return next((at for at, encoded in enumerate(block.encoded) if len(encoded) > limit), None)

    def _append_block(self, block: CommitBlock, plain: list[_Plain]) -> None:
        """Note the entries of a block as in flight; they take effect together."""
        term = self._term
        first_seq = term.next_seq
        last_seq = first_seq + len(plain) - 1
        entry = PendingEntry(last_seq, [], block.encoded[-1], self._now_ms, block, len(plain))
        entry.before, self._waiting = self._waiting, []
        for at, one in enumerate(plain):
            answer = BlockShare(block, at)
            entry.after.append(Waiter(one.request.token, one.request.deadline_ms, one.command, answer))
            entry.object_keys.append(one.command.object_key)
            term.by_key[one.command.object_key] = PendingCommit(one.content_hash, answer, entry.after)
        self.last_block = block
        term.add(entry)
        self._last = entry
        head = key_of_term(term.epoch, term.term_id)
        self.entries += [NewEntry(seq, head + seq.to_bytes(8, "big"), encoded) for seq, encoded in enumerate(block.encoded, first_seq)]

    def _take_commit(self, request: Request, command: CommitFile, hashed: bytes) -> None:
        pending = self._term.by_key.get(command.object_key)
        if pending is not None:
            self._join(request, command, pending, hashed)
            return
        known = self._answer_known(command, hashed)
        if known is not None:
            self.replies.append(Reply(request.token, known))
            return
        decision = decide(self._settled(), command, hashed, self._context)
        if decision.record is None:
            self.replies.append(Reply(request.token, decision.result))
            return
        waiter = Waiter(request.token, request.deadline_ms, command, decision.result)
        entry = self._append([decision.record], waiter)
        if entry is not None:
            entry.object_keys.append(command.object_key)
            self._term.by_key[command.object_key] = PendingCommit(hashed, decision.result, entry.after)

    def _join(self, request: Request, command: CommitFile, pending: PendingCommit, hashed: bytes) -> None:
        """A retry of a commit that is still in flight waits for the same outcome."""
        if pending.content_hash != hashed:
            self.replies.append(Reply(request.token, _other_content(command)))
            return
        pending.waiters.append(Waiter(request.token, request.deadline_ms, command, pending.answer))

    def _answer_known(self, command: CommitFile, hashed: bytes) -> CommitResult | None:
        """The answer for a key that is known or has a tombstone, else None."""
        file = self._state.find_file(command.object_key)
        if file is not None:
            if file.content_hash != hashed:
                return _other_content(command)
            age_ms = max(self._context.now_ms, self._settled().log_time_ms) - file.append_time_ms
            if age_ms > self._limits.commit_results_retention_ms or not file.record:
                message = (
                    f"file {command.object_key} was committed {age_ms} ms ago; its results are no longer kept (commit.results.retention.ms"
                    f" {self._limits.commit_results_retention_ms})"
                )
                return CommitResult.refused(len(command.batches), ErrorCode.DUPLICATE_RESOURCE, message)
            record = decode_entry(file.record)[0]
            if not isinstance(record, FileCommitted):
                raise AssertionError(f"file {command.object_key} keeps a {type(record).__name__}")
            return answer_of(record)
        stone = self._state.find_tombstone(command.object_key)
        if stone is None:
            return None
        message = f"file {command.object_key} was fenced for deletion ({stone.reason}); upload the data under a new key"
        return CommitResult.refused(len(command.batches), ErrorCode.INVALID_REQUEST, message)

    def _append(self, records: list[Record], waiter: Waiter | None, encoded: bytes | None = None) -> PendingEntry | None:
        """Encode the records of one operation, unless they are, and note them in flight: one entry, or several that take effect together.

        What cannot be written is refused, and nothing of it counts.
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
            encoded = chunks[0].encoded
            return self._add(PendingEntry(term.next_seq, records, encoded, self._now_ms), [encoded], records, waiter)
        if level < TRANSACTIONS_LEVEL:
            advice = f"split it (from schema level {TRANSACTIONS_LEVEL} on they may be several, {level} is in force)"
            self._refuse(waiter, f"the request needs more than one log entry of {limit} bytes; {advice}")
            return None
        values = enclose(chunks, name_of(records), level)
        last_seq = term.next_seq + len(values) - 1
        entry = PendingEntry(last_seq, [], values[-1], self._now_ms, None, len(values), chunks)
        return self._add(entry, values, records, waiter)

    def _add(self, entry: PendingEntry, values: Sequence[bytes], records: Sequence[Record], waiter: Waiter | None) -> PendingEntry:
        term, first_seq = self._term, self._term.next_seq
        entry.before, self._waiting = self._waiting, []
        if waiter is not None:
            entry.after.append(waiter)
        for record in records:
            self._settled().apply(record, -1)
        term.add(entry)
        self._last = entry
        for seq, value in enumerate(values, first_seq):
            self.entries.append(NewEntry(seq, encode_key(EntryKey(term.epoch, term.term_id, seq)), value))
        return entry

    def _refuse(self, waiter: Waiter | None, message: str) -> None:
        if waiter is None:
            raise AssertionError(message)
        self.replies.append(Reply(waiter.token, refuse(waiter.command, ErrorCode.INVALID_REQUEST, message)))


def _other_content(command: CommitFile) -> CommitResult:
    message = f"file {command.object_key} was committed with other content; upload the data under a new key"
    return CommitResult.refused(len(command.batches), ErrorCode.DUPLICATE_RESOURCE, message)
