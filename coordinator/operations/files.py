"""Files between the wire and the core: CommitFile's declaration (its codec is in `commits`), DescribeFiles, ListFiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coordinator.core.commands import DescribedFile, DescribeFiles
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import AnsweredBy, Lane, Operation, Translation, declare
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    CommitFileRequest,
    CommitFileResponse,
    DescribeFileResult,
    DescribeFilesRequest,
    DescribeFilesResponse,
    ListFilesRequest,
    ListFilesResponse,
)


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


COMMIT_FILE: Final[Operation] = declare(
    CommitFileRequest, CommitFileResponse, answered_by=AnsweredBy.PARTITION, lane=Lane.COMMIT, has_own_codec=True
)

DESCRIBE_FILES: Final[Operation] = declare(
    DescribeFilesRequest,
    DescribeFilesResponse,
    answered_by=AnsweredBy.EVERY_COORDINATOR,
    translation=Translation(
        elements=_object_keys,
        refused=lambda outcome: DescribedFile(outcome=outcome),
        response=_describe_files_response,
        command=lambda object_keys: DescribeFiles(object_keys=object_keys),
        best=_best_described,
    ),
)

LIST_FILES: Final[Operation] = declare(ListFilesRequest, ListFilesResponse, answered_by=AnsweredBy.COORDINATOR, is_unbounded=True)
