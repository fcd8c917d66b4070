"""`coordinator/protocol/api_keys.py` from the numbers in Kafka's JSON definitions of our requests."""

from __future__ import annotations

import re
from pathlib import Path

from codegen.messages import read_definition

TARGET = Path("coordinator/protocol/api_keys.py")

_HEAD = '''"""The numbers of the requests. Made by `python -m codegen` from `coordinator/protocol/schemas/*.json`; do not edit."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

KIP_KEY_SHIFT: Final = 10_000


class ApiKey(IntEnum):
    """KIP_* are the KIP's numbers. Every operation is also served at number + 10000, because Kafka 4.4 uses 93 and 94 otherwise."""

    METADATA = 3
    FIND_COORDINATOR = 10
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    DESCRIBE_CONFIGS = 32
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    INCREMENTAL_ALTER_CONFIGS = 44
    FETCH_SNAPSHOT = 59
    DESCRIBE_PRODUCERS = 61
    ASSIGN_REPLICAS_TO_DIRS = 73'''


def generate(root: Path) -> str:
    """Return the source of `coordinator/protocol/api_keys.py`."""
    found: dict[int, str] = {}
    for path in (root / "coordinator/protocol/schemas").glob("*Request.json"):
        definition = read_definition(path)
        name = definition["name"].removeprefix("Diskless").removesuffix("Request")
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
        key = int(definition["apiKey"])
        if key < 10_000:
            found[key] = f"KIP_{name}"
            key += 10_000
        found[key] = name
    return "\n".join([_HEAD, *(f"    {name} = {key}" for key, name in sorted(found.items()))])
