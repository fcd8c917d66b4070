"""values.yaml: every value has its reason and a schema; wrong values are refused with what is wrong and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from coordinator.config.settings import FAMILIES, KEYS
from gateway.settings import GATEWAY
from helm.generator.__main__ import main
from helm.generator.chart.schema import FAMILIES_SET_BY_CHART, GATEWAY_SET_BY_CHART, SET_BY_CHART
from helm.generator.chart.values import UndocumentedValueError, leaves, parse_values
from helm.generator.chart.write import CHART, FRAME, chart_files, stale_chart_files
from tests.helm.chart_tools import CI_VALUES, MINIMAL, changed, render, template

VALUES = parse_values((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
SECURE = {"name": "SASL_SSL", "port": 9192, "tls": {"secret": "s"}, "sasl": {"mechanisms": ["SCRAM-SHA-512"]}}
CLIENT = {"clientConfig": {"secret": "c"}}
ACLS = {"security": {"authorizer": "acls", "usersSecret": "u"}}
PLAIN = {"name": "PLAINTEXT", "port": 9192}


def outside(**listener: Any) -> Mapping[str, Any]:
    """Values with a second listener."""
    return changed({"listeners": [PLAIN, {"name": "OUT", "port": 9292, "protocol": "PLAINTEXT", **listener}]})


def problems(values: Mapping[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(values)]


# ---- the files that are made


def test_readme_and_schema_are_up_to_date() -> None:
    assert stale_chart_files() == [], "run `python -m helm.generator`"
    assert CliRunner().invoke(main, ["--check"]).exit_code == 0


def test_a_changed_value_makes_them_stale(tmp_path: Path) -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    (tmp_path / "values.yaml").write_text(text.replace("replicaCount: 3", "replicaCount: 5"))
    for name, made in chart_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(made)
    assert stale_chart_files(tmp_path) == ["README.md"]
    (tmp_path / "values.yaml").write_text(text + "# Why.\nextra: 1\n")
    assert stale_chart_files(tmp_path) == ["README.md", "values.schema.json"]
    (tmp_path / "monitoring" / "dashboards" / "old.json").touch()
    assert "monitoring/dashboards/old.json" in stale_chart_files(tmp_path)


def test_a_value_without_a_reason_is_refused() -> None:
    with pytest.raises(UndocumentedValueError, match=r"a\.b has no comment"):
        parse_values("a:\n  b: 1\n")
    with pytest.raises(UndocumentedValueError, match="schema of a is no JSON"):
        parse_values("# Why.\n# @schema {nonsense\na: 1\n")


def test_every_reason_is_a_sentence_and_stands_in_the_readme() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    for value in leaves(VALUES):
        assert re.match(r"[A-Z0-9a-z]", value.why), value.dotted
        assert value.why.rstrip(")").endswith((".", "...")), value.dotted
        assert f"| `{value.dotted}` |" in readme


def values_used(text: str) -> Iterator[str]:
    yield from re.findall(r"\.Values((?:\.\w+)+)", text)


def test_templates_use_no_value_that_is_not_there() -> None:
    """A misspelt value renders as nothing, without an error."""
    known = {value.dotted for value in leaves(VALUES)}
    sections = {dotted.rsplit(".", depth)[0] for dotted in known for depth in range(1, dotted.count(".") + 1)}
    used = {name for path in CHART.glob("templates/**/*") if path.is_file() for name in values_used(path.read_text(encoding="utf-8"))}
    assert {name.removeprefix(".") for name in used} - known - sections == set()


# ---- the schema


def test_the_schema_is_one_and_the_defaults_and_the_matrix_fit_it() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert problems(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))) == []
    for path in CI_VALUES:
        assert problems(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_the_example_of_the_readme_fits_it_and_renders() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", FRAME.read_text(encoding="utf-8"), re.DOTALL)
    assert problems(yaml.safe_load(example)) == []
    assert render(yaml.safe_load(example))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicaCont": 3}, "replicaCont"),
        ({"replicaCount": 0}, "less than the minimum"),
        ({"replicaCount": "3"}, "not of type 'integer'"),
        ({"kafka": {"securityProtocol": "TLS"}}, "'TLS' is not one of"),
        ({"kafka": {"bootstrapServers": ["kafka"]}}, "does not match"),
        ({"objectStore": {"url": "bucket"}}, "does not match"),
        ({"listeners": []}, "non-empty"),
        ({"listeners": [{"name": "A", "port": 1, "protocl": "SSL"}]}, "protocl"),
        ({"persistence": {"size": "20 GB"}}, "does not match"),
        ({"config": {"log.retention.msec": 1}}, "log.retention.msec"),
        ({"config": {"node.id": 1}}, "node.id"),
        ({"config": {"listeners": "A://b:1"}}, "listeners"),
        ({"config": {"kafka.sasl.password": "x"}}, "kafka.sasl.password"),
        ({"config": {"connections.max": 0}}, "less than the minimum"),
        ({"security": {"acls": ["gateway CLUSTER_ACTION"]}}, "does not match"),
        ({"security": {"acls": ["User:spark:READ@or ders"]}}, "does not match"),
        ({"clientConfig": {"secert": "x"}}, "secert"),
        ({"clientConfig": {"secret": "Not A Name"}}, "does not match"),
        ({"resources": {"limit": {"memory": "4Gi"}}}, "'limit' was unexpected"),
        ({"jobs": {"resources": {"limits": {"memory": "4GB"}}}}, "'4GB' is not valid"),
        ({"monitor": {"resources": {"requests": {"cpu": -1}}}}, "-1 is not valid"),
        ({"metrics": {"serviceMonitor": {"interval": "quickly"}}}, "does not match"),
        ({"metrics": {"serviceMonitor": {"interval": ""}}}, "too short"),
        ({"image": {"digest": "abc"}}, "does not match"),
        ({"monitor": {"image": {"digest": "sha256:ABC"}}}, "does not match"),
        ({"image": {"tag": "a tag"}}, "does not match"),
        ({"image": {"repository": "Diskless:1.0"}}, "does not match"),
        ({"image": {"registry": "https://registry.example"}}, "does not match"),
        ({"monitor": {"dashboard": {"proxyUserHeader": "X-User: a"}}}, "does not match"),
        ({"metrics": {"serviceMonitor": {"serverName": "https://nodes"}}}, "does not match"),
        ({"jobs": {"audit": {"schedule": "daily"}}}, "does not match"),
        ({"podDisruptionBudget": {"maxUnavailable": "one"}}, "'one' is not valid"),
        ({"tolerations": [{"key": "a", "operators": "Exists"}]}, "'operators' was unexpected"),
        ({"affinity": {"nodeAffinities": {}}}, "'nodeAffinities' was unexpected"),
        ({"containerSecurityContext": {"runAsUsr": 1}}, "'runAsUsr' was unexpected"),
        ({"podSecurityContext": {"fsGroup": "staff"}}, "'staff' is not of type"),
        ({"extraEnv": [{"name": "A", "valeu": "b"}]}, "'valeu' was unexpected"),
        ({"extraVolumes": [{"name": "a", "emptyDir": {"size": "1Gi"}}]}, "'size' was unexpected"),
        ({"extraVolumeMounts": [{"name": "a"}]}, "'mountPath' is a required property"),
        ({"networkPolicy": {"clients": [{"podSelectors": {}}]}}, "'podSelectors' was unexpected"),
        ({"commonLabels": {"team": 7}}, "not of type 'string'"),
        ({"nodeSelector": {"a": True}}, "not of type 'string'"),
        ({"serviceAccount": {"annotations": {"a": 1}}}, "not of type 'string'"),
        ({"listeners": [{**PLAIN, "type": "route"}]}, "'route' is not one of"),
        ({"listeners": [{**PLAIN, "properties": {"ssl.client.auht": "none"}}]}, "'ssl.client.auht' was unexpected"),
        ({"listeners": [{**PLAIN, "networkPolicyPeers": [{"ipBlok": {}}]}]}, "'ipBlok' was unexpected"),
        ({"secretSettings": {"log.retention.ms": {"secret": "s", "key": "k"}}}, "log.retention.ms"),
        ({"secretSettings": {"kafka.sasl.password": {"secret": "s"}}}, "'key' is a required property"),
        ({"objectStore": {"url": "s3://key:secret@bucket"}}, "does not match"),
        ({"monitor": {"store": {"url": "postgresql://user:secret@host/db"}}}, "does not match"),
        ({"monitor": {"sparkProperties": {"sql.shuffle.partitions": 4}}}, "does not match"),
    ],
    ids=str,
)
def test_values_that_do_not_exist_or_do_not_fit_are_refused(values: Mapping[str, Any], said: str) -> None:
    (problem,) = problems(values)
    assert said in problem


def test_helm_itself_refuses_by_the_schema() -> None:
    done = template(changed({"config": {"log.retention.msec": 1}}))
    assert done.returncode != 0
    assert "log.retention.msec" in done.stderr


def test_every_setting_is_either_a_value_of_the_chart_or_allowed_in_config() -> None:
    allowed = SCHEMA["$defs"]["config"]["properties"]
    assert set(allowed) == set(KEYS) - SET_BY_CHART
    assert {family.prefix for family in FAMILIES} >= {"kafka.", "object.store.option."}
    assert not [name for name in allowed if name.startswith(FAMILIES_SET_BY_CHART)]


def test_every_setting_of_gateways_is_either_a_value_of_the_chart_or_allowed_in_their_config() -> None:
    assert set(SCHEMA["$defs"]["gatewayConfig"]["properties"]) == set(GATEWAY.keys) - GATEWAY_SET_BY_CHART
    assert set(GATEWAY.keys) >= GATEWAY_SET_BY_CHART
    assert not [key.name for key in GATEWAY.keys.values() if key.is_secret and key.name not in GATEWAY_SET_BY_CHART]


# ---- what cannot work is refused when the chart is rendered


def gateway(**values: Any) -> Mapping[str, Any]:
    return {"gateway": {"enabled": True, **values}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"objectStore": {"url": "s3://b"}}, "kafka.bootstrapServers is empty: list the brokers"),
        ({"kafka": {"bootstrapServers": ["k:1"]}}, "objectStore.url is empty: give the store"),
        (changed({"kafka": {"securityProtocol": "SASL_SSL"}}), "needs kafka.sasl.username"),
        (
            changed({"monitor": {"enabled": True, "spark": {"enabled": True}}, "networkPolicy": {"enabled": False}}),
            "monitor.spark.enabled needs networkPolicy.enabled",
        ),
        (changed({"kafka": {"securityProtocol": "SASL_SSL", "sasl": {"username": "u"}}}), "needs kafka.sasl.existingSecret"),
        (changed({"listeners": [{"name": "IN", "port": 1}]}), "listener IN needs a protocol"),
        (changed({"listeners": [{"name": "SSL", "port": 1, "protocol": "PLAINTEXT"}]}), "listener SSL says by its name"),
        (changed({"listeners": [{"name": "SSL", "port": 1}]}), "listener SSL (SSL) needs tls.secret"),
        (
            changed({"listeners": [{"name": "PLAINTEXT", "port": 1, "tls": {"secret": "s"}}]}),
            "speaks PLAINTEXT without TLS: make its protocol SSL",
        ),
        (changed({"listeners": [{"name": "SSL", "port": 1, "tls": {"secret": "s", "clientAuth": "required"}}]}), "give tls.clientCaSecret"),
        (changed({"listeners": [{"name": "SASL_SSL", "port": 1, "tls": {"secret": "s"}}]}), "needs sasl.mechanisms"),
        (changed({"listeners": [SECURE], **CLIENT, "security": {"authorizer": "acls"}}), "SCRAM-SHA-512 needs security.usersSecret"),
        (changed({"listeners": [SECURE], **CLIENT, "security": {"usersSecret": "u"}}), "needs security.authorizer"),
        (changed({"listeners": [SECURE], **ACLS}), "give clientConfig.secret"),
        (
            changed({"listeners": [{"name": "A", "port": 1, "protocol": "PLAINTEXT"}, {"name": "a", "port": 2, "protocol": "SSL"}]}),
            "listener a is there twice",
        ),
        (
            changed(
                {"listeners": [{"name": "A_B", "port": 1, "protocol": "PLAINTEXT"}, {"name": "a-b", "port": 2, "protocol": "PLAINTEXT"}]}
            ),
            "listener a-b is there twice",
        ),
        (changed({"listeners": [{"name": "PLAINTEXT", "port": 9193}]}), "port 9193 is taken"),
        (changed({"listeners": [{**PLAIN, "type": "cluster-ip"}]}), "its type must be internal"),
        (outside(type="loadbalancer"), "listener OUT (loadbalancer) needs advertisedHost"),
        (outside(type="loadbalancer", name="LONGER-NAMES"), "has at most 11 characters"),
        (outside(type="nodeport", advertisedPort=32000), "listener OUT (nodeport) needs advertisedPort with the pod's number"),
        (outside(type="cluster-ip", advertisedPort="3200$(NODE_ID)"), "advertisedPort with $(NODE_ID) needs type nodeport"),
        (outside(type="cluster-ip", loadBalancerSourceRanges=["10.0.0.0/8"]), "count only with type loadbalancer"),
        (outside(podAnnotations={"a": "b"}), "bootstrapAnnotations and podAnnotations are for Services of its own"),
        (changed({"security": {"acls": ["User:a:ALL"], "authorizer": "kafka"}}), "security.acls count only with"),
        (changed({"security": {"superUsers": ["User:a"]}}), "security.superUsers count only with"),
        (changed({"security": {"internalPrincipals": ["User:node"]}}), "security.internalPrincipals need certificates"),
        (changed(gateway(protocol="SSL")), "gateway.protocol SSL needs gateway.tls.secret"),
        (changed(gateway(tls={"secret": "s"})), "gateway.protocol PLAINTEXT has no TLS: make it SSL"),
        (changed(gateway(protocol="SASL_PLAINTEXT")), "so both have logins or none has"),
        (changed(gateway(service={"type": "LoadBalancer"})), "LoadBalancer needs gateway.advertisedHost"),
        (
            changed({**gateway(), "kafka": {"securityProtocol": "SSL", "tls": {"clientSecret": "s"}}}),
            "gateways cannot use kafka.tls.clientSecret",
        ),
        (
            changed({**gateway(), **CLIENT, **ACLS, "listeners": [SECURE]}),
            "gateways must log in on the listener SASL_SSL: give gateway.coordinator.properties",
        ),
        (changed({"http": {"tokenSecret": "t"}}), "without http.tls.secret would send the token in clear text"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_work_is_refused_with_a_remedy(values: Mapping[str, Any], said: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert said in done.stderr, done.stderr


def test_the_values_that_must_be_given_are_enough() -> None:
    assert render(MINIMAL)
    assert render(changed({"listeners": [SECURE], **CLIENT, **ACLS}))
