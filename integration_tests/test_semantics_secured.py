"""The semantics of the wire hold through SASL_SSL: the same tests, on a node that lets nobody in without a login."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUBJECTS = ("commits", "connection", "limits", "reads", "topics")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_tests_of_the_wire_pass_through_sasl_ssl(subject: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / f"test_semantics_{subject}.py")]
    environment = {**os.environ, "DISKLESS_TEST_LISTENER": "SASL_SSL"}
    done = subprocess.run(command, env=environment, cwd=HERE.parent, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
