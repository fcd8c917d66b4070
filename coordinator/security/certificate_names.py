"""Principals of certificates: the subject in the form of RFC 2253, as Java writes it, changed by the rules of the listener."""

from __future__ import annotations

from cryptography import x509

from coordinator.config.mapping_rules import MappingRules
from coordinator.security.login import LoginFailed
from coordinator.security.principal import Principal


def subject_of(certificate_der: bytes) -> str:
    """Return the subject of a certificate, the most specific name first. Raises ValueError."""
    try:
        return x509.load_der_x509_certificate(certificate_der).subject.rfc4514_string()
    except (TypeError, x509.InvalidVersion) as error:
        # A subject's part of an odd type, and a version that does not exist: authorities do sign odd things.
        raise ValueError(str(error)) from error


def principal_of(certificate_der: bytes, rules: MappingRules) -> Principal:
    """Return the principal of a certificate that was verified. Raises `LoginFailed`."""
    try:
        subject = subject_of(certificate_der)
    except ValueError as error:
        raise LoginFailed("the certificate's subject cannot be read", str(error)) from error
    name = rules.name_of(subject)
    if not name:
        raise LoginFailed("the certificate's subject fits no rule", f"{subject} fits no rule of ssl.principal.mapping.rules")
    return Principal(name)
