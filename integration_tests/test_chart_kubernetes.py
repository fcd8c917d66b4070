"""The chart on a real API server: every object is admitted as it is, and install, upgrade, rollback, test and uninstall do what they say.

No container runs. The API server takes minutes to build, once (`helm/tools/build`), hence the tier `long`; the same objects are checked
against Kubernetes' schemas in seconds in `tests/helm`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.generator.chart.write import CHART
from integration_tests.kube_api import KubeApi
from integration_tests.waiting import wait_until
from tests.helm.chart_tools import CI_VALUES, MINIMAL, RELEASE, changed
from tests.helm.schemas import CRDS

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

Node = Mapping[str, Any]


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApi]:
    """An API server that knows the kinds of the Prometheus operator."""
    with KubeApi(tmp_path_factory.mktemp("kube")) as running:
        for kind in CRDS:
            running.add_kind("monitoring.coreos.com", "v1", kind, f"{kind.lower()}s")
        yield running


@pytest.fixture
def namespace(kube: KubeApi, request: pytest.FixtureRequest) -> str:
    """A new namespace, named after the test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower().removeprefix("test_"))[:63].strip("-")
    kube.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def values_file(folder: Path, values: Node) -> str:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return str(path)


def done(kube: KubeApi, *arguments: str) -> str:
    """What helm prints; fails the test with its words when it fails."""
    ran = kube.helm(*arguments)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    return ran.stdout


def manifest(kube: KubeApi, namespace: str) -> Sequence[Node]:
    """The objects that helm believes it has made."""
    return [one for one in yaml.load_all(done(kube, "get", "manifest", RELEASE, "-n", namespace), Loader=yaml.CSafeLoader) if one]


def stateful_set(kube: KubeApi, namespace: str) -> Node:
    (one,) = kube.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets")["items"]
    found: Node = one
    return found


def missing(wanted: object, found: object, where: str = "") -> list[str]:
    """The places of an object where the server keeps something else than what was sent. What it adds, its defaults, is no difference."""
    match wanted, found:
        case dict(), dict():
            return [one for key, value in wanted.items() for one in missing(value, found.get(key), f"{where}.{key}")]
        case list(), list() if len(wanted) == len(found):
            return [one for place, pair in enumerate(zip(wanted, found, strict=True)) for one in missing(*pair, f"{where}[{place}]")]
        case None | {} | [], None:
            return []  # it keeps nothing for what is empty
        case _:
            return [] if wanted == found else [f"{where}: {wanted!r} became {found!r}"]


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_every_object_is_admitted_and_kept_as_it_is(values: Path, kube: KubeApi, namespace: str) -> None:
    done(kube, "install", RELEASE, str(CHART), "-n", namespace, "--values", str(values))
    objects = manifest(kube, namespace)
    assert {"StatefulSet", "Service", "ConfigMap", "PodDisruptionBudget"} <= {one["kind"] for one in objects}
    for one in objects:
        kept = kube.get(kube.path_of(one, namespace))
        assert kept is not None, one["metadata"]
        assert missing(one, kept) == []
    done(kube, "uninstall", RELEASE, "-n", namespace)
    left = [one for one in objects if kube.get(kube.path_of(one, namespace)) is not None]
    assert [one["metadata"]["name"] for one in left if one.get("kind") not in {"PersistentVolumeClaim"}] == []


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"kind": "Service", "apiVersion": "v1", "spec": {"ports": [{"prot": 1}]}}, "prot"),
        ({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": 1}}, "data"),
    ],
    ids=["misspelt", "no-text"],
)
def test_the_server_refuses_what_is_no_object(extra: Node, told: str, kube: KubeApi, namespace: str, tmp_path: Path) -> None:
    """Else an object that is admitted would prove nothing."""
    broken = changed({"extraObjects": [{**extra, "metadata": {"name": "broken"}}]})
    ran = kube.helm("install", RELEASE, str(CHART), "-n", namespace, "--values", values_file(tmp_path, broken))
    assert ran.returncode != 0
    assert told in ran.stderr


