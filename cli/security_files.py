"""The files of certificates, keys, users, tokens and secrets that settings name: read as a start of the node reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from coordinator.adapters.server.listeners import ListenersSecurity
from coordinator.app.security.http import HttpSecurity
from coordinator.app.security.internal_secret import FileSecret
from coordinator.app.security.nodes import security_to_nodes
from coordinator.config.sections.security import SaslMechanism
from coordinator.config.settings import Settings
from coordinator.runtime.failures import FatalError
from coordinator.security.node_secret import NodeSecret
from coordinator.security.scram import NoUsers
from coordinator.security.tls import ListenerTls, TlsFilesError
from coordinator.security.token_keys import TokenKeysError, check_keys
from coordinator.security.users_file import UsersFileError, read_users


def security_file_problems(settings: Settings) -> Sequence[str]:
    """Return why a node with these settings would not start for its security files: each reason once, none when it would start.

    Nothing is listened at and no Kafka is asked: a secret on which the nodes agree through Kafka is not looked for.
    """
    found = [*_problems(_single_files(settings))]
    if not found:
        found += _problems(_as_at_a_start(settings))
    return list(dict.fromkeys(found))


def _problems(checks: Iterator[Callable[[], object]]) -> Iterator[str]:
    for check in checks:
        try:
            check()
        except (TlsFilesError, UsersFileError, TokenKeysError, FatalError) as error:
            yield str(error)


def _single_files(settings: Settings) -> Iterator[Callable[[], object]]:
    """Each file by itself, so that one that is not usable hides no other."""
    for listener in settings.listeners:
        protocol, own = settings.protocol_of(listener.name), settings.for_listener(listener.name)
        assert protocol is not None, "the rules of the configuration want a protocol"
        if protocol.has_tls:
            yield partial(ListenerTls, listener.name, own)
        if protocol.has_login and own.users_file is not None:
            yield partial(read_users, own.users_file)
        if protocol.has_login and SaslMechanism.OAUTHBEARER in own.sasl_enabled_mechanisms:
            yield partial(check_keys, own.sasl_oauthbearer_jwks_endpoint_url)
    yield partial(_check_http_tls, settings)
    yield partial(HttpSecurity, replace(settings, http_listener=None))
    if not settings.internal_principals and settings.internal_secret_file is not None:
        yield partial(FileSecret, settings.internal_secret_file)


def _check_http_tls(settings: Settings) -> None:
    """Raises `FatalError`, which names the port: settings of its own have the names of the listeners' in texts of TLS."""
    try:
        HttpSecurity(replace(settings, http_bearer_token_file=None))
    except FatalError as error:
        raise FatalError(f"http.listener: {error}") from error


def _as_at_a_start(settings: Settings) -> Iterator[Callable[[], object]]:
    """Everything as the node makes it: what it may refuse beyond single files, such as the authorities of connections to nodes."""
    # Nothing is hashed or fetched here, so no thread is begun.
    executor = ThreadPoolExecutor(max_workers=1)
    yield partial(ListenersSecurity, settings, nodes=NoUsers(), executor=executor)
    yield partial(security_to_nodes, settings, None if settings.internal_principals else NodeSecret())
