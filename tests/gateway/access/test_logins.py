"""What is seen of a login that passes: its end, and the name it is by, for every mechanism and for messages of strangers."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.security.scram import ScramClient
from gateway.access.logins import NAME_CHARACTERS_MAX, PASSING, UNKNOWN, Passed, PassingLogin, identity_in, name_in, split_mechanisms

INVALID_TOKEN = b'{"status":"invalid_token"}'


def jwt(claims: object) -> str:
    parts = (json.dumps(one).encode() if not isinstance(one, bytes) else one for one in ({"alg": "RS256"}, claims, "signature"))
    return ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in parts)


def bearer(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


@pytest.mark.parametrize(
    ("mechanism", "rounds"),
    [
        ("PLAIN", [(False, b"", Passed.ACCEPTED)]),
        ("PLAIN", [(True, b"", Passed.REFUSED)]),
        ("SCRAM-SHA-256", [(False, b"r=abc,s=AAAA,i=4096", Passed.GOES_ON), (False, b"v=AAAA", Passed.ACCEPTED)]),
        ("SCRAM-SHA-512", [(False, b"r=abc,s=AAAA,i=4096", Passed.GOES_ON), (True, b"", Passed.REFUSED)]),
        ("SCRAM-SHA-512", [(True, b"v=AAAA", Passed.REFUSED)]),
        ("SCRAM-SHA-512", [(False, b"", Passed.GOES_ON), (False, b"e=other-error", Passed.GOES_ON)]),
        ("OAUTHBEARER", [(False, b"", Passed.ACCEPTED)]),
        ("OAUTHBEARER", [(False, INVALID_TOKEN, Passed.GOES_ON), (True, b"", Passed.REFUSED)]),
    ],
)
def test_the_end_of_a_login(mechanism: str, rounds: list[tuple[bool, bytes, Passed]]) -> None:
    login = PassingLogin(mechanism)
    for has_error, reply, expected in rounds:
        login.send(b"anything")
        assert login.receive(has_error=has_error, reply=reply) is expected


@pytest.mark.parametrize(
    ("mechanism", "message", "name"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),
        ("PLAIN", b"admin\0alice\0secret", "alice"),
        ("PLAIN", "\0älice\0secret".encode(), "älice"),
        ("PLAIN", b"alice\0secret", UNKNOWN),
        ("PLAIN", b"\0\0secret", UNKNOWN),
        ("PLAIN", b"\0" + b"a" * (NAME_CHARACTERS_MAX + 1) + b"\0secret", UNKNOWN),
        ("PLAIN", b"\xff\0\0", UNKNOWN),
        ("SCRAM-SHA-256", b"n,,n=alice,r=abc", "alice"),
        ("SCRAM-SHA-512", ScramClient("SCRAM-SHA-512", "a=b,c", "pw", "nonce").first(), "a=b,c"),
        ("SCRAM-SHA-512", b"n,a=admin,n=alice,r=abc", "alice"),
        ("SCRAM-SHA-512", b"n,,n=,r=abc", UNKNOWN),
        ("SCRAM-SHA-512", b"n,,m=x,n=alice,r=abc", UNKNOWN),
        ("SCRAM-SHA-512", b"", UNKNOWN),
        ("OAUTHBEARER", bearer(jwt({"sub": "alice"})), "alice"),
        ("OAUTHBEARER", bearer("opaque"), "token-6d229884c1268bb0"),
        ("OAUTHBEARER", bearer(jwt({"sub": 7})), None),
        ("OAUTHBEARER", bearer(jwt({"sub": ""})), None),
        ("OAUTHBEARER", bearer(jwt(["sub"])), None),
        ("OAUTHBEARER", bearer(jwt(b"[" * 100_000)), None),
        ("OAUTHBEARER", bearer("a.\xe4.c"), None),
        ("OAUTHBEARER", b"\x01", UNKNOWN),
        ("OAUTHBEARER", b"n,,\x01auth=Basic x\x01\x01", UNKNOWN),
    ],
)
def test_the_name_of_a_principal(mechanism: str, message: bytes, name: str | None) -> None:
    found = name_in(mechanism, message)
    assert found == name or (name is None and found.startswith("token-"))


def test_the_name_is_that_of_the_first_message() -> None:
    login = PassingLogin("SCRAM-SHA-256")
    login.send(b"n,,n=alice,r=abc")
    login.send(b"n,,n=bob,r=abc")
    assert login.name == "alice"


def test_a_hash_shows_nothing_of_a_token() -> None:
    assert "opaque-and-secret" not in name_in("OAUTHBEARER", bearer("opaque-and-secret"))


@given(st.sampled_from(PASSING), st.binary())
def test_messages_of_strangers_name_somebody_at_most(mechanism: str, message: bytes) -> None:
    login = PassingLogin(mechanism)
    login.send(message)
    assert 0 < len(login.name) <= NAME_CHARACTERS_MAX


def test_mechanisms_that_cannot_pass_are_told_apart() -> None:
    offered = split_mechanisms(["GSSAPI", "SCRAM-SHA-512", "AWS_MSK_IAM", "PLAIN", "PLAIN"])
    assert offered == (["SCRAM-SHA-512", "PLAIN"], ["GSSAPI", "AWS_MSK_IAM"])


def test_the_same_client_has_the_same_identity_whatever_is_random() -> None:
    plain, scram, bearers = (("PLAIN",), ("SCRAM-SHA-256", "SCRAM-SHA-512"), ("OAUTHBEARER",))
    assert identity_in("PLAIN", b"\0alice\0old") == identity_in("PLAIN", b"\0alice\0new")
    assert identity_in("SCRAM-SHA-256", b"n,,n=alice,r=abc") == identity_in("SCRAM-SHA-256", b"n,,n=alice,r=xyz")
    assert identity_in("OAUTHBEARER", bearer("t")) == identity_in("OAUTHBEARER", bearer("t"))
    messages = {
        plain: [b"\0alice\0x", b"\0bob\0x", b"bob\0alice\0x"],
        scram: [b"n,,n=alice,r=a", b"n,,n=bob,r=a", b"n,a=bob,n=alice,r=a", b"n,,n=alice,r=a,tokenauth=true", b"n,,n=alice,r=a,r=b"],
        bearers: [bearer("t"), bearer("u"), bearer("t").replace(b"n,,", b"n,a=bob,")],
    }
    found = [identity_in(one, message) for mechanisms, each in messages.items() for one in mechanisms for message in each]
    assert None not in found
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("message", [b"", b"alice", b"\0alice", b"a\0b\0c\0d", b"n,,m=x,n=alice,r=a", b"n,,n=alice", b"\xff"])
def test_a_message_of_another_form_has_no_identity(message: bytes) -> None:
    assert [identity_in(one, message) for one in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")] == [None] * 3
