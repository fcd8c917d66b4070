"""The versions of Kafka's own requests, whose classes are kio's.

Each version is a package of its own and takes some 10 ms to import; a client uses one version of each request. So a version is
imported when it is first asked for. A node imports all of them before it serves (`load_all`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from coordinator.operations.declaration import Acl, AnsweredBy, ApiVersion, ByTopic, Lane, Operation, Refuse, version_of
from coordinator.protocol.api_keys import ApiKey


@cache
def schema_module(package: str, version: int, part: str) -> ModuleType:
    """Import `request` or `response` of a version of one of Kafka's messages. Raises ImportError for a version kio does not have."""
    return import_module(f"kio.schema.{package}.v{version}.{part}")


class KafkaVersions(Mapping[int, ApiVersion]):
    """Versions `first` to `last` of a request, imported when they are used; `name` is that of its number, such as LIST_OFFSETS."""

    def __init__(self, name: str, first: int, last: int) -> None:
        self._package = name.lower()
        self.text = name.title().replace("_", "")
        """The request's name as Kafka writes it."""
        self._numbers = range(first, last + 1)
        self._loaded: dict[int, ApiVersion] = {}

    def __getitem__(self, version: int) -> ApiVersion:
        found = self._loaded.get(version)
        if found is None:
            if version not in self._numbers:
                raise KeyError(version)
            request = getattr(self.module(version, "request"), f"{self.text}Request")
            response = getattr(self.module(version, "response"), f"{self.text}Response")
            found = self._loaded[version] = version_of(request, response)
        return found

    def module(self, version: int, part: str) -> ModuleType:
        """Return kio's module of a version's `request` or `response`. Raises ImportError for a version that kio does not have."""
        return schema_module(self._package, version, part)

    def __contains__(self, version: object) -> bool:
        return version in self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def kafka_operation(
    key: ApiKey,
    first: int,
    last: int,
    *,
    acl: Acl,
    refuse: Refuse | None,
    answered_by: AnsweredBy = AnsweredBy.ANY_NODE,
    lane: Lane = Lane.READ,
    is_internal: bool = False,
    is_unbounded: bool = False,
    by_topic: ByTopic | None = None,
) -> Operation:
    """Return one of Kafka's own operations in the versions `first` to `last`."""
    return Operation(
        name=key.name,
        key=key,
        versions=KafkaVersions(key.name, first, last),
        answered_by=answered_by,
        acl=acl,
        lane=lane,
        is_standard=True,
        is_internal=is_internal,
        is_unbounded=is_unbounded,
        refuse=refuse,
        by_topic=by_topic,
    )


def load_all(versions: Mapping[int, ApiVersion]) -> None:
    """Import every version, so that no request waits for it."""
    for version in versions:
        _ = versions[version]
