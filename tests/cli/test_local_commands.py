"""Commands that need no service: config, files pack, db; and the exit statuses of what cannot be reached."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

import cli
from cli.main import root
from cli.outcome import Exit
from coordinator.client.records.record_lines import parse_lines
from coordinator.client.records.wal_file import read_wal_file
from simulation.fakes.certificates import Authority

PROPERTIES = """
node.id=1
bootstrap.servers=localhost:9092
data.dirs=/var/lib/diskless
object.store.url=s3://bucket
object.store.option.secret.access.key=hidden
"""
NOBODY = "127.0.0.1:1"  # no service of a machine listens there


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "BOOTSTRAP_SERVER", "KAFKA_BOOTSTRAP_SERVER", "OBJECT_STORE_URL"):
        monkeypatch.delenv(f"DISKLESS_{name}", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "coordinator.properties"
    path.write_text(PROPERTIES)
    return path


def run(*args: str | Path, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(root, [str(arg) for arg in args], prog_name="diskless", input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


# ---- config


def test_config_show_prints_values_and_where_they_come_from_but_no_secret(config: Path) -> None:
    result = run("config", "show", "--config", config, "--property", "node.rack=a", "--given", "-o", "json")
    shown = {row["key"]: row for row in json.loads(result.stdout)}
    assert shown["node.rack"] == {"key": "node.rack", "value": "a", "source": "--property"}
    assert shown["node.id"]["source"].endswith("coordinator.properties:2")
    assert shown["object.store.option.secret.access.key"]["value"] == "***"
    assert "group.id" not in shown
    assert "hidden" not in result.output


def test_config_docs_need_no_configuration() -> None:
    rows = json.loads(run("config", "show", "--docs", "-o", "json").stdout)
    assert {"node.id", "group.id"} <= {row["key"] for row in rows}
    assert all(row["why"] for row in rows)


def test_config_validate_lists_every_problem_with_status_2(config: Path) -> None:
    assert run("config", "validate", "--config", config).exit_code == Exit.OK
    wrong = run("config", "validate", "--config", config, "--property", "node.id=x", "--property", "nod.rack=a")
    assert wrong.exit_code == Exit.USAGE
    assert "node.id = 'x'" in wrong.stderr
    assert "did you mean node.rack" in wrong.stderr
    assert wrong.stdout == ""


@pytest.mark.parametrize("flag", ["nothing", "=x"])
def test_a_property_without_a_key_is_a_usage_error(config: Path, flag: str) -> None:
    assert run("config", "show", "--config", config, "--property", flag).exit_code == Exit.USAGE


def test_coordinator_run_refuses_a_wrong_configuration_before_anything_starts(config: Path) -> None:
    result = run("coordinator", "run", "--config", config, "--property", "session.timeout.ms=1")
    assert result.exit_code == Exit.USAGE
    assert "session.timeout.ms" in result.stderr


# ---- files pack


def test_pack_writes_a_file_and_a_manifest_that_fit(tmp_path: Path) -> None:
    out = tmp_path / "a.wal"
    lines = [{"topic": "orders", "partition": 1, "value": "a"}, {"topic": "orders", "partition": 0, "key": "k", "value": "b"}]
    result = run("files", "pack", "-o", out, "--compression", "zstd", stdin="\n".join(map(json.dumps, lines)))
    assert result.exit_code == 0, result.stderr
    assert [(batch.topic, batch.partition) for batch in read_wal_file(out).batches] == [("orders", 0), ("orders", 1)]


def test_pack_takes_the_records_of_the_readme(tmp_path: Path) -> None:
    readme = (Path(cli.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [lines] = re.findall(r"```json\n(.*?)```", readme, re.DOTALL)
    assert run("files", "pack", "-o", str(tmp_path / "orders.wal"), stdin=lines).exit_code == 0


def test_pack_overwrites_only_when_told(tmp_path: Path) -> None:
    out = tmp_path / "a.wal"
    line = '{"topic": "t", "partition": 0}'
    assert run("files", "pack", "-o", out, stdin=line).exit_code == Exit.OK
    assert run("files", "pack", "-o", out, stdin=line).exit_code == Exit.USAGE
    assert run("files", "pack", "-o", out, "--force", stdin=line).exit_code == Exit.OK


@pytest.mark.parametrize("stdin", ["", "{", '{"topic": "t"}', '{"topic": "t", "partition": 0, "valu": "x"}'])
def test_pack_refuses_input_that_is_no_record_and_writes_nothing(tmp_path: Path, stdin: str) -> None:
    assert run("files", "pack", "-o", tmp_path / "a.wal", stdin=stdin).exit_code == Exit.FAILURE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('{"topic": "a/b", "partition": 0}', "'a/b'"),
        ('{"topic": "..", "partition": 0}', "'..'"),
        ('{"topic": "t", "partition": 0, "value": "x", "value": "y"}', "'value' stands there more than once"),
        ('{"topic": "t", "partition": 0, "headers": {"h": "x", "h": "y"}}', "'h' stands there more than once"),
    ],
)
def test_pack_refuses_topics_that_cannot_be_and_fields_given_twice(tmp_path: Path, line: str, word: str) -> None:
    result = run("files", "pack", "-o", tmp_path / "a.wal", stdin=line)
    assert result.exit_code == Exit.FAILURE
    assert "line 1" in result.stderr
    assert word in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_pack_refuses_timestamps_too_far_ahead(tmp_path: Path) -> None:
    ahead_ms = time.time_ns() // 1_000_000 + 7_200_000
    line = json.dumps({"topic": "t", "partition": 0, "timestamp": ahead_ms})
    result = run("files", "pack", "-o", tmp_path / "a.wal", stdin=line)
    assert result.exit_code == Exit.FAILURE
    assert f"line 1: the timestamp {ahead_ms} is" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert run("files", "pack", "-o", tmp_path / "a.wal", "--timestamp-after-max-ms", "7200000", stdin=line).exit_code == Exit.OK
    at_append = json.dumps({"topic": "t", "partition": 0, "timestamp": ahead_ms, "timestamp_type": "LogAppendTime"})
    assert run("files", "pack", "-o", tmp_path / "b.wal", stdin=at_append).exit_code == Exit.OK


def test_pack_replaces_neither_devices_nor_pipes_nor_links(tmp_path: Path) -> None:
    pipe, link, file = tmp_path / "pipe", tmp_path / "link.wal", tmp_path / "file.wal"
    os.mkfifo(pipe)
    link.symlink_to(file)
    line = '{"topic": "t", "partition": 0}'
    for target in (pipe, Path("/dev/null"), tmp_path):
        assert run("files", "pack", "--force", "-o", target, stdin=line).exit_code == Exit.USAGE
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()
    assert run("files", "pack", "-o", link, stdin=line).exit_code == Exit.OK
    assert link.is_symlink()
    assert file.is_file()


def test_pack_replaces_no_file_that_was_made_while_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.wal"
    line = '{"topic": "t", "partition": 0, "value": "x"}'

    def other(lines: object, **given: int) -> object:
        yield from parse_lines(lines, **given)
        out.write_bytes(b"of another process")

    monkeypatch.setattr("coordinator.client.records.record_lines.parse_lines", other)
    result = run("files", "pack", "-o", out, stdin=line)
    assert result.exit_code == Exit.USAGE
    assert result.stderr.endswith(f"{out} exists; choose another name or pass --force\n")
    assert out.read_bytes() == b"of another process"
    assert list(tmp_path.iterdir()) == [out]
    assert run("files", "pack", "-o", out, "--force", stdin=line).exit_code == Exit.OK
    assert len(read_wal_file(out).batches) == 1


@pytest.mark.parametrize("url", ["memory://", "file://{here}/mistyped", "file://{here}/a.wal"])
def test_commit_refuses_a_store_where_nobody_looks(tmp_path: Path, url: str) -> None:
    wal = tmp_path / "a.wal"
    run("files", "pack", "-o", wal, stdin='{"topic": "t", "partition": 0, "value": "x"}')
    before = sorted(tmp_path.iterdir())
    result = run("files", "commit", wal, "--bootstrap-server", NOBODY, "--object-store-url", url.format(here=tmp_path))
    assert result.exit_code in (Exit.USAGE, Exit.NOT_FOUND)
    assert "store" in result.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("prefix", ["snapshots/", "snapshots/a/", "orphan-scan/", "own-snapshots/"])
def test_commit_refuses_a_prefix_whose_objects_the_service_would_never_delete(tmp_path: Path, config: Path, prefix: str) -> None:
    wal = tmp_path / "a.wal"
    run("files", "pack", "-o", wal, stdin='{"topic": "t", "partition": 0, "value": "x"}')
    store = ["--object-store-url", f"file://{tmp_path}"]
    if prefix.startswith("own-"):
        config.write_text(config.read_text() + "\nsnapshots.prefix=own-snapshots\n")
        store += ["--config", config]
    result = run("files", "commit", wal, "--key-prefix", prefix, "--bootstrap-server", NOBODY, *store)
    assert result.exit_code == Exit.USAGE, result.output
    assert f"--key-prefix: {prefix} is where the service keeps objects of its own" in result.stderr
    other = run("files", "commit", wal, "--key-prefix", "snapshots-of-mine/", "--bootstrap-server", NOBODY, *store)
    assert "nobody listens" in other.stderr


def test_a_kafka_setting_that_its_client_does_not_know_is_told_before_anything_starts(config: Path) -> None:
    for name, value in (("kafka.nonsense", "1"), ("kafka.socket.timeout.ms", "soon"), ("kafka.ssl.ca.location", "/nowhere/ca.pem")):
        extra = ("--property", "kafka.security.protocol=ssl", "--property", f"{name}={value}")
        for command in ("config", "validate"), ("coordinator", "run"):
            result = run(*command, "--config", config, *extra)
            assert result.exit_code == Exit.USAGE, result.output
            assert "kafka.*" in result.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism GSSAPI is not known; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512\n"),
        ({"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}, "GSSAPI is not known; use PLAIN"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER is not known; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512\n"),
        (
            {"sasl.mechanisms": "oauthbearer", "sasl.oauthbearer.token.endpoint.url": "file:///token"},
            "OAUTHBEARER is not known; use PLAIN",
        ),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, "OAUTHBEARER is not known; use PLAIN"),
        ({"sasl.mechanism": "PLAIN", "sasl.oauthbearer.method": "oidc"}, "sasl.oauthbearer.method cannot be followed"),
        ({"sasl.oauthbearer.config": "principal=admin"}, "sasl.oauthbearer.config cannot be followed"),
        ({"ssl.keystore.location": "KEYSTORE"}, "give a PEM file with a certificate and its key"),
        ({"ssl.keystore.location": "KEYSTORE", "ssl.keystore.password": "x"}, "ssl.keystore.password cannot be followed"),
        ({"ssl.certificate.pem": "-----BEGIN CERTIFICATE-----"}, "ssl.certificate.pem cannot be followed"),
        ({"ssl.key.pem": "-----BEGIN PRIVATE KEY-----"}, "ssl.key.pem cannot be followed"),
        ({"ssl.crl.location": "/crl.pem"}, "ssl.crl.location cannot be followed"),
        ({"ssl.engine.location": "/engine.so"}, "ssl.engine.location cannot be followed"),
        ({"ssl.engine.id": "dynamic"}, "ssl.engine.id cannot be followed"),
        ({"ssl.providers": "default"}, "ssl.providers cannot be followed"),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256"}, "ssl.cipher.suites cannot be followed"),
        ({"ssl.curves.list": "P-256"}, "ssl.curves.list cannot be followed"),
        ({"ssl.sigalgs.list": "RSA+SHA256"}, "ssl.sigalgs.list cannot be followed"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "No such file"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_security_towards_kafka_that_one_of_a_nodes_clients_lacks_is_refused_before_anything_starts(
    config: Path, tmp_path: Path, given: dict[str, str], told: str
) -> None:
    keystore = tmp_path / "node.p12"
    both = Authority(tmp_path).issue("node").read_bytes()
    key, certificate = load_pem_private_key(both, None), load_pem_x509_certificate(both)
    keystore.write_bytes(pkcs12.serialize_key_and_certificates(b"node", key, certificate, None, NoEncryption()))  # type: ignore[arg-type]
    protocol = {"security.protocol": "SSL" if all(name.startswith("ssl.") for name in given) else "SASL_SSL"}
    if protocol["security.protocol"] == "SASL_SSL" and "security.protocol" not in given:
        protocol |= {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"} if "sasl.oauthbearer.config" in given else {}
    words = [f"kafka.{name}={value.replace('KEYSTORE', str(keystore))}" for name, value in (protocol | given).items()]
    extra = [word for one in words for word in ("--property", one)]
    for command in ("config", "validate"), ("coordinator", "run"):
        result = run(*command, "--config", config, *extra)
        assert result.exit_code == Exit.USAGE, result.output
        assert told in result.stderr
        assert "kafka.*" in result.stderr


def test_a_process_without_the_command_line_refuses_the_same(config: Path) -> None:
    words = ("kafka.security.protocol=SASL_SSL", "kafka.sasl.mechanism=OAUTHBEARER", "data.dirs=/nowhere/d")
    done = subprocess.run([sys.executable, "-m", "coordinator.app", str(config), *words], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.FAILURE
    [line] = done.stderr.splitlines()
    assert "cannot start: a node's own connections to Kafka cannot be made with these kafka properties: sasl.mechanism OAUTHBEARER" in line


@pytest.mark.parametrize(
    "given",
    [
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
        {"security.protocol": "ssl", "ssl.ca.location": "CA", "enable.ssl.certificate.verification": "false"},
        {"security.protocol": "SSL", "ssl.ca.location": "CA", "ssl.certificate.location": "BOTH", "ssl.key.location": "BOTH"},
        {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"},
        {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
        {"client.rack": "a", "socket.keepalive.enable": "true", "debug": "security"},
        {"security.protocol": "PLAINTEXT", "ssl.cipher.suites": "unused"},
    ],
)
def test_security_that_both_clients_of_a_node_know_is_valid(config: Path, tmp_path: Path, given: dict[str, str]) -> None:
    authority = Authority(tmp_path)
    files = {"CA": str(authority.ca_file), "BOTH": str(authority.issue("node"))}
    extra = [word for name, value in given.items() for word in ("--property", f"kafka.{name}={files.get(value, value)}")]
    assert run("config", "validate", "--config", config, *extra).exit_code == Exit.OK


# ---- what cannot be reached or found


def test_a_service_that_does_not_answer_is_status_4() -> None:
    result = run("topics", "list", "--bootstrap-server", NOBODY, "--timeout", "0.3")
    assert result.exit_code == Exit.UNAVAILABLE
    assert "127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("server", ["host", "host:x", ":1", "host:99999", ","])
def test_an_address_that_is_none_is_a_usage_error(server: str) -> None:
    assert run("topics", "list", "--bootstrap-server", server).exit_code == Exit.USAGE


def test_the_address_is_required_and_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("topics", "list").exit_code == Exit.USAGE
    monkeypatch.setenv("DISKLESS_BOOTSTRAP_SERVER", NOBODY)
    assert run("topics", "list", "--timeout", "0.3").exit_code == Exit.UNAVAILABLE


def test_the_programs_own_variables_are_no_settings(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISKLESS_BOOTSTRAP_SERVER", NOBODY)
    monkeypatch.setenv("DISKLESS_KAFKA_BOOTSTRAP_SERVER", NOBODY)
    monkeypatch.setenv("DISKLESS_MONITOR_DIR", "/var/lib/monitor")
    assert run("config", "validate", "--config", config).exit_code == Exit.OK


def test_commit_looks_at_the_file_before_it_connects(tmp_path: Path) -> None:
    assert run("files", "commit", tmp_path / "no.wal", "--bootstrap-server", NOBODY).exit_code == Exit.NOT_FOUND
    wal = tmp_path / "a.wal"
    run("files", "pack", "-o", wal, stdin='{"topic": "t", "partition": 0, "value": "x"}')
    data = bytearray(wal.read_bytes())
    data[-1] ^= 1
    wal.write_bytes(data)
    damaged = run("files", "commit", wal, "--bootstrap-server", NOBODY, "--object-store-url", f"file://{tmp_path / 'o'}")
    assert damaged.exit_code == Exit.FAILURE
    assert "CRC32C" in damaged.stderr


def test_commit_needs_a_store(tmp_path: Path) -> None:
    wal = tmp_path / "a.wal"
    run("files", "pack", "-o", wal, stdin='{"topic": "t", "partition": 0, "value": "x"}')
    result = run("files", "commit", wal, "--bootstrap-server", NOBODY)
    assert result.exit_code == Exit.USAGE
    assert "--object-store-url" in result.stderr


@pytest.mark.parametrize("time", ["yesterday", "-6", "1.5"])
def test_times_that_are_none(time: str) -> None:
    assert run("offsets", "list", "--time", time, "--bootstrap-server", NOBODY).exit_code == Exit.USAGE


def test_init_needs_a_cluster_and_a_possible_topic() -> None:
    assert run("init").exit_code == Exit.USAGE
    impossible = run("init", "--bootstrap-server", NOBODY, "--replication-factor", "1", "--min-insync-replicas", "2")
    assert impossible.exit_code == Exit.USAGE


def test_properties_that_carry_the_safety_of_the_log_are_refused() -> None:
    for command in (("init",), ("log", "dump")):
        result = run(*command, "--bootstrap-server", NOBODY, "--command-property", "auto.offset.reset=latest", "--timeout", "0.3")
        assert result.exit_code == Exit.USAGE
        assert "auto.offset.reset" in result.stderr


def test_keys_of_the_java_client_are_named() -> None:
    result = run("init", "--bootstrap-server", NOBODY, "--command-property", "sasl.jaas.config=x")
    assert result.exit_code == Exit.USAGE
    assert "sasl.username" in result.stderr


def test_doctor_needs_something_to_look_at_and_reports_what_does_not_answer() -> None:
    assert run("doctor").exit_code == Exit.USAGE
    result = run("doctor", "--bootstrap-server", NOBODY, "--timeout", "0.3", "-o", "json")
    assert result.exit_code == Exit.FAILURE
    found = {row["check"]: row["health"] for row in json.loads(result.stdout)}
    assert found == {
        "kafka topic": "skipped",
        "nodes": "error",
        "clocks": "skipped",
        "object store": "skipped",
        "data dirs": "skipped",
        "security": "skipped",
        "shadows": "skipped",
        "gateways": "skipped",
    }


# ---- db


def test_db_needs_a_state_database(tmp_path: Path) -> None:
    assert run("db", "sql", tmp_path / "no.db", "SELECT 1").exit_code == Exit.NOT_FOUND
    other = tmp_path / "other.db"
    other.write_text("this is no database, whatever its name says" * 100)
    assert run("db", "dump", other).exit_code == Exit.FAILURE
