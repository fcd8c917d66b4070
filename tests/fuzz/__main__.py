"""Long runs of the fuzzer, with coverage of the product's code.

    python -m tests.fuzz --seconds 600                          # all targets in turn
    python -m tests.fuzz --seconds 60 --target entry --seed 7
    python -m tests.fuzz --keep                                 # what reached new code goes to the corpus, and findings
    python -m tests.fuzz --distil                               # drops from the corpus what others make superfluous

Coverage sees nothing of compiled loops, so they are interpreted here; `--compiled` runs them as they are installed, as
`test_fuzz` does with the corpus.

Exit status 1 when there was a finding. A finding is fixed, and its input stays in the corpus (`--keep`).
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import TYPE_CHECKING

from tests.interpreted import interpret_loops

if TYPE_CHECKING:
    from tests.fuzz.engine import Target


def main() -> int:
    """Run what the command line asks for."""
    if "--compiled" not in sys.argv:
        interpret_loops()
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long in all (60)")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, help="repeat a run; else chosen and printed")
    parser.add_argument("--keep", action="store_true", help="write new inputs into the corpus")
    parser.add_argument("--compiled", action="store_true", help="run the loops as they are installed: faster, their steps are not seen")
    parser.add_argument("--distil", action="store_true", help="only drop superfluous inputs from the corpus")
    asked = parser.parse_args()
    targets = [TARGETS[name] for name in asked.target or TARGETS]
    if asked.distil:
        for target in targets:
            _drop_superfluous(target)
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    print(f"seed {seed}, {len(targets)} targets, {asked.seconds / len(targets):.0f} s each")
    return max(_explore(target, seed, asked.seconds / len(targets), keeps=asked.keep) for target in targets)


def _explore(target: Target, seed: int, seconds: float, *, keeps: bool) -> int:
    from tests.fuzz.engine import FINDING, corpus_of, distil, explore, keep

    done = explore(target, seed, seconds)
    rate = done.runs / seconds
    print(f"{target.name:16} {done.runs:8} runs ({rate:.0f}/s), {done.steps} steps of code, {len(done.kept)} new inputs", flush=True)
    for finding in done.findings:
        print(finding, flush=True)
    if keeps:
        before = corpus_of(target.name)
        kept = [keep(target.name, data) for data in distil(target, [*before, *done.kept]) if data not in before]
        kept += [keep(target.name, finding.data, prefix=FINDING) for finding in done.findings]
        print("".join(f"  kept {path.name}\n" for path in kept), end="", flush=True)
    return 1 if done.findings else 0


def _drop_superfluous(target: Target) -> None:
    from tests.fuzz.engine import CORPUS, FINDING, corpus_of, distil

    wanted = set(distil(target, corpus_of(target.name)))
    for path in sorted((CORPUS / target.name).glob("*.hex")):
        if not path.name.startswith(FINDING) and bytes.fromhex(path.read_text("ascii")) not in wanted:
            print(f"dropped {target.name}/{path.name}")
            path.unlink()


if __name__ == "__main__":
    sys.exit(main())
