"""TLS of one listener: contexts from PEM files, made anew when the files change.

The context that a listening socket holds never changes. It hands each handshake to the newest context that could be made, so
certificates and authorities change without closing a connection; a file that is not usable leaves the last context in use.
Sessions cannot be resumed by tickets: a certificate of an authority that was taken away must not live on in one.
"""

from __future__ import annotations

import datetime
import logging
import ssl
from pathlib import Path
from typing import Final

from cryptography import x509

from coordinator.config.sections.security import ClientAuth, StoreType, TlsProtocol, TlsSettings
from coordinator.security.file_stamps import FileStamps

LOG = logging.getLogger(__name__)

_VERSIONS: Final = {TlsProtocol.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsProtocol.TLS_1_3: ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class TlsFilesError(Exception):
    """Keys or certificates cannot be used; the text names setting, file and remedy."""


class ListenerTls:
    """The TLS of one listener. Raises `TlsFilesError` when made from files that are not usable."""

    def __init__(self, listener: str, settings: TlsSettings) -> None:
        self._listener = listener
        self._settings = settings
        self._stamps = FileStamps(_files(settings))
        self._newest = make_context(settings)
        self.expires_s = _expiry_s(settings)
        """When the listener's certificate expires, in seconds since 1970."""
        self.context = make_context(settings)
        """The context for the listening socket."""
        self.context.sni_callback = self._hand_over

    def _hand_over(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest

    def newest(self) -> ssl.SSLContext:
        """Return the newest context, for a handshake that is not begun by a listening socket."""
        return self._newest

    def refresh(self) -> None:
        """Make a new context if a file has changed; one that is not usable is logged once and not used."""
        if not self._stamps.have_changed():
            return
        try:
            made, expires_s = make_context(self._settings), _expiry_s(self._settings)
        except TlsFilesError as error:
            if self._stamps.could_not_be_read(str(error)):
                LOG.error("certificate not reloaded listener=%s error=%r; the last one stays in use", self._listener, str(error))
            return
        self._newest, self.expires_s = made, expires_s
        LOG.info("certificate reloaded listener=%s expires=%s", self._listener, _day(expires_s))


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of a listener. Raises `TlsFilesError`."""
    assert settings.ssl_keystore_type is settings.ssl_truststore_type is StoreType.PEM, "other forms are not read"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[one] for one in settings.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    certificates, key = settings.ssl_certificate_location, settings.ssl_key_location
    name = "ssl.certificate.location and ssl.key.location"
    if settings.ssl_keystore_location is not None:
        certificates, key, name = settings.ssl_keystore_location, None, "ssl.keystore.location"
    assert certificates is not None, "the rules of the configuration want a certificate"
    try:
        # A password must always be given: without one OpenSSL would ask for it at the terminal.
        context.load_cert_chain(certificates, key, password=lambda: settings.ssl_key_password)
    except (OSError, ValueError) as error:
        where = f"{certificates}" + (f" and {key}" if key is not None else "")
        remedy = "give PEM files with a key and the certificate that belongs to it, and ssl.key.password if the key is encrypted"
        raise TlsFilesError(f"{name} {where}: {_reason(error)}; {remedy}") from error
    if settings.ssl_cipher_suites:
        try:
            context.set_ciphers(":".join(settings.ssl_cipher_suites))
        except ssl.SSLError as error:
            remedy = "`openssl ciphers -s -tls1_2` lists the names"
            raise TlsFilesError(f"ssl.cipher.suites {','.join(settings.ssl_cipher_suites)}: none is known; {remedy}") from error
    context.verify_mode = _VERIFY[settings.ssl_client_auth]
    authorities = settings.ssl_truststore_location
    if authorities is not None and settings.ssl_client_auth is not ClientAuth.NONE:
        try:
            context.load_verify_locations(authorities)
        except (OSError, ValueError) as error:
            remedy = "give a PEM file with certificates of authorities"
            raise TlsFilesError(f"ssl.truststore.location {authorities}: {_reason(error)}; {remedy}") from error
    return context


def _files(settings: TlsSettings) -> list[Path]:
    named = (
        settings.ssl_keystore_location,
        settings.ssl_certificate_location,
        settings.ssl_key_location,
        settings.ssl_truststore_location,
    )
    return [file for file in named if file is not None]


def _expiry_s(settings: TlsSettings) -> int:
    """Return when the listener's own certificate, the first of the file, expires. Raises `TlsFilesError`."""
    file = settings.ssl_keystore_location or settings.ssl_certificate_location
    assert file is not None, "the rules of the configuration want a certificate"
    try:
        first = x509.load_pem_x509_certificates(file.read_bytes())[0]
    except (OSError, ValueError, x509.InvalidVersion) as error:
        raise TlsFilesError(f"{file}: {_reason(error)}; give a PEM file with certificates") from error
    return int(first.not_valid_after_utc.timestamp())


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _day(expires_s: int) -> str:
    return datetime.datetime.fromtimestamp(expires_s, datetime.UTC).date().isoformat()
