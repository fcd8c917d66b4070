"""The cost of starting `diskless`: CPU milliseconds of its help and of a command that asks a node, beside plain programs.

    python -m benchmarks.commands [--runs N]

Nothing listens where the command asks. Each program is run in turn with its yardstick, in a process of its own with its modules
compiled; printed are the medians over the runs and their ratio.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLAIN_HELP: Final = "import click; click.Group('plain', commands=[click.Command(f'c-{n}', help='Some.') for n in range(12)])(['--help'])"
ASK: Final = "from cli.main import root; root(['topics', 'list', '--bootstrap-server', '127.0.0.1:1', '--timeout', '0.2'])"
PROGRAMS: Final = {
    "diskless --help": ("from cli.main import root; root(['--help'])", PLAIN_HELP),
    "diskless topics list": (ASK, "import asyncio, click"),
}
"""Each program and its yardstick, by name."""


def spend_ms(program: str) -> float:
    """CPU milliseconds of one run of a program; its output and its status do not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="runs of each program")
    options = parser.parse_args(arguments)
    print(f"{'':24}{'CPU ms':>10}{'yardstick':>12}{'ratio':>8}")
    for name, (program, plain) in PROGRAMS.items():
        spend_ms(program)  # compiles its modules
        pairs = [(spend_ms(program), spend_ms(plain)) for _ in range(options.runs)]
        ours_ms, plain_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{name:24}{ours_ms:10.0f}{plain_ms:12.0f}{ours_ms / plain_ms:8.2f}")


if __name__ == "__main__":
    main()
