"""Clusters and settings through which clients cannot be served as securely as they say: each is refused with its remedy."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import kio.schema.sasl_handshake.v1 as sasl_handshake
import pytest
from confluent_kafka import KafkaException
from kio.schema.errors import ErrorCode

from coordinator.config.sections.security import TlsSettings
from coordinator.config.values import Listener, SecurityProtocol
from coordinator.protocol.codec import encode
from coordinator.protocol.framing import reply_frame
from coordinator.security.client_security import ClientSecurity
from gateway.access.cluster import ClusterUnfit, check_mechanisms, cluster_security, listener_faults
from simulation.fakes.certificates import Authority

LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "gateway", "sasl.password": "x"}


class Listeners:
    """The settings of listeners that are named after their protocols."""

    def __init__(self, *protocols: str) -> None:
        self.listeners = tuple(Listener.parse(f"{one}://0.0.0.0:9092") for one in protocols)

    def protocol_of(self, listener: str) -> SecurityProtocol | None:
        return SecurityProtocol(listener)

    def for_listener(self, listener: str) -> TlsSettings:
        raise AssertionError("certificates are not looked at")


@asynccontextmanager
async def broker(*mechanisms: str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A listener that offers these mechanisms; yields its address, and the requests that come."""
    frames: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await reader.readexactly(size)
        frames.append(frame)
        answer = sasl_handshake.SaslHandshakeResponse(error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=mechanisms)
        writer.write(reply_frame(struct.unpack_from(">i", frame, 4)[0], encode(answer), tagged=False))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", frames


async def test_mechanisms_are_asked_for_without_a_login() -> None:
    async with broker("SCRAM-SHA-512", "PLAIN") as (address, frames):
        found = await check_mechanisms(address, ClientSecurity(LOGIN), "gateway", 10)
    assert found == (["SCRAM-SHA-512", "PLAIN"], [])
    assert [struct.unpack_from(">h", frame)[0] for frame in frames] == [17]


@pytest.mark.parametrize("offered", [("GSSAPI",), ("GSSAPI", "AWS_MSK_IAM"), ()])
async def test_a_cluster_without_a_mechanism_that_passes_is_refused(offered: Sequence[str]) -> None:
    async with broker(*offered) as (address, _):
        with pytest.raises(ClusterUnfit, match="let clients of gateways log in by PLAIN") as refused:
            await check_mechanisms(address, ClientSecurity(LOGIN), "gateway", 10)
    assert all(one in str(refused.value) for one in offered)


async def test_mechanisms_that_cannot_pass_beside_others_are_said(caplog: pytest.LogCaptureFixture) -> None:
    async with broker("GSSAPI", "PLAIN") as (address, _):
        found = await check_mechanisms(address, ClientSecurity(LOGIN), "gateway", 10)
    assert found == (["PLAIN"], ["GSSAPI"])
    assert "GSSAPI cannot pass through a gateway" in caplog.text


async def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(KafkaException):
        await check_mechanisms("127.0.0.1:1", ClientSecurity(LOGIN), "gateway", 1)


async def test_a_cluster_without_logins_is_not_asked() -> None:
    assert await check_mechanisms("127.0.0.1:1", ClientSecurity(), "gateway", 1) is None


def test_a_certificate_of_the_gateway_is_no_principal_for_its_clients(tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    both = str(ca.issue("gateway"))
    mutual = {"security.protocol": "SSL", "ssl.ca.location": str(ca.ca_file), "ssl.certificate.location": both, "ssl.key.location": both}
    with pytest.raises(ClusterUnfit, match="would take every client for this gateway"):
        cluster_security(mutual)
    assert cluster_security({**mutual, **LOGIN, "security.protocol": "SASL_SSL"}).has_certificate, "a second lock beside logins"
    without = {key: value for key, value in mutual.items() if "certificate" not in key and "key" not in key}
    assert cluster_security(without).has_tls


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "SASL_SSL"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "SSL", "ssl.ca.location": "/not/there"},
        {"security.protocol": "TLS"},
    ],
)
def test_security_that_is_not_known_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ClusterUnfit, match="kafka"):
        cluster_security(properties)


@pytest.mark.parametrize(
    ("protocols", "properties", "remedies"),
    [
        (["PLAINTEXT", "SSL"], {}, []),
        (["SASL_PLAINTEXT", "SASL_SSL"], LOGIN, []),
        (["PLAINTEXT", "SASL_SSL"], LOGIN, ["make it SASL_PLAINTEXT"]),
        (["SSL"], LOGIN, ["make it SASL_SSL"]),
        (["SASL_SSL", "SASL_PLAINTEXT"], {}, ["make it SSL", "make it PLAINTEXT"]),
    ],
)
def test_listeners_have_logins_as_the_cluster_has(protocols: list[str], properties: dict[str, str], remedies: list[str]) -> None:
    faults = list(listener_faults(Listeners(*protocols), ClientSecurity(properties)))
    assert len(faults) == len(remedies)
    assert all(remedy in fault for remedy, fault in zip(remedies, faults, strict=True))
