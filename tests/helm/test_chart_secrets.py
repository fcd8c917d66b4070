"""No secret that is given in a value comes out of the chart: it is refused by the rule by which `config show` hides it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from coordinator.config import load_settings
from coordinator.config.settings import KEYS, NODE
from helm.generator.chart import secrets
from helm.generator.chart.write import CHART
from tests.helm.chart_tools import changed, find, helm, render, template
from tests.helm.pods import containers

NAME = "diskless-diskless-coordinator"
HUSH = "hush-5f1c"
LIBRDKAFKA = (
    *("sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.config"),
    *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem"),
)
STORE = (
    *("secret.access.key", "secret_access_key", "aws.session.token", "account_key", "account.key", "sas_token", "client.secret"),
    *("encryption_key", "sse_customer_key_base64", "service.account.key", "AZURE_STORAGE_ACCOUNT_KEY", "proxy.url", "default_headers"),
)
OPEN = (
    *("kafka.sasl.oauthbearer.token.endpoint.url", "kafka.sasl.oauthbearer.client.id", "kafka.ssl.key.location", "kafka.debug"),
    *("kafka.sasl.oauthbearer.assertion.private.key.file", "object.store.option.web_identity_token_file", "object.store.option.region"),
    *("object.store.option.sse_kms_key_id", "object.store.option.federated.token.file", "kafka.sasl.username"),
)


def test_helm_and_config_show_judge_alike(tmp_path: Path) -> None:
    """Kafka's client and the store know more names than these; the rule is the same pattern for both."""
    names = [
        *KEYS,
        *(f"listener.name.outside.{key}" for key in NODE.listener_keys),
        *(f"kafka.{key}" for key in LIBRDKAFKA),
        *(f"object.store.option.{key}" for key in STORE),
        *OPEN,
    ]
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: judge\nversion: 0.1.0\n")
    (tmp_path / "templates" / "_secrets.tpl").write_text((CHART / secrets.NAME).read_text())
    (tmp_path / "templates" / "judged.yaml").write_text(
        '{{- range .Values.names }}\n{{ . }}: {{ include "diskless.isSecret" . | quote }}\n{{- end }}\n'
    )
    (tmp_path / "values.yaml").write_text(json.dumps({"names": names}))
    done = helm("template", "judge", str(tmp_path))
    assert done.returncode == 0, done.stderr
    judged = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    assert {name: judged[name] == '"true"' for name in names} == {name: NODE.is_secret(name) for name in names}
    assert [name for name in names if NODE.is_secret(name) and name in OPEN] == []
    assert [name for name in (*LIBRDKAFKA, *STORE) if judged[next(n for n in names if n.endswith(f".{name}"))] != '"true"'] == []


def places() -> Mapping[str, Mapping[str, Any]]:
    """Every place where a value of the chart is copied into an object, with a secret in it: by the name that is refused."""
    listener = {"name": "SSL", "port": 9192, "tls": {"secret": "s"}, "properties": {"ssl.key.password": HUSH}}
    return {
        **{f"kafka.{key}": {"kafka": {"properties": {key: HUSH}}} for key in LIBRDKAFKA},
        **{f"object.store.option.{key}": {"objectStore": {"options": {key: HUSH}}} for key in STORE},
        **{key.name: {"config": {key.name: HUSH}} for key in KEYS.values() if key.is_secret},
        "listener.name.ssl.ssl.key.password": {
            "listeners": [listener],
            "security": {"authorizer": "kafka"},
            "clientConfig": {"secret": "c"},
        },
        "DISKLESS_KAFKA_SASL_PASSWORD": {"extraEnv": [{"name": "DISKLESS_KAFKA_SASL_PASSWORD", "value": HUSH}]},
        "object.store.option.endpoint": {"objectStore": {"options": {"endpoint": f"https://user:{HUSH}@store:9000"}}},
        "kafka.sasl.oauthbearer.token.endpoint.url": {
            "kafka": {"properties": {"sasl.oauthbearer.token.endpoint.url": f"https://:{HUSH}@tokens/"}}
        },
        "HTTPS_PROXY": {"extraEnv": [{"name": "HTTPS_PROXY", "value": f"http://user:{HUSH}@proxy:3128"}]},
        "AWS_SECRET_ACCESS_KEY": {"extraEnv": [{"name": "AWS_SECRET_ACCESS_KEY", "value": HUSH}]},
        "spark.hadoop.fs.s3a.secret.key": {"monitor": {"enabled": True, "sparkProperties": {"spark.hadoop.fs.s3a.secret.key": HUSH}}},
    }


@pytest.mark.parametrize("key", places())
def test_a_secret_in_a_value_is_refused_with_the_remedy_and_not_shown(key: str) -> None:
    done = template(changed(places()[key]))
    assert done.returncode != 0
    assert f"{key} holds a secret" in done.stderr
    assert "secretSettings" in done.stderr
    assert HUSH not in done.stdout + done.stderr


def test_what_says_where_a_secret_is_may_be_a_value() -> None:
    values = {
        "kafka": {"properties": {key.removeprefix("kafka."): "x" for key in OPEN if key.startswith("kafka.") and "username" not in key}},
        "extraEnv": [{"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/var/run/token"}],
    }
    assert template(changed(values)).returncode == 0


def test_monitor_and_page_get_the_database_and_its_password(tmp_path: Path) -> None:
    store = {"url": "postgresql://monitor@db/monitor", "passwordSecret": "db", "passwordKey": "word"}
    objects = render(changed({"monitor": {"enabled": True, "store": store}}))
    programs = containers(objects, find(objects, "Deployment", f"{NAME}-monitor"), {"db": {"word": HUSH}}, tmp_path)
    for name in ("monitor", "dashboard"):
        environment = programs[name].environment
        assert (environment["DISKLESS_MONITOR_STORE"], environment["PGPASSWORD"]) == (store["url"], HUSH)


def test_settings_come_from_secrets_to_the_programs_that_need_them(tmp_path: Path) -> None:
    values = {
        "kafka": {"securityProtocol": "SSL"},
        "secretSettings": {
            "kafka.ssl.key.password": {"secret": "idp", "key": "client"},
            "object.store.option.sse_customer_key_base64": {"secret": "store", "key": "sse"},
            "listener.name.out_side.ssl.key.password": {"secret": "tls", "key": "password"},
        },
        "monitor": {"enabled": True},
    }
    objects = render(changed(values))
    kept = {"idp": {"client": "s1"}, "store": {"sse": "s2"}, "tls": {"password": "s3"}}
    node = containers(objects, find(objects, "StatefulSet", NAME), kept, tmp_path)["coordinator"]
    monitor = containers(objects, find(objects, "Deployment", f"{NAME}-monitor"), kept, tmp_path)["monitor"]
    assert "s3" not in monitor.environment.values()
    assert node.environment["DISKLESS_LISTENER_NAME_OUT_SIDE_SSL_KEY_PASSWORD"] == "s3"
    for program in (node, monitor):
        environment = {key: value for key, value in program.environment.items() if value != "s3"}
        settings = load_settings(program.path("/etc/diskless/coordinator.properties"), environment, {"node.id": "0"})
        assert settings.kafka["ssl.key.password"] == "s1"
        assert "sasl.username" not in settings.kafka
        assert settings.object_store_option["sse.customer.key.base64"] == "s2"
        confluent_kafka.Consumer({**settings.kafka, "bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}).close()
