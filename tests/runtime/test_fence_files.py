"""FenceFiles as a node answers it, and how its leader ends files that are empty."""

from __future__ import annotations

from typing import cast

from coordinator.client.records.ulid import RANDOM_BYTES, new_key
from coordinator.core.commands import OK, FileStanding, RemoveFiles
from coordinator.core.limits import FILES_PER_REQUEST_MAX, OBJECT_FORMAT_WAL_MULTI_SEGMENT, Limits
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.commits import read_commits
from coordinator.operations.files import FENCE_FILES
from coordinator.protocol.commit_file import BATCH, CommitFileBody, encode_commit_file
from coordinator.protocol.messages import FenceFilesFile, FenceFilesRequest, FenceFilesResponse
from coordinator.runtime.answers.serving import serve
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, batch_array, commit, delete_records, place, result_of
from tests.patient_loop import loop_ms
from tests.runtime.nodes import Running, in_memory, running

S = FileStanding


async def fence(
    started: Running, *keys: str, coordinator_id: int = 0, only_tell: bool = False, timeout_ms: int = 5_000
) -> FenceFilesResponse:
    files = tuple(FenceFilesFile(object_key=key, created_ms=5) for key in keys)
    request = FenceFilesRequest(coordinator_id=coordinator_id, files=files, only_tell=only_tell, timeout_ms=timeout_ms)
    return cast(FenceFilesResponse, await serve(started.node, FENCE_FILES, 0, request))


def said(response: FenceFilesResponse) -> list[tuple[int, int]]:
    return [(one.error_code, one.standing) for one in response.files]


async def test_the_leader_tells_and_fences_and_says_once_what_all_files_have() -> None:
    async with running(in_memory(partitions=2), MemoryStateStores()) as started:
        await started.leads()
        await started.ask(0, place(count=1))
        assert result_of(await started.ask(0, commit("live", [batch(0, 1)]))).errors == [0]
        assert said(await fence(started, "live", "new", only_tell=True)) == [(0, S.LIVE), (0, S.UNKNOWN)]
        told = await fence(started, "live", "new")
        assert (told.error_code, said(told)) == (0, [(0, S.LIVE), (0, S.FENCED)])
        refused = result_of(await started.ask(0, commit("new", [batch(0, 1)])))
        assert refused.errors == [ErrorCode.INVALID_REQUEST]
        mixed = await fence(started, "new", "")
        assert (mixed.error_code, said(mixed)) == (0, [(0, S.FENCED), (ErrorCode.INVALID_REQUEST, S.UNKNOWN)])
        assert said(await fence(started)) == []


async def test_a_key_that_was_ruled_out_is_not_committed_with_another_time_than_its_own() -> None:
    """The fence goes at a time that is counted from the key's; from then on the age limit has to count from it, too."""
    age_ms = Limits().file_commit_max_age_ms + 1
    key = new_key(loop_ms() - age_ms, bytes(RANDOM_BYTES), prefix="wal/")
    body = CommitFileBody(key, OBJECT_FORMAT_WAL_MULTI_SEGMENT, 1 << 20, [0], batch_array([batch(0, 1)]).view(BATCH), created_ms=loop_ms())
    [(_, command, *_)] = read_commits([encode_commit_file(body)], 0, None).commits
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
        await started.ask(0, place(count=1))
        refused = result_of(await started.ask(0, command))
        assert refused.errors == [ErrorCode.INVALID_REQUEST]
        assert "file.commit.max.age.ms" in (refused.messages[0] or "")


async def test_a_coordinator_that_is_not_led_here_says_nothing_of_any_file() -> None:
    async with running(in_memory(partitions=2), MemoryStateStores()) as started:
        await started.leads()
        for response, error in (
            (await fence(started, "a", "b", coordinator_id=7), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (await fence(started, "a", "b", timeout_ms=0), ErrorCode.INVALID_REQUEST),
        ):
            assert said(response) == [(error, S.UNKNOWN)] * 2
            assert response.error_code == error
            assert response.error_message
        many = await fence(started, *(f"k{number}" for number in range(FILES_PER_REQUEST_MAX + 1)))
        assert many.error_code == ErrorCode.INVALID_REQUEST
        assert "split it" in (many.error_message or "")


async def test_empty_files_are_found_ended_and_counted_once_that_is_written() -> None:
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
        await started.ask(0, place(count=1))
        for key in ("a", "b"):
            await started.ask(0, commit(key, [batch(0, 1)], file_size=100))
        await started.ask(0, delete_records((0, -1)))
        replica = started.node.replicas[0]
        view = replica.view
        assert view is not None
        await started.until(lambda: view.file_counts().empty == 2, "files are written as empty")
        found = view.empty_files(1 << 62, (-1, -1), 10).rows
        assert [row.object_key for row in found] == ["a", "b"]
        assert view.empty_files(1 << 62, (found[0].emptied_ms, found[0].file_id), 10).rows == found[1:]
        assert await started.ask(0, RemoveFiles(object_keys=["a"])) == [OK]
        assert [row.object_key for row in view.empty_files(1 << 62, (-1, -1), 10).rows] == ["b"]
        await started.until(lambda: view.file_counts().empty == 1, "the end of a file is written")
        assert view.file_counts() == (0, 1, 0, 100, 1)
        assert said(await fence(started, "a", "b")) == [(0, S.REMOVED), (0, S.EMPTY)]
