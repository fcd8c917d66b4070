"""CommitFile by the coordinators that own a file's batches: split into shares, sent, repeated, put together again.

A share is what one coordinator owns of a file; coordinators decide, store and hash by share. So a share is always sent
whole and unchanged, whichever others travel with it, and a repeated share is answered with its first result.
Invariant: the owner list is computed once for a commit, from placement and the object key alone, so that every attempt,
also one by another client, has the same list. Where a share is sent does change: batches whose partition has moved to a coordinator that
another node leads are answered MOVED, and go there (`moved_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from coordinator.client.errors import SERVED, Refusal, refusal_of
from coordinator.client.model import CommitOutcome
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import COMMITS, HEALING, MOVED, NOT_CREATED, RoutedCall, Target
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.files import COMMIT_FILE
from coordinator.protocol.commit_file import CommitFileBody, decode_commit_response, encode_commit_file
from coordinator.protocol.wire import MalformedMessage

_ANSWER = np.dtype(
    [("error_code", "i2"), ("base_offset", "i8"), ("append_time_ms", "i8"), ("log_start_offset", "i8"), ("is_duplicate", "?")]
)

_OPEN = np.array(sorted(HEALING | {MOVED}), np.int16)
MOVED_AWAY = Refusal(
    ErrorCode.REQUEST_TIMED_OUT,
    "its partition has moved, and who leads it did not answer in time; repeat the commit unchanged to learn its outcome",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAnswer:
    """The results of one share, by the share's own rows."""

    rows: npt.NDArray[np.void]
    messages: dict[int, str] = field(default_factory=dict)

    def take(self, places: npt.NDArray[np.int64], answer: ShareAnswer) -> None:
        """Let another answer stand at some rows."""
        self.rows[places] = answer.rows
        if self.messages:
            for place in places.tolist():
                self.messages.pop(place, None)
        self.messages.update((int(places[row]), text) for row, text in answer.messages.items())


class CommitFileCall(RoutedCall[ShareAnswer]):
    """One file; its elements are the shares, in the order of the coordinators' ids."""

    operation = COMMIT_FILE
    purpose = COMMITS

    def __init__(self, file: CommitFileBody, coordinators: npt.NDArray[np.int64], *, wait_for_creation: bool) -> None:
        """`coordinators` names the coordinator of each batch."""
        self._file = file
        self._ids = cast(list[int], np.unique(coordinators).tolist())
        self._rows = [np.flatnonzero(coordinators == coordinator_id) for coordinator_id in self._ids]
        self.wait_for_creation = wait_for_creation

    @property
    def targets(self) -> Sequence[Target]:
        return self._ids

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[ShareAnswer]:
        rows = self._rows[places[0]] if len(places) == 1 else np.sort(np.concatenate([self._rows[place] for place in places]))
        batches = self._file.batches if len(rows) == len(self._file.batches) else self._file.batches[rows]
        request = self._file._replace(batches=batches, timeout_ms=server_timeout_ms(timeout_s))
        body = await pool.request(line, COMMIT_FILE.key, 0, encode_commit_file(request), timeout_s)
        response = decode_commit_response(body)
        if len(response.results) != len(rows):
            raise MalformedMessage(f"{len(rows)} batches were committed; the answer has {len(response.results)}")
        return [self._share(np.searchsorted(rows, self._rows[place]), response.results, response.error_messages) for place in places]

    def _share(self, at: npt.NDArray[np.int64], results: npt.NDArray[np.void], messages: dict[int, str]) -> ShareAnswer:
        """The results at some rows of an answer."""
        rows = np.empty(len(at), _ANSWER)
        for name in _ANSWER.names or ():
            rows[name] = results[name][at]
        texts = {row: messages[there] for row, there in enumerate(at.tolist()) if there in messages} if messages else {}
        return ShareAnswer(rows=rows, messages=texts)

    def refusal_of(self, answer: ShareAnswer) -> Refusal:
        """Find the answer that decides the whole share: an unknown partition first, then an error that may heal, then a move, else none."""
        codes = answer.rows["error_code"]
        if not codes.any():
            return SERVED
        for group in (NOT_CREATED, HEALING, {MOVED}):
            found = np.flatnonzero(np.isin(codes, [int(code) for code in group]))
            if len(found):
                row = int(found[0])
                return refusal_of(int(codes[row]), answer.messages.get(row))
        # Final answers by batch: the share is settled.
        return SERVED

    def refused(self, place: int, refusal: Refusal) -> ShareAnswer:
        return refused_rows(len(self._rows[place]), refusal)

    def whole(self, answers: Sequence[ShareAnswer]) -> ShareAnswer:
        """Put the shares together, in the order of the file's batches."""
        whole = ShareAnswer(rows=np.empty(len(self._file.batches), _ANSWER))
        for rows, answer in zip(self._rows, answers, strict=True):
            whole.take(rows, answer)
        return whole


def moved_rows(answer: ShareAnswer) -> npt.NDArray[np.int64]:
    """The batches that have to be sent to where their partitions are by now."""
    return np.flatnonzero(answer.rows["error_code"] == MOVED)


def are_open(codes: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Which codes are not the last word on a batch."""
    return np.isin(codes, _OPEN)


def refused_rows(count: int, refusal: Refusal) -> ShareAnswer:
    """Return one refusal for each batch of the share."""
    rows = np.full(count, -1, _ANSWER)
    rows["error_code"] = refusal.code
    rows["is_duplicate"] = False
    return ShareAnswer(rows=rows, messages=dict.fromkeys(range(count), refusal.message))


def not_placed(file: CommitFileBody, keys: Sequence[bytes], refusals: dict[bytes, Refusal]) -> CommitOutcome:
    """The outcome of a file that names partitions without an owner: as at the server, nothing of it is committed."""
    others = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nothing was committed: another batch of the file has no coordinator; retry")
    answer = refused_rows(len(keys), others)
    messages = dict(answer.messages)
    for row, key in enumerate(keys):
        if (refusal := refusals.get(key)) is not None:
            answer.rows["error_code"][row] = refusal.code
            messages[row] = refusal.message
    return outcome_of(file.object_key, file.owner_ids, replace(answer, messages=messages))


def outcome_of(object_key: str, owner_ids: Sequence[int], answer: ShareAnswer) -> CommitOutcome:
    """Columns for the caller."""
    rows = answer.rows
    return CommitOutcome(
        object_key=object_key,
        owner_ids=tuple(owner_ids),
        error_codes=rows["error_code"],
        base_offsets=rows["base_offset"],
        append_times_ms=rows["append_time_ms"],
        log_start_offsets=rows["log_start_offset"],
        duplicates=rows["is_duplicate"],
        messages=answer.messages,
    )
