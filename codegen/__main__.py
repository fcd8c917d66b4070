"""`python -m codegen`: writes the modules that are made from schemas; with `--check` it compares them, exit status 1 if one differs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from codegen import messages, records
from codegen.source import formatted

ROOT = Path(__file__).parents[1]
GENERATORS: dict[Path, Callable[[Path], str]] = {records.TARGET: records.generate, messages.TARGET: messages.generate}


def stale(root: Path = ROOT) -> dict[Path, str]:
    """Return the modules that differ from what their schemas say, with the source they should have."""
    wanted = {root / target: formatted([generate(root)]) for target, generate in GENERATORS.items()}
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text}


def main() -> int:
    """Write or compare; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name what is not as its schemas say")
    check = parser.parse_args().check
    found = stale()
    for path, text in found.items():
        print(f"{'differs from its schemas' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if found and check else 0


if __name__ == "__main__":
    sys.exit(main())
