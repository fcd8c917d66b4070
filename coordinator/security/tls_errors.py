"""Failed TLS handshakes in words: what the other side, or this one, did not accept, and what to look at.

OpenSSL names an alert of the other side and its own verdict alike; a reader of one line must not have to know which is which.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

_BY_CLIENT: Final[Mapping[str, str]] = {
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of this listener's certificate (its ssl.truststore.location)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that this listener's certificate has expired (ssl.keystore.location)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept this listener's certificate: its authority, its time or its host names",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept this listener's certificate: its authority, its time or its host names",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and ssl.client.auth=required",
    "HTTP_REQUEST": "the client speaks HTTP, not TLS",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS (its security.protocol)",
    "UNSUPPORTED_PROTOCOL": "the client speaks versions of TLS that are not enabled (ssl.enabled.protocols)",
    "NO_SHARED_CIPHER": "the client and this listener have no cipher suite in common (ssl.cipher.suites)",
}
_BY_SERVER: Final[Mapping[str, str]] = {
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not know the authority of this client's certificate (ssl.keystore.location)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the server says that this client's certificate has expired (ssl.keystore.location)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the server does not accept this client's certificate (ssl.keystore.location)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the server does not accept this client's certificate (ssl.keystore.location)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server wants a certificate; give ssl.keystore.location",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server accepts neither versions nor cipher suites of this client, or wants a certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the server speaks other versions of TLS (ssl.enabled.protocols)",
    "WRONG_VERSION_NUMBER": "the server does not speak TLS at this address (security.protocol)",
}


def explain_to_server(error: ssl.SSLError) -> str:
    """Say why the handshake of a client failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message} (ssl.truststore.location)"
    return _BY_CLIENT.get(error.reason or "", _as_is(error))


def explain_to_client(error: ssl.SSLError) -> str:
    """Say why the handshake with a server failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {error.verify_message} (ssl.truststore.location)"
    return _BY_SERVER.get(error.reason or "", _as_is(error))


def _as_is(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
