"""`python -m coordinator.app CONFIG [key=value ...]`: a coordinator process without the command line tool."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from coordinator.app.main import run_coordinator
from coordinator.app.process.logs import set_up_logging
from coordinator.config.load import load_settings
from coordinator.config.problems import ConfigError
from coordinator.config.sources import SourceError, parse_properties_flags
from coordinator.printable import indented


def main(arguments: list[str]) -> int:
    """Run a coordinator from a properties file; returns the exit status."""
    if not arguments:
        print("usage: python -m coordinator.app CONFIG [key=value ...]", file=sys.stderr)
        return 2
    set_up_logging()
    try:
        settings = load_settings(Path(arguments[0]), os.environ, parse_properties_flags(arguments[1:]))
    except (ConfigError, SourceError) as error:
        print(indented(str(error)), file=sys.stderr)
        return 2
    return run_coordinator(settings)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of Kafka's client may be inside OpenSSL, which the interpreter's own end takes away from under them.
    os._exit(status)
