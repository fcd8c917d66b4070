"""Group commit: turns queued requests into entries and answers, in the order of the queue.

A request takes effect at its place in the queue. A write becomes an entry; a strict read is answered when an own entry
that was produced after it arrived is acknowledged: the next entry of the group (before that is applied), or the last
one, or a NoOp when the group has none. A write that needs no entry waits in the same way, because what makes it
a success may still be in flight.
"""

from __future__ import annotations

from coordinator.core.batches import content_hash
from coordinator.core.commands import Barrier, CommitFile, CommitResult, DescribeFiles, ListOffsets
from coordinator.core.commit import CommitContext, answer_of, decide
from coordinator.core.decide import decide_write
from coordinator.core.errors import ErrorCode
from coordinator.core.events import NewEntry, Reply, Request
from coordinator.core.hot import HotState
from coordinator.core.limits import Limits
from coordinator.core.refusals import refuse
from coordinator.core.state import ShardState
from coordinator.core.term import PendingEntry, Term, Waiter
from records.codec import InvalidRecord, decode_entry, encode_entry, encode_key
from records.model import EntryKey, FileCommitted, NoOp, Record


class GroupBuilder:
    """Builds one group; `entries` and `replies` are what comes of it."""

    def __init__(self, *, state: ShardState, term: Term, overlay: HotState, context: CommitContext) -> None:
        self.entries: list[NewEntry] = []
        self.replies: list[Reply] = []
        self._state = state
        self._term = term
        self._overlay = overlay
        self._context = context
        self._waiting: list[Waiter] = []
        self._last: PendingEntry | None = None
        overlay.touched = type(overlay.touched)()

    @property
    def _limits(self) -> Limits:
        return self._context.limits

    def take(self, request: Request) -> None:
        """Decide the next request of the queue."""
        command = request.command
        if isinstance(command, CommitFile):
            self._take_commit(request, command)
        elif isinstance(command, ListOffsets | DescribeFiles | Barrier):
            self._waiting.append(Waiter(request.token, request.deadline_ms, command))
        else:
            decision = decide_write(self._overlay, command, self._limits)
            waiter = Waiter(request.token, request.deadline_ms, command, decision.answer)
            if decision.records:
                self._append(decision.records, waiter)
            else:
                self._waiting.append(waiter)

    def close(self) -> None:
        """Give what still waits an entry to wait for."""
        if self._waiting and self._last is None:
            self._append([NoOp()], None)
        if self._last is not None:
            self._last.after.extend(self._waiting)
        self._waiting = []

    def _take_commit(self, request: Request, command: CommitFile) -> None:
        hashed = content_hash(command.object_format, command.file_size, command.owner_ids, command.batches)
        pending = self._term.by_key.get(command.object_key)
        if pending is not None:
            self._join(request, command, pending, hashed)
            return
        known = self._answer_known(command, hashed)
        if known is not None:
            self.replies.append(Reply(request.token, known))
            return
        decision = decide(self._overlay, command, hashed, self._context)
        if decision.record is None:
            self.replies.append(Reply(request.token, decision.result))
            return
        waiter = Waiter(request.token, request.deadline_ms, command, decision.result)
        self._append([decision.record], waiter, object_key=command.object_key, content_hash=hashed)

    def _join(self, request: Request, command: CommitFile, pending: PendingEntry, hashed: bytes) -> None:
        """A retry of a commit that is still in flight waits for the same outcome."""
        if pending.content_hash != hashed:
            self.replies.append(Reply(request.token, _other_content(command)))
            return
        first = next(waiter for waiter in pending.after if isinstance(waiter.command, CommitFile))
        pending.after.append(Waiter(request.token, request.deadline_ms, command, first.answer))

    def _answer_known(self, command: CommitFile, hashed: bytes) -> CommitResult | None:
        """The answer for a key that is known or has a tombstone, else None."""
        file = self._state.find_file(command.object_key)
        if file is not None:
            if file.content_hash != hashed:
                return _other_content(command)
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
            return answer_of(record)
        stone = self._state.find_tombstone(command.object_key)
        if stone is None:
            return None
        message = f"file {command.object_key} was fenced for deletion ({stone.reason}); upload the data under a new key"
        return CommitResult.refused(len(command.batches), ErrorCode.INVALID_REQUEST, message)

    def _append(self, records: list[Record], waiter: Waiter | None, *, object_key: str | None = None, content_hash: bytes = b"") -> None:
        """Encode an entry and note it as in flight; one that cannot be written is refused, nothing of it counts."""
        term = self._term
        try:
            encoded = encode_entry(records)
        except InvalidRecord as invalid:
            self._refuse(waiter, f"the request cannot be written to the metadata log: {invalid}")
            return
        if len(encoded) > self._limits.entry_bytes_max:
            limit = self._limits.entry_bytes_max
            self._refuse(waiter, f"the request needs a log entry of {len(encoded)} bytes, {limit} are allowed; split it")
            return
        seq = term.next_seq
        entry = PendingEntry(seq, records, encoded, self._context.now_ms, object_key, content_hash)
        entry.before, self._waiting = self._waiting, []
        if waiter is not None:
            entry.after.append(waiter)
        for record in records:
            self._overlay.apply(record, -1)
        term.add(entry)
        self._last = entry
        self.entries.append(NewEntry(seq, encode_key(EntryKey(term.epoch, term.term_id, seq)), encoded))

    def _refuse(self, waiter: Waiter | None, message: str) -> None:
        if waiter is None:
            raise AssertionError(message)
        self.replies.append(Reply(waiter.token, refuse(waiter.command, ErrorCode.INVALID_REQUEST, message)))


def _other_content(command: CommitFile) -> CommitResult:
    message = f"file {command.object_key} was committed with other content; upload the data under a new key"
    return CommitResult.refused(len(command.batches), ErrorCode.DUPLICATE_RESOURCE, message)
