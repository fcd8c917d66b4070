"""Runs the tests and the fuzzer of whatever the compiled loops read with AddressSanitizer and UBSan: memory of somebody else,
numbers that overflow.

    python -m tests.sanitized                                       # about six minutes the first time, half of them to compile
    python -m tests.sanitized --fuzz-seconds 600
    python -m tests.sanitized --fuzz-seconds 0 tests/core -k forged

Works in a copy of the tree, `build/sanitized`, that is kept for the next time. Needs gcc with its sanitizers. Exit status 1
when a test failed, the fuzzer found something or a sanitizer ended the process; it says on standard error what it saw.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
COPY = REPOSITORY / "build/sanitized"
COPIED = (
    "benchmarks",
    "cli",
    "codegen",
    "coordinator",
    "gateway",
    "migration",
    "records",
    "simulation",
    "spark_jobs",
    "tests",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "setup.py",
)
FLAGS = "-fsanitize=address,undefined -fno-omit-frame-pointer -fno-wrapv -g"
"""`-fwrapv`, which Python compiles with, would make every overflow a right one."""
TESTS = (
    "tests/records",
    "tests/protocol",
    "tests/core",
    "tests/gateway/fetch",
    "tests/gateway/produce",
    "tests/runtime/test_owner_loops.py",
    "tests/sqlite/test_joining.py",
    "tests/fuzz",
)
FUZZED = ("request", "commit_file", "entry", "entries", "fetch", "fetched_batch", "produce", "produce_batch", "record_batches")
"""Targets whose bytes get to compiled loops."""


def main() -> int:
    """Build and run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sanitized", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fuzz-seconds", type=float, default=60, help="how long the fuzzer runs afterwards (60)")
    parser.add_argument("tests", nargs=argparse.REMAINDER, help="what pytest gets instead of the tests of the loops")
    asked = parser.parse_args()
    environment = os.environ | {"PYTHONMALLOC": "malloc", "LD_PRELOAD": _libraries()}
    environment["ASAN_OPTIONS"] = "detect_leaks=0"  # the interpreter never frees all
    environment["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    _build()
    # pytest must not keep what a sanitizer writes before it ends the process.
    pytest = ["pytest", "-q", "--capture=sys", "-p", "no:cacheprovider", *(asked.tests or TESTS)]
    runs: list[Sequence[str]] = [pytest]
    if asked.fuzz_seconds > 0:
        chosen = [word for target in FUZZED for word in ("--target", target)]
        runs.append(["tests.fuzz", "--compiled", "--seconds", str(asked.fuzz_seconds), *chosen])
    results = [subprocess.run([sys.executable, "-m", *run], cwd=COPY, env=environment, check=False).returncode for run in runs]
    return int(any(results))


def _libraries() -> str:
    """What must be loaded before the interpreter, which was not compiled for it."""
    if shutil.which("gcc") is None:
        sys.exit("gcc is needed")
    found = []
    for name in ("libasan.so", "libubsan.so"):
        asked = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        if not Path(asked).is_absolute():
            sys.exit(f"gcc has no {name}: install its sanitizers")
        found.append(asked)
    return ":".join(found)


def _build() -> None:
    """Bring the copy up to date; files keep their times, so that only what changed is compiled."""
    COPY.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        source, to = REPOSITORY / name, COPY / name
        if source.is_dir():
            for old in (*to.rglob("*.py"), *to.rglob("*.pxd")):
                if not (source / old.relative_to(to)).exists():
                    old.unlink()
            shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__", "*.so"), dirs_exist_ok=True)
        else:
            shutil.copy2(source, to)
    # Less optimised is compiled in half the time, and hides no read.
    setup = (COPY / "setup.py").read_text("utf-8")
    assert setup.count('"-O3"') == 1
    (COPY / "setup.py").write_text(setup.replace('"-O3"', '"-O1"'), "utf-8")
    environment = os.environ | {"CC": "gcc", "CFLAGS": FLAGS}
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=COPY, env=environment, check=True)
    built = [path for path in COPY.rglob("*_loops.*.so") if "build" not in path.relative_to(COPY).parts]
    if not built:
        sys.exit("nothing was compiled: see setup.py")


if __name__ == "__main__":
    sys.exit(main())
