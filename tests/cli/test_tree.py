"""Every command has help and an example; commands that read have -o; help is quick."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import cli
from cli.lazy import LazyGroup
from cli.main import COMMANDS, root
from cli.output import FORMATS
from tests.cli.hostile import BASES, NODE

# Modules loaded beside those of its libraries: what a command costs before it does anything. `benchmarks.commands` prints the time.
HELP_MODULES_MAX = 20  # 10
ASK_MODULES_MAX = 130  # 97; the classes of the records and what they need are 60 more
HEAVY = ("asyncio", "numpy", "confluent_kafka", "apsw", "obstore", "kio", "yaml", "fastavro", "uvloop")
HEAVY_FOR_NODES = (
    "numpy",
    "confluent_kafka",
    "apsw",
    "obstore",
    "yaml",
    "fastavro",
    "pyspark",
    "pyarrow",
    "pandas",
    "hypothesis",
    "records.model",
)
READS = ("list", "describe", "status", "show", "find", "dump", "sql", "doctor", "init")


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        names = command.list_commands(click.Context(command))
        for name in names:
            child = command.lazy[name].load() if isinstance(command, LazyGroup) and name in command.lazy else command.commands[name]
            yield from walk(child, (*path, name))


TREE = dict(walk(root, ()))
LEAVES = {path: command for path, command in TREE.items() if not isinstance(command, click.Group)}


def first_line(command: click.Command) -> str:
    return (command.help or "").strip().splitlines()[0]


def run(*args: str, **extra: str) -> click.testing.Result:
    return CliRunner().invoke(root, list(args), prog_name="diskless", env=extra)


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_help_is_printed_and_names_every_option(path: tuple[str, ...]) -> None:
    result = run(*path, "--help", COLUMNS="200")
    assert result.exit_code == 0
    assert first_line(TREE[path]).split("`")[0][:40] in result.stdout
    for parameter in TREE[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.name} has no help"
            assert parameter.opts[0] in result.stdout


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_a_command_has_an_example_of_itself(path: tuple[str, ...]) -> None:
    assert "Example" in (LEAVES[path].help or "")
    assert "diskless " + " ".join(path) in (LEAVES[path].help or "").replace("\n", " ")


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_no_two_options_of_a_command_hand_over_under_one_name(path: tuple[str, ...]) -> None:
    names = [parameter.name for parameter in LEAVES[path].params]
    assert len(names) == len(set(names)), sorted(names)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_list_is_the_commands_own(name: str) -> None:
    assert first_line(TREE[(name,)]) == COMMANDS[name].help


@pytest.mark.parametrize("path", [path for path in LEAVES if path[-1] in READS], ids=" ".join)
def test_a_command_that_reads_prints_every_format(path: tuple[str, ...]) -> None:
    output = next((parameter for parameter in LEAVES[path].params if parameter.name == "output"), None)
    assert output is not None
    assert "-o" in output.opts
    assert isinstance(output.type, click.Choice)
    assert tuple(output.type.choices) == FORMATS


@pytest.mark.parametrize("path", [path for path in LEAVES if path[-1] == "delete"], ids=" ".join)
def test_a_command_that_destroys_asks_first(path: tuple[str, ...]) -> None:
    assert {"dry_run", "yes"} <= {parameter.name for parameter in LEAVES[path].params}


def test_an_unknown_command_is_a_usage_error() -> None:
    assert run("nonsense").exit_code == 2


@pytest.mark.parametrize(
    ("words", "meant"), [("topic", "topics"), ("topics lst", "list"), ("monitor stauts", "status"), ("coordinater", "coordinator")]
)
def test_a_command_that_is_misspelt_is_answered_with_the_one_that_was_meant(words: str, meant: str) -> None:
    result = run(*words.split())
    assert result.exit_code == 2
    assert re.search(rf"(Did you mean|Possible commands).*'?{meant}'?", result.stderr), result.stderr


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("diskless ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_program(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_DISKLESS_COMPLETE" in result.stdout


def test_a_shell_is_offered_commands_and_options() -> None:
    offered = run(_DISKLESS_COMPLETE="bash_complete", COMP_WORDS="diskless config show --", COMP_CWORD="3").stdout
    assert "plain,--output" in offered.splitlines()


PLAIN = """
import click
group = click.Group("plain", commands=[click.Command(f"command-{n}", help="One of some.") for n in range(12)])
try:
    group(["--help"])
