"""The Kafka properties of this project (librdkafka's names) as those of Kafka's Java client, which Spark reads with.

Only what decides whether a connection comes about and how safe it is has to be the same in both: security and the rack.
Invariant: a security property is translated or refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

PEM_BYTES_MAX: Final = 4 * 1024 * 1024

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_TRANSLATED: Final = frozenset(
    {
        "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem",
        "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)  # fmt: skip
_SECURITY: Final = ("sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "oauthbearer")


class UntranslatableError(ValueError):
    """A security property has no counterpart in the Java client; the text names it and the remedy."""


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate. Reads the files that certificates and keys are in. Raises `UntranslatableError` and `OSError`."""
    refused = sorted(key for key in properties if key.startswith(_SECURITY) and key not in _TRANSLATED)
    if refused:
        raise UntranslatableError(
            f"{', '.join(refused)}: Spark's Kafka client has no such setting. What it understands: security.protocol, client.rack, "
            f"{', '.join(sorted(_TRANSLATED))}"
        )
    made = {key: properties[key] for key in ("client.rack",) if key in properties}
    if "security.protocol" in properties:
        made["security.protocol"] = properties["security.protocol"].upper()
    return made | _sasl(properties) | _trust(properties) | _identity(properties) | _names(properties)


def _sasl(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanisms") or properties.get("sasl.mechanism")
    if mechanism is None and not properties.get("security.protocol", "").upper().startswith("SASL_"):
        return {}
    module = _LOGIN_MODULES.get(mechanism or "GSSAPI")
    if mechanism is None or module is None:
        raise UntranslatableError(
            f"sasl.mechanism {mechanism or 'GSSAPI (the default)'} is not supported here; use {', '.join(_LOGIN_MODULES)}"
        )
    user, password = (_quoted(properties.get(key, "")) for key in ("sasl.username", "sasl.password"))
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} required username={user} password={password};"}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    authorities = _pem(properties, "ssl.ca")
    return {} if authorities is None else {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}


def _identity(properties: Mapping[str, str]) -> dict[str, str]:
    chain, key = _pem(properties, "ssl.certificate"), _pem(properties, "ssl.key")
    if chain is None and key is None:
        return {}
    if chain is None or key is None:
        raise UntranslatableError("a client certificate needs both: ssl.certificate.location and ssl.key.location (or the .pem forms)")
    if "BEGIN PRIVATE KEY" not in key and "BEGIN ENCRYPTED PRIVATE KEY" not in key:
        raise UntranslatableError("ssl.key: Java reads keys in PKCS#8 only; convert it: openssl pkcs8 -topk8 -in KEY -out KEY.pk8")
    made = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
    return made | ({"ssl.key.password": properties["ssl.key.password"]} if "ssl.key.password" in properties else {})


def _names(properties: Mapping[str, str]) -> dict[str, str]:
    key = "ssl.endpoint.identification.algorithm"
    if key not in properties:
        return {}
    return {key: "" if properties[key].lower() == "none" else properties[key]}


def _pem(properties: Mapping[str, str], name: str) -> str | None:
    if f"{name}.pem" in properties:
        return properties[f"{name}.pem"]
    file = properties.get(f"{name}.location")
    if not file or (name == "ssl.ca" and file == "probe"):  # librdkafka's word for the authorities of the machine, as Java's default
        return None
    with Path(file).open("rb") as opened:
        content = opened.read(PEM_BYTES_MAX + 1)
    if len(content) > PEM_BYTES_MAX or not content.isascii():
        wrong = f"has more than {PEM_BYTES_MAX} bytes" if len(content) > PEM_BYTES_MAX else "is no text in ASCII"
        raise UntranslatableError(f"{name}.location: {file} {wrong}; name a file in PEM format")
    return content.decode("ascii")
