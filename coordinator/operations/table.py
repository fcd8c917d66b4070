"""Every operation this service knows, in one table; what ApiVersions answers is derived from it.

Kafka 4.4 gave the KIP's numbers 93 and 94 to other requests, so each operation of the KIP is also served under 10000 + its
KIP number, with the same schema; `wire.kip.keys.enabled=false` hides the KIP's own numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.operations import (
    discovery,
    files,
    log_dirs,
    logins,
    maintenance,
    migrations,
    moves,
    nodes,
    partitions,
    producers,
    snapshot_fetches,
    topic_configs,
    topics,
)
from coordinator.operations.declaration import ApiVersion, Operation
from coordinator.operations.kafka_versions import load_all
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message
from coordinator.protocol.wire import varint

_SUBJECTS: Final = (
    discovery,
    files,
    log_dirs,
    logins,
    maintenance,
    migrations,
    moves,
    nodes,
    partitions,
    producers,
    snapshot_fetches,
    topic_configs,
    topics,
)

OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    sorted((one for subject in _SUBJECTS for one in vars(subject).values() if isinstance(one, Operation)), key=lambda one: one.key)
)
"""Every operation that a module of `_SUBJECTS` declares, by number."""

_UNSUPPORTED_VERSION: Final = 35


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One number of an operation: the one handlers know it by, or the KIP's own."""

    key: int
    operation: Operation

    @property
    def versions(self) -> Mapping[int, ApiVersion]:
        """The versions of the operation."""
        return self.operation.versions

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operation.name

    @property
    def canonical(self) -> int:
        """The number by which handlers know the operation."""
        return self.operation.key

    @property
    def is_unbounded(self) -> bool:
        """True when a small request can have a large answer."""
        return self.operation.is_unbounded

    def is_flexible(self, version: int) -> bool | None:
        """Tell whether a version has tagged fields; None for a version that there is not."""
        known = self.versions.get(version)
        return None if known is None else known.flexible

    def check(self, version: int, data: bytes, body_offset: int) -> None:
        """Raise MalformedMessage for a body that is no request of a version."""
        self.operation.decode(version, data, body_offset)

    @property
    def is_kip_key(self) -> bool:
        """True for the KIP's own numbers, which `wire.kip.keys.enabled` can hide."""
        return self.key != self.operation.key

    def is_response_tagged(self, version: int) -> bool:
        """Tell whether responses of a version have header version 1, as flexible ones do.

        ApiVersions has 0, or old clients could not read it; so has what is answered to an unknown version.
        """
        return self.key != ApiKey.API_VERSIONS and bool(self.is_flexible(version))


def numbers_of(operations: Iterable[Operation]) -> dict[int, Api]:
    """Return each number of these operations, ascending."""
    found = {key: Api(key=key, operation=one) for one in operations for key in (one.kip_key, one.key) if key is not None}
    return dict(sorted(found.items()))


APIS: Final[Mapping[int, Api]] = numbers_of(OPERATIONS)


def operation_of(request_type: type[Message]) -> tuple[Operation, int]:
    """Return the operation and version of a request class. Raises KeyError for a class that is no request."""
    version = int(request_type.__version__)
    operation = APIS[int(request_type.__api_key__)].operation
    if operation.versions[version].request_type is not request_type:  # a response, or a part of a message
        raise KeyError(request_type)
    return operation, version


class ApiTable:
    """The numbers one listener serves."""

    def __init__(
        self, operations: Iterable[Operation] = OPERATIONS, *, wire_kip_keys_enabled: bool = True, internal_enabled: bool = True
    ) -> None:
        self._apis = {
            key: api
            for key, api in numbers_of(operations).items()
            if (wire_kip_keys_enabled or not api.is_kip_key) and (internal_enabled or not api.operation.is_internal)
        }
        for api in self._apis.values():
            load_all(api.versions)

    def find(self, api_key: int) -> Api | None:
        """Return the number if it is served."""
        return self._apis.get(api_key)

    def ranges(self) -> list[tuple[int, int, int]]:
        """List (key, lowest version, highest version) of everything served, by key."""
        return [(key, min(api.versions), max(api.versions)) for key, api in self._apis.items()]

    def api_versions_body(self, version: int) -> bytes:
        """Encode ApiVersions' answer; an unknown version gets UNSUPPORTED_VERSION and the known range, in version 0."""
        unsupported = version not in discovery.API_VERSIONS.versions
        ranges = [row for row in self.ranges() if row[0] == ApiKey.API_VERSIONS or not unsupported]
        if unsupported:
            return _api_versions_body(0, _UNSUPPORTED_VERSION, ranges)
        return _api_versions_body(version, 0, ranges)


def _api_versions_body(version: int, error_code: int, ranges: list[tuple[int, int, int]]) -> bytes:
    """Version 0 has no throttle time, versions 3 and up are flexible; nothing is throttled and there are no features."""
    if version >= 3:
        rows = b"".join(struct.pack(">hhhx", *row) for row in ranges)
        return struct.pack(">h", error_code) + varint(len(ranges) + 1) + rows + struct.pack(">ix", 0)
    rows = b"".join(struct.pack(">hhh", *row) for row in ranges)
    return struct.pack(">hi", error_code, len(ranges)) + rows + (struct.pack(">i", 0) if version else b"")
