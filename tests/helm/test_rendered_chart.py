"""The chart renders for every file of its `ci` folder, and what comes out is what Kubernetes accepts and what the service needs."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from helm.generator.chart.write import CHART
from helm.generator.write import FOLDER
from tests.helm.chart_tools import CI_VALUES, MINIMAL, changed, find, helm, pod_specs, render, tool
from tests.helm.schemas import crd_problems, offline_schemas, run_kubeconform

KUBERNETES = "1.36"
NAME = "diskless-diskless-coordinator"  # of the release `diskless`
OWN_RESOURCES = {"ServiceMonitor", "PrometheusRule"}


def matrix() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))


def test_the_matrix_is_there() -> None:
    assert len(CI_VALUES) >= 4


def test_the_chart_installs_the_image_of_this_version() -> None:
    project = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (container,) = pods(MINIMAL)["spec"]["containers"]
    assert container["image"] == f"diskless-coordinator:{project['version']}"


def test_lint_finds_nothing() -> None:
    for values in CI_VALUES:
        done = helm("lint", "--strict", "--quiet", str(CHART), "--values", str(values))
        assert done.returncode == 0, done.stdout + done.stderr


@matrix()
def test_every_object_is_one_of_kubernetes(values: Path) -> None:
    objects = render(values)
    for one in objects:
        if one["kind"] in OWN_RESOURCES:
            assert crd_problems(one) == []
        else:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
    assert {one["metadata"].get("namespace", "kafka") for one in objects} == {"kafka"}


def test_kubeconform_agrees(tmp_path: Path) -> None:
    program = tool("kubeconform")
    objects = [one for values in CI_VALUES for one in render(values)]
    broken = {**find(render(MINIMAL), "StatefulSet", NAME), "metadata": {"name": "broken", "nmae": "misspelt"}}
    schemas = offline_schemas(tmp_path, objects)
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.dump_all([*objects, broken], Dumper=yaml.CSafeDumper))
    found = run_kubeconform(program, schemas, file)
    assert found["summary"] == {"valid": len(objects), "invalid": 1, "errors": 0, "skipped": 0}, found
    assert [one["name"] for one in found["resources"]] == ["broken"]


@matrix()
def test_names_are_short_enough_and_nothing_is_there_twice(values: Path) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in render(values)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for _, name in names)


@matrix()
def test_containers_may_do_nothing_that_they_need_not(values: Path) -> None:
    for name, spec in pod_specs(render(values)).items():
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["enableServiceLinks"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["requests"], name
            assert container["resources"]["limits"]["memory"], name
            assert "@sha256:" in container["image"] or not container["image"].endswith(":latest"), name


@matrix()
def test_mounts_have_volumes_and_volumes_are_mounted(values: Path) -> None:
    objects = render(values)
    for name, spec in pod_specs(objects).items():
        claims = {
            claim["metadata"]["name"]
            for one in objects
            if f"{one['kind']} {one['metadata']['name']}" == name
            for claim in one["spec"].get("volumeClaimTemplates", [])
        }
        volumes = [volume["name"] for volume in spec["volumes"]]
        mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert len(volumes) == len(set(volumes)), name
        assert mounted == set(volumes) | claims, name
        for container in spec["containers"]:
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths)), name


@matrix()
def test_selectors_find_the_pods_they_mean(values: Path) -> None:
    objects = render(values)
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in objects
        if one["kind"] in {"StatefulSet", "Deployment"}
    }
    for one in objects:
        if one["kind"] == "Service":
            wanted = {key: value for key, value in one["spec"]["selector"].items() if key != "statefulset.kubernetes.io/pod-name"}
        elif one["kind"] in {"StatefulSet", "Deployment", "PodDisruptionBudget"}:
            wanted = one["spec"]["selector"]["matchLabels"]
        elif one["kind"] == "NetworkPolicy":
            wanted = one["spec"]["podSelector"]["matchLabels"]
        else:
            continue
        selected = [name for name, labels in pods.items() if wanted.items() <= labels.items()]
        assert len(selected) == 1, (one["kind"], one["metadata"]["name"], selected)


@matrix()
def test_service_monitors_find_services_and_their_ports(values: Path) -> None:
    objects = render(values)
    for monitor in [one for one in objects if one["kind"] == "ServiceMonitor"]:
        wanted = monitor["spec"]["selector"]["matchLabels"]
        found = [one for one in objects if one["kind"] == "Service" and wanted.items() <= one["metadata"]["labels"].items()]
        assert len(found) == 1, [one["metadata"]["name"] for one in found]
        assert {end["port"] for end in monitor["spec"]["endpoints"]} <= {port["name"] for port in found[0]["spec"]["ports"]}


def test_a_listener_has_a_port_only_in_services_of_its_type() -> None:
    """The plain-text listener of the nodes leaves the cluster by no load balancer."""
    listeners = [
        {"name": "PLAINTEXT", "port": 9192},
        {
            "name": "LB",
            "port": 9292,
            "protocol": "PLAINTEXT",
            "type": "loadbalancer",
            "advertisedHost": "h-$(NODE_ID)",
            "advertisedPort": 443,
        },
        {"name": "NP", "port": 9392, "protocol": "PLAINTEXT", "type": "nodeport", "advertisedPort": "3200$(NODE_ID)"},
        {"name": "IP", "port": 9492, "protocol": "PLAINTEXT", "type": "cluster-ip"},
    ]
    objects = render(changed({"listeners": listeners, "replicaCount": 2, "nodeIdStart": 4}))
    found = {
        one["metadata"]["name"].removeprefix(NAME): (
            one["spec"].get("type"),
            *((p["port"], p.get("nodePort")) for p in one["spec"]["ports"]),
        )
        for one in objects
        if one["kind"] == "Service"
    }
    assert found == {
        "": (None, (9192, None)),
        "-nodes": (None, (9192, None)),
        "-http": (None, (9193, None)),
        **{f"-{pod}": ("LoadBalancer", (443, None)) for pod in ("lb-bootstrap", "4-lb", "5-lb")},
        "-np-bootstrap": ("NodePort", (9392, None)),
        "-4-np": ("NodePort", (9392, 32004)),
        "-5-np": ("NodePort", (9392, 32005)),
        **{f"-{pod}": ("ClusterIP", (9492, None)) for pod in ("ip-bootstrap", "4-ip", "5-ip")},
    }
    (env,) = [container["env"] for container in find(objects, "StatefulSet", NAME)["spec"]["template"]["spec"]["containers"]]
    (told,) = [one["value"] for one in env if one["name"] == "DISKLESS_ADVERTISED_LISTENERS"]
    assert told.split(",")[1:] == [
        "LB://h-$(NODE_ID):443",
        "NP://$(HOST_IP):3200$(NODE_ID)",
        "IP://$(POD_NAME)-ip.kafka.svc.cluster.local:9492",
    ]


def test_who_may_connect_is_said_for_each_listener() -> None:
    peer = {"ipBlock": {"cidr": "198.51.100.0/24"}}
    listeners = [{"name": "PLAINTEXT", "port": 9192}, {"name": "OUT", "port": 9292, "protocol": "PLAINTEXT", "networkPolicyPeers": [peer]}]
    objects = render(changed({"listeners": listeners, "networkPolicy": {"clients": [{"podSelector": {}}]}}))
    rules = find(objects, "NetworkPolicy", NAME)["spec"]["ingress"]
    opened = [(rule["ports"][0]["port"], rule["from"]) for rule in rules if len(rule["ports"]) == 1]
    assert opened[:2] == [(9192, [{"podSelector": {}}]), (9292, [peer])]


def test_prometheus_verifies_whom_it_sends_its_token() -> None:
    scraped = changed(
        {"http": {"tls": {"secret": "t", "caKey": "root"}, "tokenSecret": "s"}, "metrics": {"serviceMonitor": {"enabled": True}}}
    )
    (end,) = find(render(scraped), "ServiceMonitor", NAME)["spec"]["endpoints"]
    name = f"{NAME}-0.{NAME}-nodes.kafka.svc.cluster.local"
    assert end["tlsConfig"] == {"ca": {"secret": {"name": "t", "key": "root"}}, "serverName": name}
    given = changed(scraped, {"metrics": {"serviceMonitor": {"serverName": "nodes.example"}}})
    (end,) = find(render(given), "ServiceMonitor", NAME)["spec"]["endpoints"]
    assert end["tlsConfig"]["serverName"] == "nodes.example"


def test_no_secret_stands_in_an_object() -> None:
    for values in CI_VALUES:
        assert not [one for one in render(values) if one["kind"] == "Secret"]


def page(values: Mapping[str, Any]) -> dict[str, str]:
    """The options of the monitor's page, which have a value each."""
    (found,) = [one for one in find(render(values), "Deployment", f"{NAME}-monitor")["spec"]["template"]["spec"]["containers"]
                if one["name"] == "dashboard"]  # fmt: skip
    words = found["args"][1:]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_page_asks_nodes_gateways_and_exports() -> None:
    monitor = {"monitor": {"enabled": True}}
    nodes = [f"{NAME}-{number}.{NAME}-nodes.kafka.svc.cluster.local:9193" for number in range(3)]
    gateways = [f"{NAME}-gateway-{number}.{NAME}-gateway-http.kafka.svc.cluster.local:9291" for number in (1000, 1001)]
    assert page(changed(monitor))["--coordinators"].split(",") == nodes
    assert page(changed(monitor, {"gateway": {"enabled": True}}))["--coordinators"].split(",") == [*nodes, *gateways]
    secured = changed(monitor, {"gateway": {"enabled": True}, "http": {"tls": {"secret": "t"}}})
    assert page(secured)["--coordinators"].split(",") == [*(f"https://{node}" for node in nodes), *gateways]
    exports = {"addresses": ["https://export:9295", "10.0.0.1:9295"], "caSecret": "a", "tokenSecret": "b"}
    assert "--exports" not in page(changed(monitor))
    assert page(changed({"monitor": {"enabled": True, "dashboard": {"exports": exports}}})).items() >= {
        ("--exports", "https://export:9295,10.0.0.1:9295"),
        ("--exports-ca-file", "/etc/diskless/exports-ca/ca.crt"),
        ("--exports-token-file", "/etc/diskless/exports-token/token"),
    }


