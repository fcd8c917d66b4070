"""How nodes reach each other: what the settings of their listener make of the connections between them, over real sockets."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator.adapters.peers import PooledPeers
from coordinator.adapters.server.contract import Handler, IncomingRequest, Respond, ServerLimits
from coordinator.adapters.server.listeners import ListenersSecurity
from coordinator.app.security.internal_secret import FileSecret
from coordinator.app.security.nodes import security_to_nodes
from coordinator.config import Settings, load_settings
from coordinator.protocol.codec import encode
from coordinator.protocol.messages import RegisterNodeResponse
from coordinator.runtime.ports import PeerUnavailable
from coordinator.security.node_secret import NodeSecret
from coordinator.security.scram import NoUsers
from tests.client.test_pool import REGISTER
from tests.config.test_config_load import ESSENTIAL, problems_of
from tests.server.lines import serving
from tests.server.secured import Place

SECRET = "0123456789abcdef0123456789abcdef"


class Nods(Handler):
    """Answers everything with the shortest answer there is, and keeps what was asked."""

    def __init__(self) -> None:
        self.seen: list[IncomingRequest] = []

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        self.seen.append(request)
        respond(encode(RegisterNodeResponse(error_code=0)))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "secret").write_text(SECRET + "\n", encoding="ascii")
    return Place(tmp_path)


def settings_of(place: Place, given: Mapping[str, str]) -> Settings:
    files = {"SECRET": str(place.folder / "secret"), "CERTIFICATE": str(place.certificate), "CA": str(place.ca.ca_file)}
    return load_settings(overrides=ESSENTIAL | {key: files.get(value, value) for key, value in given.items()})


def secret_of(settings: Settings) -> NodeSecret | None:
    """The secret of the file; without one nodes have none here."""
    return None if settings.internal_secret_file is None else FileSecret(settings.internal_secret_file).nodes


SECRETLY = {"internal.secret.file": "SECRET"}
TLS = {"authorizer": "acls", "ssl.keystore.location": "CERTIFICATE", "ssl.truststore.location": "CA"}
WAYS = {
    "plain text": ({"listeners": "PLAINTEXT://:1"}, False),
    "plain text with the secret": ({"listeners": "PLAINTEXT://:1", **SECRETLY}, True),
    "tls": ({"listeners": "SSL://:1", **TLS}, False),
    "tls with the secret": ({"listeners": "SSL://:1", **TLS, **SECRETLY}, True),
    "mutual tls": ({"listeners": "SSL://:1", "ssl.client.auth": "required", **TLS}, False),
    "login": ({"listeners": "SASL_SSL://:1", "sasl.enabled.mechanisms": "OAUTHBEARER", **TLS, **SECRETLY}, True),
}


@pytest.mark.parametrize("way", list(WAYS))
async def test_nodes_reach_each_other_by_the_keys_of_their_listener(place: Place, way: str) -> None:
    given, is_node = WAYS[way]
    if way == "login":
        (place.folder / "keys").write_text('{"keys": []}', encoding="ascii")
        given = given | {"sasl.oauthbearer.jwks.endpoint.url": "https://keys.example/set"}
    settings = settings_of(place, given)
    secret, name = secret_of(settings), settings.listeners[0].name
    handler = Nods()
    with ThreadPoolExecutor(1) as executor:
        security = ListenersSecurity(settings, nodes=secret or NoUsers(), executor=executor).of(name)
        async with serving(handler, ServerLimits(login_failure_delay_ms=0), security=security) as (_, port):
            peers = PooledPeers(client_id="node-1", security=security_to_nodes(settings, secret))
            await peers.call("127.0.0.1", port, REGISTER, 60_000)
            await peers.close()
            assert [one.peer.principal.is_node for one in handler.seen] == [is_node]
            if secret is not None:
                (place.folder / "secret").write_text("another-secret-of-some-length-x-x", encoding="ascii")
                stranger = PooledPeers(client_id="node-2", security=security_to_nodes(settings, secret_of(settings)))
                with pytest.raises(PeerUnavailable, match="the user name or the password is wrong"):
                    await stranger.call("127.0.0.1", port, REGISTER, 60_000)
                await stranger.close()


@pytest.mark.parametrize(("tells_after_s", "told"), [(0.0, 1), (3600.0, 0)])
async def test_a_refused_login_is_told_when_it_lasts(
    place: Place, caplog: pytest.LogCaptureFixture, tells_after_s: float, told: int
) -> None:
    """A node that has just started does not know the nodes' secret yet."""
    settings = settings_of(place, {"listeners": "PLAINTEXT://:1", **SECRETLY})
    late, known = NodeSecret(), secret_of(settings)
    with ThreadPoolExecutor(1) as executor:
        security = ListenersSecurity(settings, nodes=late, executor=executor).of(settings.listeners[0].name)
        async with serving(Nods(), ServerLimits(login_failure_delay_ms=0), security=security) as (_, port):
            peers = PooledPeers(client_id="node-1", security=security_to_nodes(settings, known), tells_after_s=tells_after_s)
            for _ in range(2):
                with pytest.raises(PeerUnavailable, match="does not know the nodes' secret"):
                    await peers.call("127.0.0.1", port, REGISTER, 60_000)
            late.learn(SECRET)
            await peers.call("127.0.0.1", port, REGISTER, 60_000)
            await peers.close()
    assert sum("refuses the login" in one.getMessage() for one in caplog.records) == told


def test_the_listener_of_nodes_is_one_that_nodes_can_use() -> None:
    assert "PLAINTEXT" in problems_of({"inter.node.listener.name": "OTHER"})["inter.node.listener.name"]
    login = {"listeners": "SASL_PLAINTEXT://:1,INSIDE://:2", "listener.security.protocol.map": "INSIDE:PLAINTEXT"}
    login |= {"sasl.enabled.mechanisms": "PLAIN", "users.file": "/u", "authorizer": "acls"}
    assert load_settings(overrides=ESSENTIAL | login | {"inter.node.listener.name": "inside"}).inter_node_listener() == "INSIDE"
