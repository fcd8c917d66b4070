"""`partitions move` and `moves` against a scripted cluster: what is named wrongly, what becomes of an order, and what nodes do not know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import encode
from tests.client.scripted import ScriptedCluster, ScriptedNode, Trouble, scripted
from tests.decoding import decode_request

TOPIC = bytes([7]) * 16
MOVING, DONE = "moving", "done"
Answer = str | ErrorCode
"""What MovePartitions is answered: that the partition is moving, or not any more, or an error of the whole request."""


async def run(cluster: ScriptedCluster, *words: str, patience_s: str = "20") -> Result:
    line = ["partitions", *words, "--bootstrap-server", ",".join(cluster.addresses), "--timeout", patience_s]
    result = await asyncio.to_thread(CliRunner().invoke, root, line, prog_name="diskless")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def moves(answers: Iterator[Answer | tuple[ErrorCode, str]]) -> Trouble:
    """Answer each MovePartitions as is said: a pair is the refusal of the move."""

    def trouble(_: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
        if request.api_key != ApiKey.MOVE_PARTITIONS:
            return False
        asked = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
        assert isinstance(asked, m.MovePartitionsRequest)
        answer = next(answers)
        if isinstance(answer, ErrorCode):
            respond(encode(m.MovePartitionsResponse(error_code=answer, error_message="not now", partitions=(), under_way=())))
            return True
        code, text = answer if isinstance(answer, tuple) else (ErrorCode.NONE, None)
        refusals = tuple(
            m.MovePartitionsPartitionResult(topic_id=one.topic_id, partition_index=one.partition_index, error_code=code, error_message=text)
            for one in asked.partitions
        )
        under_way = m.MovePartitionsMove(
            topic_id=TOPIC, partition_index=1, move_id=1, from_coordinator_id=1, to_coordinator_id=3, age_ms=1500, waits_for="no leader"
        )
        found = (under_way,) if answer == MOVING else ()
        respond(encode(m.MovePartitionsResponse(error_code=0, partitions=refusals, under_way=found)))
        return True

    return trouble


def always(answer: Answer) -> Iterator[Answer]:
    while True:
        yield answer


def knows_no_topics(_: ScriptedNode, request: IncomingRequest, respond: Respond) -> bool:
    """Refuse to say which topics there are, as a node does that has not read the directory to its end."""
    if request.api_key != ApiKey.DESCRIBE_TOPICS:
        return False
    asked = decode_request(request.wire_api_key, request.api_version, request.data, request.body_offset)
    assert isinstance(asked, m.DescribeTopicsRequest)
    wanted = asked.topics or (m.DescribeTopicsTopic(topic_id=ZERO_TOPIC_ID, name=None),)
    unsure = tuple(
        m.DescribeTopicsTopicResult(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            error_message="not read to its end",
            topic_id=one.topic_id,
            name=one.name,
            partitions=(),
            configs=(),
        )
        for one in wanted
    )
    respond(encode(m.DescribeTopicsResponse(topics=unsure)))
    return True


@pytest.mark.parametrize(
    ("named", "status", "told"),
    [
        ("orders", Exit.USAGE, "'orders' names no partition; write TOPIC:PARTITION, as in orders:3"),
        ("orders:", Exit.USAGE, "'orders:' names no partition"),
        (":1", Exit.USAGE, "':1' names no partition"),
        ("orders:-1", Exit.USAGE, "names no partition"),
        ("orders:+1", Exit.USAGE, "names no partition"),
        ("orders:1_0", Exit.USAGE, "names no partition"),
        ("orders: 1", Exit.USAGE, "names no partition"),
        ("orders:\u0661", Exit.USAGE, "names no partition"),  # a digit of another script
        (f"orders:{'9' * 5000}", Exit.USAGE, "names no partition"),
        ("orders:4", Exit.NOT_FOUND, "topic orders has no partition 4; it has 4"),
        ("nothing:1", Exit.NOT_FOUND, "topic nothing does not exist; `diskless topics list` shows those that do"),
    ],
    ids=lambda value: str(value)[:12],
)
async def test_what_names_no_partition_is_told_and_nothing_is_ordered(named: str, status: Exit, told: str) -> None:
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 4)
        found = await run(cluster, "move", "orders:1", named, "--to", "3")
        assert (found.exit_code, found.stdout) == (status, "")
        assert told in found.stderr
        assert not any(node.count(ApiKey.MOVE_PARTITIONS) for node in cluster.nodes.values())


# The answers to MovePartitions, the time that a move may take, the status, the state in the table, and what is told.
FATES: list[tuple[Callable[[], Iterator[object]], str, Exit, str, str]] = [
    (lambda: iter([MOVING, MOVING, DONE]), "20", Exit.OK, "moved", "orders:1 is in coordinator 3"),
    (lambda: iter([DONE]), "20", Exit.OK, "moved", "orders:1 is in coordinator 3"),
    # Another node comes to lead the directory: what is under way is not known where it is not led.
    (lambda: iter([ErrorCode.NOT_COORDINATOR, MOVING, ErrorCode.NOT_COORDINATOR, DONE]), "20", Exit.OK, "moved", "is in coordinator 3"),
    (
        lambda: iter([MOVING, (ErrorCode.UNKNOWN_TOPIC_ID, "topic orders was deleted")]),
        "20",
        Exit.FAILURE,
        "refused",
        "topic orders was deleted",
    ),
    (lambda: iter([(ErrorCode.INVALID_REQUEST, "it was there before")]), "20", Exit.FAILURE, "refused", "it was there before"),
    (
        lambda: always(MOVING),
        "0.5",
        Exit.TIMEOUT,
        "moving",
        "orders:1 is on its way to coordinator 3 for longer than 0.5 s, and waits: no leader; it gets there without this command",
    ),
]


@pytest.mark.parametrize(("answers", "patience_s", "status", "state", "told"), FATES, ids=range(len(FATES)))
async def test_what_became_of_an_order_is_told(
    answers: Callable[[], Iterator[object]], patience_s: str, status: Exit, state: str, told: str
) -> None:
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 4)
        given = answers()
        for node in cluster.nodes.values():
            node.trouble.append(moves(given))  # type: ignore[arg-type]
        found = await run(cluster, "move", "orders:1", "--to", "3", "-o", "json", patience_s=patience_s)
        assert (found.exit_code, [row["state"] for row in json.loads(found.stdout)]) == (status, [state]), found.stderr
        assert told in found.stderr


@pytest.mark.parametrize(
    ("refusal", "status", "states"),
    [
        ((ErrorCode.UNKNOWN_TOPIC_ID, "topic orders was deleted"), Exit.OK, ["deleted", "moved"]),
        ((ErrorCode.INVALID_REQUEST, "it was there before"), Exit.FAILURE, ["refused"]),
    ],
    ids=str,
)
async def test_a_balance_goes_on_when_a_topic_is_deleted_meanwhile(refusal: tuple[ErrorCode, str], status: Exit, states: list[str]) -> None:
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 4)
        cluster.topics[TOPIC] = ("orders", [1, 1, 1, 1])
        given = iter([DONE, refusal, *[DONE] * 9])  # the first one only checks the plan
        for node in cluster.nodes.values():
            node.trouble.append(moves(given))
        found = await run(cluster, "move", "--balance", "-o", "json")
        told = [row["state"] for row in json.loads(found.stdout)]
        assert (found.exit_code, told[: len(states)], len(told) > len(states)) == (status, states, status is Exit.OK), found.stderr


@pytest.mark.parametrize(
    ("answer", "status", "state"),
    [(MOVING, Exit.OK, "planned"), (DONE, Exit.OK, "planned"), ((ErrorCode.INVALID_REQUEST, "it was there"), Exit.FAILURE, "refused")],
    ids=str,
)
async def test_a_dry_run_asks_once_and_orders_nothing(answer: object, status: Exit, state: str) -> None:
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 4)
        for node in cluster.nodes.values():
            node.trouble.append(moves(iter([answer])))  # type: ignore[list-item]
        found = await run(cluster, "move", "orders:1", "--to", "3", "--dry-run", "-o", "json")
        assert (found.exit_code, [row["state"] for row in json.loads(found.stdout)]) == (status, [state]), found.stderr


@pytest.mark.parametrize("words", [("move", "orders:1", "--to", "3"), ("move", "--balance", "--dry-run"), ("moves",)], ids=" ".join)
async def test_a_node_that_does_not_know_all_topics_is_not_believed(words: tuple[str, ...]) -> None:
    """One that has just started would have none, and a balance of some would move the wrong partitions."""
    async with scripted() as cluster:
        cluster.add_topic(TOPIC, "orders", 4)
        cluster.leaders[0] = 2
        cluster.nodes[1].trouble.append(knows_no_topics)
        for node in cluster.nodes.values():
            node.trouble.append(moves(always(DONE)))  # type: ignore[arg-type]
        found = await run(cluster, *words)
        assert found.exit_code == Exit.OK, found.stderr
        cluster.nodes[2].trouble.insert(0, knows_no_topics)
        found = await run(cluster, *words, patience_s="0.5")
        assert found.exit_code in (Exit.UNAVAILABLE, Exit.TIMEOUT), found.stderr
        assert "not read to its end" in found.stderr