def test_the_page_reads_entries_where_kafka_lets_it() -> None:
    monitor = {"monitor": {"enabled": True}}
    assert page(changed(monitor))["--kafka-bootstrap-server"] == "kafka-1:9092"
    secured = changed(monitor, {"kafka": {"securityProtocol": "SSL"}})
    assert "--kafka-bootstrap-server" not in page(secured)
    given = page(changed(secured, {"monitor": {"dashboard": {"kafkaSecret": "reader"}}}))
    assert given["--kafka-bootstrap-server"] == "kafka-1:9092"
    assert given["--command-config"] == "/etc/diskless/dashboard-kafka/client.properties"


def test_the_monitor_is_the_driver_of_the_cluster_that_the_chart_runs() -> None:
    spark = {"enabled": True, "workers": 3, "cores": 2, "executorMemory": "1g"}
    objects = render(changed({"monitor": {"enabled": True, "spark": spark, "sparkProperties": {"spark.cores.max": 4}}}))
    monitor, *_ = find(objects, "Deployment", f"{NAME}-monitor")["spec"]["template"]["spec"]["containers"]
    given = [word for place, word in enumerate(monitor["args"]) if monitor["args"][place - 1] == "--spark-property"]
    master = find(objects, "Service", f"{NAME}-spark-master")
    assert {f"spark.master=spark://{master['metadata']['name']}:{master['spec']['ports'][0]['port']}", "spark.executor.memory=1g"} < set(
        given
    )
    assert monitor["args"][monitor["args"].index("--max-entries") + 1] == "60000"
    assert "spark.cores.max=4" in given, "what is given goes before what the chart says"
    let_in = find(objects, "NetworkPolicy", f"{NAME}-monitor")["spec"]["ingress"][1]["ports"]
    assert [(one["port"], one["endPort"]) for one in let_in] == [(7078, 7079)]
    assert {"spark.driver.port=7078", "spark.driver.blockManager.port=7079"} < set(given)
    workers = find(objects, "Deployment", f"{NAME}-spark-worker")["spec"]
    assert workers["replicas"] == 3
    words = workers["template"]["spec"]["containers"][0]["args"]
    assert words[words.index("--cores") :][:4] == ["--cores", "2", "--memory", "1g"]


