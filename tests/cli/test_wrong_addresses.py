"""Wrong addresses are told apart at once by commands that ask nodes and by those that ask Kafka: none waits until its time is over."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from cli.addresses import LOOK_S, check_brokers, check_nodes
from cli.main import root
from cli.outcome import Exit
from tests.client.strangers import Answer, as_broker, as_http, be_silent, full, hang_up, listening
from tests.server.lines import Echo, serving

BOUND_S = 20.0
"""Less than a command waits that is told nothing of time."""
ASK_NODES = (("topics", "list"), ("files", "list"), ("coordinator", "status"), ("coordinator", "raise-level", "2"))
ASK_KAFKA = (("init",), ("log", "dump"))
STRANGERS = (
    (as_broker, "is a Kafka broker, not a Diskless Coordinator node; a node listens on 9192"),
    (as_http, "is an HTTP port"),
)


def run(*args: str) -> Result:
    start_s = time.monotonic()
    result = CliRunner().invoke(root, [*args], prog_name="diskless")
    assert time.monotonic() - start_s < BOUND_S
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@contextmanager
def background(serve: Answer | None) -> Iterator[str]:
    """The address of a server on a thread of its own: a stranger, or without one a node."""
    address: list[str] = []
    is_up, is_over = threading.Event(), threading.Event()

    async def live() -> None:
        if serve is None:
            async with serving(Echo()) as (_, port):
                await stay(port)
        else:
            async with listening(serve) as port:
                await stay(port)

    async def stay(port: int) -> None:
        address.append(f"127.0.0.1:{port}")
        is_up.set()
        await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert is_up.wait(60)
        yield address[0]
    finally:
        is_over.set()
        thread.join()


@pytest.fixture
def refused() -> Iterator[str]:
    """An address that is taken, so that nobody else listens there, and refuses connections."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("command", [*ASK_NODES, *ASK_KAFKA], ids=" ".join)
def test_a_refused_port_and_an_unknown_host(command: tuple[str, ...], refused: str) -> None:
    for server, why in ((refused, f"nobody listens at {refused}"), ("no-such-host.invalid:9", "the host name is not known")):
        result = run(*command, "--bootstrap-server", server)
        assert result.exit_code == Exit.UNAVAILABLE, result.output
        assert why in result.stderr


@pytest.mark.parametrize("command", [*ASK_NODES, *ASK_KAFKA], ids=" ".join)
@pytest.mark.parametrize("server", ["http://host:1", "a b:1", "user@host:1", "host:0", "host:65536", "[::1"])
def test_a_text_that_is_no_address_is_a_usage_error(command: tuple[str, ...], server: str) -> None:
    result = run(*command, "--bootstrap-server", server)
    assert result.exit_code == Exit.USAGE, result.output
    assert "is not host:port" in result.stderr


def test_kafkas_protocol_may_be_named_before_an_address_of_a_broker_and_its_port_left_out(refused: str) -> None:
    for server in (f"PLAINTEXT://{refused}", f"sasl_ssl://{refused}"):
        assert f"nobody listens at {refused}" in run("init", "--bootstrap-server", server).stderr
    assert "the host name is not known" in run("init", "--bootstrap-server", "no-such-host.invalid").stderr


def test_one_right_address_of_several_is_enough_to_go_on(refused: str) -> None:
    # The node in the test echoes, which no command understands: that is found out later.
    with background(None) as node:
        result = run("topics", "list", "--bootstrap-server", f"{refused},{node}", "--timeout", "0.3")
    assert "nobody listens" not in result.stderr.splitlines()[0]


async def test_a_node_that_hangs_is_asked_last_and_holds_up_no_command() -> None:
    async with listening(be_silent) as silent, serving(Echo()) as (_, port):
        servers = [("127.0.0.1", silent), ("127.0.0.1", port)]
        start_s = time.monotonic()
        assert await check_nodes(servers, 600.0) == servers[::-1]
        assert time.monotonic() - start_s < LOOK_S


async def test_a_server_that_is_slow_to_accept_is_left_to_the_command_and_its_timeout() -> None:
    with full() as port:
        assert await check_nodes([("127.0.0.1", port)], 0.3) == [("127.0.0.1", port)]
        check_brokers(f"127.0.0.1:{port}", {})


@pytest.mark.parametrize("command", ASK_NODES, ids=" ".join)
@pytest.mark.parametrize(("serve", "why"), STRANGERS)
def test_kafkas_port_and_the_http_port_instead_of_a_nodes(command: tuple[str, ...], serve: Answer, why: str) -> None:
    with background(serve) as address:
        result = run(*command, "--bootstrap-server", address)
    assert result.exit_code == Exit.USAGE, result.output
    assert f"{address} {why}" in result.stderr


@pytest.mark.parametrize("command", ASK_KAFKA, ids=" ".join)
def test_a_nodes_port_instead_of_kafkas(command: tuple[str, ...]) -> None:
    with background(None) as address:
        result = run(*command, "--bootstrap-server", address)
    assert result.exit_code == Exit.USAGE, result.output
    assert f"{address} is a Diskless Coordinator node, not a Kafka broker; a broker listens on 9092 by default" in result.stderr


def test_doctor_finds_both() -> None:
    with background(as_broker) as broker, background(None) as node:
        result = run("doctor", "--bootstrap-server", broker, "--kafka-bootstrap-server", node, "-o", "jsonl")
    assert result.exit_code == Exit.FAILURE
    assert f"{broker} is a Kafka broker, not a Diskless Coordinator node" in result.stdout
    assert f"{node} is a Diskless Coordinator node, not a Kafka broker" in result.stdout


def test_who_hangs_up_is_not_called_a_node() -> None:
    with background(hang_up) as address:
        result = run("topics", "list", "--bootstrap-server", address)
    assert result.exit_code == Exit.UNAVAILABLE
    assert f"{address} does not speak Kafka's protocol in plain text" in result.stderr