def test_upgrade_and_rollback_change_what_was_asked_for_and_nothing_else(kube: KubeApi, namespace: str, tmp_path: Path) -> None:
    where = ["-n", namespace, "--values"]
    done(kube, "install", RELEASE, str(CHART), *where, values_file(tmp_path, MINIMAL))
    first = stateful_set(kube, namespace)
    settings = {"config": {"log.retention.ms": 604_800_000}, "replicaCount": 5, "monitor": {"enabled": True}}
    done(kube, "upgrade", RELEASE, str(CHART), *where, values_file(tmp_path, changed(settings)))
    second = stateful_set(kube, namespace)
    assert (first["spec"]["replicas"], second["spec"]["replicas"]) == (3, 5)
    assert first["metadata"]["uid"] == second["metadata"]["uid"]  # the pods are replaced one after the other, not the set
    checksums = [one["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for one in (first, second)]
    assert checksums[0] != checksums[1]
    assert len(kube.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]) == 1
    done(kube, "rollback", RELEASE, "1", "-n", namespace)
    third = stateful_set(kube, namespace)
    assert (third["spec"], third["metadata"]["uid"]) == (first["spec"], first["metadata"]["uid"])
    assert kube.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"] == []
    history = json.loads(done(kube, "history", RELEASE, "-n", namespace, "-o", "json"))
    assert [one["status"] for one in history] == ["superseded", "superseded", "deployed"]
    # An upgrade that changes nothing restarts nothing.
    done(kube, "upgrade", RELEASE, str(CHART), *where, values_file(tmp_path, MINIMAL))
    assert stateful_set(kube, namespace)["metadata"]["generation"] == third["metadata"]["generation"]


def test_every_values_file_is_an_upgrade_from_the_least_values(kube: KubeApi, namespace: str, tmp_path: Path) -> None:
    """Except for what Kubernetes never lets change in a StatefulSet, here the claims for volumes and the numbers and names of pods."""
    fixed = {"persistence": {"enabled": True}, "fullnameOverride": "", "nodeIdStart": 1, "clusterDomain": "cluster.local"}
    path = values_file(tmp_path, MINIMAL)
    done(kube, "install", RELEASE, str(CHART), "-n", namespace, "--values", path)
    uid = stateful_set(kube, namespace)["metadata"]["uid"]
    for values in CI_VALUES:
        given = yaml.safe_load(values.read_text(encoding="utf-8"))
        own = {key: value for key, value in fixed.items() if key in given}
        path = values_file(tmp_path, {**given, **own})
        done(kube, "upgrade", RELEASE, str(CHART), "-n", namespace, "--values", path)
        assert stateful_set(kube, namespace)["metadata"]["uid"] == uid


@pytest.mark.parametrize(("phase", "status"), [("Succeeded", 0), ("Failed", 1)])
def test_helm_test_asks_the_coordinators(phase: str, status: int, kube: KubeApi, namespace: str, tmp_path: Path) -> None:
    done(kube, "install", RELEASE, str(CHART), "-n", namespace, "--values", values_file(tmp_path, MINIMAL))
    (account,) = kube.get(f"/api/v1/namespaces/{namespace}/serviceaccounts")["items"]
    running = kube.start_helm("test", RELEASE, "-n", namespace, "--timeout", "120s")
    try:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        wait_until(lambda: bool(kube.get(pods)["items"]) or running.poll() is not None, "the pod of the test")
        found = kube.get(pods)["items"]
        assert found, running.communicate()[0]
        assert found[0]["spec"]["serviceAccountName"] == account["metadata"]["name"]
        (container,) = found[0]["spec"]["containers"]
        assert container["args"][:3] == ["coordinator", "status", "--bootstrap-server"]
        assert container["args"][3].startswith(f"{RELEASE}-diskless-coordinator")
        kube.patch_status(f"{pods}/{found[0]['metadata']['name']}", {"phase": phase})
        printed, _ = running.communicate(timeout=120)
        assert running.returncode == status, printed
    finally:
        if running.poll() is None:
            running.kill()
            running.wait(60)


def test_a_volume_of_another_size_is_refused_with_the_remedy(kube: KubeApi, namespace: str, tmp_path: Path) -> None:
    where = ["-n", namespace, "--values"]
    done(kube, "install", RELEASE, str(CHART), *where, values_file(tmp_path, MINIMAL))
    kept = stateful_set(kube, namespace)["metadata"]["generation"]
    larger = values_file(tmp_path, changed({"persistence": {"size": "40Gi"}}))
    ran = kube.helm("upgrade", RELEASE, str(CHART), *where, larger)
    assert ran.returncode != 0
    assert "persistence.size is 20Gi in the StatefulSet and cannot become 40Gi there" in ran.stderr
    assert stateful_set(kube, namespace)["metadata"]["generation"] == kept
    name = stateful_set(kube, namespace)["metadata"]["name"]
    kube.delete(f"/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}")
    done(kube, "upgrade", RELEASE, str(CHART), *where, larger)
    (claim,) = stateful_set(kube, namespace)["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "40Gi"
