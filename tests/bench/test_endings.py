"""How a benchmark ends that was asked for what cannot be, or whose service fails under it: one line, never a report of a defect."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from cli.bench.counters import log_counts
from cli.bench.failure import MeasuringFailed
from cli.main import root
from cli.outcome import Exit
from tests.cli.hostile import REFUSED
from tests.client.strangers import as_broker, listening


@pytest.mark.parametrize("shapes", ["0", "-5", "10,0", "10,,100", "x", "1.5", "10001", "1" + "0" * 100, ""])
def test_files_have_a_number_of_batches_that_can_be_committed(shapes: str) -> None:
    result = CliRunner().invoke(root, ["bench", f"--batches-per-file={shapes}"], prog_name="diskless")
    assert result.exit_code == Exit.USAGE, result.output
    assert "--batches-per-file" in result.stderr


class _NoMetrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_page() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), _NoMetrics) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("url", [f"http://{REFUSED}/metrics", "ftp://nowhere.invalid/metrics", "nowhere", "http://[::1/metrics", ""])
def test_metrics_that_cannot_be_read_are_told_with_their_address(url: str) -> None:
    with pytest.raises(MeasuringFailed, match="no metrics of a node at"):
        log_counts([url])


def test_another_page_is_no_metrics(other_page: str) -> None:
    with pytest.raises(MeasuringFailed, match="404"):
        log_counts([f"http://{other_page}/metrics"])


async def test_metrics_of_what_speaks_no_http_are_told() -> None:
    async with listening(as_broker) as port:
        with pytest.raises(MeasuringFailed, match="no metrics of a node at"):
            await asyncio.to_thread(log_counts, [f"http://127.0.0.1:{port}/metrics"])
