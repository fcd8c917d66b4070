"""Small libraries in C that are preloaded into single processes to make the world look different to them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

COMPILERS: Final = ("cc", "gcc", "clang")
TIMEOUT_S: Final = 60


class NoPreload(Exception):
    """Libraries cannot be preloaded on this machine; the text says why and the remedy."""


def compile_library(source: Path, folder: Path) -> Path:
    """Compile a library into a folder. Raises `NoPreload`."""
    if sys.platform != "linux":
        raise NoPreload("preloaded libraries need Linux")
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoPreload("no C compiler (cc, gcc or clang): install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise NoPreload(f"{compiler} could not compile {source.name}: {done.stderr.strip()[-300:]}")
    return library


def prove(library: Path, environment: Mapping[str, str], probe: str, arguments: Sequence[str]) -> None:
    """Run a Python program with a library preloaded, which fails unless the library works. Raises `NoPreload`."""
    command = [sys.executable, "-c", probe, *arguments]
    everything = {**os.environ, **environment}
    done = subprocess.run(command, env=everything, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise NoPreload(f"the preloaded {library.name} does not work: {done.stderr.strip()[-300:]}")


def joined(*environments: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process with several of them preloaded."""
    libraries = [one["LD_PRELOAD"] for one in environments]
    return {key: value for one in environments for key, value in one.items()} | ({"LD_PRELOAD": ":".join(libraries)} if libraries else {})
