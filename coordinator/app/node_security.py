"""How nodes reach and believe each other: by the listener of nodes, its keys, and the secret that they share."""

from __future__ import annotations

from coordinator.config.security import ClientAuth
from coordinator.config.settings import Settings
from coordinator.runtime.failures import FatalError
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity
from coordinator.security.login import NODE_MECHANISM, NODE_USER
from coordinator.security.node_secret import NodeSecret, NodeSecretError, read_node_secret


def node_secret_of(settings: Settings) -> NodeSecret | None:
    """Return the secret of the nodes; None when there is none. Raises `FatalError` for a file that is not usable."""
    file = settings.internal_secret_file
    try:
        return None if file is None else read_node_secret(file)
    except NodeSecretError as error:
        raise FatalError(str(error)) from error


def security_to_nodes(settings: Settings, secret: NodeSecret | None) -> ClientSecurity:
    """Return the security of connections to other nodes. Raises `FatalError` for files that are not usable."""
    listener = settings.inter_node_listener()
    protocol, own = settings.protocol_of(listener), settings.for_listener(listener)
    assert protocol is not None, "the rules of the configuration want a protocol"
    if not protocol.has_tls and secret is None:
        return PLAIN_TEXT
    # A listener without logins for users has one for nodes, too.
    given = {"security.protocol": ("SASL_" if secret is not None else "") + ("SSL" if protocol.has_tls else "PLAINTEXT")}
    if secret is not None:
        given |= {"sasl.mechanism": NODE_MECHANISM, "sasl.username": NODE_USER, "sasl.password": secret.secret}
    if protocol.has_tls and own.ssl_truststore_location is not None:
        given["ssl.truststore.location"] = str(own.ssl_truststore_location)
    if protocol.has_tls and own.ssl_client_auth is not ClientAuth.NONE:
        certificate = own.ssl_keystore_location or own.ssl_certificate_location
        given |= {"ssl.certificate.location": str(certificate), "ssl.key.password": own.ssl_key_password}
        if own.ssl_keystore_location is None:
            given["ssl.key.location"] = str(own.ssl_key_location)
    try:
        return ClientSecurity(given)
    except OSError as error:
        raise FatalError(f"connections to other nodes, by listener {listener}: {error}") from error
