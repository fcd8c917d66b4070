"""Requests through the dispatcher of a node whose rules allow little: served, looked at, or refused in each element."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coordinator.adapters.kafka.acls import AclsUnavailable
from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.app.process.logs import EVENT, LineFormatter
from coordinator.app.requests.access import Access
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.app.security.authorization import KafkaRules, rules_of, rules_of_kafka
from coordinator.config.load import load_settings
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import Operation
from coordinator.operations.table import OPERATIONS
from coordinator.printable import one_line
from coordinator.protocol import messages as m
from coordinator.protocol.codec import Message, encode
from coordinator.protocol.entity import blank
from coordinator.security.acls import Binding
from coordinator.security.principal import ANONYMOUS, Principal
from simulation.fakes.state_store import MemoryStateStores
from tests.app.topics import REMAINS_S, ask
from tests.runtime.nodes import in_memory, running

REFUSED, NOT_KNOWN = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE
ESSENTIAL = {"node.id": "1", "bootstrap.servers": "k:9092", "data.dirs": "/tmp/d", "object.store.url": "memory://"}
RULES = {
    "authorizer": "acls",
    "acls": "User:gateway:CLUSTER_ACTION; User:ops:DESCRIBE;User:CN=alice,OU=a:b:ALTER",
    "super.users": "User:root",
}
GATEWAY, OPS, ALICE, ROOT = Principal("gateway"), Principal("ops"), Principal("CN=alice,OU=a:b"), Principal("root")
FENCE = blank(m.FenceFilesRequest, files=(blank(m.FenceFilesFile, object_key="k"),), timeout_ms=1_000)
COMMIT = blank(m.CommitFileRequest, object_key="k", batches=(blank(m.CommitBatch), blank(m.CommitBatch)), timeout_ms=1)


@asynccontextmanager
async def serving(**settings: str) -> AsyncIterator[Dispatcher]:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    async with running(in_memory(partitions=1), MemoryStateStores()) as started:
        await started.leads()
        dispatcher = Dispatcher(started.node, Metrics(), rules_of(load_settings(overrides=ESSENTIAL | (given or RULES))))
        try:
            yield dispatcher
        finally:
            await dispatcher.close()


def peer(principal: Principal, connection_id: int = 1, host: str = "10.0.0.1", listener: str = "SECURE") -> Peer:
    return Peer(connection_id, listener, f"{host}:4711", principal)


async def code(dispatcher: Dispatcher, request: Message, who: Peer) -> int:
    answer = await ask(dispatcher, request, who)
    for name in ("batches", "topics", "results", "files"):
        if not hasattr(answer, "error_code"):
            codes = {int(one.error_code) for one in getattr(answer, name, ())}
            if codes:
                [found] = codes
                return found
    return int(getattr(answer, "error_code", 0))


@pytest.mark.parametrize(
    ("who", "served"),
    [
        (ANONYMOUS, set()),
        (GATEWAY, {"commit", "topics"}),
        (OPS, {"topics", "files", "scan", "level"}),
        (ALICE, {"topics", "files", "scan", "level", "raise", "snapshot"}),
        (ROOT, {"commit", "topics", "files", "scan", "level", "raise", "snapshot"}),
        (Principal("diskless-node", is_node=True), {"commit", "topics", "files", "scan", "level", "raise", "snapshot"}),
        (Principal("diskless-node"), set()),
    ],
    # Not the sets: their order differs from one process to the next, and the workers must name the same tests.
    ids=["anonymous", "gateway", "ops", "alice", "root", "node", "user-named-like-a-node"],
)
async def test_each_principal_gets_what_its_acls_allow_and_no_more(who: Principal, served: set[str]) -> None:
    requests: dict[str, Message] = {
        "commit": COMMIT,
        "topics": blank(m.DescribeTopicsRequest, timeout_ms=1),
        "files": blank(m.ListFilesRequest, timeout_ms=1_000),
        "scan": blank(m.ScanOrphansRequest, timeout_ms=1_000),
        "level": blank(m.UpdateSchemaLevelRequest, timeout_ms=1_000),
        "raise": blank(m.UpdateSchemaLevelRequest, level=1, timeout_ms=1_000),
        "snapshot": blank(m.TakeSnapshotRequest, coordinator_ids=(0,), timeout_ms=1),
    }
    async with serving() as dispatcher:
        codes = {name: await code(dispatcher, request, peer(who)) for name, request in requests.items()}
    assert {name for name, found in codes.items() if found != REFUSED} == served


async def test_each_batch_of_a_refused_commit_says_who_may_not_what() -> None:
    async with serving() as dispatcher:
        answer = await ask(dispatcher, COMMIT, peer(OPS))
        assert dispatcher.answered == {("COMMIT_FILE", REFUSED): 1}
    assert [(one.error_code, one.assigned_base_offset) for one in answer.batches] == [(REFUSED, -1)] * 2
    assert answer.batches[0].error_message == (
        "User:ops may not do COMMIT_FILE, which needs CLUSTER_ACTION on the cluster; ask an operator to allow it"
    )


async def test_a_connection_that_logs_in_anew_is_judged_anew() -> None:
    async with serving() as dispatcher:
        assert await code(dispatcher, FENCE, peer(OPS)) == REFUSED
        assert await code(dispatcher, FENCE, peer(GATEWAY)) != REFUSED
        assert await code(dispatcher, FENCE, peer(OPS)) == REFUSED


async def test_rules_that_change_count_for_open_connections() -> None:
    settings = load_settings(overrides=ESSENTIAL | {"authorizer": "kafka", "super.users": "User:root"})
    allowed = Binding("User:ops", AclOperation.CLUSTER_ACTION)
    async with serving(authorizer="kafka", super_users="User:root") as dispatcher:
        here, elsewhere = peer(OPS), peer(OPS, 2, "10.0.0.2")
        assert await code(dispatcher, FENCE, here) == NOT_KNOWN
        assert await code(dispatcher, FENCE, peer(ROOT, 3)) not in (NOT_KNOWN, REFUSED)
        dispatcher.access.replace(rules_of_kafka(settings, [allowed]))
        assert await code(dispatcher, FENCE, here) != REFUSED
        dispatcher.access.replace(rules_of_kafka(settings, [allowed, allowed._replace(is_allowed=False, host="10.0.0.2")]))
        assert await code(dispatcher, FENCE, here) != REFUSED
        assert await code(dispatcher, FENCE, elsewhere) == REFUSED
        dispatcher.access.replace(rules_of_kafka(settings, []))
        assert await code(dispatcher, FENCE, here) == REFUSED


async def test_a_refusal_is_one_line_for_each_principal_and_operation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "coordinator.access"):
        async with serving() as dispatcher:
            for _ in range(3):
                await ask(dispatcher, COMMIT, peer(OPS))
                await ask(dispatcher, COMMIT, peer(ANONYMOUS, 2))
    lines = [one.getMessage() for one in caplog.records if one.name == "coordinator.access"]
    assert len(lines) == 2
    assert "principal=User:ops operation=COMMIT_FILE needs='CLUSTER_ACTION on the cluster' listener=SECURE peer=10.0.0.1:4711" in lines[0]
    assert "add it to acls" in lines[0]


async def test_the_last_acls_of_kafka_count_while_it_is_silent_which_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Binding("User:a", AclOperation.ALTER), Binding("User:b", AclOperation.ALTER)
    told: list[frozenset[Binding] | None] = [None, None, frozenset([first]), frozenset([first]), None, None, frozenset([first, second])]
    changes: list[frozenset[Binding]] = []
    asked = asyncio.Event()

    async def read() -> frozenset[Binding]:
        if not told:
            asked.set()
            await asyncio.Event().wait()
        if (now := told.pop(0)) is None:
            raise AclsUnavailable("no answer within 3 s")
        return now

    rules = KafkaRules(read=read, changed=changes.append, interval_ms=1)
    with caplog.at_level(logging.INFO, "coordinator.access"):
        task = asyncio.get_running_loop().create_task(rules.run())
        assert not rules.are_known.is_set()
        assert rules.age_s is None
        await asyncio.wait_for(asked.wait(), REMAINS_S)
        task.cancel()
    assert changes == [frozenset([first]), frozenset([first, second])]
    assert rules.are_known.is_set()
    assert rules.failures == 4
    assert rules.age_s is not None
    assert [one.getMessage() for one in caplog.records if one.name == "coordinator.access"] == [
        "Kafka does not give its ACLs: no answer within 3 s; until it does, only super.users may do anything",
        "Kafka gives its ACLs again acls=1",
        "Kafka does not give its ACLs: no answer within 3 s; until it does, its last known ACLs stay in force",
        "Kafka gives its ACLs again acls=2",
    ]


INTERNAL = tuple(one for one in OPERATIONS if one.is_internal)


@pytest.mark.parametrize("rules", [{"authorizer": ""}, RULES], ids=["nobody-is-asked", "acls"])
@pytest.mark.parametrize("operation", INTERNAL, ids=lambda one: one.name)
async def test_internal_requests_are_served_to_nodes_alone(operation: Operation, rules: dict[str, str]) -> None:
    version = min(operation.versions)
    blank_request = blank(operation.versions[version].request_type)  # type: ignore[type-var]
    async with serving(**{key.replace(".", "_"): value for key, value in rules.items()}) as dispatcher:
        for who in (ANONYMOUS, GATEWAY, ROOT, Principal("diskless-node")):
            request = IncomingRequest(operation.key, version, 1, "test", encode(blank_request), 0, operation.key, 0.0, peer(who))
            assert operation.key not in dispatcher.access.allowed(request.peer), who
            outcome = dispatcher.access.refusal(request)
            assert outcome.error == REFUSED
            assert f"{who} may not do {operation.name}, which only nodes of this service do" in (outcome.message or "")
            answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
            dispatcher.handle(request, answered.set_result)
            assert answered.done()  # refused at once, without a look at anything
        assert operation.key in dispatcher.access.allowed(peer(Principal("diskless-node", is_node=True), 9))


async def test_acls_go_on_to_be_asked_for_whatever_an_attempt_raises(caplog: pytest.LogCaptureFixture) -> None:
    attempts, changes = 0, []

    async def read() -> frozenset[Binding]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ValueError("a broken library")
        return frozenset([Binding("User:a", AclOperation.ALTER)])

    rules = KafkaRules(read=read, changed=changes.append, interval_ms=1)
    task = asyncio.get_running_loop().create_task(rules.run())
    await asyncio.wait_for(rules.are_known.wait(), REMAINS_S)
    task.cancel()
    assert (len(changes), rules.failures) == (1, 1)
    assert "a broken library" in caplog.text


def test_there_are_internal_requests() -> None:
    assert {"REGISTER_NODE", "DESCRIBE_NODE", "PLACE_PARTITIONS", "REMOVE_TOPICS", "REPORT_CONTRADICTION"} <= {one.name for one in INTERNAL}
    assert {"FETCH_SNAPSHOT", "ASSIGN_REPLICAS_TO_DIRS"} <= {one.name for one in INTERNAL}


def test_principals_of_the_settings_are_nodes_on_the_listener_of_nodes_and_nobody_else_is() -> None:
    rules = rules_of(load_settings(overrides=ESSENTIAL | RULES))
    access = Access(OPERATIONS, rules, node_principals=["User:ops"], node_listener="SECURE")
    assert [access.is_node(peer(who)) for who in (OPS, GATEWAY, ANONYMOUS, Principal("ops", kind="Group"))] == [True, False, False, False]
    everything = {one.key for one in OPERATIONS}
    assert access.allowed(peer(OPS)) == everything
    assert access.allowed(peer(GATEWAY, 2)) < everything
    by_token = peer(OPS, 3, listener="CLIENTS")  # a name that is the same, told by somebody else
    assert not access.is_node(by_token)
    assert not access.allowed(by_token) & {one.key for one in INTERNAL}


async def test_a_refused_internal_request_is_one_line_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    request = blank(m.DescribeNodeRequest, node_id=1, timeout_ms=1)
    with caplog.at_level(logging.WARNING, "coordinator.access"):
        async with serving(authorizer="") as dispatcher:
            for _ in range(3):
                assert await code(dispatcher, request, peer(ANONYMOUS)) == REFUSED
    [line] = [one.getMessage() for one in caplog.records if one.name == "coordinator.access"]
    assert "principal=User:ANONYMOUS operation=DESCRIBE_NODE needs='a node'" in line
    assert "internal.secret.file" in line


@pytest.mark.parametrize("authorizer", ["acls", "kafka"])
@pytest.mark.parametrize(
    "name",
    [
        "x; touch /tmp/owned",
        "$(id)`id`",
        "a' 'b\"",
        "x\n2026-01-01T00:00:00.000Z ERROR all is lost",
        "\x1b[2J\u202e",
        "{principal}%s",
        "-h",
    ],
)
async def test_the_remedy_for_a_stranger_is_one_line_and_one_command(name: str, authorizer: str, caplog: pytest.LogCaptureFixture) -> None:
    stranger = Principal(name)
    with caplog.at_level(logging.WARNING, "coordinator.access"):
        async with serving(
            authorizer=authorizer, super_users="User:root", acls="" if authorizer == "kafka" else "User:a:ALTER"
        ) as dispatcher:
            if authorizer == "kafka":
                dispatcher.access.replace(rules_of_kafka(load_settings(overrides=ESSENTIAL), []))
            answer = await ask(dispatcher, FENCE, peer(stranger))
    [line] = [LineFormatter(EVENT).format(one) for one in caplog.records if one.name == "coordinator.access"]
    assert line.isprintable()
    fields = shlex.split(line)
    assert f"principal=User:{one_line(name)}" in fields
    [message] = {one.error_message for one in answer.files}
    assert message.startswith(f"{stranger} may not do")
    assert message.isprintable()
    if authorizer == "kafka":
        command = shlex.split(line.partition("remedy=")[2].partition(";")[0] if ";" not in name else line.partition("remedy=")[2])
        at = command.index("--allow-principal")
        assert command[: at + 3] == ["kafka-acls", "--add", "--cluster", "--allow-principal", f"User:{one_line(name)}", "--operation"]


async def test_rules_compare_names_character_by_character() -> None:
    rules = rules_of_kafka(
        load_settings(overrides=ESSENTIAL), [Binding("User:a\\nb", AclOperation.ALTER), Binding("User:'a b'", AclOperation.ALTER)]
    )
    assert str(Principal("a\nb")) == str(Principal("a\\nb"))
    assert not rules.granted(Principal("a\nb"), "h")
    assert not rules.granted(Principal("a b"), "h")
    assert rules.granted(Principal("'a b'"), "h")
