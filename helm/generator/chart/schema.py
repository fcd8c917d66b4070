"""Makes values.schema.json, with which Helm refuses values that do not exist or do not fit before anything is rendered.

Types follow from the defaults of values.yaml and the names of the values, bounds from its `@schema` lines, the keys of `config` from the
declarations of the coordinator's settings: what `config` does not know and what other values of the chart say is refused there. What the
chart hands over to Kubernetes has Kubernetes' own definitions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypedDict

from coordinator.config.keys import Key
from coordinator.config.settings import FAMILIES, KEYS, NODE
from gateway.settings import GATEWAY
from helm.generator.chart import kubernetes
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

GATEWAY_SET_BY_CHART: Final = frozenset(
    {
        "advertised.listeners",
        "bootstrap.servers",
        "coordinator.bootstrap.servers",
        "gateway.node.id",
        "gateway.rack",
        "gateway.relay.brokers",
        "gateway.relay.port.base",
        "http.bearer.token.file",
        "http.listener",
        "http.ssl.certificate.location",
        "http.ssl.key.location",
        "http.ssl.key.password",
        "listener.security.protocol.map",
        "listeners",
        "object.store.url",
        "ssl.key.password",
    }
)
"""Settings of gateways that other values of the chart decide, or that hold secrets."""

FAMILIES_SET_BY_CHART: Final = ("kafka.", "object.store.option.", "listener.name.")


class _Section(TypedDict):
    """The schema of a map whose keys are all known."""

    type: str
    additionalProperties: bool
    properties: dict[str, object]


_SCALARS: Final = {"int": ["integer"], "double": ["number"], "boolean": ["boolean"]}
_SCALAR: Final = {"type": ["string", "number", "boolean"]}
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_PORT: Final = {"type": "integer", "minimum": 1, "maximum": 65535}
_OWN_QUANTITY: Final = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


def _text(pattern: str) -> Mapping[str, object]:
    return {"type": "string", "pattern": pattern}


WORDS: Final[Mapping[str, Mapping[str, object]]] = {
    "digest": _text("^(sha256:[0-9a-f]{64})?$"),
    "duration": {**_text("^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"), "minLength": 2},
    "key": _text("^[-._A-Za-z0-9]{1,253}$"),
    "name": _text("^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$"),
    "port": _PORT,
    "quantity": _text(_OWN_QUANTITY),
    "registry": _text("^([A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9._/-]+)?)?$"),
    "repository": _text("^[a-z0-9]+([._/-]+[a-z0-9]+)*$"),
    "schedule": _text(r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|([0-9A-Za-z*/,?-]+ +){4}[0-9A-Za-z*/,?-]+)$"),
    "tag": _text("^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"),
}
"""Forms of text: of Kubernetes (names of objects, keys of secrets, quantities), of Prometheus (durations), of images and of cron."""

BY_NAME: Final[Sequence[tuple[str, str]]] = (
    (r"digest", "digest"),
    (r"interval", "duration"),
    (r".*Key|key", "key"),
    (r".*[sS]ecret|storageClass|priorityClassName|existingClaim|name|nameOverride|fullnameOverride|clusterDomain|serverName", "name"),
    (r".*[pP]ort", "port"),
    (r"size|.*SizeLimit", "quantity"),
    (r"registry", "registry"),
    (r"repository", "repository"),
    (r"schedule", "schedule"),
    (r"tag", "tag"),
)
"""The form of a value whose own name says it, unless an `@schema` line does."""

SECRET: Final[Mapping[str, object]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["secret", "key"],
    "properties": {"secret": {**WORDS["name"], "minLength": 1}, "key": WORDS["key"]},
}

_LISTENER_NAME: Final = "[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?"

LISTENER: Final[Mapping[str, object]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "port"],
    "properties": {
        "name": _text(f"^{_LISTENER_NAME}$"),
        "port": _PORT,
        "protocol": {"enum": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
        "type": {"enum": ["internal", "cluster-ip", "loadbalancer", "nodeport"]},
        "advertisedHost": {"type": "string"},
        "advertisedPort": {"anyOf": [_PORT, _text(r"^[1-9][0-9]*\$\(NODE_ID\)$")]},
        "bootstrapAnnotations": _TEXTS,
        "podAnnotations": _TEXTS,
        "loadBalancerSourceRanges": {"type": "array", "items": _text("^[0-9A-Fa-f.:]+/[0-9]{1,3}$")},
        "networkPolicyPeers": {"type": "array", "items": {"$ref": "#/$defs/io.k8s.api.networking.v1.NetworkPolicyPeer"}},
        "tls": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **{key: {**WORDS["name"], "minLength": 1} for key in ("secret", "clientCaSecret")},
                **dict.fromkeys(("certificateKey", "keyKey", "clientCaKey"), WORDS["key"]),
                "clientAuth": {"enum": ["none", "requested", "required"]},
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
        "properties": {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(sorted(NODE.listener_keys), _SCALAR)},
    },
}


def schema(values: Sequence[Value]) -> str:
    """The text of values.schema.json."""
    of_all = _section(values)
    # `global` is how a parent chart speaks to all of its parts.
    of_all["properties"]["global"] = {"type": "object"}
    listeners = {"type": "array", "minItems": 1, "items": LISTENER}
    ours = {"config": _config(), "gatewayConfig": _gateway_config(), "listeners": listeners, "secretSettings": _secret_settings(), **WORDS}
    theirs = kubernetes.definitions(kubernetes.references([ours, of_all]) - ours.keys())
    # Kubernetes' own definition takes any text for a quantity.
    theirs[kubernetes.QUANTITY] = {"anyOf": [{"type": "number", "minimum": 0}, WORDS["quantity"]]}
    made = {"$schema": "https://json-schema.org/draft/2020-12/schema", **of_all, "$defs": ours}
    # Those of Kubernetes are not for reading: a line for each.
    lines = "".join(f",\n    {json.dumps(name)}: {json.dumps(one)}" for name, one in theirs.items())
    return json.dumps(made, indent=2, ensure_ascii=False).removesuffix("\n  }\n}") + f"{lines}\n  }}\n}}\n"


def _section(values: Sequence[Value]) -> _Section:
    properties: dict[str, object] = {value.path[-1]: _section(value.children) if value.children else _leaf(value) for value in values}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _leaf(value: Value) -> Mapping[str, object]:
    if value.schema.keys() & {"$ref", "anyOf", "enum", "type"}:
        return value.schema
    if not value.schema:
        if value.default == {}:
            return _TEXTS
        if word := next((word for pattern, word in BY_NAME if re.fullmatch(pattern, value.path[-1])), None):
            return {"$ref": f"#/$defs/{word}"}
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
    keys = _keys(KEYS, SET_BY_CHART)
    others = [re.escape(family.prefix) for family in FAMILIES if family.prefix not in FAMILIES_SET_BY_CHART]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": keys,
        **({"patternProperties": {f"^{prefix}": _SCALAR for prefix in others}} if others else {}),
    }


def _gateway_config() -> dict[str, object]:
    """The settings that may be in `gateway.config`."""
    return {"type": "object", "additionalProperties": False, "properties": _keys(GATEWAY.keys, GATEWAY_SET_BY_CHART)}


def _keys(table: Mapping[str, Key], left_out: Collection[str]) -> dict[str, object]:
    keys: dict[str, object] = {}
    for key in sorted(table.values(), key=lambda one: one.name):
        if key.name in left_out:
            continue
        one: dict[str, object] = {"type": [*_SCALARS.get(key.type_name, []), "string"], "description": key.why}
        if bounds := re.fullmatch(r"(-?\d+)\.\.(\d+)", key.bounds):
            # Beyond 2**53 JSON's numbers are not exact: there the coordinator alone checks.
            one |= {name: int(bound) for name, bound in zip(("minimum", "maximum"), bounds.groups(), strict=True) if int(bound) < 2**53}
        keys[key.name] = one
    return keys


def _secret_settings() -> dict[str, object]:
    """Settings whose values may come from secrets: those that hold any, and what is passed on to clients."""
    declared = [key.name for key in KEYS.values() if key.is_secret]
    of_listeners = "|".join(re.escape(key.name) for key in NODE.listener_keys.values() if key.is_secret)
    of_families = [re.escape(family.prefix) + "[a-z0-9._]+" for family in FAMILIES]
    patterns = [*of_families, rf"listener\.name\.[a-z][a-z0-9_-]*\.({of_listeners})"]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict.fromkeys(declared, SECRET),
        "patternProperties": {f"^{pattern}$": SECRET for pattern in patterns},
    }
