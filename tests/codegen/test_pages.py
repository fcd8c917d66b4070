"""The generated pages of reference: every key and every command, and nothing that a reader of Markdown takes for something else."""

from __future__ import annotations

import re

import pytest

from codegen import command_reference, configuration
from codegen.__main__ import ROOT
from codegen.commands import each_command
from codegen.markdown import cell, prose
from coordinator.config import KEYS, document_keys
from coordinator.config.keys import SINCE


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("sasl.* and ssl.*", r"sasl.\* and ssl.\*"),
        ("SASL_SSL", r"SASL\_SSL"),
        ("`SASL_SSL` and a_b", r"`SASL_SSL` and a\_b"),
        ("partition-<n>.db", "partition-`<n>`.db"),
        ("`db dump <n>`", "`db dump <n>`"),
        ("a < b", r"a \< b"),
        ("s3://bucket[/prefix]", r"s3://bucket\[/prefix\]"),
    ],
)
def test_text_is_read_as_it_stands(text: str, written: str) -> None:
    assert prose(text) == written


def test_a_cell_is_one_line_without_bars() -> None:
    assert cell("[table|json]\n  twice") == r"\[table\|json\] twice"


def test_every_key_has_one_entry_with_all_facts() -> None:
    entries = configuration.generate(ROOT).split("\n### ")[1:]
    assert len(entries) == len(document_keys())
    for one, entry in zip(document_keys(), entries, strict=True):
        assert entry.startswith(f"`{one.key}` {{ #{configuration.anchor(one.key)} }}\n")
        for fact in ("**Type**", "**Default**", f"**Environment** `{one.environment}`", f"**Since** {one.since}"):
            assert fact in entry
        assert ("**Default** required" in entry) == (one.default is None)


def test_younger_versions_are_those_of_keys_that_exist() -> None:
    assert set(SINCE) <= set(KEYS)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in SINCE.values())


def test_every_command_has_one_section_with_all_its_options() -> None:
    sections = dict(re.findall(r"^## (diskless [^{]+) \{[^}]*\}\n(.*?)(?=^## |\Z)", command_reference.generate(ROOT), re.M | re.S))
    commands = dict(each_command())
    assert list(sections) == list(commands)
    for words, command in commands.items():
        named = re.findall(r"^\| `(-[^`]+)`", sections[words], re.M)
        assert len(named) == sum(one.param_type_name == "option" and not getattr(one, "hidden", False) for one in command.params)
