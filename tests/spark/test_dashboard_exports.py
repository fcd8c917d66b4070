"""What the dashboard asks exports of topics to tables, by metrics as an export serves them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

from click.testing import CliRunner
from starlette.testclient import TestClient

from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.metrics.registry import Metrics
from simulation.fakes.certificates import Authority
from spark_jobs.dashboard.app import Dashboard
from spark_jobs.dashboard.exports import AskedExports, exports_in
from spark_jobs.dashboard.scraping import Scraping
from tables.export.metrics import PREFIX, TABLE, ExportState
from tables.export.source import PartitionBounds
from tables.reading.span import ReadCounts


def metrics_of(state: ExportState) -> str:
    metrics = Metrics(TABLE, PREFIX)
    metrics.read_from(state.samples)
    metrics.collect()
    return metrics.render().decode()


def behind() -> ExportState:
    state = ExportState("orders", ReadCounts(), caught_up_s=1000.0, seconds_left=7200.5, failures=2)
    state.on_begin({0: 10, 1: 0}, [PartitionBounds(0, 0, 30), PartitionBounds(1, 0, 5)])
    state.counts.deleted("orders", 1, 0, 4)
    return state


@contextmanager
def served(text: str, certificate: Path | None = None, token: str = "") -> Iterator[str]:
    """A process that answers with a text, by TLS with a certificate, and only to who has the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers.get("Authorization", "") == (f"Bearer {token}" if token else "")
            body = text.encode() if is_known else b""
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{'' if certificate is None else 'https://'}127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


KNOWN = {
    "topic": "orders",
    "lag_records": 25,
    "lost_records": 4,
    "damaged_batches": 0,
    "failures": 2,
    "seconds_left": 7200,
    "caught_up_s": 1000,
}


def test_lag_time_left_and_losses_are_told_by_topic() -> None:
    assert exports_in(metrics_of(behind())) == [KNOWN]
    [done] = exports_in(metrics_of(ExportState("orders", ReadCounts(), caught_up_s=5.0)))
    assert (done["lag_records"], done["seconds_left"]) == (0, None)


async def test_what_is_no_export_or_does_not_answer_is_said_beside_its_address() -> None:
    strange = 'diskless_export_lag_records{topic="a"} '
    with (
        served(metrics_of(behind())) as good,
        served("other 1") as other,
        served(f"{strange}NaN") as none,
        served(f"{strange}+Inf") as much,
    ):
        asked = AskedExports([good, other, none, much], Scraping())
        await asked.look()
    assert asked.rows[0] == {"address": good, "error": "", **KNOWN}
    texts = [row["error"] for row in asked.rows[1:]]
    assert all(text.startswith("answers without metrics of an export: ") for text in texts)
    await asked.look()
    assert all(row["error"].startswith("does not answer: ") for row in asked.rows)


async def test_exports_behind_tls_and_a_token_are_read_and_refusals_say_what_is_missing(tmp_path: Path) -> None:
    authority, other, token = Authority(tmp_path), Authority(tmp_path, "other"), tmp_path / "token"
    token.write_text("the-token\n")
    with served(metrics_of(behind()), authority.issue("export"), "the-token") as address:
        rows = []
        for scraping in (
            Scraping(token_file=token, ca_file=authority.ca_file),
            Scraping(ca_file=authority.ca_file),
            Scraping(token_file=token, ca_file=other.ca_file),
        ):
            asked = AskedExports([address], scraping)
            await asked.look()
            rows += asked.rows
    with served(metrics_of(behind())) as plain:  # answers only to who does not show a token
        asked = AskedExports([plain], Scraping(token_file=token, is_only_by_tls=True))
        await asked.look()
        assert asked.rows == [{"address": plain, "error": "", **KNOWN}]
    assert rows[0] == {"address": address, "error": "", **KNOWN}
    assert "answered 401" in rows[1]["error"]
    assert "give the token that it asks for" in rows[1]["error"]
    assert "certificate verify failed" in rows[2]["error"]


def test_the_answer_is_at_api(tmp_path: Path) -> None:
    with served(metrics_of(behind())) as address:
        dashboard = Dashboard(tmp_path, exports=[address], clock_ms=lambda: 5)
        with TestClient(dashboard.application()) as client:
            dashboard_rows = client.portal.call(dashboard.exports.look) if client.portal else None
            assert dashboard_rows is None
            assert client.get("/api/exports").json() == {"exports": [{"address": address, "error": "", **KNOWN}], "now_ms": 5}


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(root, ["dashboard", "--dir", str(tmp_path), "--exports", "a b:1"])
    assert done.exit_code == Exit.USAGE
    assert "--exports" in done.output
