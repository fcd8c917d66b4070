"""Endpoints as text: `LISTENER://host:port`, joined by commas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # clients know declarations of operations, and the records take a third of the time in which a command starts
    from records.model import Endpoint


def endpoint_of(endpoints: Sequence[Endpoint], listener: str) -> Endpoint:
    """Return the endpoint of a listener; that of nodes, the first, when there is none of this name."""
    return next((one for one in endpoints if one.listener == listener), endpoints[0])


def format_endpoints(endpoints: Sequence[Endpoint]) -> str:
    """The text of some endpoints."""
    return ",".join(f"{e.listener}://{e.host}:{e.port}" for e in endpoints)


def parse_endpoints(text: str) -> list[Endpoint]:
    """The endpoints of a text written by `format_endpoints`."""
    from records.model import Endpoint

    endpoints: list[Endpoint] = []
    for part in filter(None, text.split(",")):
        listener, _, address = part.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(listener=listener, host=host, port=int(port)))
    return endpoints
