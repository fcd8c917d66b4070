"""What the dashboard reads from the coordinators' metrics: their scrapes, what grew between two of them, who answers."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from simulation.fakes.certificates import Authority
from spark_jobs.dashboard.panels.query import PanelQuery
from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.dashboard.service_metrics import Scrape, ServiceMetrics, bucket_quantile, grown_buckets, parse_scrape

METRICS = """# TYPE diskless_coordinator_request_seconds histogram
diskless_coordinator_request_seconds_bucket{api="COMMIT_FILE",le="0.01"} 90.0
diskless_coordinator_request_seconds_bucket{api="COMMIT_FILE",le="0.1"} 99.0
diskless_coordinator_request_seconds_bucket{api="COMMIT_FILE",le="+Inf"} 100.0
diskless_coordinator_request_seconds_bucket{api="METADATA",le="+Inf"} 5.0
# TYPE diskless_coordinator_partitions gauge
diskless_coordinator_partitions{state="leading"} 2.0
diskless_coordinator_commits_total{partition="0"} 10.0
diskless_coordinator_log_directory_offline{directory="/one"} 0.0
diskless_coordinator_log_directory_offline{directory="/two"} 1.0
something_new{x="y"} 1
"""


def test_a_scrape_is_read() -> None:
    scrape = parse_scrape(METRICS, 1)
    assert scrape.commit_buckets == {0.01: 90, 0.1: 99, float("inf"): 100}
    assert (scrape.states, scrape.commits) == ({"leading": 2}, {0: 10})
    assert bucket_quantile(scrape.commit_buckets, 0.5) == pytest.approx(0.01 * 50 / 90)
    assert bucket_quantile(scrape.commit_buckets, 0.945) == pytest.approx(0.055)
    assert bucket_quantile(scrape.commit_buckets, 0.999) == 0.1
    assert bucket_quantile({}, 0.5) is None
    assert bucket_quantile({0.1: 0.0, float("inf"): 0.0}, 0.5) is None


def test_what_grew_between_two_looks_and_after_a_restart() -> None:
    before, after, restarted = (Scrape(time_ms=0, commit_buckets=buckets) for buckets in ({1.0: 5.0}, {1.0: 7.0}, {1.0: 3.0}))
    assert grown_buckets([(before, after)]) == {1.0: 2.0}
    assert grown_buckets([(before, restarted), (before, after)]) == {1.0: 5.0}


@pytest.fixture
def refused() -> Iterator[str]:
    """An address that is taken by a socket which does not listen, so that nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def coordinator() -> Iterator[str]:
    """Something that answers /metrics on a real socket; three more deletions have failed at every look."""
    failures = count(7, 3)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            failed = f'diskless_coordinator_file_delete_failures_total{{partition="0"}} {next(failures)}\n'
            body = (METRICS + failed).encode() if self.path == "/metrics" else b"no"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_coordinators_up_and_down_are_both_shown(coordinator: str, refused: str) -> None:
    now_ms = 1000
    service = ServiceMetrics([coordinator, refused], lambda: now_ms)
    await service.look()
    now_ms = 6000
    await service.look()
    answer = service.panel(PanelQuery(), now_ms)
    up, down = answer["processes"]
    assert (up["up"], up["states"]) == (True, {"leading": 2})
    assert (up["offline_directories"], down["offline_directories"]) == (["/two"], [])
    assert (down["up"], down["down_ms"], "refused" in down["error"]) == (False, 5000, True)
    assert len(answer["history"]) == 2
    assert [problem.text for problem in service.problems(now_ms)] == [
        f"1 of 2 coordinator processes does not answer: {refused}",
        f"{coordinator}: data directory /two is offline",
        f"{coordinator}: deleting objects of files failed 3 times within the last 60 s",
    ]


async def test_something_else_on_the_port_is_told() -> None:
    service = ServiceMetrics([], lambda: 1)
    assert service.panel(PanelQuery(), 1)["configured"] is False
    with pytest.raises(ValueError, match="could not convert"):
        parse_scrape("foo{ 1", 1)


class Secured(BaseHTTPRequestHandler):
    """Shows its metrics to who has the token."""

    def do_GET(self) -> None:
        is_known = self.headers.get("Authorization") == "Bearer the-new-token"
        body = METRICS.encode() if is_known else b"no"
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


async def test_coordinators_with_tls_and_token_are_read_and_refusals_say_what_is_missing(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("node"))
    token = tmp_path / "token"
    token.write_text("the-old-token\n")
    with HTTPServer(("127.0.0.1", 0), Secured) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"https://127.0.0.1:{server.server_port}"
        service = ServiceMetrics([address], lambda: 1, Scraping(token_file=token, ca_file=authority.ca_file))
        await service.look()
        refused = service.targets[0].error
        token.write_text("the-new-token\n")
        await service.look()
        wrong, missing = (
            ServiceMetrics([address], lambda: 1, one)
            for one in (
                Scraping(token_file=token, ca_file=other.ca_file),
                Scraping(token_file=tmp_path / "none", ca_file=authority.ca_file),
            )
        )
        await wrong.look()
        await missing.look()
        server.shutdown()
        thread.join()
    assert "answered 401" in refused
    assert "http.bearer.token.file" in refused
    assert service.targets[0].newest is not None
    assert "certificate verify failed" in wrong.targets[0].error
    assert "No such file" in missing.targets[0].error
