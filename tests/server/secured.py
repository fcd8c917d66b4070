"""What the tests of secure listeners share: security made from settings as an operator writes them, and users."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from coordinator.adapters.server.contract import ListenerSecurity
from coordinator.adapters.server.listeners import ListenersSecurity
from coordinator.config import load_settings
from coordinator.security.client_security import ClientSecurity
from coordinator.security.scram import NoUsers
from coordinator.security.users_file import credentials_of, write_users
from simulation.fakes.certificates import Authority
from tests.config.test_config_load import ESSENTIAL

PASSWORD: Final = "alice's secret, with commas, = and é"
USER: Final = "alice"


class Place:
    """A folder with an authority, a certificate of the listener, and a file of users."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = Authority(folder, "ca")
        self.certificate = self.ca.issue("node")
        self.users_file = folder / "users"
        write_users(self.users_file, {USER: credentials_of(PASSWORD, iterations=4096), "bob": credentials_of("bob's", iterations=4096)})

    @contextmanager
    def listeners(self, protocol: str, **settings: str) -> Iterator[ListenersSecurity]:
        """The security of a listener that has the protocol's name; settings have underscores for dots."""
        tls = {"ssl.keystore.location": str(self.certificate)}
        login = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "users.file": str(self.users_file),
            "internal.secret.file": "/none",
        }
        given = {
            **ESSENTIAL,
            "authorizer": "acls",
            "listeners": f"{protocol}://:9192",
            **(tls if "SSL" in protocol else {}),
            **(login if "SASL" in protocol else {}),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        with ThreadPoolExecutor(max_workers=1) as executor:
            yield ListenersSecurity(load_settings(overrides=given), nodes=NoUsers(), executor=executor)

    @contextmanager
    def listener(self, protocol: str, **settings: str) -> Iterator[ListenerSecurity]:
        """As `listeners`, for a test that changes no file."""
        with self.listeners(protocol, **settings) as made:
            yield made.of(protocol)

    def client(self, protocol: str, **properties: str) -> ClientSecurity:
        """A client that knows the authority and alice's password; properties have underscores for dots."""
        given = {
            "security.protocol": protocol,
            "ssl.truststore.location": str(self.ca.ca_file),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        return ClientSecurity(given | {key.replace("_", "."): value for key, value in properties.items()})
