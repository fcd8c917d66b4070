"""Lets a Java that came as a wheel reach the network as this machine's other programs do.

Such a Java knows neither the certificate authorities the machine trusts (a company's own, say) nor the proxy in
HTTPS_PROXY. Both are handed over as options. Never weakens a check: what the machine trusts is trusted, nothing else.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import struct
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path

BUNDLE_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
STORE_PASSWORD = "public"  # a JKS file of certificates has a checksum with a password; it protects no secret

JKS_MAGIC, JKS_VERSION, JKS_TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
JKS_SALT = b"Mighty Aphrodite"  # a part of the format


def certificate_bundles(environment: Mapping[str, str]) -> list[Path]:
    """Return the files with the authorities this machine trusts: those named by the environment, else OpenSSL's defaults."""
    named = [Path(environment[variable]) for variable in BUNDLE_VARIABLES if environment.get(variable)]
    if named:
        return [path for path in named if path.is_file()]
    defaults = ssl.get_default_verify_paths()
    found = [Path(defaults.cafile)] if defaults.cafile else []
    if defaults.capath:
        whole = Path(defaults.capath) / "ca-certificates.crt"  # everything in one file, where the folder has it
        found += [whole] if whole.is_file() else sorted(Path(defaults.capath).glob("*.pem"))
    return [path for path in found if path.is_file()]


def certificates(pem_texts: Iterable[str]) -> list[bytes]:
    """Return the certificates in PEM texts as DER, each once."""
    found = (ssl.PEM_cert_to_DER_cert(block) for text in pem_texts for block in CERTIFICATE.findall(text))
    return list(dict.fromkeys(found))


def java_key_store(trusted: Iterable[bytes]) -> bytes:
    """Encode DER certificates as a JKS trust store with the password `STORE_PASSWORD`."""
    entries = list(trusted)
    body = struct.pack(">III", JKS_MAGIC, JKS_VERSION, len(entries))
    for index, certificate in enumerate(entries):
        body += struct.pack(">I", JKS_TRUSTED_CERTIFICATE) + _text(f"authority-{index}") + struct.pack(">Q", 0)
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    return body + hashlib.sha1(STORE_PASSWORD.encode("utf-16-be") + JKS_SALT + body).digest()


def _text(text: str) -> bytes:
    raw = text.encode("ascii")
    return struct.pack(">H", len(raw)) + raw


def trust_options(environment: Mapping[str, str], folder: Path) -> list[str]:
    """Write a trust store into `folder` and return the options to use it; none when the machine names no authorities."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in certificate_bundles(environment)]
    trusted = certificates(texts)
    if not trusted:
        return []
    store = folder / "trusted.jks"
    store.write_bytes(java_key_store(trusted))
    prefix = "-Djavax.net.ssl.trustStore"
    return [f"{prefix}={store}", f"{prefix}Type=JKS", f"{prefix}Password={STORE_PASSWORD}"]


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Return Java's form of HTTPS_PROXY, HTTP_PROXY and NO_PROXY (host and port; Java takes no credentials this way)."""
    options: list[str] = []
    for scheme in ("https", "http"):
        address = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        if address:
            parsed = urllib.parse.urlsplit(address if "://" in address else f"//{address}")
            if parsed.hostname is None:
                raise ValueError(f"{scheme.upper()}_PROXY={address!r} names no host")
            options += [f"-D{scheme}.proxyHost={parsed.hostname}", f"-D{scheme}.proxyPort={parsed.port or 80}"]
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY")
    if options and exempt:
        hosts = [("*" + host if host.startswith(".") else host) for host in exempt.replace(" ", "").split(",") if host]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return options
