"""One question to the owners of files, here or elsewhere: "have you got this key? If not, promise never to take it." (FenceFiles)

Answers are trusted only when the coordinator's leader gave them, durably or after a barrier: that is up to the core. A question may be
repeated at any time, and an answer that is lost has done no harm: a promise is kept whether it was heard or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from coordinator.core.commands import FencedFile, FenceFiles, FileStanding, Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import FenceFilesFile, FenceFilesRequest, FenceFilesResponse
from coordinator.runtime.routing.context import NodeContext
from coordinator.runtime.routing.leader_calls import NotYet, call_leader

ASK_TIMEOUT_MS = 5_000
KEYS_PER_QUESTION = 200
"""Each is looked up on the event loop of the node that is asked. The operation allows 1 000 in a request."""


class OwnersAsked:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context

    async def knows_moves(self) -> bool:
        """Wait until this node has read of all moves up to now; False when that takes too long."""
        return await self._context.router.directory_is_current(ASK_TIMEOUT_MS)

    def with_linked(self, owner_ids: Sequence[int], created_ms: int, window_ms: int) -> tuple[int, ...]:
        """The owners of a file, and those that may have batches of it because partitions moved between them around its creation.

        Of a file that is past its age limit these are all, if this node `knows_moves`.
        """
        return (*owner_ids, *self._context.view.linked_to(owner_ids, created_ms, window_ms))

    async def ask(
        self, coordinator_id: int, keys: Sequence[str], created_ms: Sequence[int], *, only_tell: bool = False
    ) -> list[FileStanding] | Outcome:
        """Return the standing of each key at a coordinator, or why it is unknown now, for all of them.

        With `only_tell` a key that is not known there stays so.
        """
        standings: list[FileStanding] = []
        for first in range(0, len(keys), KEYS_PER_QUESTION):
            end = first + KEYS_PER_QUESTION
            answer = await self._ask(coordinator_id, list(keys[first:end]), list(created_ms[first:end]), only_tell)
            if isinstance(answer, Outcome):
                return answer
            standings += answer
        return standings

    async def _ask(self, coordinator_id: int, keys: list[str], created_ms: list[int], only_tell: bool) -> list[FileStanding] | Outcome:
        if self._context.replicas.is_leading(coordinator_id):
            command = FenceFiles(object_keys=keys, created_ms=created_ms, is_fencing=not only_tell)
            fenced = cast(list[FencedFile], await self._context.replicas[coordinator_id].ask(command, ASK_TIMEOUT_MS))
            return _standings(fenced)
        files = tuple(FenceFilesFile(object_key=key, created_ms=created) for key, created in zip(keys, created_ms, strict=True))
        request = FenceFilesRequest(coordinator_id=coordinator_id, files=files, only_tell=only_tell, timeout_ms=ASK_TIMEOUT_MS)
        try:
            response = await call_leader(self._context, coordinator_id, request, FenceFilesResponse)
        except NotYet as not_yet:
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=str(not_yet))
        if response.error_code != ErrorCode.NONE:
            return Outcome(error=ErrorCode(response.error_code), message=response.error_message)
        if len(response.files) != len(keys):
            message = f"coordinator {coordinator_id} was asked for {len(keys)} files and told of {len(response.files)}"
            return Outcome(error=ErrorCode.UNKNOWN_SERVER_ERROR, message=message)
        return _standings(
            [
                FencedFile(outcome=Outcome(error=ErrorCode(one.error_code), message=one.error_message), standing=FileStanding(one.standing))
                for one in response.files
            ]
        )


def _standings(fenced: Sequence[FencedFile]) -> list[FileStanding] | Outcome:
    """Return the standings, or the first error: those that are refused are refused together, or the question itself was wrong."""
    refused = next((one.outcome for one in fenced if one.outcome.error is not ErrorCode.NONE), None)
    return [one.standing for one in fenced] if refused is None else refused
