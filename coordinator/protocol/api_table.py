"""Every request this service knows, in one table; what ApiVersions answers is derived from it.

Kafka 4.4 gave the KIP's numbers 93 and 94 to other requests, so each KIP operation is also served under 10000 + its
KIP number, with the same schema; `wire.kip.keys.enabled=false` hides the KIP's own numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import kio.schema.api_versions.v0 as api_versions_v0
import kio.schema.api_versions.v1 as api_versions_v1
import kio.schema.api_versions.v2 as api_versions_v2
import kio.schema.api_versions.v3 as api_versions_v3
import kio.schema.api_versions.v4 as api_versions_v4
import kio.schema.find_coordinator.v4 as find_coordinator_v4
import kio.schema.find_coordinator.v5 as find_coordinator_v5
import kio.schema.find_coordinator.v6 as find_coordinator_v6
import kio.schema.metadata.v9 as metadata_v9
import kio.schema.metadata.v10 as metadata_v10
import kio.schema.metadata.v11 as metadata_v11
import kio.schema.metadata.v12 as metadata_v12

from coordinator.protocol import messages
from coordinator.protocol.codec import Message, decode
from coordinator.protocol.wire import MalformedMessage, varint

KIP_KEY_SHIFT: Final = 10_000
_UNSUPPORTED_VERSION: Final = 35


class ApiKey(IntEnum):
    """The numbers of the requests. Those with KIP_ are the KIP's own; the others of the KIP are 10000 higher."""

    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    KIP_CREATE_PARTITIONS = 93
    KIP_DELETE_TOPICS = 94
    KIP_COMMIT_FILE = 95
    KIP_DELETE_RECORDS = 96
    KIP_LIST_OFFSETS = 97
    KIP_FIND_BATCHES = 98
    KIP_DESCRIBE_FILES = 100
    CREATE_PARTITIONS = 10093
    DELETE_TOPICS = 10094
    COMMIT_FILE = 10095
    DELETE_RECORDS = 10096
    LIST_OFFSETS = 10097
    FIND_BATCHES = 10098
    DESCRIBE_FILES = 10100
    DESCRIBE_TOPICS = 10200
    DESCRIBE_COORDINATORS = 10201
    LIST_FILES = 10202
    UPDATE_SCHEMA_LEVEL = 10203
    PLACE_PARTITIONS = 10210
    REMOVE_TOPICS = 10211
    REGISTER_NODE = 10212
    REPORT_CONTRADICTION = 10213
    DESCRIBE_NODE = 10214


