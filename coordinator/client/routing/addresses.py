"""Addresses of servers as users give them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from coordinator.client.errors import InvalidArgument

_HOST = re.compile(r"\[[\w.:%-]+\]|[\w.:%-]+")


def parse_servers(servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """`host:port` texts, in a list or with commas between them; IPv6 addresses in brackets. Raises InvalidArgument."""
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = []
    for text in filter(None, (text.strip() for text in texts)):
        host, _, port = text.rpartition(":")
        if not _HOST.fullmatch(host) or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65_536:
            raise InvalidArgument(f"bootstrap server {text!r} is not host:port with a port from 1 to 65535")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise InvalidArgument("no bootstrap server is given; name at least one as host:port")
    return list(dict.fromkeys(addresses))
