"""What listens at an address is told from one small request: a node, a broker, another server, nobody."""

from __future__ import annotations

import pytest

from coordinator.client.routing.identify import Found, ServerKind, complaint_as_broker, complaint_as_node, identify
from tests.client.strangers import Answer, as_broker, as_http, as_tls, be_silent, full, hang_up, listening
from tests.server.lines import Echo, serving


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (as_broker, ServerKind.BROKER),
        (as_http, ServerKind.HTTP),
        (as_tls, ServerKind.OTHER),
        (hang_up, ServerKind.OTHER),
        (be_silent, ServerKind.SILENT),
    ],
)
async def test_servers_that_are_no_nodes(answer: Answer, kind: ServerKind) -> None:
    async with listening(answer) as port:
        found = await identify("127.0.0.1", port, 0.3 if kind is ServerKind.SILENT else 10)
        assert found.kind is kind
        assert f"127.0.0.1:{port}" in (complaint_as_node(found) or "")


async def test_a_node_is_known_by_its_requests() -> None:
    async with serving(Echo()) as (_, port):
        found = await identify("127.0.0.1", port, 10)
    assert found.kind is ServerKind.NODE
    assert complaint_as_node(found) is None
    assert complaint_as_broker(found) == (
        f"127.0.0.1:{port} is a Diskless Coordinator node, not a Kafka broker; a broker listens on 9092 by default"
    )


async def test_nobody_and_unknown_hosts_are_told_apart() -> None:
    async with listening(be_silent) as port:
        pass
    refused = await identify("127.0.0.1", port, 10)
    assert refused.kind is ServerKind.NOBODY
    assert f"nobody listens at 127.0.0.1:{port}" in (complaint_as_node(refused) or "")
    for host in ("no-such-host.invalid", "a" * 64 + ".invalid", "a..b"):
        unknown = await identify(host, 9192, 10)
        assert unknown.kind is ServerKind.UNRESOLVED
        assert "the host name is not known" in (complaint_as_broker(unknown) or "")


async def test_a_server_that_is_slow_to_accept_is_not_called_nobody() -> None:
    with full() as port:
        found = await identify("127.0.0.1", port, 0.3)
    assert found.kind is ServerKind.SLOW
    assert f"127.0.0.1:{port} does not accept a connection (not within 0.3 s)" in (complaint_as_broker(found) or "")


def test_what_is_found_is_named_with_the_port_that_was_probably_meant() -> None:
    broker = Found("kafka", 9092, ServerKind.BROKER)
    assert complaint_as_broker(broker) is None
    assert complaint_as_node(broker) == "kafka:9092 is a Kafka broker, not a Diskless Coordinator node; a node listens on 9192 by default"
    assert "9193" in (complaint_as_node(Found("node", 9193, ServerKind.HTTP)) or "")
