"""Thousands of random damages from the command line: `python -m tests.damage --running --count 1000 --seed 1`.

Status 0 when no answer was wrong and everything healed, 5 when something was; the line then has the seed to repeat it with.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.damage.at_rest import damage_at_rest
from tests.damage.running import damage_running

PER_RUN = 100
"""Damages to one service: its log grows, and with it the time to rebuild."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--running", action="store_true", help="damage databases under a running replica")
    where.add_argument("--at-rest", action="store_true", help="damage databases between two starts")
    parser.add_argument("--count", type=int, default=1000, help="damages to do (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help=f"the first seed; every {PER_RUN} damages have one (default: 1)")
    arguments = parser.parse_args()
    # Every damage is logged by the node with its traceback: that is its duty, and of no use here.
    logging.disable(logging.CRITICAL)
    if arguments.at_rest:
        return 0 if damage_at_rest(arguments.count, arguments.seed) else 5
    started_s = time.monotonic()
    done = failures = 0
    for seed in range(arguments.seed, arguments.seed + -(-arguments.count // PER_RUN)):
        count = min(PER_RUN, arguments.count - done)
        with tempfile.TemporaryDirectory(prefix="diskless-damage-") as folder:
            try:
                report = asyncio.run(damage_running(seed=seed, count=count, folder=Path(folder)))
            except AssertionError as wrong:
                print(f"WRONG: {wrong}")
                return 5
        done += count
        failures += report.failures
        print(f"seed {seed}: {done} damages, {failures} noticed and healed, {time.monotonic() - started_s:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
