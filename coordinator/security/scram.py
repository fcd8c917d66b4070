"""SCRAM logins (RFC 5802, RFC 7677): the client's side, the server's side, and what a server keeps instead of a password.

Pure: nonces are given, nothing is sent or stored here. A password is used as its UTF-8 bytes, without SASLprep, as Kafka and
librdkafka do. Channel binding is not offered: TLS proves the server's name already.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from coordinator.security.login import NO_NODE_SECRET, NODE_USER, WRONG_LOGIN, LoginFailed, Step
from coordinator.security.principal import Principal

SCRAM_HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms with the names of their hashes."""
ITERATIONS: Final = 8192
"""Rounds of the password hash of new credentials."""
ITERATIONS_MIN: Final = 4096
"""Fewer make a password too cheap to guess: from a stolen file of users, or for a false server from a client's proof (RFC 7677)."""
ITERATIONS_MAX: Final = 1_000_000
"""A server that asks for more would keep a client busy for seconds."""
SALT_BYTES: Final = 16
NONCE_BYTES: Final = 24
USER_CHARACTERS_MAX: Final = 255


class ScramRefused(Exception):
    """The server did not answer as the protocol says, or did not prove that it knows the password."""


class ScramCredentials(NamedTuple):
    """A server's knowledge of one password. It suffices to check a login, not to log in."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of(cls, mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS) -> ScramCredentials:
        """Derive the credentials of a password. Takes milliseconds of a core, on purpose."""
        hash_name = SCRAM_HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        return cls(salt, hashlib.new(hash_name, client_key).digest(), hmac.digest(salted, b"Server Key", hash_name), iterations)


class ScramUsers(Protocol):
    """Knows users."""

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        """Return the credentials of a user for a mechanism, None for a user that is not known."""


class NoUsers:
    """Knows no user."""

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        """Return None."""


class ScramServer:
    """One login at a server; implements `coordinator.security.login.ServerLogin`.

    A user that is not known gets a salt that stays the same for its name, made from `pretence`, and fails at the end like a wrong
    password: a stranger cannot find out which names exist.
    """

    def __init__(self, mechanism: str, users: ScramUsers, *, pretence: bytes, nonce: str | None = None) -> None:
        self._mechanism = mechanism
        self._hash = SCRAM_HASHES[mechanism]
        self._users = users
        self._pretence = pretence
        self._nonce = nonce or secrets.token_urlsafe(NONCE_BYTES)
        self._user = ""
        self._known: ScramCredentials | None = None
        self._header = ""
        self._first_bare = ""
        self._server_first = ""

    async def step(self, data: bytes) -> Step:
        """See `ServerLogin`."""
        try:
            message = data.decode()
        except UnicodeDecodeError as error:
            raise self._malformed("it is no UTF-8") from error
        return self._final(message) if self._server_first else self._first(message)

    def _first(self, message: str) -> Step:
        binding, _, rest = message.partition(",")
        authorized, _, bare = rest.partition(",")
        if binding not in ("n", "y"):
            raise self._malformed("channel binding is not offered")
        name, _, nonce_and_more = bare.partition(",")
        nonce = nonce_and_more.partition(",")[0]
        if not name.startswith("n=") or not nonce.startswith("r=") or len(nonce) < 3 or not nonce.isascii() or not nonce.isprintable():
            raise self._malformed("it is not n=USER,r=NONCE")
        self._user = self._unescaped(name[2:])
        if authorized and self._unescaped(authorized.removeprefix("a=")) != self._user:
            raise LoginFailed("a user cannot act as another one", f"user {self._user!r} by {self._mechanism}: wants to act as another user")
        self._known = self._users.find(self._mechanism, self._user)
        shown = self._known or self._pretended()
        self._header = f"{binding},{authorized},"
        self._first_bare = bare
        self._nonce = nonce[2:] + self._nonce
        self._server_first = f"r={self._nonce},s={base64.b64encode(shown.salt).decode()},i={shown.iterations}"
        return Step(self._server_first.encode(), None)

    def _final(self, message: str) -> Step:
        without_proof, mark, proof_text = message.rpartition(",p=")
        expected = f"c={base64.b64encode(self._header.encode()).decode()},r={self._nonce}"
        if not mark or (without_proof != expected and not without_proof.startswith(expected + ",")):
            raise self._malformed("it does not answer this login's messages")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except ValueError as error:
            raise self._malformed("its proof is not base64") from error
        shown = self._known or self._pretended()
        signed = ",".join((self._first_bare, self._server_first, without_proof)).encode()
        signature = hmac.digest(shown.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            raise self._malformed("its proof has another length")
        client_key = bytes(ours ^ theirs for ours, theirs in zip(signature, proof, strict=True))
        is_right = hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), shown.stored_key)
        if self._known is None and self._user == NODE_USER:
            raise LoginFailed(NO_NODE_SECRET, f"user {self._user!r} by {self._mechanism}: the nodes' secret is not known here")
        if self._known is None or not is_right:
            why = "wrong password" if self._known is not None else "unknown user"
            raise LoginFailed(WRONG_LOGIN, f"user {self._user!r} by {self._mechanism}: {why}")
        verifier = base64.b64encode(hmac.digest(shown.server_key, signed, self._hash)).decode()
        return Step(f"v={verifier}".encode(), Principal(self._user, is_node=self._user == NODE_USER))

    def _pretended(self) -> ScramCredentials:
        made = hmac.digest(self._pretence, f"{self._mechanism}:{self._user}".encode(), "sha512")
        size = hashlib.new(self._hash).digest_size
        return ScramCredentials(made[:SALT_BYTES], made[:size], made[:size], ITERATIONS)

    def _unescaped(self, name: str) -> str:
        found = name.replace("=2C", ",").replace("=3D", "=")
        if not found or len(found) > USER_CHARACTERS_MAX or _escaped(found) != name:
            raise self._malformed(f"its user name is not escaped as RFC 5802 says, or not of 1 to {USER_CHARACTERS_MAX} characters")
        return found

    def _malformed(self, what: str) -> LoginFailed:
        return LoginFailed(f"malformed {self._mechanism} message: {what}")


class ScramClient:
    """One login at a client; call `first`, `final` and `check` in this order, each once."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str | None = None) -> None:
        self._hash = SCRAM_HASHES[mechanism]
        self._nonce = nonce or secrets.token_urlsafe(NONCE_BYTES)
        self._password = password.encode()
        self._first_bare = f"n={_escaped(username)},r={self._nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the client's first message."""
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Answer the server's first message with the proof. Raises `ScramRefused`."""
        fields = _fields(server_first)
        try:
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError) as error:
            raise ScramRefused(f"the server's first message is malformed ({error!r})") from error
        if not nonce.startswith(self._nonce) or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            bounds = f"{ITERATIONS_MIN} to {ITERATIONS_MAX}"
            raise ScramRefused(f"the server answers another login, or asks for {iterations} iterations (allowed are {bounds})")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        signed = b",".join((self._first_bare.encode(), server_first, without_proof.encode()))
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(ours ^ theirs for ours, theirs in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, server_final: bytes) -> None:
        """Raise `ScramRefused` unless the server's last message proves that it knows the password."""
        fields = _fields(server_final)
        try:
            signature = base64.b64decode(fields.get("v", ""), validate=True)
        except ValueError as error:
            raise ScramRefused(f"the server's last message is malformed ({error})") from error
        if not hmac.compare_digest(signature, self._server_signature):
            raise ScramRefused(f"the server does not prove that it knows the password ({fields.get('e', 'wrong signature')})")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _fields(message: bytes) -> dict[str, str]:
    parts = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in parts}
