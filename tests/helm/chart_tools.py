"""The chart rendered by Helm itself, as objects."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.generator.chart.write import CHART

RELEASE, NAMESPACE = "diskless", "kafka"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))


def tool(name: str) -> str:
    """Path of a program for charts. Skips the test without it, or fails it where DISKLESS_TEST_HELM=required."""
    path = shutil.which(name)
    if path is None:
        text = f"{name} is not installed (`.ci/run` builds it where Go is)"
        if os.environ.get("DISKLESS_TEST_HELM") == "required":
            pytest.fail(text)
        pytest.skip(text)
    return path


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm, away from whatever cluster and settings this machine has."""
    environment = {**os.environ, "KUBECONFIG": os.devnull, "HELM_NAMESPACE": NAMESPACE}
    return subprocess.run([tool("helm"), *arguments], capture_output=True, text=True, env=environment, timeout=120, check=False)


def template(values: Mapping[str, Any] | Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Render the chart with values of a file or a map."""
    return _template(_text(values), arguments)


def _text(values: Mapping[str, Any] | Path) -> str:
    return values.read_text(encoding="utf-8") if isinstance(values, Path) else yaml.safe_dump(values)


@cache
def _template(text: str, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    command = ["template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--values", "-", *arguments]
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    return subprocess.run([tool("helm"), *command], input=text, capture_output=True, text=True, env=environment, timeout=120, check=False)


def render(values: Mapping[str, Any] | Path, *arguments: str) -> Sequence[Mapping[str, Any]]:
    """The objects that the chart makes of the values; do not change them. Fails the test with Helm's words when it refuses the values."""
    return _render(_text(values), arguments)


@cache
def _render(text: str, arguments: tuple[str, ...]) -> Sequence[Mapping[str, Any]]:
    done = _template(text, arguments)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if one]


def find(objects: Sequence[Mapping[str, Any]], kind: str, name: str) -> Mapping[str, Any]:
    """The one object of a kind and name."""
    found = [one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name]
    assert len(found) == 1, (
        f"{len(found)} objects {kind} {name}; there are {sorted((one['kind'], one['metadata']['name']) for one in objects)}"
    )
    return found[0]


MINIMAL: Mapping[str, Any] = {
    "kafka": {"bootstrapServers": ["kafka-1:9092"]},
    "objectStore": {"url": "s3://bucket/prefix"},
}


def changed(*changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values that must be given, with more of them."""
    merged = yaml.safe_load(yaml.safe_dump(MINIMAL))
    for change in changes:
        _merge(merged, change)
    return merged


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def pod_specs(objects: Sequence[Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """The specification of every pod that the objects lead to, by kind and name."""
    found = {}
    for one in objects:
        name = f"{one['kind']} {one['metadata']['name']}"
        match one["kind"]:
            case "Pod":
                found[name] = one["spec"]
            case "StatefulSet" | "Deployment":
                found[name] = one["spec"]["template"]["spec"]
            case "CronJob":
                found[name] = one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found