_UNBOUNDED_ANSWERS: Final = frozenset(
    {ApiKey.METADATA, ApiKey.FIND_BATCHES, ApiKey.DESCRIBE_TOPICS, ApiKey.DESCRIBE_COORDINATORS, ApiKey.LIST_FILES}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """The classes of one version of one request."""

    request_type: type[Message]
    response_type: type[Message]
    flexible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One request. `canonical` is the number handlers know it by: the KIP's own numbers map to those 10000 higher."""

    key: ApiKey
    canonical: ApiKey
    versions: Mapping[int, ApiVersion]
    internal: bool = False

    @property
    def is_kip_key(self) -> bool:
        """True for the KIP's own numbers, which `wire.kip.keys.enabled` can hide."""
        return self.key is not self.canonical

    @property
    def is_standard(self) -> bool:
        """True for Kafka's own requests. Like Kafka we ignore bytes after their end: librdkafka sends some after Metadata."""
        return self.key < ApiKey.KIP_CREATE_PARTITIONS

    @property
    def is_answer_unbounded(self) -> bool:
        """True if a small request can ask for a large answer, so that a server should not work on many at a time."""
        return self.canonical in _UNBOUNDED_ANSWERS

    @property
    def response_tagged(self) -> bool:
        """True if responses have header version 1; ApiVersions has 0, or old clients could not read it."""
        return self.key is not ApiKey.API_VERSIONS


def _version(request_type: type[Message], response_type: type[Message]) -> ApiVersion:
    return ApiVersion(request_type=request_type, response_type=response_type, flexible=request_type.__flexible__)


def _standard(key: ApiKey, versions: Mapping[int, ApiVersion]) -> list[Api]:
    return [Api(key=key, canonical=key, versions=versions)]


def _own(key: ApiKey, request_type: type[Message], response_type: type[Message], *, internal: bool = False) -> list[Api]:
    return [Api(key=key, canonical=key, versions={0: _version(request_type, response_type)}, internal=internal)]


def _kip(key: ApiKey, request_type: type[Message], response_type: type[Message]) -> list[Api]:
    versions = {0: _version(request_type, response_type)}
    return [Api(key=ApiKey(key - KIP_KEY_SHIFT), canonical=key, versions=versions), Api(key=key, canonical=key, versions=versions)]


_ALL: Final[list[Api]] = [
    *_standard(
        ApiKey.METADATA,
        {
            9: _version(metadata_v9.MetadataRequest, metadata_v9.MetadataResponse),
            10: _version(metadata_v10.MetadataRequest, metadata_v10.MetadataResponse),
            11: _version(metadata_v11.MetadataRequest, metadata_v11.MetadataResponse),
            12: _version(metadata_v12.MetadataRequest, metadata_v12.MetadataResponse),
        },
    ),
    *_standard(
        ApiKey.FIND_COORDINATOR,
        {
            4: _version(find_coordinator_v4.FindCoordinatorRequest, find_coordinator_v4.FindCoordinatorResponse),
            5: _version(find_coordinator_v5.FindCoordinatorRequest, find_coordinator_v5.FindCoordinatorResponse),
            6: _version(find_coordinator_v6.FindCoordinatorRequest, find_coordinator_v6.FindCoordinatorResponse),
        },
    ),
    *_standard(
        ApiKey.API_VERSIONS,
        {
            0: _version(api_versions_v0.ApiVersionsRequest, api_versions_v0.ApiVersionsResponse),
            1: _version(api_versions_v1.ApiVersionsRequest, api_versions_v1.ApiVersionsResponse),
            2: _version(api_versions_v2.ApiVersionsRequest, api_versions_v2.ApiVersionsResponse),
            3: _version(api_versions_v3.ApiVersionsRequest, api_versions_v3.ApiVersionsResponse),
            4: _version(api_versions_v4.ApiVersionsRequest, api_versions_v4.ApiVersionsResponse),
        },
    ),
    *_kip(ApiKey.CREATE_PARTITIONS, messages.CreatePartitionsRequest, messages.CreatePartitionsResponse),
    *_kip(ApiKey.DELETE_TOPICS, messages.DeleteTopicsRequest, messages.DeleteTopicsResponse),
    *_kip(ApiKey.COMMIT_FILE, messages.CommitFileRequest, messages.CommitFileResponse),
    *_kip(ApiKey.DELETE_RECORDS, messages.DeleteRecordsRequest, messages.DeleteRecordsResponse),
    *_kip(ApiKey.LIST_OFFSETS, messages.ListOffsetsRequest, messages.ListOffsetsResponse),
    *_kip(ApiKey.FIND_BATCHES, messages.FindBatchesRequest, messages.FindBatchesResponse),
    *_kip(ApiKey.DESCRIBE_FILES, messages.DescribeFilesRequest, messages.DescribeFilesResponse),
    *_own(ApiKey.DESCRIBE_TOPICS, messages.DescribeTopicsRequest, messages.DescribeTopicsResponse),
    *_own(ApiKey.DESCRIBE_COORDINATORS, messages.DescribeCoordinatorsRequest, messages.DescribeCoordinatorsResponse),
    *_own(ApiKey.LIST_FILES, messages.ListFilesRequest, messages.ListFilesResponse),
    *_own(ApiKey.UPDATE_SCHEMA_LEVEL, messages.UpdateSchemaLevelRequest, messages.UpdateSchemaLevelResponse),
    *_own(ApiKey.PLACE_PARTITIONS, messages.PlacePartitionsRequest, messages.PlacePartitionsResponse, internal=True),
    *_own(ApiKey.REMOVE_TOPICS, messages.RemoveTopicsRequest, messages.RemoveTopicsResponse, internal=True),
    *_own(ApiKey.REGISTER_NODE, messages.RegisterNodeRequest, messages.RegisterNodeResponse, internal=True),
    *_own(ApiKey.DESCRIBE_NODE, messages.DescribeNodeRequest, messages.DescribeNodeResponse, internal=True),
    *_own(ApiKey.REPORT_CONTRADICTION, messages.ReportContradictionRequest, messages.ReportContradictionResponse, internal=True),
]
APIS: Final[Mapping[int, Api]] = {int(api.key): api for api in _ALL}
_SENT_AS: Final[Mapping[type[Message], tuple[ApiKey, int]]] = {
    schema.request_type: (api.canonical, version) for api in _ALL for version, schema in api.versions.items()
}


def request_key(request_type: type[Message]) -> tuple[ApiKey, int]:
    """Which number and version a request class is sent under. Raises KeyError for a class that is no request."""
    return _SENT_AS[request_type]


def decode_request(api_key: int, api_version: int, data: bytes, offset: int = 0) -> Message:
    """Decode a request body that fills `data` from `offset` on. Raises MalformedMessage, also for an unknown key or version."""
    api = APIS.get(api_key)
    schema = None if api is None else api.versions.get(api_version)
    if api is None or schema is None:
        raise MalformedMessage(f"version {api_version} of request {api_key} is not known")
    return decode(schema.request_type, data, offset, rest_allowed=api.is_standard)


class ApiTable:
    """The requests one listener serves."""

    def __init__(self, *, wire_kip_keys_enabled: bool = True, internal_enabled: bool = True) -> None:
        self._apis = {
            key: api
            for key, api in APIS.items()
            if (wire_kip_keys_enabled or not api.is_kip_key) and (internal_enabled or not api.internal)
        }

    def find(self, api_key: int) -> Api | None:
        """Return the request with this number if it is served."""
        return self._apis.get(api_key)

    def ranges(self) -> list[tuple[int, int, int]]:
        """List (key, lowest version, highest version) of everything served, by key."""
        return [(key, min(api.versions), max(api.versions)) for key, api in sorted(self._apis.items())]

    def api_versions_body(self, version: int) -> bytes:
        """Encode ApiVersions' answer; an unknown version gets UNSUPPORTED_VERSION and the known range, in version 0."""
        unsupported = version not in APIS[ApiKey.API_VERSIONS].versions
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
