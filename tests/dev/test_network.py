"""What a Java from a wheel is told of the machine's certificate authorities and proxy."""

from __future__ import annotations

import hashlib
import ssl
import struct
from pathlib import Path

import pytest

from cli.dev.network import STORE_PASSWORD, certificate_bundles, certificates, java_key_store, proxy_options, trust_options

FIRST, SECOND = b"\x30\x03one", b"\x30\x03two"


def pem(*ders: bytes) -> str:
    return "# a comment\n".join(ssl.DER_cert_to_PEM_cert(der) for der in ders)


def read_store(raw: bytes) -> list[bytes]:
    """Read a JKS file as Java's own JavaKeyStore does."""
    body, digest = raw[:-20], raw[-20:]
    assert hashlib.sha1(STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest() == digest
    magic, version, count = struct.unpack_from(">III", body)
    assert (magic, version) == (0xFEEDFEED, 2)
    found, at = [], 12
    for _ in range(count):
        (tag, alias_size) = struct.unpack_from(">IH", body, at)
        assert tag == 2
        at += 6 + alias_size + 8
        (type_size,) = struct.unpack_from(">H", body, at)
        assert body[at + 2 : at + 2 + type_size] == b"X.509"
        at += 2 + type_size
        (size,) = struct.unpack_from(">I", body, at)
        found.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    assert at == len(body)
    return found


def test_certificates_are_taken_from_a_bundle_each_once() -> None:
    assert certificates([pem(FIRST, SECOND), pem(FIRST)]) == [FIRST, SECOND]


def test_a_store_reads_back() -> None:
    assert read_store(java_key_store([FIRST, SECOND])) == [FIRST, SECOND]


def test_the_bundle_named_by_the_environment_is_used(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(pem(SECOND), encoding="ascii")
    environment = {"SSL_CERT_FILE": str(bundle), "PIP_CERT": str(tmp_path / "absent.pem")}
    assert certificate_bundles(environment) == [bundle]
    options = trust_options(environment, tmp_path)
    assert options[0] == f"-Djavax.net.ssl.trustStore={tmp_path / 'trusted.jks'}"
    assert read_store((tmp_path / "trusted.jks").read_bytes()) == [SECOND]


def test_without_authorities_java_keeps_its_own(tmp_path: Path) -> None:
    assert trust_options({"SSL_CERT_FILE": str(tmp_path / "absent.pem")}, tmp_path) == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"NO_PROXY": "localhost"}, []),
        ({"HTTPS_PROXY": "http://proxy.example:3128"}, ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]),
        ({"http_proxy": "proxy.example"}, ["-Dhttp.proxyHost=proxy.example", "-Dhttp.proxyPort=80"]),
        (
            {"https_proxy": "http://p:1", "NO_PROXY": "localhost, .example"},
            ["-Dhttps.proxyHost=p", "-Dhttps.proxyPort=1", "-Dhttp.nonProxyHosts=localhost|*.example"],
        ),
    ],
)
def test_proxy_options(environment: dict[str, str], expected: list[str]) -> None:
    assert proxy_options(environment) == expected


def test_a_proxy_without_a_host_is_refused() -> None:
    with pytest.raises(ValueError, match="names no host"):
        proxy_options({"HTTPS_PROXY": "http://"})
