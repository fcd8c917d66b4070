"""DescribeFiles, FenceFiles and ListFiles, for coordinators.

Invariant: a response that does not name exactly the files of its request is a malformed message, never a guess.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from coordinator.client.calls.declared import OneByOne
from coordinator.client.errors import SERVED, Refusal, refusal_of
from coordinator.client.model import FileStandingAt, Result
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import READS, RoutedCall, Target
from coordinator.core.commands import FileStanding
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.files import DESCRIBE_FILES, FENCE_FILES, LIST_FILES, described_rank
from coordinator.protocol.messages import (
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
    DescribeFileEntry,
    DescribeFilesRequest,
    DescribeFilesResponse,
    FenceFilesFile,
    FenceFilesRequest,
    FenceFilesResponse,
    FenceFilesResult,
    ListFilesFile,
    ListFilesRequest,
)
from coordinator.protocol.wire import MalformedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLiveness(Result):
    """Whether a file has live batches."""

    object_key: str
    has_live_batches: bool = False


ListedFile = ListFilesFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFiles(Result):
    """A page of the files of a coordinator."""

    files: tuple[ListedFile, ...] = ()
    last_key: str | None = None
    more: bool = False


_LEADS = frozenset({"leading", "resigning"})
"""States in DescribeCoordinators of replicas that answer for their coordinator."""


class DescribeFilesCall(RoutedCall[list[FileLiveness]]):
    """Whether files have live batches; an element is a coordinator, its answer one result for each file."""

    operation = DESCRIBE_FILES
    purpose = READS

    def __init__(self, coordinator_ids: Sequence[int], object_keys: Sequence[str]) -> None:
        self._coordinator_ids = coordinator_ids
        self._object_keys = object_keys

    @property
    def targets(self) -> Sequence[Target]:
        return self._coordinator_ids

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[list[FileLiveness]]:
        now = asyncio.get_running_loop().time
        until_s = now() + timeout_s
        asked = tuple(self._coordinator_ids[place] for place in places)
        files = tuple(DescribeFileEntry(object_key=key) for key in self._object_keys)
        request = DescribeFilesRequest(files=files, timeout_ms=server_timeout_ms(timeout_s))
        before = await _led(pool, line, asked, timeout_s)
        response = cast(DescribeFilesResponse, await pool.call(line, request, until_s - now()))
        after = await _led(pool, line, asked, until_s - now())
        if [one.object_key for one in response.files] != list(self._object_keys):
            raise MalformedMessage(f"{len(files)} files were asked for; the answer has {len(response.files)}, or others")
        described = [
            FileLiveness(
                object_key=one.object_key, refusal=refusal_of(one.error_code, one.error_message), has_live_batches=one.has_live_batches
            )
            for one in response.files
        ]
        # The node answers for all it leads, without saying what that is, and knows no files of a coordinator it lost a moment ago.
        # So a "no" counts only when one leadership lasted from before the question until after it.
        moved = refusal_of(ErrorCode.NOT_COORDINATOR, "its leader changed while it was asked")
        doubtful = [one if one.has_live_batches else FileLiveness(object_key=one.object_key, refusal=moved) for one in described]
        return [described if before.get(one) == after.get(one) is not None else doubtful for one in asked]

    def refusal_of(self, answer: list[FileLiveness]) -> Refusal:
        errors = [one.refusal for one in answer if one.error not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND)]
        return errors[0] if errors else SERVED

    def refused(self, place: int, refusal: Refusal) -> list[FileLiveness]:
        text = f"coordinator {self._coordinator_ids[place]}: {refusal.message}"
        return [FileLiveness(object_key=key, refusal=Refusal(refusal.code, text)) for key in self._object_keys]

    def merged(self, answers: Sequence[list[FileLiveness]]) -> list[FileLiveness]:
        """Return one result for each file: of the coordinators' answers the one with the lowest `described_rank`."""

        def rank(one: FileLiveness) -> int:
            return described_rank(one.error, one.has_live_batches)

        return [min((answer[place] for answer in answers), key=rank) for place in range(len(self._object_keys))]


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedFiles(Result):
    """The standing of files at a coordinator, in the order in which they were named; the error is the first one among them."""

    files: tuple[FileStandingAt, ...] = ()


def fence_files(coordinator_id: int, object_keys: Sequence[str], created_ms: Sequence[int], *, only_tell: bool) -> OneByOne[FencedFiles]:
    """Have a coordinator fence files that it does not know. Repeating it is safe: a key that is fenced stays so."""
    files = tuple(FenceFilesFile(object_key=key, created_ms=created) for key, created in zip(object_keys, created_ms, strict=True))

    def request(coordinator_id: int, timeout_ms: int) -> FenceFilesRequest:
        return FenceFilesRequest(coordinator_id=coordinator_id, files=files, only_tell=only_tell, timeout_ms=timeout_ms)

    def read(_: int, response: FenceFilesResponse) -> FencedFiles:
        if len(response.files) != len(files):
            raise MalformedMessage(f"{len(files)} files were named; the answer has {len(response.files)}")
        fenced = tuple(_fenced_file(asked.object_key, one) for asked, one in zip(files, response.files, strict=True))
        return FencedFiles(refusal=next((one.refusal for one in fenced if one.error), SERVED), files=fenced)

    def refused(refusal: Refusal) -> FencedFiles:
        return FencedFiles(refusal=refusal, files=tuple(FileStandingAt(object_key=file.object_key, refusal=refusal) for file in files))

    return OneByOne(FENCE_FILES, [coordinator_id], request, FencedFiles, read, refused)


def _fenced_file(object_key: str, result: FenceFilesResult) -> FileStandingAt:
    """Raises `MalformedMessage` for a standing that there is not: it would be taken for a licence or against one."""
    try:
        standing = FileStanding(result.standing)
    except ValueError:
        raise MalformedMessage(f"file {object_key} was given the standing {result.standing}") from None
    return FileStandingAt(object_key=object_key, refusal=refusal_of(result.error_code, result.error_message), standing=standing)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The answers of coordinators about files, by key and coordinator; `refusals` has the reasons of the others, by their ids."""

    files: Sequence[ListedFile]
    refusals: Mapping[int, Refusal]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesWanted:
    """The files of one page: those after a key, or those with certain keys. No states mean all of files that are not gone."""

    after_key: str | None = None
    files_max: int = 1_000
    states: tuple[int, ...] = ()
    object_keys: tuple[str, ...] = ()


def list_files(coordinator_ids: Sequence[int], wanted: FilesWanted) -> OneByOne[ListedFiles]:
    """List one page of the files of each coordinator, in key order: the answer to a request has one error for all that it names."""

    def request(coordinator_id: int, timeout_ms: int) -> ListFilesRequest:
        return ListFilesRequest(
            coordinator_ids=(coordinator_id,),
            after_key=wanted.after_key,
            max_files=wanted.files_max,
            states=wanted.states,
            object_keys=wanted.object_keys,
            timeout_ms=timeout_ms,
        )

    return OneByOne(LIST_FILES, coordinator_ids, request, ListedFiles)


async def _led(pool: ConnectionPool, line: Line, coordinator_ids: Sequence[int], timeout_s: float) -> dict[int, tuple[int, int]]:
    """Epoch and term of each of these coordinators that the node leads just now."""
    response = await pool.call(line, DescribeCoordinatorsRequest(coordinator_ids=tuple(coordinator_ids)), timeout_s)
    described = cast(DescribeCoordinatorsResponse, response).coordinators
    return {one.coordinator_id: (one.leader_epoch, one.term) for one in described if one.is_local and one.state in _LEADS}
