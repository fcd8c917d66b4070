"""One commit of a file: the share of each coordinator is sent there, and batches whose partitions have moved go where these are.

A node that leads the coordinator of a share, but not that of a partition of it that moved, answers MOVED: the batches are sent to the
partition's coordinator then, under the same key and with the same owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from coordinator.client.calls.commits import MOVED_AWAY, CommitFileCall, ShareAnswer, are_open, moved_rows, refused_rows
from coordinator.client.routing.retry import Deadline
from coordinator.client.service import Service
from coordinator.protocol.commit_file import CommitFileBody


class FileCommit:
    """See the module's text."""

    def __init__(self, service: Service, file: CommitFileBody, deadline: Deadline, *, wait_for_creation: bool) -> None:
        self._service = service
        self._file = file
        self._deadline = deadline
        self._wait_for_creation = wait_for_creation

    async def perform(self, coordinator_ids: Sequence[int]) -> ShareAnswer:
        """Commit the batches, whose coordinators are these as far as is known, until the deadline at the latest."""
        answer = await self._once(self._file, coordinator_ids)
        ever = moved = moved_rows(answer)
        attempt = 0
        while len(moved):
            keys = cast(list[bytes], self._file.batches["topic_partition"][moved].tolist())
            self._service.forget_topics({key[:16] for key in keys})
            if not await self._service.pause(attempt, self._deadline):
                break
            attempt += 1
            owners, refusals = await self._service.owners(set(keys), self._deadline, wait_for_creation=self._wait_for_creation)
            is_placed = np.array([key in owners for key in keys])
            for row in np.flatnonzero(~is_placed).tolist():
                answer.take(moved[[row]], refused_rows(1, refusals[keys[row]]))
            placed = moved[is_placed]
            if len(placed):
                part = self._file._replace(batches=self._file.batches[placed])
                answer.take(placed, await self._once(part, [owners[key] for key in keys if key in owners]))
            moved = moved_rows(answer)
        # An attempt before a partition moved may have taken effect without an answer: only who has it now knows.
        unknown = ever[are_open(answer.rows["error_code"][ever])]
        answer.take(unknown, refused_rows(len(unknown), MOVED_AWAY))
        return answer

    async def _once(self, file: CommitFileBody, coordinator_ids: Sequence[int]) -> ShareAnswer:
        commit = CommitFileCall(file, np.array(coordinator_ids, np.int64), wait_for_creation=self._wait_for_creation)
        return commit.whole(await self._service.perform(commit, self._deadline))
