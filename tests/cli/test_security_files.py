"""`config validate` reads the security files of the settings, as a start of the node does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import root
from cli.outcome import Exit
from simulation.fakes.certificates import Authority

ESSENTIAL = {"node.id": "1", "bootstrap.servers": "127.0.0.1:1", "data.dirs": "/var/lib/diskless", "object.store.url": "s3://bucket"}
TLS = {"listeners": "SSL://:9192", "ssl.client.auth": "none", "authorizer": "acls"}
LOGINS = {"listeners": "SASL_PLAINTEXT://:9192", "sasl.enabled.mechanisms": "SCRAM-SHA-512", "authorizer": "acls"}
HTTPS = {"http.listener": "https://127.0.0.1:9194"}


def validate(folder: Path, settings: dict[str, str]) -> Result:
    file = folder / "coordinator.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in (ESSENTIAL | settings).items()))
    result = CliRunner().invoke(root, ["config", "validate", "--config", str(file)], prog_name="diskless")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def refused(folder: Path, settings: dict[str, str], *told: str) -> None:
    result = validate(folder, settings)
    assert result.exit_code == Exit.USAGE, result.output
    assert result.stdout == ""
    for one in told:
        assert result.stderr.count(one) == 1, (one, result.stderr)
    count = "1 problem" if len(told) == 1 else f"{len(told)} problems"
    assert f"{count} in the configuration" in result.stderr
    assert "is valid" not in result.stderr


def test_files_that_a_start_takes_are_valid(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    both = str(authority.issue("node"))
    secure = {
        "listeners": "SASL_SSL://:9192,SSL://:9193",
        "inter.node.listener.name": "SASL_SSL",
        "authorizer": "acls",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.location": both,
        "ssl.truststore.location": str(authority.ca_file),
        "http.listener": "https://127.0.0.1:9194",
        "http.ssl.certificate.location": both,
        "http.ssl.key.location": both,
        "users.file": written(tmp_path, "users", ""),
        "internal.secret.file": written(tmp_path, "secret", "s" * 32),
        "http.bearer.token.file": written(tmp_path, "token", "t" * 16),
    }
    result = validate(tmp_path, secure)
    assert result.exit_code == Exit.OK, result.output


def test_a_secret_on_which_the_nodes_agree_later_is_no_problem(tmp_path: Path) -> None:
    result = validate(tmp_path, LOGINS | {"users.file": written(tmp_path, "users", "")})
    assert result.exit_code == Exit.OK, result.output


def test_a_key_of_another_certificate_is_told(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("node"), authority.issue("other")
    refused(tmp_path, TLS | {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}, "key values mismatch")


@pytest.mark.parametrize("text", ["no PEM", ""])
def test_a_key_file_that_is_no_pem_is_told(tmp_path: Path, text: str) -> None:
    certificate, key = str(Authority(tmp_path).issue("node")), written(tmp_path, "key", text)
    refused(tmp_path, TLS | {"ssl.certificate.location": certificate, "ssl.key.location": key}, f"{certificate} and {key}: ")


def test_authorities_that_only_connections_to_nodes_need_are_read(tmp_path: Path) -> None:
    both = str(Authority(tmp_path).issue("node"))
    gone = str(tmp_path / "gone.crt")
    refused(tmp_path, TLS | {"ssl.keystore.location": both, "ssl.truststore.location": gone}, "connections to other nodes")


def test_all_files_that_are_missing_are_told_at_once_and_each_once(tmp_path: Path) -> None:
    names = "node.crt", "node.key", "http.crt", "http.key", "users", "secret", "token"
    node, node_key, http, http_key, users, secret, token = (str(tmp_path / name) for name in names)
    settings = LOGINS | HTTPS | {
        "listeners": "SASL_SSL://:9192,SSL://:9193",
        "inter.node.listener.name": "SASL_SSL",
        "ssl.certificate.location": node,
        "ssl.key.location": node_key,
        "http.ssl.certificate.location": http,
        "http.ssl.key.location": http_key,
        "users.file": users,
        "internal.secret.file": secret,
        "http.bearer.token.file": token,
        "kafka.nonsense": "1",
    }  # fmt: skip
    refused(
        tmp_path,
        settings,
        "kafka.*: ",
        f"{node} and {node_key}: ",
        "http.listener: ",
        f"{users}: ",
        f"internal.secret.file {secret}: ",
        f"http.bearer.token.file {token}: ",
    )


def test_keys_of_tokens_in_a_file_are_read(tmp_path: Path) -> None:
    jwks = written(tmp_path, "jwks.json", "{}")
    settings = LOGINS | {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
        "sasl.oauthbearer.expected.audience": "diskless",
    }
    refused(tmp_path, settings, "sasl.oauthbearer.jwks.endpoint.url=")
