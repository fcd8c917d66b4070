"""What the doctor says of a node's security: settings and files, each case with its neighbour that is in order."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

from cli.doctor.diagnosis import Health
from cli.doctor.security import diagnose_security, named_files
from coordinator.config import load_settings
from simulation.fakes.certificates import Authority

ESSENTIAL = {"node.id": "1", "bootstrap.servers": "k:9092", "data.dirs": "/tmp/d", "object.store.url": "memory://"}
ACLS = {"authorizer": "acls", "super.users": "User:root"}


@pytest.fixture
def secure(tmp_path: Path) -> dict[str, str]:
    """Settings in order: a listener with TLS and certificates of clients, rules, and an HTTP port with token and TLS."""
    authority = Authority(tmp_path)
    both = authority.issue("node", days=365)
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    for file in (both, token):
        file.chmod(0o600)
    return {
        **ESSENTIAL,
        **ACLS,
        "listeners": "SSL://:9192",
        "ssl.keystore.location": str(both),
        "ssl.client.auth": "required",
        "ssl.truststore.location": str(authority.ca_file),
        "http.listener": "https://0.0.0.0:9193",
        "http.ssl.certificate.location": str(both),
        "http.ssl.key.location": str(both),
        "http.bearer.token.file": str(token),
    }


def findings(given: dict[str, str]) -> list[tuple[Health, str]]:
    settings = load_settings(overrides={key: value for key, value in given.items() if value != "-"})
    return [(one.health, one.finding) for one in diagnose_security(settings, named_files(settings), time.time())]


def test_settings_in_order_are_said_to_be(secure: dict[str, str]) -> None:
    assert findings(secure) == [(Health.OK, "SSL://:9192 secured")]
    assert [health for health, _ in findings(ESSENTIAL)] == [Health.OK]


@pytest.mark.parametrize(
    ("changed", "health", "told"),
    [
        ({"listeners": "SSL://:9192,PLAINTEXT://:9191"}, Health.WARNING, "listener PLAINTEXT is in plain text beside SSL"),
        ({"super.users": "-"}, Health.ERROR, "no user may do anything"),
        ({"super.users": "User:root;User:ANONYMOUS"}, Health.ERROR, "super.users has User:ANONYMOUS"),
        ({"super.users": "User:*;User:root"}, Health.WARNING, "User:*, which is no user"),
        ({"acls": "User:*:DESCRIBE,ALTER"}, Health.WARNING, "acls give ALTER to User:*"),
        ({"acls": "User:ANONYMOUS:ALL"}, Health.WARNING, "acls give ALL to User:ANONYMOUS"),
        ({"authorizer": "kafka", "super.users": "-"}, Health.WARNING, "authorizer=kafka without super.users"),
        ({"http.bearer.token.file": "-"}, Health.WARNING, "shows the metrics to everybody"),
        (
            {"http.listener": "http://:9193", "http.ssl.certificate.location": "-", "http.ssl.key.location": "-"},
            Health.WARNING,
            "asks for a token that the network can read",
        ),
        ({"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}, Health.WARNING, "shows the node's password"),
        ({"kafka.enable.ssl.certificate.verification": "false"}, Health.WARNING, "anybody can pose as a broker"),
        ({"http.bearer.token.file": "/does/not/exist"}, Health.WARNING, "cannot be looked at: No such file"),
    ],
)
def test_what_is_less_secure_than_it_looks_is_found(secure: dict[str, str], changed: dict[str, str], health: Health, told: str) -> None:
    [(found, finding)] = findings(secure | changed)
    assert (found, told in finding) == (health, True), finding


@pytest.mark.parametrize(
    "quiet",
    [
        {"acls": "User:*:DESCRIBE"},
        {"authorizer": "kafka"},
        {"http.bearer.token.file": "-", "http.listener": "https://127.0.0.1:9193"},
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"},
    ],
)
def test_what_looks_like_it_and_is_in_order_is_not(secure: dict[str, str], quiet: dict[str, str]) -> None:
    assert [health for health, _ in findings(secure | quiet)] == [Health.OK]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0o600, [Health.OK]),
        (0o440, [Health.OK]),
        (0o604, [Health.WARNING]),
        (0o602, [Health.ERROR]),
        (0o660, [Health.WARNING]),
        (0o666, [Health.ERROR, Health.WARNING]),
    ],
)
def test_confidential_files_are_for_the_service_alone(secure: dict[str, str], mode: int, expected: list[Health]) -> None:
    Path(secure["http.bearer.token.file"]).chmod(mode)
    assert [health for health, _ in findings(secure)] == expected


def test_the_remedy_for_a_file_with_an_odd_name_is_one_command(secure: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "a; touch x $(id) '"
    file.write_text("0123456789abcdef")
    file.chmod(0o604)
    settings = load_settings(overrides=secure | {"http.bearer.token.file": str(file)})
    [found] = diagnose_security(settings, named_files(settings), time.time())
    assert shlex.split(found.remedy.rpartition("; what is in it")[0]) == ["chmod", "o=", str(file)]


@pytest.mark.parametrize(
    ("days", "health", "told"),
    [(-3, Health.ERROR, "expired 3 days ago"), (29, Health.WARNING, "expires in 29 days"), (31, Health.OK, "secured")],
)
def test_certificates_that_end_are_found_in_time(secure: dict[str, str], tmp_path: Path, days: int, health: Health, told: str) -> None:
    other = Authority(tmp_path, "other").issue("soon", days=days)
    other.chmod(0o600)
    [(found, finding)] = findings(secure | {"ssl.keystore.location": str(other)})
    assert (found, told in finding) == (health, True), finding


def test_passwords_in_a_file_that_others_read_are_found_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in (ESSENTIAL | {"kafka.sasl.password": "xyzzy"}).items()))
    found = {}
    for mode in (0o600, 0o644):
        file.chmod(mode)
        settings = load_settings(file, {})
        found[mode] = diagnose_security(settings, named_files(settings), time.time())
    assert [one.health for one in found[0o600]] == [Health.OK]
    [bad] = found[0o644]
    assert bad.health is Health.WARNING
    assert str(file) in bad.finding
    assert "xyzzy" not in bad.finding + bad.remedy
