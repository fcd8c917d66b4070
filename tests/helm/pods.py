"""What Kubernetes makes of a rendered container: its command line, environment and files, below a folder instead of the root.

Everything comes from the rendered objects and the secrets they name; only paths differ, by the folder in front of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Objects = Sequence[Mapping[str, Any]]
Secrets = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that could be started: `arguments` follow the command `diskless`."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    root: Path

    def path(self, inside: str) -> Path:
        """Where a path of the container is on this machine."""
        return self.root / inside.lstrip("/")


def containers(objects: Objects, owner: Mapping[str, Any], secrets: Secrets, folder: Path, number: int = 0) -> Mapping[str, Container]:
    """The containers of a pod of a StatefulSet (the one with this number), a Deployment, a CronJob or of a Pod itself."""
    name = owner["metadata"]["name"]
    template = owner
    if owner["kind"] == "CronJob":
        template = owner["spec"]["jobTemplate"]["spec"]["template"]
    elif owner["kind"] in {"StatefulSet", "Deployment"}:
        template = owner["spec"]["template"]
    pod, labels = name, dict(template["metadata"].get("labels", {}))
    if owner["kind"] == "StatefulSet":
        number += owner["spec"].get("ordinals", {}).get("start", 0)
        pod = f"{name}-{number}"
        labels |= {"apps.kubernetes.io/pod-index": str(number), "statefulset.kubernetes.io/pod-name": pod}
    fields = {
        "metadata.name": pod,
        "status.podIP": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
        **{f"metadata.labels['{key}']": value for key, value in labels.items()},
    }
    root = folder / pod
    volumes = _volumes(objects, owner, template["spec"], secrets, folder, root)
    return {one["name"]: _container(one, fields, volumes, secrets, root) for one in template["spec"]["containers"]}


def _volumes(
    objects: Objects, owner: Mapping[str, Any], spec: Mapping[str, Any], secrets: Secrets, folder: Path, root: Path
) -> Mapping[str, Mapping[str, str] | Path]:
    """The files of each volume, or the folder that it is; a claim's folder is the same for all pods."""
    found: dict[str, Mapping[str, str] | Path] = {}
    for volume in spec["volumes"]:
        match volume:
            case {"configMap": {"name": name}}:
                (found[volume["name"]],) = [
                    one["data"] for one in objects if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name
                ]
            case {"secret": {"secretName": name}}:
                found[volume["name"]] = secrets[name]
            case {"emptyDir": _}:
                found[volume["name"]] = root / "volumes" / volume["name"]
            case {"persistentVolumeClaim": {"claimName": name}}:
                found[volume["name"]] = folder / "claims" / name
            case _:
                raise AssertionError(f"a volume of an unknown kind: {volume}")
    for claim in owner["spec"].get("volumeClaimTemplates", ()):
        found[claim["metadata"]["name"]] = root / "volumes" / claim["metadata"]["name"]
    return found


def _container(
    one: Mapping[str, Any], fields: Mapping[str, str], volumes: Mapping[str, Mapping[str, str] | Path], secrets: Secrets, root: Path
) -> Container:
    mounted = [mount["mountPath"] for mount in one["volumeMounts"]]

    def below(text: str) -> str:
        """Put the folder in front of every path that is mounted."""
        longest_first = "|".join(re.escape(path) for path in sorted(mounted, key=len, reverse=True))
        return re.sub(rf"(?<![\w.-])({longest_first})(?![\w.-])", lambda path: f"{root}{path[1]}", text)

    for mount in one["volumeMounts"]:
        place = root / mount["mountPath"].lstrip("/")
        files = volumes[mount["name"]]
        if isinstance(files, Path):
            files.mkdir(parents=True, exist_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.is_symlink():
                place.symlink_to(files)
            continue
        wanted = {place: files[mount["subPath"]]} if "subPath" in mount else {place / key: text for key, text in files.items()}
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(below(text), encoding="utf-8")
    environment: dict[str, str] = {}
    for variable in one.get("env", ()):
        match variable:
            case {"value": value}:
                text = re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), value)
            case {"valueFrom": {"fieldRef": {"fieldPath": field}}}:
                text = fields.get(field, "")  # a label that is not there is an empty variable
            case {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}:
                text = secrets[name][key]
            case _:
                raise AssertionError(f"a variable of an unknown kind: {variable}")
        environment[variable["name"]] = below(text)
    return Container(name=one["name"], arguments=[below(word) for word in one["args"]], environment=environment, root=root)
