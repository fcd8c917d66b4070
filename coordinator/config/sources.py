"""The three sources of settings as text: properties files (Java's format), environment variables, flags.

A source yields `Given` values; precedence is flags, then environment, then file. Nothing is interpreted here beyond
the source's own syntax and the translation of variable names to keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coordinator.config.sections.security import LISTENER_PREFIX
from coordinator.config.settings import NODE
from coordinator.config.table import SettingsTable

ENVIRONMENT_PREFIX = "DISKLESS_"
FILE_BYTES_MAX = 1024 * 1024

# Variables with our prefix that are no settings: those of the tools, and those that Kubernetes sets for a Service whose
# name starts with "diskless" (DISKLESS_COORDINATOR_PORT_9192_TCP_ADDR and so on).
_NOT_SETTINGS = re.compile(
    r"DISKLESS_(CONFIG|BOOTSTRAP_SERVER|CACHE_DIR|KAFKA|KAFKA_BOOTSTRAP_SERVER|KAFKA_IMAGE|DEV_.*|TEST_.*|CLI_.*|HTTP_ADDRESSES|MONITOR_DIR)"
    r"|DISKLESS_(.*_)?SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)"
    r"|DISKLESS_(.*_)?PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One value as it was given, and the words that say where."""

    key: str
    value: str
    source: str


class SourceError(Exception):
    """A source cannot be read at all; the text says which and what to do."""


def read_file(path: Path) -> list[Given]:
    """Read a properties file (UTF-8). Raises `SourceError`."""
    try:
        content = read_bounded(path, FILE_BYTES_MAX)
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot read the settings file {path}: {error}; give a readable UTF-8 properties file") from error
    return [Given(key=key, value=value, source=f"{path}:{line}") for line, key, value in parse_properties(content, str(path))]


def read_bounded(path: Path, bytes_max: int) -> str:
    """Read a text file (UTF-8), also a pipe or device, of at most so many bytes. Raises OSError, ValueError."""
    with path.open("rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"it has more than {bytes_max} bytes")
    if b"\x00" in content:
        raise ValueError("it is no text")
    return content.decode("utf-8")


def parse_properties(content: str, name: str) -> Iterable[tuple[int, str, str]]:
    """Yield (line number, key, value) of a text in Java's properties format; the last of repeated keys counts."""
    for line, logical in _logical_lines(content):
        match = re.match(r"((?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+|$)(.*)", logical, re.DOTALL)
        if match is None:
            raise SourceError(f"{name}:{line} has no key before '='; write key=value")
        try:
            yield line, _unescape(match[1]), _unescape(match[2]).rstrip()
        except ValueError as error:
            raise SourceError(f"{name}:{line}: {error}") from error


def _logical_lines(content: str) -> Iterable[tuple[int, str]]:
    """Join lines that end in an odd number of backslashes; leave out comments and blank lines."""
    pending, start = "", 0
    for number, raw in enumerate(content.removeprefix("\ufeff").splitlines(), 1):
        line = raw.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            start = number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            pending += line[:-1]
            continue
        yield start, pending + line
        pending = ""
    if pending:
        yield start, pending


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped[0] != "u":
            return _ESCAPES.get(escaped, escaped)
        if len(escaped) != 5:
            raise ValueError("\\u needs four hexadecimal digits; write a backslash as \\\\")
        return chr(int(escaped[1:], 16))

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", one, text, flags=re.DOTALL)


def environment_name(key: str) -> str:
    """Name the variable of a key: `node.id` is DISKLESS_NODE_ID; a leading `diskless.` is not repeated."""
    return ENVIRONMENT_PREFIX + key.removeprefix("diskless.").replace(".", "_").upper()


def read_environment(environment: Mapping[str, str], table: SettingsTable = NODE) -> list[Given]:
    """Pick settings among environment variables. A variable that fits no key of the table keeps its guessed key, to be refused."""
    by_name = {environment_name(key): key for key in table.keys}
    by_name |= {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in table.keys}
    given = []
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        if name not in by_name and _NOT_SETTINGS.fullmatch(name):
            continue
        key = by_name.get(name, _key_of_family(name, table))
        given.append(Given(key=key, value=environment[name], source=f"environment variable {name}"))
    return given


def _key_of_family(name: str, table: SettingsTable) -> str:
    """Guess the key: below a family's prefix every underscore is a dot, but those of a listener's name stay."""
    of_listener = name.removeprefix(environment_name(LISTENER_PREFIX))
    if of_listener != name:
        for key in table.listener_keys:
            listener = of_listener.removesuffix("_" + key.replace(".", "_").upper())
            if listener != of_listener and listener:
                return f"{LISTENER_PREFIX}{listener.lower()}.{key}"
    return name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")


def parse_properties_flags(flags: Iterable[str]) -> dict[str, str]:
    """Turn the `key=value` of repeated `--property` flags into a mapping, the last one winning. Raises `SourceError`."""
    found: dict[str, str] = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not key.strip():
            raise SourceError(f"--property {flag!r} is not of the form key=value")
        found[key.strip()] = value.strip()
    return found


def read_overrides(overrides: Mapping[str, str]) -> list[Given]:
    """Treat the values of `--property` flags as a source."""
    return [Given(key=key, value=value, source="--property") for key, value in overrides.items()]
