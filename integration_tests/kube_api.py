"""A real API server of Kubernetes with its etcd, for charts: objects are admitted and kept, and no container ever runs.

`helm/tools/build` makes both programs. There are no controllers: a test that needs a pod to end writes its status itself.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from integration_tests.waiting import wait_until
from tests.helm.chart_tools import tool

CRD = "apiextensions.k8s.io/v1"
PATCH = "application/merge-patch+json"


class KubeApi:
    """Use as a context manager. Skips the test where a program is missing, or fails it where DISKLESS_TEST_HELM=required."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._token = secrets.token_hex(16)
        self._leases = lease_ports(3)
        self._port, self._etcd_port, self._peer_port = (lease.port for lease in self._leases)
        self._children: list[ChildProcess] = []
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE  # the server makes its certificate itself
        self.kubeconfig = folder / "kubeconfig"

    def __enter__(self) -> Self:
        programs = tool("etcd"), tool("kube-apiserver")
        try:
            self._start(*programs)
            wait_until(self._is_ready, "the API server")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def _start(self, etcd: str, server: str) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        store = ["--data-dir", str(self._folder / "etcd"), "--unsafe-no-fsync", "--initial-cluster", f"default={peer}"]
        store += ["--listen-client-urls", client, "--advertise-client-urls", client]
        store += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        key = self._folder / "accounts.key"
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        key.write_bytes(rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(*pem))
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{self._token},admin,1,"system:masters"\n', encoding="ascii")
        options = {
            "etcd-servers": client,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": self._port,
            "cert-dir": self._folder / "pki",
            "token-auth-file": tokens,
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.96.0.0/24",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "endpoint-reconciler-type": "none",
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        for lease in self._leases:
            lease.close()
        self._children.append(start_child([etcd, *store], marker="etcd", log=self._folder / "etcd.log"))
        self._children.append(start_child([server, *words], marker="kube-apiserver", log=self._folder / "server.log"))
        self.kubeconfig.write_text(yaml.safe_dump(self._access()), encoding="utf-8")

    def _access(self) -> Mapping[str, Any]:
        server = {"server": f"https://127.0.0.1:{self._port}", "insecure-skip-tls-verify": True}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }

    def _is_ready(self) -> bool:
        ended = [child for child in self._children if not child.is_running()]
        if ended:
            pytest.fail("".join((self._folder / name).read_text(errors="replace")[-2000:] for name in ("etcd.log", "server.log")))
        try:
            return self._ask("GET", "/readyz") == b"ok"
        except OSError:
            return False

    def _stop(self) -> None:
        for child in reversed(self._children):
            child.send(signal.SIGTERM)
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()

    # ---- the API

    def _ask(self, method: str, path: str, body: object = None, kind: str = "application/json") -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        request = urllib.request.Request(f"https://127.0.0.1:{self._port}{path}", data=data, headers=headers, method=method)
        # A proxy of the environment is not for this machine's own addresses.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context))
        with opener.open(request, timeout=60) as answer:
            answered: bytes = answer.read()
            return answered

    def get(self, path: str) -> Any:
        """The object at a path, or None where there is none."""
        try:
            return json.loads(self._ask("GET", path))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None

    def create(self, path: str, value: Mapping[str, Any]) -> None:
        """Make an object in a collection."""
        self._ask("POST", path, value)

    def delete(self, path: str) -> None:
        """Take an object away at once. Nothing that it made goes with it: that is the work of Kubernetes' controllers."""
        self._ask("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})

    def patch_status(self, path: str, status: Mapping[str, Any]) -> None:
        """Write the status of an object, as the program that it stands for would."""
        self._ask("PATCH", f"{path}/status", {"status": status}, PATCH)

    def path_of(self, one: Mapping[str, Any], namespace: str) -> str:
        """The path of an object that is in a namespace."""
        version = one["apiVersion"]
        base = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        (found,) = [kind for kind in self.get(base)["resources"] if kind["kind"] == one["kind"] and "/" not in kind["name"]]
        return f"{base}/namespaces/{namespace}/{found['name']}/{one['metadata']['name']}"

    def add_kind(self, group: str, version: str, kind: str, plural: str) -> None:
        """Let the server know a kind of a foreign group, with any fields, and wait until it does."""
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}}
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        }
        definition = {"apiVersion": CRD, "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"}, "spec": spec}
        self.create(f"/apis/{CRD}/customresourcedefinitions", definition)
        listed = f"/apis/{group}/{version}"
        wait_until(lambda: plural in {one["name"] for one in (self.get(listed) or {"resources": ()})["resources"]}, f"the kind {kind}")

    # ---- helm

    def helm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run helm on this server; whatever its status."""
        command, environment = self._helm(arguments)
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)

    def start_helm(self, *arguments: str) -> subprocess.Popen[str]:
        """Start helm on this server beside the test."""
        command, environment = self._helm(arguments)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    def _helm(self, arguments: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str]]:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return [tool("helm"), *arguments], environment
