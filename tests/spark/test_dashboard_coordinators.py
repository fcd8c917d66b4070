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
from spark_jobs.dashboard.nodes import AskedNode, AskedNodes, read_answer
from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.dashboard.verdict import Level

METRICS = """# TYPE diskless_coordinator_node_info gauge
diskless_coordinator_node_info{node_id="7",rack="r",version="1"} 1.0
diskless_coordinator_leading{partition="0"} 1.0
diskless_coordinator_leading{partition="1"} 0.0
# TYPE diskless_coordinator_commits counter
diskless_coordinator_commits_total{partition="0"} 10.0
diskless_coordinator_commits_total{partition="1"} 5.0
# TYPE diskless_coordinator_partitions gauge
diskless_coordinator_partitions{state="leading"} 2.0
something_new{x="y"} 1
"""


def test_commits_are_summed_over_coordinators_and_another_format_is_refused() -> None:
    answer = read_answer(METRICS)
    assert (answer.name, answer.commits, answer.leading) == ("node 7", 15, {0})
    with pytest.raises(ValueError, match="could not convert"):
        read_answer("foo{ 1")


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
    times_ms = iter((1000, 6000, 7000, 7000))
    nodes = AskedNodes([coordinator, refused], lambda: next(times_ms), Scraping())
    rates = []
    for _ in range(3):
        await nodes.look()
        rates.append(nodes.commits_per_s())
    assert rates == [None, 4.0, 8.0]
    assert nodes.failures == 3
    [problem] = nodes.problems({})
    assert problem.level is Level.BAD
    assert problem.text == f"{refused} does not answer (1 of 2 processes)"
    assert AskedNodes([], lambda: 1, Scraping()).problems({}) == []


def metrics(node_id: int, leading: tuple[int, ...] = (), **counters: int) -> str:
    """What a node answers."""
    lines = [f'diskless_coordinator_node_info{{node_id="{node_id}",rack="",version="1"}} 1']
    lines += [f'diskless_coordinator_leading{{partition="{one}"}} {int(one in leading)}' for one in range(4)]
    lines += [f'diskless_coordinator_{name}{{partition="0"}} {value}' for name, value in counters.items()]
    return "\n".join(lines) + "\n"


def test_a_dead_node_is_called_by_its_name_and_what_it_led_is_without_a_leader_until_another_leads() -> None:
    looks = [
        {"a:1": metrics(1, (0, 2)), "b:1": metrics(2, (1,))},
        {"a:1": "", "b:1": metrics(2, (1,))},
        {"a:1": "", "b:1": metrics(2, (1,))},
        {"a:1": "", "b:1": metrics(2, (0, 1, 2))},
    ]
    told = []
    nodes = AskedNodes(["a:1", "b:1"], lambda: now_ms, Scraping())
    for number, look in enumerate(looks):
        now_ms = 3000 * number + 1000
        for node in nodes.all:
            node.note(look[node.address], "" if look[node.address] else "refused", now_ms)
        nodes.note_look(now_ms)
        told.append([problem.text for problem in nodes.problems({0: (1, 500), 1: (2, 500), 2: (1, 600)})])
        looks_at = [problem.look for problem in nodes.problems({0: (1, 500), 1: (2, 500), 2: (1, 600)})]
        assert set(looks_at) <= {"node/1"}
    silent = "Node 1 (a:1) does not answer (1 of 2 processes)"
    assert told == [[], [silent], ["No node leads coordinators 0, 2 for 6.0 s: node 1 (a:1) does not answer", silent], [silent]]
    assert nodes.silent_ms() == {1: 1000}


def test_a_coordinator_that_a_node_leads_that_is_not_asked_is_not_said_to_be_without_a_leader() -> None:
    nodes = AskedNodes(["a:1"], lambda: 10_000, Scraping())
    nodes.all[0].note(metrics(1, (0,)), "", 1000)
    nodes.note_look(1000)
    nodes.all[0].note(metrics(1), "", 9000)
    nodes.note_look(9000)
    assert nodes.problems({0: (5, 4000)}) == []
    assert [problem.text for problem in nodes.problems({0: (1, 500)})] == ["No node leads coordinator 0 for 9.0 s"]


def test_a_store_that_refuses_a_node_is_told_of_for_a_minute() -> None:
    now_ms = 1000
    nodes = AskedNodes(["a:1"], lambda: now_ms, Scraping())
    nodes.all = [AskedNode("a:1")]
    for now_ms, failures in ((1000, 5), (4000, 5), (7000, 8)):
        nodes.all[0].note(metrics(1, file_delete_failures_total=failures), "", now_ms)
    now_ms = 9000
    [problem] = nodes.problems({})
    assert (problem.text, problem.panel) == ("The object store failed node 1 (a:1) 2.0 s ago: deletions (3)", "files")
    now_ms = 70_000
    assert nodes.problems({}) == []


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
    assert nodes.all[0].error == ""
    assert nodes.all[0].answer is not None
    assert nodes.all[0].answer.commits == 15
    assert "certificate verify failed" in wrong.all[0].error
    assert "No such file" in missing.all[0].error
