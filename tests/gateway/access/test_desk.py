"""Logins that pass to a cluster: what the client gets, when it is served, and what ends its connection. The cluster has real mechanisms."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

import kio.schema.sasl_handshake.v1 as sasl_handshake
import pytest
from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.link import BrokerLost
from coordinator.adapters.server.contract import CloseReason
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.framing import Pending, read_request_header, reply_frame, request_frame
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.login import LoginFailed
from coordinator.security.principal import Principal
from coordinator.security.scram import ScramClient, ScramCredentials, ScramServer
from gateway.access.desk import PassThroughDesk
from tests.virtual_loop import lived
from tests.waiting import until, virtual_time

HANDSHAKE, AUTHENTICATE = int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)
PASSWORD = "secret"
TOKEN = b"n,,\x01auth=Bearer opaque\x01\x01"


class Users:
    """Alice, with her password."""

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        return ScramCredentials.of(mechanism, PASSWORD, b"salt" * 4, 4096) if user == "alice" else None


class Cluster:
    """A broker's side of logins, as Kafka does it; sessions end after `session_ms`."""

    def __init__(self, *mechanisms: str, session_ms: int = 0) -> None:
        self.mechanisms = mechanisms
        self.session_ms = session_ms
        self.frames: list[bytes] = []
        self.is_lost = False
        self.may_renew = True
        self.has_logged_in = False
        self._scram: ScramServer | None = None
        self._mechanism = ""
        self._is_token_refused = False

    async def forward(self, frame: bytes) -> bytes:
        self.frames.append(frame)
        await virtual_time(0.01)
        if self.is_lost:
            raise BrokerLost("closed by the broker")
        key, version = struct.unpack_from(">hh", frame)
        header = read_request_header(frame, flexible=version >= 2 and key == AUTHENTICATE)
        if key == HANDSHAKE:
            return self._answer(header.correlation_id, self._handshake(frame, header.body_offset))
        request = decode(import_module(f"kio.schema.sasl_authenticate.v{version}").SaslAuthenticateRequest, frame, header.body_offset)
        code, reply = await self._authenticate(request.auth_bytes)
        lifetime = {"session_lifetime": timedelta(milliseconds=self.session_ms)} if version else {}
        response = import_module(f"kio.schema.sasl_authenticate.v{version}").SaslAuthenticateResponse
        text = "no" if code else None
        return self._answer(header.correlation_id, response(error_code=code, error_message=text, auth_bytes=reply, **lifetime))

    def _answer(self, correlation_id: int, message: Any) -> bytes:
        return reply_frame(correlation_id, encode(message), tagged=message.__flexible__)[4:]

    def _handshake(self, frame: bytes, offset: int) -> sasl_handshake.SaslHandshakeResponse:
        self._mechanism = decode(sasl_handshake.SaslHandshakeRequest, frame, offset).mechanism
        self._scram, self._is_token_refused = None, False
        code = ErrorCode.none if self._mechanism in self.mechanisms else ErrorCode.unsupported_sasl_mechanism
        if self.has_logged_in and not self.may_renew:
            return sasl_handshake.SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
        return sasl_handshake.SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)

    async def _authenticate(self, message: bytes) -> tuple[ErrorCode, bytes]:
        if not self._mechanism:
            return ErrorCode.illegal_sasl_state, b""
        is_right = message in (b"\0alice\0secret", TOKEN)
        if self._mechanism == "OAUTHBEARER" and not is_right and not self._is_token_refused:
            self._is_token_refused = True
            return ErrorCode.none, b'{"status":"invalid_token"}'
        if self._mechanism.startswith("SCRAM"):
            self._scram = self._scram or ScramServer(self._mechanism, Users(), pretence=b"p" * 32)
            try:
                step = await self._scram.step(message)
            except LoginFailed:
                return ErrorCode.sasl_authentication_failed, b""
            self.has_logged_in = step.principal is not None
            return ErrorCode.none, step.reply
        self.has_logged_in = is_right
        return (ErrorCode.none if is_right else ErrorCode.sasl_authentication_failed), b""


