"""SCRAM against the example of RFC 7677, both sides against each other, and both against peers that do not follow it."""

from __future__ import annotations

import asyncio
import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security.login import NODE_USER, LoginFailed, Step
from coordinator.security.principal import Principal
from coordinator.security.scram import SCRAM_HASHES, ScramClient, ScramCredentials, ScramRefused, ScramServer

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def login(nonce: str = NONCE, user: str = "user") -> ScramClient:
    return ScramClient("SCRAM-SHA-256", user, "pencil", nonce)


def test_the_example_of_the_rfc() -> None:
    client = login()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(SERVER_FIRST) == PROOF
    client.check(SERVER_FINAL)


def test_names_are_escaped() -> None:
    assert login(user="a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", SERVER_FIRST.replace(b"4096", b"0"), SERVER_FIRST.replace(b"4096", b"4095"),
        SERVER_FIRST.replace(b"4096", b"999999999"), SERVER_FIRST.replace(b"4096", b"many"), SERVER_FIRST.replace(b"W22", b"!!!"),
        b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_first_message_that_is_wrong_is_refused(answer: bytes) -> None:
    with pytest.raises(ScramRefused):
        login().final(answer)


@pytest.mark.parametrize("answer", [b"", b"e=invalid-proof", b"v=!", b"v=AAAA", SERVER_FINAL.replace(b"6rr", b"7rr")])
def test_a_server_that_does_not_know_the_password_is_refused(answer: bytes) -> None:
    client = login()
    client.final(SERVER_FIRST)
    with pytest.raises(ScramRefused):
        client.check(answer)


SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


class Known:
    """Some users and their passwords."""

    def __init__(self, **passwords: str) -> None:
        self._passwords = passwords

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        password = self._passwords.get(user)
        return None if password is None else ScramCredentials.of(mechanism, password, SALT, 4096)


def step(server: ScramServer, message: bytes) -> Step:
    return asyncio.run(server.step(message))


def serve(mechanism: str = "SCRAM-SHA-256", nonce: str | None = None, **passwords: str) -> ScramServer:
    return ScramServer(mechanism, Known(**passwords), pretence=bytes(32), nonce=nonce)


def test_the_server_answers_the_example_of_the_rfc() -> None:
    server = serve(nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", user="pencil")
    assert step(server, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Step(SERVER_FIRST, None)
    assert step(server, PROOF) == Step(SERVER_FINAL, Principal("user"))


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "Zo\u00eb"])
def test_both_sides_agree(mechanism: str, user: str) -> None:
    client, server = ScramClient(mechanism, user, "p\u00e4ss"), serve(mechanism, **{user: "p\u00e4ss"})
    last = step(server, client.final(step(server, client.first()).reply))
    client.check(last.reply)
    assert last.principal == Principal(user)


def test_only_the_user_of_nodes_is_a_node() -> None:
    client, server = ScramClient("SCRAM-SHA-256", NODE_USER, "x"), serve(**{NODE_USER: "x"})
    assert step(server, client.final(step(server, client.first()).reply)).principal == Principal(NODE_USER, is_node=True)


@pytest.mark.parametrize(("user", "why"), [("alice", "wrong password"), ("nobody", "unknown user")])
def test_a_wrong_password_and_an_unknown_user_look_alike_to_the_client(user: str, why: str) -> None:
    client, server = ScramClient("SCRAM-SHA-512", user, "wrong"), serve("SCRAM-SHA-512", alice="right")
    final = client.final(step(server, client.first()).reply)
    with pytest.raises(LoginFailed, match=r"^the user name or the password is wrong$") as caught:
        step(server, final)
    assert caught.value.detail == f"user {user!r} by SCRAM-SHA-512: {why}"


def test_a_node_is_told_that_its_secret_is_not_known_here_rather_than_wrong() -> None:
    """Other nodes ask one that has not reached Kafka since it started, and would look for the fault in their settings."""
    client, server = ScramClient("SCRAM-SHA-256", NODE_USER, "x"), serve(alice="right")
    final = client.final(step(server, client.first()).reply)
    with pytest.raises(LoginFailed, match=r"^this node does not know the nodes' secret: it may not have reached Kafka") as caught:
        step(server, final)
    assert caught.value.detail == "user 'diskless-node' by SCRAM-SHA-256: the nodes' secret is not known here"


def test_an_unknown_user_gets_the_same_salt_every_time() -> None:
    def salt(user: str) -> bytes:
        return step(serve(alice="x"), f"n,,n={user},r=abc".encode()).reply.split(b",")[1]

    assert salt("nobody") == salt("nobody") != salt("somebody")
    assert len(salt("nobody")) == len(salt("alice"))


def test_messages_of_an_earlier_login_are_worth_nothing() -> None:
    client, earlier = ScramClient("SCRAM-SHA-256", "alice", "x"), serve(alice="x")
    first = client.first()
    final = client.final(step(earlier, first).reply)
    assert step(earlier, final).principal == Principal("alice")
    again = serve(alice="x")
    step(again, first)
    with pytest.raises(LoginFailed, match="does not answer this login's messages"):
        step(again, final)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n", b"n,", b"n,,", b"n,,n=user", b"n,,n=,r=x", b"n,,n=user,r=", b"n,,r=x,n=user", b"n,,m=x,n=user,r=x", b"\xff\xfe",
        b"p=tls-unique,,n=user,r=x", b"x,,n=user,r=x", b"n,a=other,n=user,r=x", b"n,,n=a=b,r=x", b"n,,n=a=2c,r=x", b"n,,n=user,r=\x00",
        b"n,,n=" + b"x" * 256 + b",r=x",
    ],
)  # fmt: skip
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(LoginFailed):
        step(serve(user="pencil"), message)


@pytest.mark.parametrize(
    "final",
    [
        b"", b"p=", PROOF.replace(b"c=biws", b"c=eSws"), PROOF.replace(b"r=rO", b"r=xO"), PROOF[:-4], PROOF.replace(b"p=dH", b"p=!!"),
        PROOF.replace(b"p=dHzb", b"p=AAAA"), PROOF.partition(b",p=")[0] + b",p=", PROOF.replace(b",p=", b"x,p="),
    ],
)  # fmt: skip
def test_a_wrong_proof_is_refused(final: bytes) -> None:
    server = serve(nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", user="pencil")
    step(server, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(LoginFailed):
        step(server, final)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([b"n,,n=user,r=abc", PROOF, b"n,,", b",p=", b"c=biws,r="]), max_size=4))
def test_no_rubbish_logs_in_or_raises_anything_else(messages: list[bytes]) -> None:
    server = serve(user="pencil")
    for message in messages:
        try:
            assert step(server, message).principal is None
        except LoginFailed:
            return
