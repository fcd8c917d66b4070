"""What strangers send before they are known: the messages of logins, tokens and certificates, and files that operators edit.

The rule of every login: whoever gets in has proved it. The proof is checked here a second time, by other means than the product's.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import functools
import hashlib
import hmac
import json
import re
import tempfile
import warnings
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coordinator.config.mapping_rules import MappingRules
from coordinator.security.certificate_names import principal_of
from coordinator.security.login import LoginFailed
from coordinator.security.passwords import PasswordCheck, PlainLogin
from coordinator.security.scram import SCRAM_HASHES, ScramClient, ScramCredentials, ScramRefused, ScramServer
from coordinator.security.token_keys import TokenKeys
from coordinator.security.tokens import TokenCheck, TokenLogin, TokenRules
from coordinator.security.users_file import UsersFileError, format_users, parse_users
from tests.fuzz.engine import Target

T = TypeVar("T")

USER: Final = "al=i,ce"
PASSWORD: Final = "né"
SALT: Final = bytes(range(16))
ITERATIONS: Final = 4096
CUT: Final = b"\0\xff\0"
"""Between the messages of one login."""
_MECHANISMS: Final = tuple(SCRAM_HASHES)
_COSTLY: Final = re.compile(rb"i=\D*[0-9_\s]*([5-9][0-9]{3}|[0-9]{5})")
"""Asks a client for more rounds of hashing than here; a server may ask for a second of them, which is no finding."""


class _Users:
    """One user, whose credentials are made once."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._known = {one: ScramCredentials.of(one, PASSWORD, SALT, ITERATIONS) for one in SCRAM_HASHES}

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        """See `ScramUsers`."""
        return self._known[mechanism] if user == self._user else None


@functools.cache
def known_users(user: str) -> _Users:
    """The one user that logins of these targets know."""
    return _Users(user)


@functools.cache
def _runner() -> asyncio.Runner:
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop that all these targets share."""
    return _runner().run(coroutine)


@functools.cache
def _executor() -> ThreadPoolExecutor:
    executor = ThreadPoolExecutor(max_workers=1)
    atexit.register(executor.shutdown)
    return executor


# --- SCRAM, the server's side ---


def _scram_server(data: bytes) -> None:
    """The first byte chooses the mechanism."""
    mechanism = _MECHANISMS[(data[0] if data else 0) % len(_MECHANISMS)]
    first, _, final = data[1:].partition(CUT)
    login = ScramServer(mechanism, known_users(USER), pretence=b"p", nonce="server")
    challenge = run(login.step(first))
    assert challenge.principal is None, "a login by its first message"
    done = run(login.step(final))
    assert done.principal is not None
    assert (done.principal.name, done.principal.is_node) == (USER, False)
    assert _proves(mechanism, first, challenge.reply, final), "a login without a proof"


def _proves(mechanism: str, first: bytes, challenge: bytes, final: bytes) -> bool:
    """Whether a client's last message follows from the password, as RFC 5802 says it in section 3."""
    name = SCRAM_HASHES[mechanism]
    without_proof, _, proof = final.rpartition(b",p=")
    salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), SALT, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", name)
    bare = first.split(b",", 2)[2]
    signature = hmac.digest(hashlib.new(name, client_key).digest(), b",".join((bare, challenge, without_proof)), name)
    return base64.b64decode(proof) == bytes(a ^ b for a, b in zip(client_key, signature, strict=True))


def _scram_server_seeds() -> Iterator[bytes]:
    for number, mechanism in enumerate(_MECHANISMS):
        client = ScramClient(mechanism, USER, PASSWORD, nonce="client")
        first = client.first()
        challenge = run(ScramServer(mechanism, known_users(USER), pretence=b"p", nonce="server").step(first)).reply
        yield bytes((number,)) + first + CUT + client.final(challenge)


# --- SCRAM, the client's side: the server is the stranger ---


def _scram_client(data: bytes) -> None:
    first, _, final = data.partition(CUT)
    if _COSTLY.search(first):
        return
    client = ScramClient("SCRAM-SHA-256", USER, PASSWORD, nonce="client")
    client.first()
    client.final(first)
    client.check(final)
    assert _server_proves(first, final), "a server without a proof"


