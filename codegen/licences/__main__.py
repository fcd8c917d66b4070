"""`python -m codegen.licences FOLDER`: write the bill of materials of each deliverable, `NAME.cdx.json`."""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from codegen.licences.bill import BILLS, bill
from codegen.licences.components import components
from codegen.licences.rules import LicenceError

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Write the bills; return the exit status, 1 when a licence is not known or not allowed."""
    parser = argparse.ArgumentParser(prog="python -m codegen.licences", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the bills belong; it is made when it is not there")
    folder = parser.parse_args().folder
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    try:
        found = components(ROOT)
    except LicenceError as error:
        print(f"codegen.licences: {error}", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for name in BILLS:
        (folder / f"{name}.cdx.json").write_text(bill(name, version, found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
