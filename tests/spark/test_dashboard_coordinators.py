"""What the dashboard asks the coordinators: whether they answer, and how much they commit."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from simulation.fakes.certificates import Authority
from spark_jobs.dashboard.nodes import AskedNodes, commits_in
from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.dashboard.verdict import Level

METRICS = """# TYPE diskless_coordinator_commits counter
diskless_coordinator_commits_total{partition="0"} 10.0
diskless_coordinator_commits_total{partition="1"} 5.0
# TYPE diskless_coordinator_partitions gauge
diskless_coordinator_partitions{state="leading"} 2.0
something_new{x="y"} 1
"""


def test_commits_are_summed_over_coordinators_and_another_format_is_refused() -> None:
    assert commits_in(METRICS) == 15
    with pytest.raises(ValueError, match="could not convert"):
        commits_in("foo{ 1")


@pytest.fixture
def refused() -> Iterator[str]:
    """An address that is taken by a socket which does not listen, so that nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def coordinator() -> Iterator[str]:
    """Something that answers /metrics on a real socket: 20 files are committed before the second look, and it restarts before the third."""
    commits = iter((100, 120, 8))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f'diskless_coordinator_commits_total{{partition="0"}} {next(commits)}\n'.encode()
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


async def test_rates_come_from_two_looks_and_what_does_not_answer_is_a_problem(coordinator: str, refused: str) -> None:
    times_ms = iter((1000, 6000, 7000))
    nodes = AskedNodes([coordinator, refused], lambda: next(times_ms), Scraping())
    rates = []
    for _ in range(3):
        await nodes.look()
        rates.append(nodes.commits_per_s())
    assert rates == [None, 4.0, 8.0]
    assert nodes.failures == 3
    [problem] = nodes.problems()
    assert problem.level is Level.WARNING
    assert problem.text == f"1 of 2 coordinator processes does not answer: {refused}"


async def test_nobody_answers_is_bad_and_no_addresses_are_no_problem(refused: str) -> None:
    nodes = AskedNodes([refused], lambda: 1, Scraping())
    await nodes.look()
    assert [problem.level for problem in nodes.problems()] == [Level.BAD]
    assert AskedNodes([], lambda: 1, Scraping()).problems() == []


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
        nodes = AskedNodes([address], lambda: 1, Scraping(token_file=token, ca_file=authority.ca_file))
        await nodes.look()
        refused = nodes.all[0].error
        token.write_text("the-new-token\n")
        await nodes.look()
        wrong, missing = (
            AskedNodes([address], lambda: 1, one)
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
    assert (nodes.all[0].error, nodes.all[0].commits) == ("", 15)
    assert "certificate verify failed" in wrong.all[0].error
    assert "No such file" in missing.all[0].error