# ---- the rules, the dashboards


def test_scrape_jobs_have_the_names_that_alerts_look_for() -> None:
    rules = (FOLDER / "rules" / "alerts.yaml").read_text(encoding="utf-8")
    wanted = {pattern.strip(".*") for pattern in re.findall(r'job=~"([^"]+)"', rules)}
    wanted.remove("diskless-export")  # the chart runs no exports
    assert wanted == {"diskless-coordinator", "diskless-gateway", "diskless-monitor"}
    for values in ({}, {"fullnameOverride": "meta"}):
        more = {"metrics": {"serviceMonitor": {"enabled": True}}, "monitor": {"enabled": True}, "gateway": {"enabled": True}}
        objects = render(changed(values, more))
        jobs = [
            relabeling["replacement"]
            for one in objects
            if one["kind"] == "ServiceMonitor"
            for end in one["spec"]["endpoints"]
            for relabeling in end["relabelings"]
            if relabeling["targetLabel"] == "job"
        ]
        assert len(jobs) == 3
        assert {word for word in wanted for job in jobs if word in job} == wanted


def test_the_rules_arrive_as_they_are_and_lead_to_the_published_runbook() -> None:
    objects = render(changed({"metrics": {"prometheusRule": {"enabled": True, "runbookUrl": "https://docs.example/runbook"}}}))
    groups = {group["name"]: group for group in find(objects, "PrometheusRule", NAME)["spec"]["groups"]}
    wanted = {}
    for name in ("recording", "alerts"):
        text = (FOLDER / "rules" / f"{name}.yaml").read_text(encoding="utf-8")
        wanted |= {group["name"]: group for group in yaml.safe_load(text.replace("runbook.md#", "https://docs.example/runbook#"))["groups"]}
    assert groups == wanted
    assert "https://docs.example/runbook#disklessservicedown" in json.dumps(groups)