def _server_proves(challenge: bytes, final: bytes) -> bool:
    """Whether a server's last message follows from the password."""
    fields = dict(part.split(b"=", 1) for part in challenge.split(b",") if b"=" in part)
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(fields[b"s"]), int(fields[b"i"]))
    bare = ScramClient("SCRAM-SHA-256", USER, PASSWORD, nonce="client").first().split(b",", 2)[2]
    signed = b",".join((bare, challenge, b"c=biws,r=" + fields[b"r"]))
    signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
    return any(one.startswith(b"v=") and base64.b64decode(one[2:]) == signature for one in final.split(b","))


@functools.cache
def _scram_client_seed() -> bytes:
    client = ScramClient("SCRAM-SHA-256", USER, PASSWORD, nonce="client")
    server = ScramServer("SCRAM-SHA-256", known_users(USER), pretence=b"p", nonce="server")
    first = run(server.step(client.first())).reply
    return first + CUT + run(server.step(client.final(first))).reply


# --- PLAIN ---


def _plain(data: bytes) -> None:
    done = run(PlainLogin(passwords()).step(data))
    assert done.principal is not None
    assert data in (f"\0{USER}\0{PASSWORD}".encode(), f"{USER}\0{USER}\0{PASSWORD}".encode()), "a login without the password"


@functools.cache
def passwords() -> PasswordCheck:
    """The passwords of that user."""
    return PasswordCheck(known_users(USER), _executor())


# --- tokens ---


@functools.cache
def _tokens() -> TokenCheck:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    file = Path(folder.name) / "keys.json"
    public = jwt.algorithms.OKPAlgorithm.to_jwk(_signer().public_key(), as_dict=True)
    file.write_text(json.dumps({"keys": [{**public, "kid": "a", "alg": "EdDSA", "use": "sig"}]}), encoding="ascii")
    return TokenCheck(TokenKeys(file.as_uri(), _executor()), TokenRules(audiences=("d",), issuer="i"))


def _signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(32))


@functools.cache
def _token() -> bytes:
    claims = {"sub": "carol", "exp": 33_000_000_000, "aud": "d", "iss": "i"}
    return jwt.encode(claims, _signer(), "EdDSA", headers={"kid": "a"}).encode()


def _bearer(data: bytes) -> None:
    done = run(TokenLogin(_tokens()).step(data))
    assert done.principal is not None
    # The last letter of a signature in base64 has bits that count for nothing.
    assert done.principal.name == "carol"
    assert _token()[:-2] in data, "a login without the authority's token"


def _bearer_seeds() -> Iterator[bytes]:
    yield b"n,,\1auth=Bearer " + _token() + b"\1\1"
    yield b"n,a=carol,\1host=h\1port=1\1auth=bearer " + _token() + b"\1\1"


# --- files and certificates ---


def _users_text(data: bytes) -> None:
    users = parse_users(data.decode(), "it")
    assert parse_users(format_users(users), "it") == users


def _users_text_seeds() -> Iterator[bytes]:
    made = {"alice": {one: ScramCredentials.of(one, PASSWORD, SALT, ITERATIONS) for one in SCRAM_HASHES}}
    yield format_users(made).encode()
    yield f"{format_users(made)}\n# more\n{format_users({'bob': made['alice']})}".encode()


_RULES: Final = MappingRules.parse("RULE:^CN=([^,]+).*$/$1/L,DEFAULT")


def _certificate(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # certificates that a later release of the library will refuse
        assert principal_of(data, _RULES).name


def _certificates() -> Iterator[bytes]:
    """Certificates as `simulation.fakes.certificates` makes them, kept because each one it makes is another."""
    return map(bytes.fromhex, json.loads(Path(__file__).with_name("certificates.json").read_text("ascii")))


_REFUSED: Final = (LoginFailed,)
LOGIN_TARGETS: Final = (
    Target(name="scram_server", run=_scram_server, declared=_REFUSED, seeds=_scram_server_seeds, memory_bytes=300_000),
    Target(name="scram_client", run=_scram_client, declared=(ScramRefused,), seeds=lambda: [_scram_client_seed()] * 2),
    Target(
        name="plain_login",
        run=_plain,
        declared=_REFUSED,
        seeds=lambda: [f"{acting_as}\0{USER}\0{PASSWORD}".encode() for acting_as in ("", USER)],
        memory_bytes=300_000,
    ),
    Target(name="token_login", run=_bearer, declared=_REFUSED, seeds=_bearer_seeds, memory_bytes=500_000),
    Target(name="users_file", run=_users_text, declared=(UsersFileError, UnicodeDecodeError), seeds=_users_text_seeds),
    Target(name="certificate_name", run=_certificate, declared=_REFUSED, seeds=_certificates),
)
"""The parsers of what comes before a login."""
