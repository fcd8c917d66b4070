"""`Settings`: every setting of a coordinator process as one frozen, typed object, and the table of its keys.

`Settings` is only built by `coordinator.config.load.load_settings`, after every value and every rule between values
was checked. Its repr leaves secrets out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.config.sections.authorization import AuthorizationSettings
from coordinator.config.sections.essential import EssentialSettings
from coordinator.config.sections.files import FileSettings
from coordinator.config.sections.http import HttpSettings
from coordinator.config.sections.internal import InternalSettings
from coordinator.config.sections.leadership import LeadershipSettings
from coordinator.config.sections.network import NetworkSettings
from coordinator.config.sections.quotas import QuotaSettings
from coordinator.config.sections.retention import RetentionSettings
from coordinator.config.sections.security import ListenerSettings, SecuritySettings, TlsSettings
from coordinator.config.sections.snapshots import SnapshotSettings
from coordinator.config.table import KeyFamily, ProcessSettings, SettingsTable

FAMILIES = (
    KeyFamily(
        prefix="kafka.",
        attribute="kafka",
        why="Passed to every librdkafka client without the prefix: security.protocol, sasl.*, ssl.*, client.rack, debug and so on. "
        "Keys on which correctness depends are refused. Members of the group and ACLs are queried over connections of the node's own, "
        "which know TLS with certificates in PEM files, PLAIN and SCRAM; GSSAPI, OAUTHBEARER, key stores, keys as text, lists of revoked "
        "certificates, engines and choices of cipher suites are refused at the start and by `diskless config validate`.",
    ),
    KeyFamily(
        prefix="object.store.option.",
        attribute="object_store_option",
        why="Passed to the object store's client with underscores for dots: endpoint, region, access.key.id, secret.access.key, "
        "allow.http, virtual.hosted.style.request and so on. The usual environment variables of the cloud work too.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Settings(
    EssentialSettings,
    SecuritySettings,
    AuthorizationSettings,
    InternalSettings,
    HttpSettings,
    LeadershipSettings,
    SnapshotSettings,
    NetworkSettings,
    QuotaSettings,
    FileSettings,
    RetentionSettings,
    ProcessSettings[ListenerSettings],
):
    """All settings. `kafka` and `object_store_option` hold the passed-through keys without their prefix."""

    listener_type: ClassVar[type[TlsSettings]] = ListenerSettings

    def inter_node_listener(self) -> str:
        """Return the name of the listener at which nodes reach each other."""
        return self.inter_node_listener_name.upper() or self.listeners[0].name


NODE = SettingsTable.of(Settings, FAMILIES)
KEYS = NODE.keys
