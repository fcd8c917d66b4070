"""Random messages in Kafka's form, drawn from a definition; edges of every type are frequent."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from integration_tests.oracle.definitions import DefinedField, Definition, uuid_text

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_LIFETIME_MS_MAX = 10**15  # kio makes a timedelta of it, which holds 2.7 million years and refuses more
_ERROR_CODES = sorted(int(code.value) for code in ErrorCode)
# Lone surrogates are no text; Kafka's JSON could not carry them either.
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.integers(120, 140).map(lambda size: "y" * size)
# Above the tags that are defined, and in ascending order, as Kafka writes them.
_TAGS = st.dictionaries(st.integers(10, 1000) | st.just(2**31 - 2), st.binary(max_size=9).map(bytes.hex), max_size=2).map(
    lambda tags: dict(sorted(tags.items()))
)


def messages_of(definition: Definition) -> st.SearchStrategy[dict[str, Any]]:
    """Random messages of a definition."""
    return _structures(definition.fields)


def tagged_messages_of(definition: Definition) -> st.SearchStrategy[dict[str, Any]]:
    """Random messages with unknown tagged fields in any of their structures."""
    return _structures(definition.fields, tags=_TAGS)


def _structures(
    fields: tuple[DefinedField, ...], tags: st.SearchStrategy[dict[int, str]] | None = None
) -> st.SearchStrategy[dict[str, Any]]:
    names = {field.name: _values(field, tags) for field in fields}
    return st.fixed_dictionaries(names if tags is None else {**names, "_tags": tags})


def _values(field: DefinedField, tags: st.SearchStrategy[dict[int, str]] | None) -> st.SearchStrategy[Any]:
    one = _structures(field.children, tags) if field.children else _singles(field)
    value = st.lists(one, max_size=3) if field.is_array else one
    return st.none() | value if field.is_nullable else value


def _singles(field: DefinedField) -> st.SearchStrategy[Any]:
    if field.kind == "int16" and field.name == "errorCode":
        return st.sampled_from(_ERROR_CODES)
    if field.kind == "int64" and field.name == "sessionLifetimeMs":
        return st.integers(-_LIFETIME_MS_MAX, _LIFETIME_MS_MAX)
    if field.kind in _BITS:
        edge = 1 << (_BITS[field.kind] - 1)
        return st.integers(-edge, edge - 1)
    return {
        "bool": st.booleans(),
        "string": _TEXTS,
        "uuid": st.binary(min_size=16, max_size=16).map(uuid_text) | st.just(uuid_text(bytes(16))),
        "bytes": st.binary(max_size=30).map(lambda raw: base64.b64encode(raw).decode()),
    }[field.kind]
