"""CommitFile between the wire and the core."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from coordinator.core.commands import CommitAnswer, CommitFile, CommitResult, Outcome
from coordinator.core.files.answers import FileAnswer
from coordinator.kafka.batches import BATCH
from coordinator.kafka.object_key import creation_ms
from coordinator.operations.declaration import bad_timeout
from coordinator.protocol.commit_file import (
    AnswerCells,
    decode_commit_file,
    encode_commit_answers,
    encode_commit_response,
    read_commit_bodies,
)
from coordinator.protocol.wire import MalformedMessage
from records.committed_files.lines import BASE_OFFSET, DETAIL, LOG_START, TIMESTAMP_TYPE, VERDICT

ANSWER_CELLS = AnswerCells(VERDICT, BASE_OFFSET, TIMESTAMP_TYPE, LOG_START, DETAIL)
_BROKER_CLIENT_ID = re.compile(r"broker-(\d{1,9})")
_BROKER_CLIENT_ID_LENGTH_MAX = 16


CommitRequest: TypeAlias = tuple[int, CommitFile, int, int]
"""Place in the run, command, timeout in milliseconds, bytes."""


class CommitRequests(NamedTuple):
    """Decoded requests by their places in the run."""

    commits: list[CommitRequest]
    refusals: list[tuple[int, CommitResult]]
    """The others, of which nothing may be looked at further."""
    damage: MalformedMessage | None
    """Why the next one cannot be decoded; None when all were."""


def read_commits(frames: Sequence[bytes], body_offset: int, client_id: str | None) -> CommitRequests:
    """Decode the CommitFile bodies of frames whose heads are the same, up to the first that is malformed."""
    commits: list[CommitRequest] = []
    refusals: list[tuple[int, CommitResult]] = []
    uploader = -1
    if client_id is not None and len(client_id) <= _BROKER_CLIENT_ID_LENGTH_MAX:
        uploader = _uploader(client_id)
    for place, body in enumerate(read_commit_bodies(frames, body_offset)):
        frame = frames[place]
        if body is not None:
            key, object_format, file_size, owner_ids, first, count, timeout_ms, broker_id, created_ms = body
            batches = np.frombuffer(frame, BATCH, count, first)
        else:
            try:
                key, object_format, file_size, owner_ids, rows, timeout_ms, broker_id, created_ms = decode_commit_file(frame, body_offset)
            except MalformedMessage as damage:
                return CommitRequests(commits, refusals, damage)
            batches = rows.view(BATCH)
        if broker_id < 0:
            broker_id = uploader
        created_ms = max(-1, creation_ms(key, created_ms))
        if timeout_ms > 0:
            command = CommitFile(key, object_format, file_size, owner_ids, batches, broker_id, created_ms)
            commits.append((place, command, timeout_ms, len(frame)))
        else:
            outcome = bad_timeout(timeout_ms)
            refusals.append((place, CommitResult.refused(len(batches), outcome.error, outcome.message)))
    return CommitRequests(commits, refusals, None)


def refuse_commit(data: bytes, body_offset: int, outcome: Outcome) -> bytes:
    """Return the encoded answer to a CommitFile body that is refused as a whole. Raises MalformedMessage."""
    count = len(decode_commit_file(data, body_offset).batches)
    return write_commit(CommitResult.refused(count, outcome.error, outcome.message))


@lru_cache(maxsize=4096)
def _uploader(client_id: str) -> int:
    """The uploading broker from a client id `broker-<n>`, else -1."""
    match = _BROKER_CLIENT_ID.fullmatch(client_id)
    return int(match.group(1)) if match else -1


def write_commit(answer: CommitAnswer) -> bytes:
    """Encode a CommitFile answer. All answers of a group are encoded when the first is asked for."""
    if isinstance(answer, FileAnswer):
        files = answer.files
        if files.answers is None:
            files.answers = encode_commit_answers(files.table.lines, ANSWER_CELLS, files.append_times, files.table.first_line)
        return files.answers[answer.file]
    result = answer.result()
    messages = None
    if any(result.errors):
        messages = {place: message for place, message in enumerate(result.messages) if message is not None}
    return encode_commit_response(result.errors, result.base_offsets, result.append_times, result.log_starts, result.duplicates, messages)
