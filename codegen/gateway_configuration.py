"""`docs/gateway-configuration.md` from the declarations of a gateway's settings."""

from __future__ import annotations

from pathlib import Path

from codegen.configuration import reference
from gateway.settings import GATEWAY

TARGET = Path("docs/gateway-configuration.md")

_HEAD = """# Configuration of a gateway

Made by `python -m codegen` from `gateway/sections`; do not edit.

A value is taken from a flag (`--property KEY=VALUE`), else from the environment, else from the file (`--config FILE`, Java
properties), else it is the default. Keys that are not known are errors. Every value, and every rule between values, is checked before
anything starts. *Required* keys have no default; the essential ones are those that every deployment gives or thinks about.

"""


def generate(_: Path) -> str:
    """Return the text of `docs/gateway-configuration.md`."""
    return reference(GATEWAY, _HEAD)
