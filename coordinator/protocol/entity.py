"""The base of all own messages: they look like entities of the `kio` library's schema.

A message is a dataclass; the metadata of each field names its Kafka type, tuples are arrays, `| None` means
nullable, and a "tag" in the metadata makes a field a tagged one. Differences from kio: topic ids are the 16 raw
bytes, as in the records, and times and error codes are plain integers, because they pass through unchanged.
All messages are version 0 and flexible.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import ClassVar, Final, TypeVar, dataclass_transform, get_origin

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


P = TypeVar("P", bound="Part")


class Part:
    """A message, or a structure inside one: equal to a part of its class whose fields are equal."""

    __slots__ = ()
    __api_key__: ClassVar[i16]
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True

    def _values(self) -> dict[str, object]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Part) and type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._values().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def message(part: type[P]) -> type[P]:
    """Make a dataclass of a part. mypy takes it for a frozen one and refuses changes.

    At run time it is not frozen, and equality and text are those of `Part`: making these methods for each class would take
    40 ms of every command's start.
    """
    return dataclass(slots=True, kw_only=True, eq=False, repr=False)(part)


class RequestPart(Part):
    """A request, or a structure inside one."""

    __slots__ = ()


class ResponsePart(Part):
    """A response, or a structure inside one."""

    __slots__ = ()


_ZERO: Final[Mapping[str, object]] = {"string": "", "bytes": b"", "uuid": bytes(16), "bool": False}


def blank(part: type[P], **known: object) -> P:
    """Return a message, or a structure inside one, of which only some fields are known: the others have their default, zero or nothing.

    Known values of fields that the part does not have are left out.
    """
    values = {item.name: known[item.name] for item in fields(part) if item.name in known}
    for item in fields(part):
        if item.name not in values and item.default is MISSING:
            is_array = get_origin(item.type) is tuple
            values[item.name] = () if is_array else _ZERO.get(str(item.metadata["kafka_type"]), 0)
    return part(**values)