class Wire:
    """The connection of a client: what its login did to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.answers: list[bytes] = []
        self.principal: Principal | None = None
        self.has_ended_session = False
        self.is_held = False
        self.closed: tuple[CloseReason, str] | None = None
        self.quiet: list[bool] = []
        self.identities: list[bytes | None] = []
        self.desk = PassThroughDesk(self, cluster.forward, quiet=self.quiet.append, accepted=self.identities.append)

    def respond(self, pending: Pending, body: bytes) -> None:
        assert self.closed is None
        self.answers.append(body)

    def hold(self) -> None:
        self.is_held = True

    def resume(self) -> None:
        self.is_held = False

    def serve_as(self, principal: Principal) -> None:
        self.principal, self.has_ended_session = principal, False

    def end_session(self) -> None:
        self.has_ended_session = True

    def close(self, reason: CloseReason, detail: str) -> None:
        self.closed = self.closed or (reason, detail)

    @property
    def is_served(self) -> bool:
        return self.principal is not None and not self.has_ended_session and not self.is_held and self.closed is None

    async def shake(self, mechanism: str) -> sasl_handshake.SaslHandshakeResponse:
        text = mechanism.encode()
        body = await self._send(HANDSHAKE, 1, struct.pack(">h", len(text)) + text)
        return decode(sasl_handshake.SaslHandshakeResponse, body)

    async def authenticate(self, message: bytes, version: int = 1) -> Any:
        module = import_module(f"kio.schema.sasl_authenticate.v{version}")
        body = await self._send(AUTHENTICATE, version, encode(module.SaslAuthenticateRequest(auth_bytes=message)))
        return decode(module.SaslAuthenticateResponse, body)

    async def log_in(self) -> None:
        await self.shake("PLAIN")
        await self.authenticate(b"\0alice\0secret")

    async def _send(self, key: int, version: int, body: bytes) -> bytes:
        frame = request_frame(key, version, 7, "app", body, flexible=version >= 2)[4:]
        pending = Pending([7], [len(frame)], tagged=version >= 2)
        before = len(self.answers)
        self.desk.take(key, version, frame, read_request_header(frame, flexible=version >= 2).body_offset, pending)
        assert self.is_held, "requests behind a login must wait for its answer"
        await until(lambda: len(self.answers) > before or self.closed, "an answer")
        return self.answers[-1] if len(self.answers) > before else b""


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_password_passes(version: int) -> None:
    async def main() -> None:
        wire = Wire(cluster := Cluster("PLAIN"))
        assert (await wire.shake("PLAIN")).error_code is ErrorCode.none
        assert not wire.is_held
        assert not wire.is_served
        answer = await wire.authenticate(b"\0alice\0secret", version)
        assert answer.error_code is ErrorCode.none
        assert wire.is_served
        assert wire.principal == Principal("alice")
        assert wire.quiet == [True, False]
        assert len(cluster.frames) == 2

    lived(main())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_nobody_is_served_between_the_rounds_of_scram(mechanism: str) -> None:
    async def main() -> None:
        wire = Wire(Cluster(mechanism))
        await wire.shake(mechanism)
        client = ScramClient(mechanism, "alice", PASSWORD)
        first = await wire.authenticate(client.first())
        assert first.error_code is ErrorCode.none
        assert not wire.is_served
        assert not wire.desk.has_logged_in
        client.check((await wire.authenticate(client.final(first.auth_bytes))).auth_bytes)
        assert wire.is_served
        assert wire.principal == Principal("alice")

    lived(main())


@pytest.mark.parametrize(
    ("mechanism", "messages"),
    [
        ("PLAIN", [b"\0alice\0wrong"]),
        ("PLAIN", [b""]),
        ("OAUTHBEARER", [b"n,,\x01auth=Bearer bad\x01\x01", b"\x01"]),
        ("SCRAM-SHA-512", [b"garbage"]),
        ("SCRAM-SHA-512", [ScramClient("SCRAM-SHA-512", "alice", "x", "nonce").first(), b"c=biws,r=x,p=x"]),
    ],
)
def test_a_refused_login_is_answered_by_the_cluster_and_ends(mechanism: str, messages: list[bytes]) -> None:
    async def main() -> None:
        wire = Wire(Cluster(mechanism))
        await wire.shake(mechanism)
        for message in messages:
            assert wire.closed is None
            answer = await wire.authenticate(message)
            assert not wire.is_served
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert wire.closed is not None
        assert wire.closed[0] is CloseReason.LOGIN_FAILED

    lived(main())


def test_a_token_passes() -> None:
    async def main() -> None:
        wire = Wire(Cluster("OAUTHBEARER"))
        await wire.shake("OAUTHBEARER")
        await wire.authenticate(TOKEN)
        assert wire.is_served
        assert wire.principal is not None
        assert wire.principal.name.startswith("token-")

    lived(main())


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM"])
def test_a_mechanism_that_cannot_pass_is_refused_with_those_that_can(mechanism: str) -> None:
    async def main() -> None:
        wire = Wire(Cluster("PLAIN", mechanism, "SCRAM-SHA-512"))
        answer = await wire.shake(mechanism)
        assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
        assert list(answer.mechanisms) == ["PLAIN", "SCRAM-SHA-512"]
        assert wire.closed is not None
        assert "cannot pass through a gateway" in wire.closed[1]
        assert not wire.is_served

    lived(main())


def test_mechanisms_are_narrowed_in_every_answer() -> None:
    async def main() -> None:
        assert list((await Wire(Cluster("GSSAPI", "PLAIN")).shake("PLAIN")).mechanisms) == ["PLAIN"]
        refused = await Wire(Cluster("GSSAPI", "PLAIN")).shake("SCRAM-SHA-256")
        assert refused.error_code is ErrorCode.unsupported_sasl_mechanism
        assert list(refused.mechanisms) == ["PLAIN"]

    lived(main())


def test_a_message_without_a_handshake_logs_nobody_in() -> None:
    async def main() -> None:
        wire = Wire(Cluster("PLAIN"))
        answer = await wire.authenticate(b"\0alice\0secret")
        assert answer.error_code is ErrorCode.illegal_sasl_state
        assert wire.closed is not None
        assert not wire.is_served

    lived(main())


def test_a_cluster_that_says_yes_without_a_handshake_is_not_believed() -> None:
    async def main() -> None:
        class Yes(Cluster):
            async def forward(self, frame: bytes) -> bytes:
                self._mechanism = "PLAIN"
                return await super().forward(frame)

        wire = Wire(Yes("PLAIN"))
        await wire.authenticate(b"\0alice\0secret")
        assert not wire.is_served
        assert wire.closed is not None

    lived(main())


def test_a_session_ends_for_a_client_that_is_not_told_so() -> None:
    async def main() -> None:
        wire = Wire(Cluster("PLAIN", session_ms=10_000))
        await wire.shake("PLAIN")
        await wire.authenticate(b"\0alice\0secret", version=0)
        assert wire.is_served
        await virtual_time(10.1)
        assert not wire.is_served

    lived(main())


def test_a_session_ends_when_the_cluster_said_and_goes_on_after_a_new_login() -> None:
    async def main() -> None:
        wire = Wire(Cluster("PLAIN", session_ms=10_000))
        await wire.log_in()
        await virtual_time(9.9)
        assert wire.is_served
        await wire.log_in()
        await virtual_time(9.9)
        assert wire.is_served, "the end of the first session ended the second"
        await virtual_time(0.2)
        assert not wire.is_served
        assert wire.desk.has_logged_in
        await wire.log_in()
        assert wire.is_served

    lived(main())


def test_the_connection_upstream_is_quiet_while_a_login_is_renewed() -> None:
    async def main() -> None:
        wire = Wire(Cluster("PLAIN"))
        await wire.log_in()
        wire.quiet.clear()
        await wire.shake("PLAIN")
        assert wire.quiet == [True]
        await wire.authenticate(b"\0alice\0secret")
        assert wire.quiet == [True, False]

    lived(main())


def test_a_cluster_without_renewed_logins_goes_on() -> None:
    async def main() -> None:
        cluster = Cluster("PLAIN")
        wire = Wire(cluster)
        await wire.log_in()
        cluster.may_renew = False
        assert (await wire.shake("PLAIN")).error_code is ErrorCode.illegal_sasl_state
        assert wire.is_served
        assert wire.quiet[-1] is False

    lived(main())


def test_a_login_that_fails_anew_ends_the_connection() -> None:
    async def main() -> None:
        wire = Wire(Cluster("PLAIN"))
        await wire.log_in()
        await wire.shake("PLAIN")
        await wire.authenticate(b"\0alice\0wrong")
        assert wire.closed is not None
        assert not wire.is_served

    lived(main())


def test_a_cluster_that_goes_away_ends_the_connection() -> None:
    async def main() -> None:
        cluster = Cluster("PLAIN")
        wire = Wire(cluster)
        await wire.shake("PLAIN")
        cluster.is_lost = True
        with pytest.raises(MalformedMessage):
            await wire.authenticate(b"\0alice\0secret")
        assert wire.closed == (CloseReason.LOGIN_FAILED, "the cluster ended the login: closed by the broker")

    lived(main())


@pytest.mark.parametrize("damage", [lambda _frame: b"", lambda frame: frame[:4], lambda frame: frame + b"more", lambda frame: b"\xff" * 30])
def test_a_cluster_that_answers_rubbish_lets_nobody_in(damage: Callable[[bytes], bytes]) -> None:
    async def main() -> None:
        class Rubbish(Cluster):
            async def forward(self, frame: bytes) -> bytes:
                answer = await super().forward(frame)
                return damage(answer) if struct.unpack_from(">h", frame)[0] == AUTHENTICATE else answer

        wire = Wire(Rubbish("PLAIN"))
        await wire.shake("PLAIN")
        with pytest.raises(MalformedMessage):
            await wire.authenticate(b"\0alice\0secret")
        assert wire.closed is not None
        assert wire.closed[0] is CloseReason.HANDLER_FAILED
        assert not wire.is_served

    lived(main())


def test_a_connection_that_is_gone_leaves_no_timer() -> None:
    async def main() -> None:
        wire = Wire(Cluster("PLAIN", session_ms=1_000))
        await wire.log_in()
        wire.desk.close()
        await virtual_time(5)
        assert not wire.has_ended_session

    lived(main())
