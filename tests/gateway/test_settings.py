"""The settings of a gateway: loaded as a node's are, with rules between them."""

from __future__ import annotations

import pytest

from coordinator.config import document_keys, render
from coordinator.config.problems import ConfigError
from gateway.settings import GATEWAY, GatewaySettings, load_gateway_settings

GIVEN = {
    "gateway.node.id": "1001",
    "bootstrap.servers": "kafka:9092",
    "coordinator.bootstrap.servers": "node:9192",
    "object.store.url": "file:///objects",
}


def load(**changed: str) -> GatewaySettings:
    """Load settings; changes have underscores for dots."""
    return load_gateway_settings(overrides=GIVEN | {key.replace("_", "."): value for key, value in changed.items()})


def problems(**changed: str) -> str:
    """Return what is wrong with settings."""
    with pytest.raises(ConfigError) as raised:
        load(**changed)
    return str(raised.value)


def test_defaults_are_enough_with_what_must_be_given() -> None:
    settings = load()
    assert (settings.gateway_node_id, settings.listeners[0].port, settings.relay_base(9292)) == (1001, 9292, 9293)
    assert settings.diskless_gateway_group_id == "diskless-gateways"


def test_the_environment_and_families_count_as_for_a_node() -> None:
    settings = load_gateway_settings(
        env={"DISKLESS_GATEWAY_RACK": "a", "DISKLESS_KAFKA_SECURITY_PROTOCOL": "SSL", "DISKLESS_GATEWAY_GROUP_ID": "mine"},
        overrides=GIVEN | {"coordinator.client.security.protocol": "SSL"},
    )
    assert (settings.gateway_rack, settings.diskless_gateway_group_id) == ("a", "mine")
    assert settings.kafka == {"security.protocol": "SSL"} == settings.coordinator_client


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gateway_nodeid": "1"}, "did you mean gateway.node.id?"),
        ({"gateway_node_id": "-1"}, "must be a whole number from 0"),
        ({"listeners": "PLAINTEXT://:0"}, "must have a port: relay ports follow it"),
        ({"listeners": "PLAINTEXT://:9292,SSL://:9300"}, "keep 65 ports free for each listener"),
        ({"listeners": "A://:9292"}, "must say the protocol of listener A"),
        ({"listeners": "SSL://:9292"}, "ssl.keystore.location"),
        ({"gateway_relay_brokers": "5-3"}, "ranges of broker ids"),
        ({"gateway_relay_brokers": "0-60000"}, "above 65535"),
        ({"gateway_heartbeat_interval_ms": "3000"}, "at most a third of gateway.session.timeout.ms = 6000"),
        ({"http_listener": "http://0.0.0.0:9292"}, "port 9292 is taken by one of listeners"),
        ({"kafka_client_id": "x"}, "is set by the gateway itself"),
        ({"gateway_create_diskless": "("}, "a regular expression of whole names"),
    ],
)
def test_what_cannot_be_is_said_with_its_remedy(changed: dict[str, str], said: str) -> None:
    assert said in problems(**changed)


def test_several_listeners_have_relay_ports_of_their_own() -> None:
    settings = load(listeners="PLAINTEXT://:9292,INSIDE://:9400", listener_security_protocol_map="INSIDE:PLAINTEXT")
    assert [settings.relay_base(one.port) for one in settings.listeners] == [9293, 9401]
    assert "counts for one listener only" in problems(
        listeners="PLAINTEXT://:9292,INSIDE://:9400", listener_security_protocol_map="INSIDE:PLAINTEXT", gateway_relay_port_base="9000"
    )


def test_every_setting_is_documented_and_shown() -> None:
    settings = load(kafka_sasl_password="hush")
    shown = {one.key: one.value for one in render(settings, GATEWAY)}
    assert shown["kafka.sasl.password"] == "***"
    assert set(GATEWAY.keys) <= set(shown)
    documented = {one.key for one in document_keys(GATEWAY)}
    assert documented == set(GATEWAY.keys) | {"kafka.*", "coordinator.client.*", "object.store.option.*", "listener.name.*"}
    assert all(len(key.why) > 60 and key.why.endswith(".") for key in GATEWAY.keys.values())


def test_the_defaults_have_room_for_all_relay_ports() -> None:
    settings = load()
    [listener] = settings.listeners
    assert settings.http_listener is not None
    assert settings.http_listener.port not in range(listener.port, listener.port + 65)


@pytest.mark.parametrize("http", ["http://0.0.0.0:9293", "http://0.0.0.0:9356"])
def test_an_http_port_among_relay_ports_is_refused(http: str) -> None:
    assert "http.listener" in problems(http_listener=http)
