"""How nodes reach and believe each other: by the listener of nodes, its keys, and the secret that they share."""

from __future__ import annotations

from coordinator.config.sections.security import ClientAuth
from coordinator.config.settings import Settings
from coordinator.runtime.failures import FatalError
from coordinator.security.client_security import ClientSecurity
from coordinator.security.node_login import NodeLogin
from coordinator.security.node_secret import NodeSecret


def security_to_nodes(settings: Settings, nodes: NodeSecret | None) -> ClientSecurity:
    """Return the security of connections to other nodes; without `nodes` a certificate says who this one is.

    Raises `FatalError` for files that are not usable.
    """
    listener = settings.inter_node_listener()
    protocol, own = settings.protocol_of(listener), settings.for_listener(listener)
    assert protocol is not None, "the rules of the configuration want a protocol"
    given = {"security.protocol": "SSL" if protocol.has_tls else "PLAINTEXT"}
    if protocol.has_tls and own.ssl_truststore_location is not None:
        given["ssl.truststore.location"] = str(own.ssl_truststore_location)
    if protocol.has_tls and own.ssl_client_auth is not ClientAuth.NONE:
        certificate = own.ssl_keystore_location or own.ssl_certificate_location
        given |= {"ssl.certificate.location": str(certificate), "ssl.key.password": own.ssl_key_password}
        if own.ssl_keystore_location is None:
            given["ssl.key.location"] = str(own.ssl_key_location)
    try:
        return ClientSecurity(given) if nodes is None else NodeLogin(nodes, given)
    except OSError as error:
        raise FatalError(f"connections to other nodes, by listener {listener}: {error}") from error