def test_dashboards_arrive_as_they_are() -> None:
    objects = render(changed({"metrics": {"dashboards": {"enabled": True}}}))
    boards = {name: text for one in objects if one["kind"] == "ConfigMap" for name, text in one["data"].items() if name.endswith(".json")}
    wanted = {f"diskless-{path.name}": json.loads(path.read_text(encoding="utf-8")) for path in (FOLDER / "dashboards").glob("*.json")}
    assert {name: json.loads(text) for name, text in boards.items()} == wanted
    assert wanted


# ---- what changes pods, and what does not


def pods(values: Mapping[str, Any]) -> Any:
    return find(render(values), "StatefulSet", NAME)["spec"]["template"]


def test_pods_are_replaced_when_settings_change_and_only_then() -> None:
    plain = pods(MINIMAL)
    assert pods(changed({"config": {"log.retention.ms": 1000}}))["metadata"] != plain["metadata"]
    assert pods(changed({"listeners": [{"name": "PLAINTEXT", "port": 9292}]}))["metadata"] != plain["metadata"]
    assert pods(changed({"monitor": {"enabled": True}, "jobs": {"doctor": {"enabled": True}}, "replicaCount": 5})) == plain


def test_what_kubernetes_lets_nobody_change_in_a_stateful_set_follows_from_few_values() -> None:
    """Only these may differ: replicas, ordinals, template, updateStrategy, minReadySeconds, persistentVolumeClaimRetentionPolicy."""
    everything = yaml.safe_load((CHART / "ci" / "everything-values.yaml").read_text(encoding="utf-8"))
    for key in ("fullnameOverride", "persistence", "commonLabels"):
        del everything[key]
    fixed = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
    before, after = (find(render(values), "StatefulSet", NAME)["spec"] for values in (MINIMAL, everything))
    assert {key: before[key] for key in fixed} == {key: after[key] for key in fixed}


def test_the_suites_of_the_chart_pass() -> None:
    """helm-unittest, which comes with the chart: what it says of single values can be run without Python."""
    done = subprocess.run([tool("untt"), str(CHART)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((CHART / "tests").glob("*_test.yaml"))) >= 3
