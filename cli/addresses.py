"""Finds out, before a command begins, how an address is wrong: no server there, an unknown host, Kafka's port for a node's, the reverse.

Only what is certain ends a command: a server that is slow to answer is left to the command and its timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cli.outcome import Exit, Failed

if TYPE_CHECKING:
    from coordinator.client.routing.identify import Found
    from coordinator.security.client_security import ClientSecurity

OTHERS_S = 0.05
"""How much longer the others have once one has answered."""
BROKER_PORT = 9092
"""Where brokers are without a port in the address."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOOK_S = 1.5
"""How long a server has to say what it is; with the start of the program this stays below 3 s."""


async def check_nodes(
    servers: Sequence[tuple[str, int]], timeout_s: float = LOOK_S, security: ClientSecurity | None = None
) -> list[tuple[str, int]]:
    """Return the addresses, those first that have answered as nodes; raise `Failed` when none of them can be a node's.

    Where one has answered the others are hardly waited for: a node that hangs is not to hold up every command.
    """
    from coordinator.client.routing.identify import complaint_as_node, identify

    context = None if security is None else security.context()
    looks = [asyncio.ensure_future(identify(host, port, min(LOOK_S, timeout_s), context)) for host, port in servers]

    def nodes() -> list[tuple[str, int]]:
        done = zip(servers, looks, strict=True)
        return [server for server, look in done if look.done() and complaint_as_node(look.result()) is None]

    try:
        waiting = set(looks)
        while waiting and not nodes():
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if waiting:
            await asyncio.wait(waiting, timeout=OTHERS_S)
        if first := nodes():
            return [*first, *(server for server in servers if server not in first)]
        _judge([look.result() for look in looks], complaint_as_node)
        return list(servers)
    finally:
        for look in looks:
            look.cancel()


def check_brokers(bootstrap_servers: str, properties: Mapping[str, str]) -> None:
    """Raise `Failed` when none of the addresses can be a Kafka broker's. Blocks, also on a thread with a running loop."""
    from coordinator.client.routing.identify import ServerKind, complaint_as_broker, identify_all

    servers = _brokers(bootstrap_servers)
    is_encrypted = "SSL" in properties.get("security.protocol", "").upper()

    def complaint(found: Found) -> str | None:
        # A broker that wants TLS does not answer in plain text.
        return None if is_encrypted and found.kind not in (ServerKind.NOBODY, ServerKind.UNRESOLVED) else complaint_as_broker(found)

    with ThreadPoolExecutor(max_workers=1) as pool:
        found = pool.submit(lambda: asyncio.run(identify_all(servers, LOOK_S))).result()
    _judge(found, complaint)


def _brokers(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Parse addresses as librdkafka does: a protocol may be before them, and the port may be missing. Raises `Failed`."""
    from coordinator.client.routing.addresses import parse_servers

    found = []
    for text in filter(None, (part.strip() for part in bootstrap_servers.split(","))):
        scheme, _, place = text.rpartition("://")
        has_port = not place.endswith("]") and ":" in place
        try:
            found += parse_servers(place if has_port else f"{place}:{BROKER_PORT}")
        except ValueError as error:
            raise Failed(str(error), Exit.USAGE) from error
        if scheme and scheme.upper() not in PROTOCOLS:
            raise Failed(f"bootstrap server {text!r} is not host:port; before it may only be {'://, '.join(PROTOCOLS)}://", Exit.USAGE)
    return found


def _judge(found: Sequence[Found], complaint: Callable[[Found], str | None]) -> None:
    from coordinator.client.routing.identify import ServerKind

    complaints = [complaint(one) for one in found]
    if any(one.kind in (ServerKind.SILENT, ServerKind.SLOW) or text is None for one, text in zip(found, complaints, strict=True)):
        return
    is_wrong = all(one.kind in (ServerKind.NODE, ServerKind.BROKER, ServerKind.HTTP) for one in found)
    raise Failed("; ".join(filter(None, complaints)), Exit.USAGE if is_wrong else Exit.UNAVAILABLE)
