"""The client's side of a SCRAM login (RFC 5802): proves knowledge of a password and makes the server prove the same.

Pure: the nonce is given, nothing is sent here. The password is used as its UTF-8 bytes, as Kafka and librdkafka do.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

ITERATIONS_MAX = 1_000_000
"""A server that asks for more would keep this process busy for seconds."""


class ScramRefused(Exception):
    """The server did not answer as the protocol says, or did not prove that it knows the password."""


class ScramClient:
    """One login. `hash_name` is `sha256` or `sha512`; call `first`, `final` and `check` in this order, each once."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        self._hash = hash_name
        self._nonce = nonce
        self._password = password.encode()
        self._first_bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
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
        if not nonce.startswith(self._nonce) or not 0 < iterations <= ITERATIONS_MAX:
            raise ScramRefused(f"the server answers another login, or asks for {iterations} iterations (at most {ITERATIONS_MAX})")
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
        except binascii.Error as error:
            raise ScramRefused(f"the server's last message is malformed ({error})") from error
        if not hmac.compare_digest(signature, self._server_signature):
            raise ScramRefused(f"the server does not prove that it knows the password ({fields.get('e', 'wrong signature')})")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    parts = (part.partition("=") for part in message.decode("utf-8", "replace").split(","))
    return {name: value for name, _, value in parts}
