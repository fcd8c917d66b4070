"""The nodes' secret: files that are taken or refused, agreement through Kafka, and changes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from coordinator.adapters.kafka.agreed_secret import SecretUnavailable
from coordinator.app.security.internal_secret import FileSecret, KafkaSecret
from coordinator.runtime.failures import FatalError
from coordinator.security.login import NODE_MECHANISM, NODE_USER, LoginFailed
from coordinator.security.mechanisms import ListenerLogins
from coordinator.security.node_secret import NodeSecret
from coordinator.security.principal import Principal
from coordinator.security.scram import ScramClient, ScramRefused, ScramServer, ScramUsers

FIRST, SECOND = "a" * 32, "b" * 64
REMAINS_S = 60.0


class HeardLines(logging.Handler):
    """Hands over what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.put_nowait(record.getMessage())


async def log_in(known: ScramUsers, secret: str, user: str = NODE_USER, mechanism: str = NODE_MECHANISM) -> Principal | None:
    login = ListenerLogins((), nodes=known).begin(mechanism)
    client = ScramClient(mechanism, user, secret)
    first = await login.step(client.first())
    last = await login.step(client.final(first.reply))
    client.check(last.reply)
    return last.principal


async def test_who_knows_the_secret_is_a_node_on_every_listener_and_nobody_else() -> None:
    nodes = NodeSecret()
    with pytest.raises(LoginFailed):
        await log_in(nodes, FIRST)
    nodes.learn(FIRST)
    assert await log_in(nodes, FIRST) == Principal(NODE_USER, is_node=True)
    for secret, user in ((SECOND, NODE_USER), ("", NODE_USER), (FIRST, "alice")):
        with pytest.raises(LoginFailed):
            await log_in(nodes, secret, user)
    with pytest.raises(LoginFailed):
        await log_in(nodes, FIRST, mechanism="SCRAM-SHA-512")
    nodes.learn(SECOND)
    assert await log_in(nodes, SECOND) == Principal(NODE_USER, is_node=True)
    with pytest.raises(LoginFailed):
        await log_in(nodes, FIRST)


async def test_messages_that_were_heard_prove_nothing_later_in_either_direction() -> None:
    nodes = NodeSecret()
    nodes.learn(FIRST)
    client = ScramClient(NODE_MECHANISM, NODE_USER, FIRST)
    heard = ListenerLogins((), nodes=nodes).begin(NODE_MECHANISM)
    first = client.first()
    server_first = (await heard.step(first)).reply
    final = client.final(server_first)
    verifier = (await heard.step(final)).reply
    again = ListenerLogins((), nodes=nodes).begin(NODE_MECHANISM)
    await again.step(first)
    with pytest.raises(LoginFailed):
        await again.step(final)
    # Somebody who answers with what a node said once is not taken for a node.
    asking = ScramClient(NODE_MECHANISM, NODE_USER, FIRST)
    asking.first()
    with pytest.raises(ScramRefused):
        asking.final(server_first)
    stranger = NodeSecret()
    stranger.learn(SECOND)
    pretending = ScramServer(NODE_MECHANISM, stranger, pretence=b"p" * 32)
    asking = ScramClient(NODE_MECHANISM, NODE_USER, FIRST)
    asking.final((await pretending.step(asking.first())).reply)
    with pytest.raises(ScramRefused):
        asking.check(verifier)


@pytest.mark.parametrize(
    ("data", "told"),
    [(None, "No such file"), (b"", "32 to 4096"), (b"a" * 31, "32 to 4096"), (b"a b" * 20, "without spaces"), (b"\xff" * 40, "ASCII")],
)
def test_a_secret_that_protects_nothing_ends_the_start(tmp_path: Path, data: bytes | None, told: str) -> None:
    file = tmp_path / "secret"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(FatalError, match=r"internal\.secret\.file") as raised:
        FileSecret(file)
    assert told in str(raised.value)
    assert "openssl rand" in str(raised.value)


async def test_a_file_that_changes_counts_and_one_that_is_not_usable_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "secret"
    file.write_text(FIRST + "\n")
    source = FileSecret(file)
    assert source.nodes.secret == FIRST
    following = asyncio.create_task(source.follow(0.001))

    heard = HeardLines()
    logging.getLogger("coordinator.access").addHandler(heard)
    with caplog.at_level(logging.INFO, "coordinator.access"):
        file.write_text("no")
        assert "is not reloaded" in await asyncio.wait_for(heard.lines.get(), REMAINS_S)
        assert source.nodes.secret == FIRST
        file.write_text(SECOND)
        assert "is reloaded" in await asyncio.wait_for(heard.lines.get(), REMAINS_S)
    logging.getLogger("coordinator.access").removeHandler(heard)
    following.cancel()
    assert source.nodes.secret == SECOND
    assert SECOND not in caplog.text


async def test_the_secret_of_kafka_is_asked_for_until_it_is_known_and_again_when_a_node_logs_in(caplog: pytest.LogCaptureFixture) -> None:
    coming, refused = SecretUnavailable("no topic", is_coming=True), SecretUnavailable("not allowed: allow it")
    told: list[SecretUnavailable | str] = [coming, refused, refused, FIRST, refused, SECOND]
    knew: list[str | None] = []
    all_told = asyncio.Event()

    async def agree(known: str | None) -> str:
        if not told:
            all_told.set()
            await asyncio.Event().wait()
        knew.append(known)
        now = told.pop(0)
        if isinstance(now, SecretUnavailable):
            raise now
        source.nodes.find(NODE_MECHANISM, NODE_USER)
        asyncio.get_running_loop().call_later(0.01, source.nodes.find, NODE_MECHANISM, NODE_USER)
        return now

    source = KafkaSecret(agree)
    with caplog.at_level(logging.INFO, "coordinator.access"):
        following = asyncio.create_task(source.follow(0.001, REMAINS_S))
        await asyncio.wait_for(all_told.wait(), REMAINS_S)
        following.cancel()
    assert knew == [None, None, None, None, FIRST, FIRST]
    assert source.nodes.secret == SECOND
    assert [one.getMessage() for one in caplog.records if one.name == "coordinator.access"] == [
        "Kafka does not give the nodes' secret: not allowed: allow it; until it does, other nodes do not know this one",
        "Kafka gives the nodes' secret again",
        "Kafka does not give the nodes' secret: not allowed: allow it; until it does, the last one stays in force",
        "Kafka gives the nodes' secret again",
    ]
