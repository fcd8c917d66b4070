"""The base of all own messages: they look like entities of the `kio` library's schema.

A message is a frozen dataclass; the metadata of each field names its Kafka type, tuples are arrays, `| None` means
nullable, and a "tag" in the metadata makes a field a tagged one. Differences from kio: topic ids are the 16 raw
bytes, as in the records, and times and error codes are plain integers, because they pass through unchanged.
All messages are version 0 and flexible.
"""

from collections.abc import Mapping
from dataclasses import Field
from typing import ClassVar, Final

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16

INT8: Final[Mapping[str, object]] = {"kafka_type": "int8"}
INT16: Final[Mapping[str, object]] = {"kafka_type": "int16"}
INT32: Final[Mapping[str, object]] = {"kafka_type": "int32"}
INT64: Final[Mapping[str, object]] = {"kafka_type": "int64"}
BOOL: Final[Mapping[str, object]] = {"kafka_type": "bool"}
STRING: Final[Mapping[str, object]] = {"kafka_type": "string"}
BYTES: Final[Mapping[str, object]] = {"kafka_type": "bytes"}
UUID: Final[Mapping[str, object]] = {"kafka_type": "uuid"}


class RequestPart:
    """A request, or a structure inside one."""

    __slots__ = ()
    __api_key__: ClassVar[i16]
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


class ResponsePart:
    """A response, or a structure inside one."""

    __slots__ = ()
    __api_key__: ClassVar[i16]
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
