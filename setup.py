"""Compiles the loops of the hot path: every module `*_loops.py` that has its types beside it in a `.pxd`.

Such a module is plain Python and works without this; compiled, a commit costs a fifth to a fifteenth. Without a C compiler the
installation goes on, says so, and the service says it again when it starts (`coordinator.app.main`).

The commit goes into the version: that of the checkout, else the one in SOURCE_COMMIT, for builds without git's folder (Dockerfile).
"""

import os
import re
import runpy
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGES = ("cli", "coordinator", "gateway", "records")
DIRECTIVES = {
    "language_level": 3,
    # Types come from the `.pxd` alone; annotations are for people and mypy.
    "annotation_typing": False,
    # An index out of range is an IndexError, as in Python, and never memory of somebody else.
    "boundscheck": True,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": False,
}


def compiled_modules() -> list[Extension]:
    """One extension per module that has a `.pxd`."""
    typed = sorted(path for package in PACKAGES for path in Path(package).rglob("*_loops.pxd"))
    return [Extension(".".join(path.with_suffix("").parts), [str(path.with_suffix(".py"))], extra_compile_args=["-O3"]) for path in typed]


extensions = cythonize(compiled_modules(), compiler_directives=DIRECTIVES, build_dir="build/c", nthreads=2)
for extension in extensions:
    extension.optional = True  # cythonize does not pass it on


def commit_mark() -> str:
    """What the version ends with. Ends the build when SOURCE_COMMIT is no commit."""
    given = os.environ.get("SOURCE_COMMIT", "")
    if given and not re.fullmatch("[0-9a-f]{7,64}", given):
        raise SystemExit(f"SOURCE_COMMIT={given} is no commit: give what `git rev-parse HEAD` prints, or nothing")
    mark: str = runpy.run_path("coordinator/app/version.py")["commit_mark"](Path.cwd())
    return f"+g{given[:12]}" if given else mark


options: dict[str, dict[str, object]] = {"build_ext": {"parallel": True}}
if mark := commit_mark():
    options["egg_info"] = {"tag_build": mark}
setup(ext_modules=extensions, options=options)
