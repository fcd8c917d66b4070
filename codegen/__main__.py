"""`python -m codegen`: writes what is made from schemas and declarations; `--check` compares it, exit status 1 if something differs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from codegen import (
    api_keys,
    command_reference,
    commands,
    configuration,
    gateway_configuration,
    licences,
    messages,
    metrics,
    operations,
    records,
)
from codegen.licences import LicenceError
from codegen.source import formatted

ROOT = Path(__file__).parents[1]
GENERATORS: dict[Path, Callable[[Path], str]] = {
    module.TARGET: module.generate
    for module in (
        records,
        messages,
        api_keys,
        operations,
        metrics,
        commands,
        configuration,
        gateway_configuration,
        command_reference,
        licences,
    )
}


def stale(root: Path = ROOT) -> dict[Path, str]:
    """Return the files that differ from what their sources say, with the text they should have."""
    texts = {target: generate(root) for target, generate in GENERATORS.items()}
    wanted = {root / target: formatted([text]) if target.suffix == ".py" else text for target, text in texts.items()}
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text}


def main() -> int:
    """Write or compare; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name what is not as its sources say")
    check = parser.parse_args().check
    try:
        found = stale()
    except LicenceError as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 1
    for path, text in found.items():
        print(f"{'differs from its sources' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if found and check else 0


if __name__ == "__main__":
    sys.exit(main())
