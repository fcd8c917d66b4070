"""Makes values.schema.json, with which Helm refuses values that do not exist or do not fit before anything is rendered.

Types follow from the defaults of values.yaml, bounds from its `@schema` lines, the keys of `config` from the declarations of the
coordinator's settings: what `config` does not know and what other values of the chart say is refused there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from coordinator.config.settings import FAMILIES, KEYS
from helm.generator.chart.values import Value

SET_BY_CHART: Final = frozenset(
    {
        "acls",
        "advertised.listeners",
        "authorizer",
        "bootstrap.servers",
        "data.dirs",
        "http.bearer.token.file",
        "http.listener",
        "http.ssl.certificate.location",
        "http.ssl.key.location",
        "internal.principals",
        "internal.secret",
        "internal.secret.file",
        "listener.security.protocol.map",
        "listeners",
        "node.id",
        "node.rack",
        "object.store.url",
        "super.users",
        "users.file",
    }
)
"""Settings that other values of the chart decide; some are declared only in newer versions than others."""

FAMILIES_SET_BY_CHART: Final = ("kafka.", "object.store.option.", "listener.name.")


class _Section(TypedDict):
    """The schema of a map whose keys are all known."""

    type: str
    additionalProperties: bool
    properties: dict[str, object]


_SCALARS: Final = {"int": ["integer"], "double": ["number"], "boolean": ["boolean"]}

LISTENER: Final[Mapping[str, object]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "port"],
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]*$"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "protocol": {"enum": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
        "advertisedHost": {"type": "string"},
        "advertisedPort": {"type": "integer", "minimum": 1, "maximum": 65535},
        "tls": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "secret": {"type": "string", "minLength": 1},
                "certificateKey": {"type": "string", "minLength": 1},
                "keyKey": {"type": "string", "minLength": 1},
                "clientAuth": {"enum": ["none", "requested", "required"]},
                "clientCaSecret": {"type": "string", "minLength": 1},
                "clientCaKey": {"type": "string", "minLength": 1},
            },
        },
        "sasl": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "mechanisms": {
                    "type": "array",
                    "items": {"enum": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]},
                    "minItems": 1,
                }
            },
        },
        "properties": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    },
}


def schema(values: Sequence[Value]) -> str:
    """The text of values.schema.json."""
    of_all = _section(values)
    # `global` is how a parent chart speaks to all of its parts.
    of_all["properties"]["global"] = {"type": "object"}
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"config": _config(), "listeners": {"type": "array", "minItems": 1, "items": LISTENER}},
        **of_all,
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _section(values: Sequence[Value]) -> _Section:
    properties: dict[str, object] = {value.path[-1]: _section(value.children) if value.children else _leaf(value) for value in values}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _leaf(value: Value) -> dict[str, object]:
    if "$ref" in value.schema or "type" in value.schema:
        return dict(value.schema)
    if "enum" in value.schema:
        return dict(value.schema)
    return {"type": _type(value.default), **value.schema}


def _type(default: object) -> str:
    match default:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    raise TypeError(f"no type of JSON for {default!r}")


def _config() -> dict[str, object]:
    """The settings that may be in `config`. A number may be written as text, as in a properties file."""
    keys = {}
    for key in sorted(KEYS.values(), key=lambda one: one.name):
        if key.name in SET_BY_CHART:
            continue
        one: dict[str, object] = {"type": [*_SCALARS.get(key.type_name, []), "string"], "description": key.why}
        if bounds := re.fullmatch(r"(-?\d+)\.\.(\d+)", key.bounds):
            # Beyond 2**53 JSON's numbers are not exact: there the coordinator alone checks.
            one |= {name: int(bound) for name, bound in zip(("minimum", "maximum"), bounds.groups(), strict=True) if int(bound) < 2**53}
        keys[key.name] = one
    others = [re.escape(family.prefix) for family in FAMILIES if family.prefix not in FAMILIES_SET_BY_CHART]
    scalar = {"type": ["string", "number", "boolean"]}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": keys,
        **({"patternProperties": {f"^{prefix}": scalar for prefix in others}} if others else {}),
    }
