"""Configuration: every setting of the service, declared once, checked before anything starts.

    settings = load_settings(Path("coordinator.properties"), os.environ, {"node.id": "1"})

Owns the declarations (name, type, default, bounds, reason), the sources, the rules between settings, and
`meta.properties` of the data directories. Imports nothing of the coordinator; never opens a network connection.
"""

from coordinator.config.load import load_settings
from coordinator.config.problems import ConfigError, Problem
from coordinator.config.rules import advice
from coordinator.config.settings import KEYS, Settings
from coordinator.config.show import DocumentedKey, ShownSetting, document_keys, render
from coordinator.config.sources import SourceError, parse_properties_flags
from coordinator.config.values import HttpAddress, Listener, StoreUrl

__all__ = [
    "KEYS",
    "ConfigError",
    "DocumentedKey",
    "HttpAddress",
    "Listener",
    "Problem",
    "Settings",
    "ShownSetting",
    "SourceError",
    "StoreUrl",
    "advice",
    "document_keys",
    "load_settings",
    "parse_properties_flags",
    "render",
]
