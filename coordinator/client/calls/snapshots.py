"""TakeSnapshot: one request for the coordinators of a node; `routing.py` decides what goes where and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import Result
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import ADMIN, RoutedCall, Target
from coordinator.operations.snapshots import TAKE_SNAPSHOT
from coordinator.protocol.messages import TakeSnapshotRequest, TakeSnapshotResponse
from coordinator.protocol.wire import MalformedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot(Result):
    """A snapshot that was committed, or why none was; offset and size are -1 then."""

    coordinator_id: int
    end_offset: int = -1
    size_bytes: int = -1


class TakeSnapshotCall(RoutedCall[TakenSnapshot]):
    """Take a snapshot of each coordinator. Repeating it takes another one, which does no harm."""

    operation = TAKE_SNAPSHOT
    purpose = ADMIN
    is_long = True

    def __init__(self, coordinator_ids: Sequence[int]) -> None:
        self._coordinator_ids = coordinator_ids

    @property
    def targets(self) -> Sequence[Target]:
        return self._coordinator_ids

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[TakenSnapshot]:
        asked = tuple(self._coordinator_ids[place] for place in places)
        request = TakeSnapshotRequest(coordinator_ids=asked, timeout_ms=server_timeout_ms(timeout_s))
        response = cast(TakeSnapshotResponse, await pool.call(line, request, timeout_s))
        if tuple(one.coordinator_id for one in response.results) != asked:
            raise MalformedMessage(f"{len(asked)} coordinators were named; the answer has {len(response.results)}, or others")
        return [
            TakenSnapshot(
                refusal=refusal_of(one.error_code, one.error_message),
                coordinator_id=one.coordinator_id,
                end_offset=one.end_offset,
                size_bytes=one.size_bytes,
            )
            for one in response.results
        ]

    def refusal_of(self, answer: TakenSnapshot) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> TakenSnapshot:
        return TakenSnapshot(refusal=refusal, coordinator_id=self._coordinator_ids[place])