except SystemExit:
    pass
"""
OURS = """
from cli.main import root
try:
    root(["--help"], prog_name="diskless")
except SystemExit:
    pass
"""
LOADED = """
import sys
print(*sorted(sys.modules))
"""

# They ask Kafka or an object store as well, know the log's schemas, or open tables of a lake.
NOT_ONLY_NODES = {
    ("coordinator", "grow"),
    ("coordinator", "rebalance"),
    ("init",),
    ("log", "dump"),
    ("log", "explain"),
    ("files", "commit"),
    ("migration", "start"),
    ("migration", "abort"),
    ("migration", "verify"),
    ("snapshots", "download"),
    ("restore", "report"),
    ("groups", "lag"),
    ("records", "tail"),
    ("tables", "export"),
    ("tables", "status"),
}
ASKING = [[*path, *words] for path, words in BASES.items() if words[-len(NODE) :] == NODE and path not in NOT_ONLY_NODES]
NODES = f"""
import sys
from cli.main import root
for words in {ASKING!r}:
    try:
        root(words, prog_name="diskless")
    except SystemExit as end:
        assert end.code == 4, (words, end.code)  # it asked
print([name for name in {HEAVY_FOR_NODES!r} if name in sys.modules])
"""
ASKS = f"""
from cli.main import root
from coordinator.client.client import DisklessClient
try:
    root({["topics", "list", *NODE]!r}, prog_name="diskless")
except SystemExit as end:
    assert end.code == 4, end.code
"""


def test_commands_that_ask_a_node_import_nothing_heavy(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISKLESS_")}
    environment |= {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    command = [sys.executable, "-c", NODES]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []  # Hypothesis would leave its folder


PRODUCT = ("cli", "coordinator", "gateway", "migration", "records", "spark_jobs", "tables", "pyspark_diskless")


def test_every_package_that_uses_kio_keeps_hypothesis_out_of_it() -> None:
    here = Path(cli.__file__).parents[1]
    sources = [source for folder in PRODUCT for source in (here / folder).rglob("*.py")]
    users = [one for one in sources if re.search(r"^(from|import) kio\b", one.read_text(encoding="utf-8"), re.MULTILINE)]
    assert len(users) > 20
    for source in users:
        above = [folder / "__init__.py" for folder in source.parents if folder.is_relative_to(here) and (folder / "__init__.py").exists()]
        assert any("kio_alone" in one.read_text(encoding="utf-8") for one in above), source


def loaded(program: str, tmp_path: Path) -> list[str]:
    """The names of the modules that a program has loaded at its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISKLESS_")}
    environment |= {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    command = [sys.executable, "-c", program + LOADED]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("module", ["coordinator.app.main", "gateway.app"])
def test_what_a_process_runs_loads_no_hypothesis(module: str, tmp_path: Path) -> None:
    names = loaded(f"import {module}", tmp_path)
    assert "kio" in names
    assert "hypothesis" not in names


def test_help_loads_little_more_than_any_help(tmp_path: Path) -> None:
    ours = loaded(OURS, tmp_path)
    assert not set(ours) & set(HEAVY)
    assert len(set(ours) - set(loaded(PLAIN, tmp_path))) <= HELP_MODULES_MAX


def test_a_command_that_asks_a_node_loads_little_more_than_its_libraries(tmp_path: Path) -> None:
    assert len(set(loaded(ASKS, tmp_path)) - set(loaded("import asyncio, click", tmp_path))) <= ASK_MODULES_MAX
