"""Python source as text: what both generators need to write a module of classes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterable

LINE_LENGTH = 132


def docstring(text: str, indent: str) -> list[str]:
    """Return the lines of a docstring, wrapped."""
    lines = textwrap.wrap(f'"""{text}"""', LINE_LENGTH - len(indent), break_long_words=False, break_on_hyphens=False)
    if len(lines) > 1:
        lines = [*textwrap.wrap(f'"""{text}', LINE_LENGTH - len(indent), break_long_words=False, break_on_hyphens=False), '"""']
    return [indent + line for line in lines]


def class_source(decorator: str, name: str, bases: str, doc: str, body: Iterable[str]) -> list[str]:
    """Return the lines of a class; `body` is indented already."""
    head = ["", "", decorator, f"class {name}{bases}:"]
    return [*head, *docstring(doc, "    "), *([""] if body else []), *body]


def formatted(lines: Iterable[str]) -> str:
    """Return source as `ruff format` and `ruff check --fix` leave it. Raises CalledProcessError when it is not Python."""
    text = "\n".join(lines) + "\n"
    for command in (("check", "--fix-only", "--quiet"), ("format",)):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", "generated.py", "-"],
            input=text,
            capture_output=True,
            check=True,
            text=True,
            encoding="utf-8",
        )
        text = ran.stdout
    return text
