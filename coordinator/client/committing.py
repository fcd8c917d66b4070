"""One commit of a file: the share of each coordinator is sent there, and batches whose partitions have moved go where these are.

A node that leads the coordinator of a share, but not that of a partition of it that moved, answers MOVED: the batches are sent to the
partition's coordinator then, under the same key and with the same owners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from coordinator.client.calls.commits import MOVED_AWAY, CommitFileCall, ShareAnswer, are_open, moved_rows, refused_rows
from coordinator.client.errors import SERVED, Refusal
from coordinator.client.routing.retry import Deadline
from coordinator.client.service import Service
from coordinator.protocol.commit_file import CommitFileBody

Rows = npt.NDArray[np.int64]


class FileCommit:
    """See the module's text."""

    def __init__(self, service: Service, file: CommitFileBody, deadline: Deadline, *, wait_for_creation: bool) -> None:
        self._service = service
        self._file = file
        self._deadline = deadline
        self._wait_for_creation = wait_for_creation
        self._answer = refused_rows(len(file.batches), SERVED)

    async def perform(self, coordinator_ids: Sequence[int]) -> ShareAnswer:
        """Commit the batches, whose coordinators are these as far as is known, until the deadline at the latest."""
        self._answer = await self._once(self._file, coordinator_ids)
        ever = moved = moved_rows(self._answer)
        attempt = 0
        while len(moved):
            keys = self._keys(moved)
            self._service.forget_topics({key[:16] for key in keys})
            if not await self._service.pause(attempt, self._deadline):
                break
            attempt += 1
            owners, refusals = await self._service.owners(set(keys), self._deadline, wait_for_creation=self._wait_for_creation)
            is_placed = np.array([key in owners for key in keys])
            await self._ask_all(moved[~is_placed], refusals)
            await self._send(moved[is_placed], [owners[key] for key in keys if key in owners])
            moved = moved_rows(self._answer)
        # An attempt before a partition moved may have taken effect without an answer: only who has it now knows.
        unknown = ever[are_open(self._answer.rows["error_code"][ever])]
        self._answer.take(unknown, refused_rows(len(unknown), MOVED_AWAY))
        return self._answer

    async def _once(self, file: CommitFileBody, coordinator_ids: Sequence[int]) -> ShareAnswer:
        commit = CommitFileCall(file, np.array(coordinator_ids, np.int64), wait_for_creation=self._wait_for_creation)
        return commit.whole(await self._service.perform(commit, self._deadline))

    async def _send(self, rows: Rows, coordinator_ids: Sequence[int]) -> None:
        if len(rows):
            self._answer.take(rows, await self._once(self._file._replace(batches=self._file.batches[rows]), coordinator_ids))

    async def _ask_all(self, rows: Rows, refusals: Mapping[bytes, Refusal]) -> None:
        """Have the coordinators that the file names asked for batches of deleted topics: nobody tells where their partitions were."""
        # Twice: the first time a node may answer that leads no more.
        for coordinator in 2 * tuple(self._file.owner_ids):
            await self._send(rows, [coordinator] * len(rows))
            rows = rows[np.isin(rows, moved_rows(self._answer))]
        for row, key in zip(rows.tolist(), self._keys(rows), strict=True):
            self._answer.take(np.array([row]), refused_rows(1, refusals[key]))

    def _keys(self, rows: Rows) -> list[bytes]:
        return cast(list[bytes], self._file.batches["topic_partition"][rows].tolist())
