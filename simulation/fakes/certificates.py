"""Authorities and certificates for tests, made in milliseconds."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)
HOSTS = ("localhost", "127.0.0.1")


class Authority:
    """An authority whose files are in `folder`; `ca_file` has its certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = _builder(self._name, self._name, self._key, -_DAY, 10 * _DAY)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = made.sign(self._key, hashes.SHA256())
        self.ca_file = folder / f"{name}.crt"
        self.ca_file.write_bytes(_pem(self._certificate))

    def issue(
        self,
        common_name: str,
        *,
        file: str | None = None,
        hosts: Sequence[str] = HOSTS,
        days: float = 5,
        unit: str = "",
        password: str | None = None,
    ) -> Path:
        """Write a key with its certificate into one PEM file and return it; negative `days` make one that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        made = _builder(subject, self._name, key, -10 * _DAY, days * _DAY)
        alternatives = [_general_name(host) for host in hosts]
        if alternatives:
            made = made.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = made.sign(self._key, hashes.SHA256())
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        target = self._folder / (file or f"{common_name}.pem")
        part = target.with_name(target.name + ".part")
        part.write_bytes(private + _pem(certificate))
        part.replace(target)
        return target


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime.timedelta, end: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return made.serial_number(x509.random_serial_number()).not_valid_before(now + begin).not_valid_after(now + end)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
