"""`diskless simulate`: statuses, stories, and files that are lived again."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pytest
from click.testing import CliRunner

from cli.main import root


def run(*args: str) -> click.testing.Result:
    return CliRunner().invoke(root, ["simulate", *args], prog_name="diskless")


def test_a_clean_seed_ends_well_and_has_the_same_hash_each_time() -> None:
    first, second = (run("--seed", "1", "--virtual-seconds", "5") for _ in range(2))
    assert first.exit_code == 0
    assert "no rule was broken" in first.stdout
    assert first.stderr == second.stderr
    assert "trace hash" in first.stderr


def test_no_seed_begins_when_the_time_is_up() -> None:
    told = run("--seeds", "0..50", "--virtual-seconds", "3", "--minutes", "0.005")
    assert told.exit_code == 0
    lived = int(told.stdout.split()[0])
    assert 1 <= lived < 51
    assert f"{51 - lived} were left when the time was up" in told.stderr


def test_a_broken_rule_is_told_and_kept_in_a_file_that_breaks_it_again(tmp_path: Path) -> None:
    found = run("--seeds", "0..1", "--without", "stored-results", "--virtual-seconds", "5", "--write-to", str(tmp_path))
    assert found.exit_code == 5
    assert "VIOLATION committed once" in found.stdout
    [path] = tmp_path.glob("simulation-*.json")
    assert json.loads(path.read_text())["violates"] == "committed once"
    again = run("--scenario", str(path), "--no-shrink", "--write-to", str(tmp_path))
    assert again.exit_code == 5
    assert again.stderr.splitlines()[-1] == found.stderr.splitlines()[-1]


def test_a_trace_tells_what_happened() -> None:
    told = run("--seed", "2", "--virtual-seconds", "4", "--trace")
    assert told.exit_code == 0
    assert "claim of node" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 2),
        (("--seed", "1", "--seeds", "1..2"), 2),
        (("--seeds", "3..1"), 2),
        (("--seed", "1", "--without", "luck"), 2),
        (("--scenario", "nowhere.json"), 3),
    ],
)
def test_wrong_usage_has_its_status(arguments: tuple[str, ...], status: int) -> None:
    assert run(*arguments).exit_code == status


def test_protections_are_listed() -> None:
    assert "ack-offset" in run("--without", "help").stdout
