"""Commands of `diskless` as users run them against a service, in the test's own process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from cli.main import root
from cli.outcome import Exit
from integration_tests.service import Service


def run(service: Service, *words: str, status: Exit = Exit.OK, output: bool = True) -> Any:
    """Run a command; returns what it printed as JSON, without `output` what it said."""
    line = [*words, *(("-o", "json") if output else ()), "--bootstrap-server", ",".join(service.addresses)]
    result = CliRunner().invoke(root, line, prog_name="diskless")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == status, result.stderr
    return json.loads(result.stdout) if output else result.stderr
