"""Files between the wire and the core: CommitFile's declaration (its codec is in `commits`), DescribeFiles, FenceFiles, ListFiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from coordinator.core.commands import OK, DescribedFile, DescribeFiles, FencedFile, FenceFiles, Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.object_key import creation_ms
from coordinator.operations.declaration import (
    CLUSTER_ACTION,
    DESCRIBE,
    AnsweredBy,
    Lane,
    Operation,
    Translation,
    declare,
    refuse_whole,
)
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    CommitFileRequest,
    CommitFileResponse,
    DescribeFileResult,
    DescribeFilesRequest,
    DescribeFilesResponse,
    FenceFilesRequest,
    FenceFilesResponse,
    FenceFilesResult,
    ListFilesRequest,
    ListFilesResponse,
)


def _refuse_commit(data: bytes, body_offset: int, outcome: Outcome) -> bytes:
    # Only nodes refuse; other programs start without the codec of commits, which needs numpy and the records.
    from coordinator.operations.commits import refuse_commit

    return refuse_commit(data, body_offset, outcome)


def described_rank(error: int, has_live_batches: bool) -> int:
    """Return the place of one coordinator's answer about a file among those of others; the lowest one holds.

    Live beats an error that may heal, which beats "nothing of it is live" and "unknown": these two hold only if every
    coordinator says so.
    """
    if error == ErrorCode.NONE:
        return 0 if has_live_batches else 2
    return 3 if error == ErrorCode.RESOURCE_NOT_FOUND else 1


def _best_described(answers: Sequence[DescribedFile]) -> DescribedFile:
    return min(answers, key=lambda answer: described_rank(answer.outcome.error, answer.has_live_batches))


def _object_keys(request: DescribeFilesRequest) -> list[str]:
    return [file.object_key for file in request.files]


def _describe_files_response(request: DescribeFilesRequest, answers: Sequence[DescribedFile]) -> Message:
    return DescribeFilesResponse(
        files=tuple(
            DescribeFileResult(
                object_key=file.object_key,
                error_code=answer.outcome.error,
                error_message=answer.outcome.message,
                has_live_batches=answer.has_live_batches,
            )
            for file, answer in zip(request.files, answers, strict=True)
        )
    )


class _Asked(NamedTuple):
    """A file of a FenceFiles request."""

    object_key: str
    created_ms: int
    is_fencing: bool


def _asked(request: FenceFilesRequest) -> list[_Asked]:
    return [_Asked(file.object_key, creation_ms(file.object_key, file.created_ms), not request.only_tell) for file in request.files]


def _fence_files(asked: list[_Asked]) -> FenceFiles:
    return FenceFiles(
        object_keys=[one.object_key for one in asked],
        created_ms=[one.created_ms for one in asked],
        is_fencing=any(one.is_fencing for one in asked),
    )


def _fence_files_response(_: FenceFilesRequest, answers: Sequence[FencedFile]) -> Message:
    common = answers[0].outcome if len({answer.outcome.error for answer in answers}) == 1 else OK
    return FenceFilesResponse(
        error_code=common.error,
        error_message=common.message,
        files=tuple(
            FenceFilesResult(error_code=answer.outcome.error, error_message=answer.outcome.message, standing=answer.standing)
            for answer in answers
        ),
    )


COMMIT_FILE: Final[Operation] = declare(
    CommitFileRequest,
    CommitFileResponse,
    answered_by=AnsweredBy.PARTITION,
    acl=CLUSTER_ACTION,
    lane=Lane.COMMIT,
    has_own_codec=True,
    refuse_body=_refuse_commit,
)

DESCRIBE_FILES: Final[Operation] = declare(
    DescribeFilesRequest,
    DescribeFilesResponse,
    answered_by=AnsweredBy.EVERY_COORDINATOR,
    acl=CLUSTER_ACTION,
    translation=Translation(
        elements=_object_keys,
        refused=lambda outcome: DescribedFile(outcome=outcome),
        response=_describe_files_response,
        command=lambda object_keys: DescribeFiles(object_keys=object_keys),
        best=_best_described,
    ),
)

FENCE_FILES: Final[Operation] = declare(
    FenceFilesRequest,
    FenceFilesResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=CLUSTER_ACTION,
    lane=Lane.UNORDERED,
    translation=Translation(
        elements=_asked,
        refused=lambda outcome: FencedFile(outcome=outcome),
        response=_fence_files_response,
        command=_fence_files,
    ),
)
"""Repeated until it succeeds, and without harm: a key that is out stays out."""

LIST_FILES: Final[Operation] = declare(
    ListFilesRequest,
    ListFilesResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=DESCRIBE,
    is_unbounded=True,
    refuse=refuse_whole(ListFilesResponse),
)
