"""`records/model.py` from the schema of the newest level of the metadata log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codegen.source import class_source, docstring

TARGET = Path("records/model.py")

_HEAD = '''"""The metadata records as frozen dataclasses. Made by `python -m codegen` from `records/schemas/{file}`; do not edit.

One Kafka message of `__diskless_metadata` is one entry: a key (`records.entry_key.EntryKey`) and a list of these records.
Records state outcomes, never requests, and the logical state of a partition is a function of its log prefix alone.
Units: offsets are inclusive unless named `*_end`; times are milliseconds since the epoch; sizes are bytes.
Topic ids are the 16 raw bytes of a Kafka uuid.
"""

from __future__ import annotations

from dataclasses import dataclass

from records.committed_files.codec import FileCommitted'''

_BY_HAND = "FileCommitted"
"""Its bytes have a codec of their own, and so has its class (`records.committed_files.codec`)."""

_PYTHON_OF = {"int": "int", "long": "int", "string": "str", "boolean": "bool"}

Json = dict[str, Any]


class _Module:
    """The classes of a schema, each after those it holds."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._written: set[str] = set()

    def python_type(self, schema: Json | str) -> str:
        """Return the annotation of a type; a record that it holds is written first. Raises KeyError for a type entries do not use."""
        if isinstance(schema, str):
            return schema if schema in self._written else _PYTHON_OF.get(schema, "bytes")
        match schema["type"]:
            case "array":
                return f"list[{self.python_type(schema['items'])}]"
            case "fixed":
                return "bytes"
            case "record":
                self.write(schema)
                return str(schema["name"])
            case other:
                raise KeyError(other)

    def write(self, record: Json) -> None:
        """Write the dataclass of a record."""
        body: list[str] = []
        for field in record["fields"]:
            line = f"    {field['name']}: {self.python_type(field['type'])}"
            if "default" in field:
                line += f" = {field['default']!r}"
            body += [line, *docstring(field["doc"], "    ")]
        self.lines += class_source("@dataclass(frozen=True, slots=True, kw_only=True)", record["name"], "", record["doc"], body)
        self._written.add(record["name"])


def generate(root: Path) -> str:
    """Return the source of `records/model.py`."""
    schemas = root / "records/schemas"
    newest = max(schemas.glob("metadata-entry-v*.avsc"), key=lambda path: int(path.stem.rpartition("v")[2]))
    return module_source(newest.name, newest.read_text(encoding="utf-8"))


def module_source(file_name: str, schema_text: str) -> str:
    """Return the source of the record classes of a schema."""
    (records,) = json.loads(schema_text)["fields"]
    branches = records["type"]["items"]
    module = _Module()
    for branch in branches:
        if branch["name"] != _BY_HAND:
            module.write(branch)
    union = " | ".join(branch["name"] for branch in branches)
    return "\n".join([_HEAD.format(file=file_name), *module.lines, "", "", f"Record = ({union})"])
