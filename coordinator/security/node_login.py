"""How a node logs in at another one: as `diskless-node`, by the secret of the service as it is known at that moment."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from coordinator.security.client_security import ClientSecurity
from coordinator.security.login import NODE_MECHANISM, NODE_USER
from coordinator.security.node_secret import NodeSecret
from coordinator.security.scram import ScramClient


class NodeLogin(ClientSecurity):
    """The security of connections between nodes that share a secret, on listeners with logins and without.

    Raises as `ClientSecurity`, whose TLS it takes from the properties.
    """

    def __init__(self, nodes: NodeSecret, properties: Mapping[str, Any] | None = None) -> None:
        super().__init__(properties)
        self.mechanism = NODE_MECHANISM
        self._nodes = nodes

    def login(self) -> Generator[bytes, bytes, None]:
        """See `ClientSecurity`. Raises OSError while the secret is not known."""
        secret = self._nodes.secret
        if secret is None:
            raise OSError("the nodes' secret is not known yet")
        is_proven = False
        try:
            client = ScramClient(NODE_MECHANISM, NODE_USER, secret)
            first = yield client.first()
            final = yield client.final(first)
            client.check(final)
            is_proven = True
        finally:
            if not is_proven:
                self._nodes.ask()  # the secret that is known here may be an old one
