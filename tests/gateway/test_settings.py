"""The ports of a gateway are apart from each other."""

from __future__ import annotations

import pytest

from coordinator.config import ConfigError
from gateway.settings import load_gateway_settings

NEEDED = {
    "gateway.node.id": "1001",
    "bootstrap.servers": "kafka:9092",
    "coordinator.bootstrap.servers": "node:9192",
    "object.store.url": "file:///objects",
}


def test_the_defaults_have_room_for_all_relay_ports() -> None:
    settings = load_gateway_settings(overrides=NEEDED, env={})
    [listener] = settings.listeners
    assert settings.http_listener is not None
    assert settings.http_listener.port not in range(listener.port, listener.port + 65)


@pytest.mark.parametrize("http", ["http://0.0.0.0:9293", "http://0.0.0.0:9356", "http://0.0.0.0:9292"])
def test_an_http_port_among_relay_ports_is_refused(http: str) -> None:
    with pytest.raises(ConfigError, match=r"http\.listener"):
        load_gateway_settings(overrides={**NEEDED, "http.listener": http}, env={})


def test_relay_ports_of_two_listeners_are_apart() -> None:
    listeners = "A://0.0.0.0:9292,B://0.0.0.0:9300"
    protocols = "A:PLAINTEXT,B:PLAINTEXT"
    with pytest.raises(ConfigError, match="port 9300 is one of listener A and one of listener B"):
        load_gateway_settings(overrides={**NEEDED, "listeners": listeners, "listener.security.protocol.map": protocols}, env={})
    settings = {**NEEDED, "listeners": listeners, "listener.security.protocol.map": protocols, "gateway.relay.brokers": "1-5"}
    assert load_gateway_settings(overrides=settings, env={}).relay_base(9300) == 9301
