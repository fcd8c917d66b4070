"""Wrong addresses are told apart before a command begins: no server there, an unknown host, Kafka's port for a node's, the reverse.

Only what is certain ends a command: a server that is slow to answer is left to the command and its timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cli.outcome import Exit, Failed

if TYPE_CHECKING:
    from coordinator.client.identify import Found
    from coordinator.security.client_security import ClientSecurity

LOOK_S = 1.5
"""How long a server has to say what it is; with the start of the program this stays below 3 s."""


async def check_nodes(servers: Sequence[tuple[str, int]], timeout_s: float = LOOK_S, security: ClientSecurity | None = None) -> None:
    """Raise `Failed` when none of the addresses can be a node's."""
    from coordinator.client.identify import complaint_as_node, identify_all

    context = None if security is None else security.context()
    _judge(await identify_all(servers, min(LOOK_S, timeout_s), context), complaint_as_node)


def check_brokers(bootstrap_servers: str, properties: Mapping[str, str]) -> None:
    """Raise `Failed` when none of the addresses can be a Kafka broker's. Blocks, also on a thread with a running loop."""
    from coordinator.client.client import parse_servers
    from coordinator.client.identify import ServerKind, complaint_as_broker, identify_all

    try:
        servers = parse_servers(bootstrap_servers)
    except ValueError:
        return  # librdkafka knows more forms, and says what it does not know
    is_encrypted = "SSL" in properties.get("security.protocol", "").upper()

    def complaint(found: Found) -> str | None:
        # A broker that wants TLS does not answer in plain text.
        return None if is_encrypted and found.kind not in (ServerKind.NOBODY, ServerKind.UNRESOLVED) else complaint_as_broker(found)

    with ThreadPoolExecutor(max_workers=1) as pool:
        found = pool.submit(lambda: asyncio.run(identify_all(servers, LOOK_S))).result()
    _judge(found, complaint)


def _judge(found: Sequence[Found], complaint: Callable[[Found], str | None]) -> None:
    from coordinator.client.identify import ServerKind

    complaints = [complaint(one) for one in found]
    if any(one.kind is ServerKind.SILENT or text is None for one, text in zip(found, complaints, strict=True)):
        return
    is_wrong = all(one.kind in (ServerKind.NODE, ServerKind.BROKER, ServerKind.HTTP) for one in found)
    raise Failed("; ".join(filter(None, complaints)), Exit.USAGE if is_wrong else Exit.UNAVAILABLE)
