"""Orders of moves: what the leader of the directory has not decided is asked again."""

from __future__ import annotations

import pytest

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.client.calls.moves import PartitionMove, move_partitions
from coordinator.client.errors import TimedOut
from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from tests.client.scripted import ScriptedNode, Trouble, scripted
from tests.client.test_client import client_of
from tests.client.test_made_up_call import LINE, Pool

TOPIC = bytes([1]) * 16
WANTED = [PartitionMove(PartitionId(TOPIC, one), 2) for one in range(2)]


def answered(*codes: ErrorCode) -> m.MovePartitionsResponse:
    """The answer of a leader with a code for each move."""
    return m.MovePartitionsResponse(
        error_code=0,
        error_message=None,
        partitions=tuple(
            m.MovePartitionsPartitionResult(topic_id=TOPIC, partition_index=place, error_code=code, error_message=code.name)
            for place, code in enumerate(codes)
        ),
        under_way=(),
    )


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        ((ErrorCode.NONE, ErrorCode.NONE), ErrorCode.NONE),
        ((ErrorCode.INVALID_REQUEST, ErrorCode.NONE), ErrorCode.NONE),
        ((ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
        ((ErrorCode.INVALID_REQUEST, ErrorCode.REQUEST_TIMED_OUT), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_an_order_that_is_not_decided_is_no_answer(codes: tuple[ErrorCode, ...], says: ErrorCode) -> None:
    call = move_partitions(WANTED, only_check=False)
    [answer] = await call.send(Pool(lambda _: answered(*codes)), LINE, [0], 1.0)  # type: ignore[arg-type]
    assert call.refusal_of(answer).code is says
    assert [one.code for one in answer.refusals] == list(codes)


def told(*answers: m.MovePartitionsResponse) -> Trouble:
    """One answer after the other; the last one stays."""
    left = list(answers)

    def trouble(node: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key != ApiKey.MOVE_PARTITIONS:
            return False
        respond(encode(left.pop(0) if len(left) > 1 else left[0]))
        return True

    return trouble


LOST = answered(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
LATE = answered(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)
ORDERED = answered(ErrorCode.NONE, ErrorCode.NONE)


async def test_an_order_is_repeated_until_it_is_decided() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        leader = cluster.nodes[cluster.leaders[0]]
        leader.trouble.append(told(LOST, LATE, ORDERED))
        assert not any(one.code for one in (await client.admin.move_partitions(WANTED)).refusals)
        assert leader.count(ApiKey.MOVE_PARTITIONS) == 3


async def test_an_order_that_nobody_decides_in_time_may_be_carried_out_nevertheless() -> None:
    async with scripted() as cluster, client_of(cluster) as client:
        cluster.nodes[cluster.leaders[0]].trouble.append(told(LATE))
        with pytest.raises(TimedOut, match="it may have taken effect"):
            await client.admin.move_partitions(WANTED, timeout_ms=300)
