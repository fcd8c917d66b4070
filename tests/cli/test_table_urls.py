"""A URL of a table that holds a secret is refused before anything is asked, and the refusal does not tell the secret."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from cli.main import root
from cli.outcome import Exit


@pytest.mark.parametrize("url", ["s3://key:hidden@bucket/orders", "az://account/orders?sv=2025&sig=hidden"])
def test_a_secret_in_the_url_of_a_table_is_refused(url: str) -> None:
    command = ["tables", "status", "orders", "--to", f"delta:{url}", "--bootstrap-server", "127.0.0.1:1"]
    result = CliRunner().invoke(root, command, prog_name="diskless")
    assert result.exit_code == Exit.USAGE
    assert "a password or a query, which logs would show" in result.output
    assert "hidden" not in result.output
