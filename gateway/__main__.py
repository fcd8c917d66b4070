"""`python -m gateway CONFIG [key=value ...]`: a gateway without the command line tool."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from coordinator.app.process.logs import set_up_logging
from coordinator.config.sources import parse_properties_flags
from gateway.app import run_gateway
from gateway.settings import load_gateway_settings

if __name__ == "__main__":
    set_up_logging()
    sys.exit(run_gateway(load_gateway_settings(Path(sys.argv[1]), os.environ, parse_properties_flags(sys.argv[2:]))))
