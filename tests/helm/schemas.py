"""Schemas of Kubernetes' objects without a network: those of the package `kubernetes-validate`, and two of the Prometheus operator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from helm.generator.chart.kubernetes import FOLDER, VERSION, definitions, references

_REMOTE, _LOCAL = '"/api/_definitions.json#', '"_definitions.json#'

_LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}, "labels": _LABELS, "annotations": _LABELS},
}
_SECRET_KEY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "key"],
    "properties": {"name": {"type": "string"}, "key": {"type": "string"}},
}


def _kind(kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": "monitoring.coreos.com/v1"},
            "kind": {"const": kind},
            "metadata": _METADATA,
            "spec": {"type": "object", "additionalProperties": False, **spec},
        },
    }


# The part of the operator's own definitions that the chart uses.
CRDS: Mapping[str, Mapping[str, Any]] = {
    "ServiceMonitor": _kind(
        "ServiceMonitor",
        {
            "required": ["selector", "endpoints"],
            "properties": {
                "selector": {"type": "object", "additionalProperties": False, "properties": {"matchLabels": _LABELS}},
                "endpoints": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "port": {"type": "string"},
                            "path": {"type": "string"},
                            "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
                            "scheme": {"enum": ["http", "https"]},
                            "tlsConfig": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["ca", "serverName"],
                                "properties": {
                                    "ca": {"type": "object", "additionalProperties": False, "properties": {"secret": _SECRET_KEY}},
                                    "serverName": {"type": "string", "minLength": 1},
                                },
                            },
                            "authorization": {"type": "object", "additionalProperties": False, "properties": {"credentials": _SECRET_KEY}},
                            "relabelings": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "additionalProperties": False,
                                    "properties": {"targetLabel": {"type": "string"}, "replacement": {"type": "string"}},
                                },
                            },
                        },
                    },
                },
            },
        },
    ),
    "PrometheusRule": _kind(
        "PrometheusRule",
        {
            "required": ["groups"],
            "properties": {
                "groups": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["name", "rules"],
                        "properties": {
                            "name": {"type": "string"},
                            "rules": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "additionalProperties": False,
                                    "required": ["expr"],
                                    "properties": {
                                        "alert": {"type": "string"},
                                        "record": {"type": "string"},
                                        "expr": {"type": "string"},
                                        "for": {"type": "string"},
                                        "labels": _LABELS,
                                        "annotations": _LABELS,
                                    },
                                },
                            },
                        },
                    },
                }
            },
        },
    ),
}


def crd_problems(one: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with an object of the Prometheus operator."""
    return [error.message for error in jsonschema.Draft202012Validator(CRDS[one["kind"]]).iter_errors(one)]


def offline_schemas(folder: Path, objects: Sequence[Mapping[str, Any]]) -> Path:
    """Write the schemas that kubeconform needs for these objects into a folder, and return it.

    Those of the package name addresses in the network, to which kubeconform would turn, and all definitions there are, which it would
    read anew for every kind.
    """
    made = folder / "schemas"
    made.mkdir()
    used: set[str] = set()
    for name in {_schema_name(one) for one in objects if one["kind"] not in CRDS}:
        schema = json.loads((FOLDER / name).read_text(encoding="utf-8").replace(_REMOTE, _LOCAL))
        schema.pop("$id", None)
        (made / name).write_text(json.dumps(schema), encoding="utf-8")
        used |= references(schema)
    (made / "_definitions.json").write_text(json.dumps({"$defs": definitions(used)}), encoding="utf-8")
    for kind, crd in CRDS.items():
        (made / f"{kind.lower()}-monitoring-v1.json").write_text(json.dumps(crd), encoding="utf-8")
    return made


def _schema_name(one: Mapping[str, Any]) -> str:
    group, slash, version = one["apiVersion"].partition("/")
    words = [one["kind"], *([group.partition(".")[0], version] if slash else [group])]
    return "-".join(words).lower() + ".json"


def run_kubeconform(program: str, schemas: Path, file: Path) -> Mapping[str, Any]:
    """What kubeconform says of the objects in a file, from these schemas alone."""
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [program, "-strict", "-summary", "-output", "json", "-kubernetes-version", VERSION, "-schema-location", location, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found
