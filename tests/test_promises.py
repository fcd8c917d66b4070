"""What CONTRIBUTING promises of the tests: no private attributes, no patched constants, no sleeping for luck.

A sleep within a `while` loop is the pause between two looks at a condition, or the pace of a load; any other one bets that something has
happened by then. `await asyncio.sleep(0)` only lets the event loop run.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
FOLDERS = ("tests", "integration_tests")
PUBLIC = {"_asdict", "_exit", "_fields", "_make", "_replace"}
"""Public names of the standard library that begin like private ones."""
PRIVATE_NAME = re.compile(r"_[A-Za-z]\w*")
LOCAL_ERROR = re.compile(r"_[A-Z][A-Z_]+")
"""So librdkafka names the errors of its own, as attributes of `KafkaError`."""
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")

Allowed = Mapping[str, tuple[int, str]]
"""By file: how often, and why."""
PRIVATE_READS: Allowed = {
    "tests/client/test_pool.py": (2, "only the pool knows when it begins to connect, and when it has noticed a loss"),
    "tests/core/test_assignor_protections.py": (3, "rules of the plan are left out, for which the product has no switches"),
    "tests/records/test_row_hashes.py": (2, "the source of what runs compiled; without a compiler its caller uses hashlib"),
    "tests/runtime/test_doubled_ids.py": (2, "two processes that pass the same step of a start before either takes the next"),
}
PATCHED_CONSTANTS: Allowed = {
    "tests/cli/test_hostile_arguments.py": (1, "thousands of commands that wait for a broker that is not there, and have no option for it"),
    "tests/cli/test_users.py": (1, "commands that wait for a lock for half a minute"),
    "tests/runtime/test_schema_level.py": (1, "a database of a version that does not exist yet"),
}
SLEEPS: Allowed = {
    "tests/waiting.py": (2, "virtual time, and a loop that is blocked on purpose"),
    "tests/test_patient_loop.py": (2, "the loop's clock is compared with the machine's"),
    "tests/app/test_timers.py": (1, "timers are the subject"),
    "tests/gateway/produce/test_taker.py": (8, "virtual time"),
    "tests/gateway/produce/world.py": (2, "virtual time"),
    "tests/server/test_repeats.py": (2, "a time in which nothing may be answered"),
    "tests/gateway/front/test_port.py": (1, "a broker that is not read: nothing happens"),
    "tests/migration/test_finishing.py": (2, "virtual time"),
    "tests/server/test_request_memory.py": (4, "virtual time"),
    "tests/server/test_secure_listeners.py": (2, "a session's end, for which only the server has a clock"),
    "integration_tests/faults/process_faults.py": (3, "the rhythm of a fault"),
    "integration_tests/test_long_polls.py": (1, "what an idle process costs is measured over a time"),
    "integration_tests/gateway/test_offsets.py": (1, "what an idle process costs is measured over a time"),
    "integration_tests/gateway/failing_s3.py": (1, "a fault that lasts"),
    "integration_tests/gateway/test_chart_gateways.py": (1, "minReadySeconds of a StatefulSet"),
    "integration_tests/gateway/test_memory.py": (1, "a fault that lasts"),
    "integration_tests/test_orphan_scan.py": (4, "objects get older by the store's clock, and uploads wait for chance times"),
}


@cache
def trees() -> Mapping[str, ast.Module]:
    """The tests, by their paths in the repository."""
    files = [file for folder in FOLDERS for file in (REPOSITORY / folder).rglob("*.py")]
    return {str(file.relative_to(REPOSITORY)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def is_private(name: str) -> bool:
    return bool(PRIVATE_NAME.fullmatch(name)) and name not in PUBLIC


def patched_name(call: ast.Call) -> str:
    """The name that `monkeypatch.setattr` or `mock.patch` replaces, empty for another call."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in ("setattr", "delattr", "patch", "object")) or not call.args:
        return ""
    for given in call.args[:2]:
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return given.value.rpartition(".")[2]
    return ""


def private_reads(tree: ast.Module) -> Iterator[int]:
    """The lines that read, import or patch a private name of something else."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name) if is_private(name):
                shown = ast.unparse(owner)
                if shown not in ("self", "cls", "super()") and not (shown == "KafkaError" and LOCAL_ERROR.fullmatch(name)):
                    yield node.lineno
            case ast.ImportFrom(names=names):
                yield from (node.lineno for one in names if is_private(one.name))
            case ast.Call() if is_private(patched_name(node)):
                yield node.lineno


def patched_constants(tree: ast.Module) -> Iterator[int]:
    """The lines that give a constant of a module another value."""
    for node in ast.walk(tree):
        match node:
            case ast.Call() if CONSTANT.fullmatch(patched_name(node)):
                yield node.lineno
            case ast.Assign(targets=targets):
                yield from (node.lineno for one in targets if isinstance(one, ast.Attribute) and CONSTANT.fullmatch(one.attr))
            case ast.AugAssign(target=ast.Attribute(attr=name)) if CONSTANT.fullmatch(name):
                yield node.lineno


def sleeps(tree: ast.AST, in_loop: bool = False) -> Iterator[int]:
    """The lines that let time pass without looking what it has brought."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "asyncio"), attr="sleep"), args=[seconds]) if not in_loop:
                if not (isinstance(seconds, ast.Constant) and seconds.value == 0):
                    yield node.lineno
        inner = isinstance(node, ast.While) or (in_loop and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))
        yield from sleeps(node, inner)


RULES = {
    "private": (private_reads, PRIVATE_READS),
    "constants": (patched_constants, PATCHED_CONSTANTS),
    "sleeps": (sleeps, SLEEPS),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_promise_is_kept_but_where_a_reason_is_given(rule: str) -> None:
    find, allowed = RULES[rule]
    found = {name: lines for name, tree in trees().items() if (lines := list(find(tree)))}
    assert {name: lines for name, lines in found.items() if len(lines) != allowed.get(name, (0, ""))[0]} == {}
    assert set(allowed) <= set(found), "a place that keeps the promise needs no reason"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one._name", {"private": 1}),
        ("self._name + cls._other + row._replace(a=1) + KafkaError._TRANSPORT", {}),
        ("self.one._name", {"private": 1}),
        ("from product.module import _helper", {"private": 1}),
        ("monkeypatch.setattr(module, '_helper', None)", {"private": 1}),
        ("monkeypatch.setattr(module, 'LIMIT', 1)", {"constants": 1}),
        ("monkeypatch.setattr('product.module.LIMIT_S', 1)", {"constants": 1}),
        ("module.LIMIT = 1\nmodule.LIMIT += 1", {"constants": 2}),
        ("monkeypatch.setattr('product.module.function', None)\nLIMIT = 1", {}),
        ("time.sleep(1)\nasyncio.sleep(PAUSE_S)", {"sleeps": 2}),
        ("asyncio.sleep(0)\nwhile not done():\n    time.sleep(1)", {}),
        ("while True:\n    def later():\n        time.sleep(1)", {"sleeps": 1}),
    ],
)
def test_what_breaks_a_promise_is_found(text: str, expected: dict[str, int]) -> None:
    tree = ast.parse(text)
    found = Counter({rule: len(list(find(tree))) for rule, (find, _) in RULES.items()})
    assert +found == Counter(expected)
