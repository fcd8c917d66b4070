"""SCRAM against the example of RFC 7677, and servers that do not follow it."""

from __future__ import annotations

import pytest

from coordinator.adapters.kafka.scram import ScramClient, ScramRefused

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def login(nonce: str = NONCE, user: str = "user") -> ScramClient:
    return ScramClient("sha256", user, "pencil", nonce)


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
        b"", b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", SERVER_FIRST.replace(b"4096", b"0"), SERVER_FIRST.replace(b"4096", b"999999999"),
        SERVER_FIRST.replace(b"4096", b"many"), SERVER_FIRST.replace(b"W22", b"!!!"), b"\xff\xfe",
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
